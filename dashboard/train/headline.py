"""The first line of a run: its state, what it is (and with that the choice of another one), and the buttons that steer it."""

import zlib

import streamlit as st

from core.execution.process import get_trainer
from core.runs.reader import RunView
from core.status import RunStatus
from dashboard import wording
from dashboard.shell.policy_session import may_control
from dashboard.train import session as train_session


def headline(view: RunView | None, labels: dict[str, str], shown: str | None) -> None:
    """The line.

    Args:
        view: the run that is shown; None when it cannot be read. labels: the runs to choose from.
    """
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="run_head"):
        if view is not None:
            word, color, icon = wording.STATUS_WORDS[view.info.status]
            st.badge(word, color=color, icon=icon)  # pyright: ignore[reportArgumentType]
        _chooser(labels, shown)
        if view is not None:
            _controls(view)


def _chooser(labels: dict[str, str], shown: str | None) -> None:
    # A key for each run and each set of labels: a message that is older than these then changes nothing.
    known = zlib.crc32("\n".join(labels.values()).encode())
    key = f"run_choice_{shown}_{known:x}"
    ids = list(labels)
    st.selectbox(
        "Run shown",
        ids,
        ids.index(shown) if shown in labels else None,
        format_func=lambda run_id: labels[run_id],
        key=key,
        label_visibility="collapsed",
        placeholder="choose a run",
        on_change=train_session.choose_shown_run,
        args=(key, shown),
    )


def _controls(view: RunView) -> None:
    """Pause or resume, stop, save; the same buttons in every state, so that nothing moves."""
    run_id, status = view.info.run_id, view.info.status
    trainer = get_trainer()
    here, stopping = run_id in trainer.active(), trainer.is_stopping(run_id)
    paused, locked = status == RunStatus.PAUSED, not may_control()
    off = locked or not here or stopping
    with st.container(horizontal=True, width="content", gap="xsmall", key="run_controls"):
        st.button(
            "Resume" if paused else "Pause",
            icon=":material/play_arrow:" if paused else ":material/pause:",
            key="resume" if paused else "pause",
            on_click=train_session.unpause_run if paused else train_session.pause_run,
            args=(run_id,),
            disabled=off or status not in (RunStatus.RUNNING, RunStatus.PAUSED),
            shortcut="P",
        )
        st.button(
            "Stopping …" if stopping else "Stop",
            icon=":material/stop:",
            key="stop",
            on_click=train_session.stop_run,
            args=(run_id,),
            disabled=off,
            shortcut="Shift+S",
        )
        st.button(
            "Save",
            icon=":material/save:",
            key="save_now",
            on_click=train_session.save_run,
            args=(run_id,),
            help="Keep the whole training state as it is now: weights, optimizer, schedule, place in the epoch. It is "
            "never deleted by itself.",
            disabled=off or status == RunStatus.QUEUED,
        )
