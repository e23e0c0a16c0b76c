"""The settings of the run to come: one widget a field, made from core.config.train_config, each with its problem beside it."""

import streamlit as st

from core.config.setting import GROUPS
from core.config.train_config import TrainConfig, field_kind, settings
from dashboard import wording
from dashboard.charts.live_chart import plot
from dashboard.charts.run_figures import schedule_figure
from dashboard.settings import form_session


def settings_form(found: dict[str, str], config: TrainConfig | None) -> None:
    """Draw the form. `found`: problems by field; `config`: the settings when they are usable, for the preview."""
    grouped = {group: [name for name, one in settings().items() if one.group == group] for group in GROUPS}
    for name in grouped.pop("Main"):
        setting_field(name, found, form_session.form_key(name))
    for group, names in grouped.items():
        wrong = sum(name in found for name in names)
        changed = config is not None and any(name in config.changed() for name in names)
        mark = f" :red[({wrong} to mend)]" if wrong else " :gray[(changed)]" if changed else ""
        # Closed groups are not drawn at all: thirty widgets take a browser seconds.
        with st.expander(f"{group}{mark}", expanded=bool(wrong), key=f"group_{group}", on_change="rerun") as opened:
            for name in names if opened.open else ():
                setting_field(name, found, form_session.form_key(name))
                if name == "schedule" and config is not None:
                    st.caption("Learning rate over the run" + _plateau_note(config))
                    plot(
                        schedule_figure(config),
                        key="schedule_preview",
                        alt="Preview of the learning rate over the steps of the run",
                    )


def _plateau_note(config: TrainConfig) -> str:
    return ", before any drop: those depend on the validation loss" if config.schedule == "plateau" else ""


def setting_field(name: str, found: dict[str, str], key: str) -> None:
    """The widget of one setting, and its problem below it."""
    setting = settings()[name]
    kind = field_kind(name)
    if setting.choices:
        st.selectbox(
            setting.label,
            setting.choices,
            key=key,
            help=setting.help,
            persist_state="session",
            format_func=lambda value: wording.CHOICE_WORDS.get(value) or str(value),
        )
    elif kind is bool:
        st.toggle(setting.label, key=key, help=setting.help, persist_state="session")
    else:
        # Text for whole numbers, too: a number field keeps what is out of its limits from the server, and the value before it
        # would be trained.
        limits = f" {setting.low:,.0f} to {setting.high:,.0f}." if kind is int and setting.high is not None else ""
        st.text_input(setting.label, key=key, help=setting.help + limits, placeholder=setting.empty, persist_state="session")
    if name in found:
        st.caption(f":red[:material/error: {setting.label}: {wording.plain(found[name])}]")
