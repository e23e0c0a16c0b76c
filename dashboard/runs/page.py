"""Runs: find, compare, sweep, export."""

import streamlit as st

from core.runs.folder import runs_root
from core.runs.groups import groups_of
from core.runs.noise import leader_words
from dashboard import wording
from dashboard.runs import session as runs_session
from dashboard.runs.compare import all_runs, compare
from dashboard.runs.sweep import sweep_panel
from dashboard.runs.table import actions, below_table, runs_table, sort_row, undo_row

WORKING, IDLE = 2.0, 10.0  # seconds between refreshes: while something changes, and as a heartbeat


def page() -> None:
    """The whole page."""
    st.title("Compare runs", anchor=False)
    st.fragment(_refreshing, run_every=WORKING if runs_session.is_working() else IDLE)(runs_session.is_working())


def _refreshing(was_working: bool) -> None:
    if runs_session.is_working() != was_working:
        st.rerun()  # only a whole run changes the interval
    rows, total, unknown = runs_session.listed_rows()
    if not total:
        st.info(
            "There are no runs yet. Train one, then another with one setting changed, and compare them here. Runs are kept "
            f"in {wording.plain(str(runs_root()))}/."
        )
        st.page_link("train/page.py", label="Train a model", icon=":material/model_training:")
        undo_row()
        sweep_panel()
        below_table([])
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "Search",
            key=runs_session.SEARCH_KEY,
            placeholder="mlp learning_rate=0.01 -failed",
            width=420,
            help="Words that must all occur: in the name, tags, note, status, preset or settings. "
            "learning_rate<0.01, batch_size=16, accuracy>98% and status=failed compare values; = != < > <= >= do. "
            "A word with - before it must not occur.",
            persist_state="session",
        )
        rows = sort_row(rows)
        st.toggle("Archived runs too", key=runs_session.ARCHIVED_KEY, persist_state="session")
        st.caption(f"{len(rows):,} of {total:,} runs", width="content")
    if unknown:
        st.caption(f":material/search_off: No run fits {', '.join(wording.plain(word) for word in unknown)}.")
    runs_table(rows)
    if words := leader_words(groups_of(rows)):
        st.caption(f":material/trophy: {wording.plain(words)}")
    by_id = {row.run_id: row for row in rows}
    chosen = [by_id[run_id] for run_id in runs_session.selected_ids() if run_id in by_id]
    undo_row()
    if problem := runs_session.problem():
        st.error(wording.plain(problem))
    if chosen:
        actions(chosen)
        compare(chosen)
    else:
        st.caption(
            "Choose runs by the boxes at the left of the table: one to open, name, export or delete it, several to "
            "compare them."
        )
    sweep_panel()
    all_runs(rows, [row.run_id for row in chosen])
    below_table(rows)


page()
