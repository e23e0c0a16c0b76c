"""What a person has filled in to fork a run. With the other `*session.py` files the only ones that touch Streamlit's state."""

from typing import TYPE_CHECKING

import streamlit as st

from core.config.text import with_texts
from core.config.train_config import TrainConfig
from core.data.sources import data_root
from core.errors import ConfigError, CoreError
from core.execution.process import get_trainer
from core.runs.folder import RunFolder, runs_root
from dashboard.settings import form_session
from dashboard.shell import run_session
from dashboard.shell.policy_session import controlled
from dashboard.shell.start_session import started_once

if TYPE_CHECKING:
    from core.execution.fork import RateChoice


def changed_names(run_id: str) -> list[str]:
    """The settings that were chosen to be changed, the number of epochs first."""
    return ["epochs", *st.session_state.get(f"fork_names_{run_id}", [])]


def field_key(run_id: str, name: str, default: TrainConfig) -> str:
    """The widget key of a setting in a run's fork form; it begins with the value in `default`."""
    key = f"fork_{run_id}_{name}"
    if key not in st.session_state:
        st.session_state[key] = form_session.widget_value(name, getattr(default, name))
    return key


def fork_config(run_id: str, parent: TrainConfig) -> tuple[TrainConfig, dict[str, str]]:
    """(the parent's settings with what was changed, problems by field)."""
    texts = {name: form_session.widget_text(f"fork_{run_id}_{name}") for name in changed_names(run_id)}
    try:
        return with_texts(parent, texts), {}
    except ConfigError as error:
        return parent, error.problems


@controlled
def start_fork(run_id: str, step: int, config: TrainConfig, rate: "RateChoice | None") -> None:
    """Fork a run from the state saved after `step`, and show the child. Problems are kept for the page."""
    from core.execution.fork import fork, longer
    from core.training.saved_state import load_state

    try:
        path = RunFolder.of(run_id).states().get(step)
        if path is None:
            raise CoreError(f"The state saved after step {step:,} is gone: newer ones have taken its place. Choose another.")
        saved = load_state(path)
        made = fork(run_id, saved, longer(saved, config, rate) if rate else config)
        child = started_once(
            (run_id, step, made.config), lambda: get_trainer().start(made.config, data_root(), runs_root(), origin=made)
        )
    except CoreError as error:
        st.session_state.fork_problem = (run_id, str(error))
        return
    st.session_state.fork_problem = (run_id, "")
    run_session.show_run(child)


def problem(run_id: str) -> str:
    """Why the last fork of this run did not start; "" when it did."""
    of, words = st.session_state.get("fork_problem", ("", ""))
    return words if of == run_id else ""
