"""How far a run is, and the buttons that steer it."""

import streamlit as st

from core.execution.process import get_trainer
from core.runs.reader import RunView
from core.runs.time_left import phase, seconds_left
from core.status import RunStatus
from dashboard import wording
from dashboard.shell.policy_session import may_control
from dashboard.train import session as train_session


def to_come(snapshot: RunView) -> None:
    """Before the first step: what will appear, instead of five empty charts."""
    with st.container(border=True):
        what = "It waits for its turn." if snapshot.info.status == RunStatus.QUEUED else "It is about to begin."
        st.markdown(
            f"{what} Loss, accuracy, learning rate, gradient norm and memory appear here with its first steps, and "
            f"after each validation what it gets wrong. {snapshot.total_steps:,} steps, {snapshot.config.epochs} "
            f"epoch{'s' if snapshot.config.epochs != 1 else ''}."
        )


def progress(snapshot: RunView) -> None:
    """How far the run is, in numbers and a bar."""
    info, config, started = snapshot.info, snapshot.config, snapshot.started
    epoch = min(config.epochs, snapshot.step // config.steps_per_epoch() + 1)
    share = snapshot.step / max(1, snapshot.total_steps)
    text = f"Epoch {epoch} of {config.epochs} · step {snapshot.step:,} of {snapshot.total_steps:,}{_time_left(snapshot)}"
    if info.status == RunStatus.QUEUED:
        place = list(get_trainer().active()).index(info.run_id) if info.run_id in get_trainer().active() else 0
        text = f"Waits: {place} run{'s' if place != 1 else ''} before it"
    elif info.status == RunStatus.PREPARING:
        text = "Reads and verifies the digits, builds the model"
    elif info.status == RunStatus.RUNNING and (doing := phase(snapshot)):
        text += f" · {doing}"
    st.progress(min(1.0, share), text=text)
    rate, waiting = snapshot.images_per_second(), snapshot.data_share()
    device = wording.plain(f"{started.device_name} ({started.device})") if started else "not chosen yet"
    threads = f" · {started.threads} thread{'s' if started.threads != 1 else ''}" if started and started.device == "cpu" else ""
    st.caption(
        f"**{f'{rate:,.0f}' if rate else '–'}** images/s · **{f'{waiting:.1%}' if waiting is not None else '–'}** of the "
        f"time waiting for data ({config.pipeline}) · {device}{threads} · {started.precision if started else config.precision}"
        f" · seed {config.seed}",
        help="Threads: on the CPU one core is left to this page, since a second thread that must wait for its core slows "
        "training more than it helps. Set CPU threads in the settings to choose otherwise.",
    )
    for note in (*(started.notes if started else ()), *snapshot.damage):
        st.caption(f":material/info: {wording.plain(note)}")


def _time_left(snapshot: RunView) -> str:
    seconds = seconds_left(snapshot) if snapshot.info.status in (RunStatus.RUNNING, RunStatus.PAUSED) else None
    return f" · {wording.duration_words(seconds)} left" if seconds is not None else ""


def controls(snapshot: RunView) -> None:
    """Pause or resume, and stop; the same buttons in every state, so that nothing moves."""
    run_id, status = snapshot.info.run_id, snapshot.info.status
    trainer = get_trainer()
    here, stopping = run_id in trainer.active(), trainer.is_stopping(run_id)
    paused, locked = status == RunStatus.PAUSED, not may_control()
    off = locked or not here or stopping
    with st.container(horizontal=True, width="content"):
        st.button(
            "Resume" if paused else "Pause",
            icon=":material/play_arrow:" if paused else ":material/pause:",
            key="resume" if paused else "pause",
            on_click=train_session.unpause_run if paused else train_session.pause_run,
            args=(run_id,),
            disabled=off or status not in (RunStatus.RUNNING, RunStatus.PAUSED),
        )
        st.button(
            "Stopping …" if stopping else "Stop",
            icon=":material/stop:",
            key="stop",
            on_click=train_session.stop_run,
            args=(run_id,),
            disabled=off,
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


def foreign_note(snapshot: RunView) -> None:
    """A word on a run that another process trains."""
    if snapshot.info.status.is_active and snapshot.info.run_id not in get_trainer().active():
        st.caption("Another process trains this run (a terminal, say); it can be watched here and is stopped there.")
    if snapshot.info.imported and snapshot.started:
        st.caption(f":material/upload: Taken in from {wording.plain(snapshot.info.imported)}, not trained here.")
