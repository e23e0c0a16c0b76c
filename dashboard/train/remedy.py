"""The one button that does what a finding about a run advises."""

from dataclasses import replace

import streamlit as st

from core.config.text import format_value
from core.config.train_config import TrainConfig, settings
from core.finding import Finding
from core.runs.reader import RunView
from dashboard.shell.policy_session import may_control
from dashboard.train import session as train_session


def start_button(view: RunView, found: Finding, *, key: str) -> None:
    """Start a run with the settings that the finding changes; while one trains it joins the queue."""
    config = replace(view.config, **found.remedy)
    queued = view.info.status.is_active
    st.button(
        f"{'Queue one' if queued else 'Start'} with {remedy_words(view.config, config)}",
        icon=":material/queue:" if queued else ":material/play_arrow:",
        key=key,
        args=(config,),
        on_click=train_session.start_changed,
        disabled=not may_control(),
    )


def remedy_words(before: TrainConfig, after: TrainConfig) -> str:
    """What a remedy changes, in the words of the form."""
    return ", ".join(
        f"{setting.label.lower()} {format_value(getattr(after, name)) or setting.empty}"
        for name, setting in settings().items()
        if getattr(before, name) != getattr(after, name)
    )
