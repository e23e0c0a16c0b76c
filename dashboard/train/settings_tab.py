"""The settings that a run was trained with, what differs first, and the machine it was trained on."""

import streamlit as st

from core.config.train_config import TrainConfig, settings
from core.errors import RunError
from core.runs.folder import RunFolder
from core.runs.reader import RunView, read_config
from core.runs.verdict import verdict
from dashboard import wording
from dashboard.settings import form_session


def settings_tab(view: RunView) -> None:
    """A table of all settings, those that differ first, and what auto settings became."""
    info, config = view.info, view.config
    before, against = _compared_with(view)
    same = {name: getattr(config, name) == getattr(before, name) for name in settings()}
    names = sorted(settings(), key=same.__getitem__)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"Run {wording.plain(info.run_id)}. {_machine(view)}", width="stretch")
        st.button(
            "Use these settings",
            icon=":material/tune:",
            key="use_settings",
            on_click=form_session.use_settings,
            args=(config,),
            help="Fills the form in the sidebar with this run's settings: change one of them and start again.",
        )
    if found := verdict(view):
        st.caption(f"{wording.plain(found.evidence)} {wording.plain(found.advice)}")
    for note in view.started.notes if view.started else ():
        st.caption(f":material/info: {wording.plain(note)}")
    if info.parent is not None:
        st.caption(
            f":material/fork_right: Starts from run {wording.plain(info.parent)} after its step {info.parent_step or 0:,}."
        )
    if info.imported:
        st.caption(f":material/upload: Taken in from {wording.plain(info.imported)}, not trained here.")
    st.dataframe(
        {
            "setting": [settings()[name].label for name in names],
            "this run": [wording.setting_words(name, config) for name in names],
            against: ["" if same[name] else wording.setting_words(name, before) for name in names],
        },
        hide_index=True,
        height=340,
    )
    if info.details:
        with st.expander("Details for a bug report"):
            st.code(info.details, language=None)


def _compared_with(view: RunView) -> tuple[TrainConfig, str]:
    """The settings that a run's are held against, and what they are called."""
    if view.info.parent is not None:
        try:
            return read_config(RunFolder.of(view.info.parent).path), "its parent, where it differs"
        except RunError:
            pass  # the parent is gone
    return TrainConfig(), "default, where it differs"


def _machine(view: RunView) -> str:
    started, config = view.started, view.config
    if started is None:
        return "It has not chosen a device yet."
    threads = f", {started.threads} thread{'s' if started.threads != 1 else ''}" if started.device == "cpu" else ""
    return (
        f"{wording.plain(f'{started.device_name} ({started.device})')}{threads}, {started.precision}, "
        f"{started.parameters:,} parameters, pipeline {config.pipeline}."
    )
