"""Draw: ask a trained model about a drawing, a picture or a test digit, and see why it answers so."""

import streamlit as st

from core.run_store import RunInfo, newest_run_id, runs_root
from core.trainer import get_trainer
from dashboard import draw_session, session

LIVE, WAITING, IDLE = 1.0, 0.5, 5.0  # seconds between refreshes: a model in training, something on its way, a heartbeat


def page() -> None:
    """The whole page: one part that follows the pen and the training, and a watch for what changes elsewhere."""
    st.title("Draw a digit", anchor=False)
    choices = draw_session.model_choices()
    state = _state(choices)
    every = WAITING if not session.is_warm() else LIVE if draw_session.asks_live(choices) else None
    st.fragment(_refreshing, run_every=every)(state, choices)
    st.fragment(_watch, run_every=IDLE)(state, choices)


def _state(choices: list[RunInfo]) -> tuple[object, ...]:
    """What a whole run of the page is made for: it alone sets the interval and the models to choose from."""
    trainer = get_trainer()
    return session.is_warm(), newest_run_id(runs_root()), tuple(trainer.active()), draw_session.asks_live(choices)


def _watch(drawn_for: tuple[object, ...], choices: list[RunInfo]) -> None:
    if _state(choices) != drawn_for:
        st.rerun()


def _refreshing(drawn_for: tuple[object, ...], choices: list[RunInfo]) -> None:
    _watch(drawn_for, choices)
    if not session.is_warm():
        st.caption("PyTorch is being imported …")
        return
    from dashboard.draw_page import draw_page  # needs torch

    draw_page(choices)


page()
