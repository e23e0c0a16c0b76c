"""Train: choose settings, start, watch."""

import streamlit as st

from core.errors import RunError
from core.execution.process import get_jobs, get_readers, get_trainer
from core.runs.folder import runs_root
from core.runs.info import RunInfo, newest_run_id
from core.runs.reader import RunView
from dashboard import wording
from dashboard.charts import session as charts_session
from dashboard.settings import form_session
from dashboard.shell import refresh, run_session, start_session, torch_ready
from dashboard.train import session as train_session
from dashboard.train.headline import headline
from dashboard.train.run_panel import empty_panel, run_panel
from dashboard.train.start_panel import start_panel

HEARTBEAT = 5.0  # seconds between refreshes while nothing changes; `refresh.refresh_seconds` otherwise


def page() -> None:
    """The whole page."""
    charts_session.page_was_drawn_anew(charts_session.CHART_KEY)
    with st.sidebar:
        start_panel()
    st.html('<h1 class="digit-lab-unseen">Train a digit classifier</h1>')  # for screen readers; the curves need its place
    runs = run_session.recent_runs()
    labels = wording.run_labels(runs)
    unfinished = train_session.left_unfinished(runs, run_session.shown_run())
    view = _read_shown()[0]
    # The panel has one place of its own, so that a refresh that meets a half-drawn page still finds it.
    with st.container(gap="xsmall", key="run_panel"):
        st.fragment(_panel, run_every=_interval(view))(_state(view), labels, unfinished)


def _panel(drawn_for: tuple[object, ...], labels: dict[str, str], unfinished: list[RunInfo]) -> None:
    """The run that is shown, refreshed quickly while something is about to change, and slowly otherwise."""
    view, problem = _read_shown()
    if _state(view) != drawn_for:
        st.rerun()  # only a whole run changes the interval, the list of runs and the sidebar
    if labels:
        headline(view, labels, run_session.shown_run())
    if problem:
        st.warning(wording.plain(problem))
    elif view is None:
        empty_panel()
    else:
        run_panel(view, labels, unfinished)


def _state(view: RunView | None) -> tuple[object, ...]:
    """What a whole run of the page is made for: it alone sets the interval, and draws what lies outside the panel."""
    download = get_jobs().get(train_session.DOWNLOAD_JOB)
    return (
        newest_run_id(runs_root()),
        *get_trainer().active().items(),
        _interval(view),
        start_session.start_problem(),
        form_session.form_fillings(),
        form_session.is_trying(),
        download.status if download else None,
    )


def _interval(view: RunView | None) -> float:
    return refresh.refresh_seconds() if _is_busy(view) else HEARTBEAT


def _is_busy(view: RunView | None) -> bool:
    if not torch_ready.is_warm() or form_session.is_trying():
        return True
    return view is not None and (view.info.status.is_active or train_session.is_proving(view.info.run_id))


def _read_shown() -> tuple[RunView | None, str]:
    """The run to show, or None and why there is none ("" before the first run)."""
    run_id = run_session.shown_run()
    if run_id is None:
        return None, ""
    if not run_session.is_here(run_id):
        return None, run_session.NOT_HERE
    try:
        return get_readers().read(runs_root(), run_id), ""
    except RunError as error:
        return None, str(error)


page()
