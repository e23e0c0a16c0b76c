"""Draw: ask a trained model about a drawing, a picture or a test digit, and see why it answers so."""

import streamlit as st

from core.run_store import newest_run_id, runs_root
from core.trainer import get_trainer
from dashboard import session

LIVE, WAITING, IDLE = 1.0, 0.5, 5.0  # seconds between refreshes: a model in training, something on its way, a heartbeat


def page() -> None:
    """The whole page: one part that follows the pen and the training."""
    st.title("Draw a digit", anchor=False)
    state = _state()
    every = WAITING if not session.is_warm() else LIVE if get_trainer().active() else IDLE
    st.fragment(_refreshing, run_every=every)(state)


def _state() -> tuple[object, ...]:
    return session.is_warm(), newest_run_id(runs_root()), tuple(get_trainer().active())


def _refreshing(drawn_for: tuple[object, ...]) -> None:
    if _state() != drawn_for:
        st.rerun()  # only a whole run changes the interval
    if not session.is_warm():
        st.caption("PyTorch is being imported …")
        return
    from dashboard.draw_page import draw_page  # needs torch

    draw_page()


page()
