"""Draw: ask a trained model about a drawing, a picture or a test digit, and see why it answers so."""

import streamlit as st

from core.execution.process import get_trainer
from core.runs.folder import runs_root
from core.runs.info import RunInfo, newest_run_id
from dashboard.models import model_session
from dashboard.shell import torch_ready
from dashboard.shell.torch_row import torch_is_here

LIVE, WAITING, IDLE = 1.0, 0.5, 5.0  # seconds between refreshes: a model in training, something on its way, a heartbeat


def page() -> None:
    """The whole page: one part that follows the pen and the training, and a watch for what changes elsewhere."""
    st.title("Draw a digit", anchor=False)
    choices = model_session.model_choices()
    state = _state(choices)
    live, waits = model_session.asks_live(choices), model_session.waits_for_digits(choices) or not torch_ready.is_warm()
    st.fragment(_refreshing, run_every=LIVE if live and not waits else None)(state, choices)
    st.fragment(_watch, run_every=WAITING if waits else IDLE)(state, choices)


def _state(choices: list[RunInfo]) -> tuple[object, ...]:
    """What a whole run of the page is made for: it alone sets the interval and the models to choose from."""
    trainer = get_trainer()
    flags = torch_ready.is_warm(), model_session.asks_live(choices), model_session.waits_for_digits(choices)
    # Weights that come later are noticed by the watch, too, should the browser have lost the quicker timer.
    return *flags, model_session.has_live_weights(choices), newest_run_id(runs_root()), *trainer.active()


def _watch(drawn_for: tuple[object, ...], choices: list[RunInfo]) -> None:
    if _state(choices) != drawn_for:
        st.rerun()


def _refreshing(drawn_for: tuple[object, ...], choices: list[RunInfo]) -> None:
    _watch(drawn_for, choices)
    if not torch_is_here():
        return
    from dashboard.draw.content import draw_page  # needs torch

    draw_page(choices)


page()
