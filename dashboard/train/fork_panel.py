"""Fork a run: go on from one of its saved states with something changed, beside its own curves."""

from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from core.config.train_config import TrainConfig, settings
from core.execution.process import get_trainer
from core.runs.folder import RunFolder
from core.runs.reader import RunView
from dashboard import wording
from dashboard.settings.settings_form import setting_field
from dashboard.shell import torch_ready
from dashboard.shell.policy_session import may_control
from dashboard.train import fork_session

if TYPE_CHECKING:
    from core.execution.fork import RateChoice

_RATE_WORDS: "dict[RateChoice, str]" = {
    "restart": "the schedule once more, over the epochs that are left",
    "stretch": "the schedule as if the run had always been so long",
    "hold": "stay as it is now",
}


def fork_panel(snapshot: RunView) -> None:
    """The form, or why this run cannot be forked."""
    steps = sorted(RunFolder.of(snapshot.info.run_id).states(), reverse=True)
    if not steps:
        st.caption("This run keeps no saved state to go on from.")
    elif torch_ready.has_torch():
        _form(snapshot, steps)


def _form(snapshot: RunView, steps: list[int]) -> None:
    from core.execution.fork import CHANGEABLE, carries_optimizer

    run_id, parent = snapshot.info.run_id, snapshot.config
    st.caption(
        "A fork is a new run that starts from a saved state of this one: its weights, its optimizer's memory and the "
        "same digits in the same order. What you change is the only difference, and both curves are drawn together. "
        "With nothing changed but more epochs, it extends the run."
    )
    best = max((validation.step for validation in snapshot.validations if validation.best), default=0)
    step = st.selectbox(
        "From the state saved after step",
        steps,
        key=f"fork_step_{run_id}",
        format_func=lambda one: f"{one:,}{' (best on validation)' if 0 < one == best else ''}",
    )
    names = [name for name in CHANGEABLE if name != "epochs"]
    st.multiselect(
        "Settings to change",
        names,
        format_func=lambda name: settings()[name].label,
        key=f"fork_names_{run_id}",
        placeholder="learning rate, optimizer, batch size, …",
    )
    ended = step >= parent.total_steps()
    default = replace(parent, epochs=parent.epochs + max(1, parent.epochs // 2)) if ended else parent
    keys = {name: fork_session.field_key(run_id, name, default) for name in fork_session.changed_names(run_id)}
    config, found = fork_session.fork_config(run_id, parent)
    for name, key in keys.items():
        setting_field(name, found, key)
    rate = _rate_choice(parent, config, ended, run_id)
    differences = [
        f"{settings()[name].label}: {wording.setting_words(name, parent)} → {wording.setting_words(name, config)}"
        for name in settings()
        if getattr(parent, name) != getattr(config, name)
    ]
    st.caption(
        wording.plain(" · ".join(differences)) or "Nothing is changed: the fork repeats what its parent did, bit for bit."
    )
    if not carries_optimizer(parent, config):
        st.caption(":material/info: Another optimizer begins without memory (momentum, squared gradients).")
    st.button(
        "Add the fork to the queue" if get_trainer().active() else "Start the fork",
        icon=":material/fork_right:",
        key=f"start_fork_{run_id}",
        disabled=bool(found) or not may_control(),
        on_click=fork_session.start_fork,
        args=(run_id, step, config, rate),
    )
    if problem := fork_session.problem(run_id):
        st.error(wording.plain(problem))


def _rate_choice(parent: TrainConfig, config: TrainConfig, ended: bool, run_id: str) -> "RateChoice | None":
    """What the learning rate does in a longer run; None when there is nothing to choose."""
    if config.epochs == parent.epochs or (config.schedule == "constant" and not config.warmup_steps):
        return None
    choices: list[RateChoice] = list(_RATE_WORDS) if config.schedule != "plateau" else ["hold", "restart"]
    return st.radio(
        "The learning rate",
        choices,
        index=0 if ended else min(1, len(choices) - 1),
        format_func=_RATE_WORDS.__getitem__,
        key=f"fork_rate_{run_id}",
        help="At its end a schedule is usually near 0: staying there trains almost nothing.",
    )
