"""One run on the Train page: headline, live charts, and what follows from its state."""

from contextlib import suppress

import streamlit as st

from core.errors import RunError
from core.runs.folder import RunFolder, runs_root
from core.runs.notes import read_notes
from core.runs.reader import RunView
from dashboard import wording
from dashboard.charts import run_charts
from dashboard.charts import session as charts_session
from dashboard.charts.live_chart import live_charts
from dashboard.train.downloads import downloads
from dashboard.train.ending import ending, parent_note
from dashboard.train.evaluation import evaluation_section, first_loss_note
from dashboard.train.fork_panel import fork_panel
from dashboard.train.progress import controls, foreign_note, progress, to_come
from dashboard.train.proofs import proofs
from dashboard.wording import differences

CHART_KEY = "live_charts"


def run_panel(snapshot: RunView) -> None:
    """Draw the whole panel; called at each refresh."""
    with st.container(horizontal=True, vertical_alignment="center"):
        _headline(snapshot)
        controls(snapshot)
    if snapshot.info.imported and not snapshot.started:
        _imported(snapshot)
        return
    progress(snapshot)
    foreign_note(snapshot)
    ending(snapshot)
    if not len(snapshot.steps) and snapshot.info.status.is_active:
        to_come(snapshot)
        return
    parent = parent_note(snapshot.info)
    first_loss_note(snapshot)
    _chart_settings()
    live_charts(snapshot, charts_session.charts_view(), key=CHART_KEY, parent=parent)
    evaluation_section(snapshot)
    downloads(snapshot, parent)
    fork_panel(snapshot)
    proofs(snapshot)


def _headline(snapshot: RunView) -> None:
    info, config = snapshot.info, snapshot.config
    word, color, icon = wording.STATUS_WORDS[info.status]
    st.badge(word, color=color, icon=icon)  # pyright: ignore[reportArgumentType]
    preset = f" · preset {wording.plain(info.preset)}" if info.preset else ""
    with suppress(RunError):  # damaged notes are told on the Runs page
        if name := read_notes(RunFolder.of(info.run_id).path).name:
            preset += f" · {wording.plain(name)}"
    if changed := differences(snapshot):
        preset += f" · {wording.plain(changed)}"
    st.markdown(f"**{wording.MODEL_WORDS[config.model]}** on {wording.DATASET_WORDS[config.dataset]}{preset}", width="stretch")


def _imported(snapshot: RunView) -> None:
    """A file with weights that was never trained here: where it is from, and what one can do with it."""
    info = snapshot.info
    with st.container(border=True):
        st.markdown(
            f"#### Weights from a file\n{wording.plain(info.imported)}: **{wording.MODEL_WORDS[snapshot.config.model]}**"
            + (f", after {info.step:,} updates" if info.step else "")
            + ". They were not trained here, so there are no curves and no scores. "
            f"{wording.plain(info.reason)}"
        )
        with st.container(horizontal=True):
            st.page_link("draw/page.py", label="Draw a digit for this model", icon=":material/draw:")
            st.page_link("modes/page.py", label="See it in train and in eval mode", icon=":material/toggle_on:")
    downloads(snapshot, None)


def _chart_settings() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.segmented_control("X axis", run_charts.AXES, default="step", key="view_axis", required=True, persist_state="session")
        st.select_slider(
            "Smoothing (steps)",
            (1, 5, 10, 25, 50, 100, 250, 500),
            25,
            key="view_window",
            width=220,
            help="The bold train line is the mean of so many steps; the thin one behind it is every step.",
            persist_state="session",
        )
        st.toggle("Logarithmic loss", key="view_log", persist_state="session")


def empty_panel() -> None:
    """Before the first run: what will appear here."""
    with st.container(border=True):
        st.markdown("#### What you will see here")
        st.markdown(
            "- **Loss**, falling from about 2.3 (guessing) towards 0, for every step and for the validation digits\n"
            "- **Accuracy** on digits it trains on and on digits it never saw\n"
            "- **Learning rate**, **gradient norm** and **memory**\n"
            "- after each epoch, the digits it confuses and its worst mistakes as pictures\n\n"
            f"Press **Start training**. Runs are kept in `{runs_root()}/`; they go on when you close this page."
        )
