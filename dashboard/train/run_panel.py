"""One run on the Train page: its headline, its numbers, its curves, and the rest in tabs."""

import streamlit as st

from core.errors import RunError
from core.execution.process import get_readers, get_trainer
from core.runs.folder import runs_root
from core.runs.info import RunInfo
from core.runs.reader import RunView
from core.status import RunStatus
from dashboard import wording
from dashboard.charts import session as charts_session
from dashboard.charts.live_chart import live_charts
from dashboard.train import session as train_session
from dashboard.train.band import band_html, cells, share_done
from dashboard.train.chart_bar import chart_bar
from dashboard.train.code_panel import code_panel
from dashboard.train.code_tab import code_tab
from dashboard.train.downloads import downloads
from dashboard.train.evaluation import evaluation_section
from dashboard.train.fork_panel import fork_panel
from dashboard.train.proofs import proofs
from dashboard.train.seeds_tab import seeds_tab
from dashboard.train.settings_tab import settings_tab
from dashboard.train.speed_tab import speed_tab
from dashboard.train.verdict_row import verdict_row


def run_panel(view: RunView, labels: dict[str, str], unfinished: list[RunInfo]) -> None:
    """Everything below the headline; called at each refresh."""
    if view.info.imported and not view.started:
        _imported(view)
        return
    active = list(get_trainer().active())
    place = active.index(view.info.run_id) if view.info.run_id in active else 0
    st.html(band_html(cells(view, charts_session.charts_view().window, place), share_done(view)))
    verdict_row(view)
    chart_bar(labels, unfinished)
    if not len(view.steps) and view.info.status.is_active:
        _to_come(view)
        return
    parent = _parent_of(view)
    _curves(view, parent)
    with st.container(key="run_rest"):
        _tabs(view, parent)


def _curves(view: RunView, parent: RunView | None) -> None:
    """The charts, with the training loop beside them if somebody wants to see it."""
    shown, at = charts_session.charts_view(), None if view.info.status.is_active else train_session.looked_at(view.info.run_id)
    if not charts_session.wants_code():
        live_charts(view, shown, key=charts_session.CHART_KEY, parent=parent, at=at)
        return
    left, right = st.columns([5, 4], gap="medium")
    with left:
        live_charts(view, shown, key=charts_session.CHART_KEY, parent=parent, at=at)
    with right:
        code_panel(view)


def _tabs(view: RunView, parent: RunView | None) -> None:
    """Only the open tab is drawn."""
    parts = {
        "What it gets wrong": lambda: evaluation_section(view),
        "Speed": lambda: speed_tab(view),
        "Seeds": lambda: seeds_tab(view),
        "Code": lambda: code_tab(view),
        "Settings": lambda: settings_tab(view),
        "Files": lambda: downloads(view, parent),
        "Fork": lambda: fork_panel(view),
        "Proofs": lambda: proofs(view),
    }
    for tab, draw in zip(st.tabs(list(parts), key="run_tabs", on_change="rerun"), parts.values(), strict=True):
        with tab:
            if tab.open:
                draw()


def _parent_of(view: RunView) -> RunView | None:
    """The run that this one started from, to be drawn behind it; None without one."""
    if view.info.parent is None:
        return None
    try:
        return get_readers().read(runs_root(), view.info.parent)
    except RunError:
        return None  # deleted, or damaged: the settings tab names it


def _to_come(view: RunView) -> None:
    """Before the first step: what will appear, instead of five empty charts."""
    with st.container(border=True):
        what = "It waits for its turn." if view.info.status == RunStatus.QUEUED else "It is about to begin."
        st.markdown(
            f"{what} Loss, accuracy, learning rate, gradient norm and memory appear here with its first steps, and "
            f"after each validation what it gets wrong. {view.total_steps:,} steps, {view.config.epochs} "
            f"epoch{'s' if view.config.epochs != 1 else ''}."
        )


def _imported(view: RunView) -> None:
    """A file with weights that was never trained here: where it is from, and what one can do with it."""
    info = view.info
    with st.container(border=True):
        st.markdown(
            f"#### Weights from a file\n{wording.plain(info.imported)}: **{wording.MODEL_WORDS[view.config.model]}**"
            + (f", after {info.step:,} updates" if info.step else "")
            + ". They were not trained here, so there are no curves and no scores. "
            f"{wording.plain(info.reason)}"
        )
        with st.container(horizontal=True):
            st.page_link("draw/page.py", label="Draw a digit for this model", icon=":material/draw:")
            st.page_link("modes/page.py", label="See it in train and in eval mode", icon=":material/toggle_on:")
    downloads(view, None)


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
