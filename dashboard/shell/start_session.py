"""Starting a run from any page, and what went wrong when it did not start."""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

import streamlit as st

from core.config.presets import preset_named
from core.config.train_config import TrainConfig
from core.data.sources import data_root, missing_files
from core.errors import RunError
from core.execution.process import get_jobs, get_trainer
from core.execution.trainer import MAX_QUEUE
from core.runs.folder import runs_root
from dashboard.shell.policy_session import controlled
from dashboard.shell.run_session import show_run

# A busy machine may bring a browser's second message about one click after four.
_DOUBLE_CLICK_SECONDS = 8.0


@controlled
def start_preset(name: str) -> None:
    """Start a preset on the digits that are here and show it. Problems are kept for the page."""
    start_config(replace(preset_named(name), dataset="mnist_sample" if missing_files(data_root()) else "mnist"))


def start_config(config: TrainConfig) -> None:
    """Start a run and show it. Problems are kept for the page."""
    start_and_show([config])


def start_and_show(configs: list[TrainConfig]) -> None:
    """Start runs and show the first of them. Problems are kept for the page."""
    if run_id := start_several(configs):
        show_run(run_id)


def start_several(configs: list[TrainConfig]) -> str:
    """Put runs in line, all or none of them; the first one's id, "" when there is no room. Problems are kept for the page."""

    def start() -> str:
        room = MAX_QUEUE + 1 - len(get_trainer().active())
        if len(configs) > max(1, room):  # of a single one the trainer itself says that it does not fit
            raise RunError(f"{len(configs)} runs do not fit: the queue has room for {room}. Start fewer, or wait.")
        for config in configs:
            config.validate()
        ids: list[str] = []
        try:
            for config in configs:
                ids.append(get_trainer().start(config, data_root(), runs_root()))
        except Exception:
            for run_id in ids:
                get_trainer().stop(run_id)
            raise
        return ids[0]

    try:
        run_id = started_once(tuple(configs), start)
    except Exception as error:
        st.session_state.start_problem = str(error)
        return ""
    st.session_state.start_problem = ""
    return run_id


def started_once(what: object, start: Callable[[], str]) -> str:
    """The run that `start` gives; that of a moment ago when the same tab asks for the same again: a double click."""
    known, run_id, until = st.session_state.get("started", (None, "", 0.0))
    if known == what and monotonic() < until and run_id in get_trainer().active():
        return run_id
    run_id = start()
    st.session_state.started = what, run_id, monotonic() + _DOUBLE_CLICK_SECONDS
    return run_id


def start_problem() -> str:
    """Why the last Start or Resume did not start; "" when it did."""
    return st.session_state.get("start_problem", "")


@controlled
def cancel_job(name: str) -> None:
    """Ask a download, a sweep or a proof to end."""
    get_jobs().cancel(name)
