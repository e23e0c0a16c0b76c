"""Starting a run from any page, and what went wrong when it did not start."""

from dataclasses import replace

import streamlit as st

from core.config.presets import preset_named
from core.config.train_config import TrainConfig
from core.data.sources import data_root, missing_files
from core.execution.trainer import get_trainer
from core.runs.folder import runs_root
from dashboard.shell.policy_session import controlled, session_id
from dashboard.shell.run_session import show_run


@controlled
def start_preset(name: str) -> None:
    """Start a preset on the digits that are here and show it. Problems are kept for the page."""
    start_config(replace(preset_named(name), dataset="mnist_sample" if missing_files(data_root()) else "mnist"))


def start_config(config: TrainConfig) -> None:
    """Start a run and show it. Problems are kept for the page."""
    try:
        run_id = get_trainer().start(config, data_root(), runs_root(), token=session_id())
    except Exception as error:
        st.session_state.start_problem = str(error)
        return
    st.session_state.start_problem = ""
    show_run(run_id)


def start_problem() -> str:
    """Why the last Start or Resume did not start; "" when it did."""
    return st.session_state.get("start_problem", "")


@controlled
def cancel_job(name: str) -> None:
    """Ask a download, a sweep or a proof to end."""
    get_trainer().jobs.cancel(name)
