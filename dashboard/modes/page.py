"""Train and eval mode: real experiments on a run's own model, one question at a time."""

import streamlit as st

from core.execution.process import get_trainer
from core.runs.folder import runs_root
from core.runs.info import RunInfo, newest_run_id
from dashboard.models import model_session
from dashboard.modes import session as modes_session
from dashboard.shell import torch_ready
from dashboard.shell.torch_row import torch_is_here

WORKING, IDLE = 0.5, 5.0  # seconds between refreshes: an experiment that runs, and as a heartbeat


def page() -> None:
    """The whole page."""
    st.title("Train mode and eval mode", anchor=False)
    choices = model_session.model_choices()
    state = _state(choices)
    waits = modes_session.is_working() or model_session.waits_for_digits(choices) or not torch_ready.is_warm()
    st.fragment(_refreshing, run_every=WORKING if waits else IDLE)(state, choices)


def _state(choices: list[RunInfo]) -> tuple[object, ...]:
    """What a whole run of the page is made for: it alone sets the interval and the models to choose from."""
    flags = torch_ready.is_warm(), modes_session.is_working(), model_session.waits_for_digits(choices)
    return *flags, newest_run_id(runs_root()), *get_trainer().active()


def _refreshing(drawn_for: tuple[object, ...], choices: list[RunInfo]) -> None:
    if _state(choices) != drawn_for:
        st.rerun()
    if not torch_is_here():
        return
    from dashboard.modes.content import modes_page  # needs torch

    modes_page(choices)
    if modes_session.is_working() != drawn_for[1]:
        st.rerun()  # an experiment began or ended in this very run: another interval


page()
