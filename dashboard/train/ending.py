"""How a run ended, what to do about it, and where it came from."""

from dataclasses import replace

import numpy as np
import streamlit as st

from core.errors import Failure, RunError
from core.execution.process import get_readers
from core.runs.folder import RunFolder, runs_root
from core.runs.info import RunInfo, can_go_on
from core.runs.reader import RunView
from core.status import RunStatus
from dashboard import wording
from dashboard.shell.policy_session import may_control
from dashboard.train import fork_session
from dashboard.train import session as train_session
from dashboard.train.evaluation import LN10


def ending(snapshot: RunView) -> None:
    """How the run ended, in the words it deserves, and what one can do now."""
    info = snapshot.info
    if info.status == RunStatus.FAILED:
        st.error(wording.plain(info.reason), icon=":material/error:")
        if info.failure == Failure.DATA:
            st.button(
                "Download the missing or damaged files",
                on_click=train_session.start_download,
                icon=":material/download:",
                disabled=not may_control(),
            )
        if info.details:
            with st.expander("Details for a bug report"):
                st.code(info.details, language=None)
    elif info.status == RunStatus.INTERRUPTED:
        st.warning(f"{wording.plain(info.reason)} What it measured until then is below.", icon=":material/power_off:")
    elif info.status == RunStatus.FINISHED and snapshot.tested and snapshot.tested.evaluation.accuracy < _LEARNED:
        score = snapshot.tested.evaluation
        st.warning(
            f"**It learned nothing: test accuracy {score.accuracy:.2%}**, where guessing gives about 10%. "
            f"{wording.plain(_nothing_learned(snapshot))}",
            icon=":material/flag:",
        )
    elif info.status == RunStatus.FINISHED and snapshot.tested:
        score = snapshot.tested.evaluation
        st.success(
            f"**Test accuracy {score.accuracy:.2%}** (loss {score.loss:.4f}), scored once with the weights of step "
            f"{snapshot.tested.step:,}, the best on the validation digits. Next: draw a digit for it, change one "
            "setting and start again to compare, or take the results with you (downloads below).",
            icon=":material/flag:",
        )
        with st.container(horizontal=True):
            st.page_link("draw/page.py", label="Draw a digit for this model", icon=":material/draw:")
            st.page_link("modes/page.py", label="See it in train and in eval mode", icon=":material/toggle_on:")
            st.page_link("runs/page.py", label="Compare it with other runs", icon=":material/table_view:")
        if snapshot.stopped_early:
            st.info(wording.plain(snapshot.stopped_early.reason))
    elif info.status == RunStatus.STOPPED:
        saved = "; the last weights are saved in the run's folder" if snapshot.step else " and nothing was trained"
        st.info(f"{wording.plain(info.reason) or 'Stopped by hand.'} The test digits were not scored{saved}.")
    if info.failure == Failure.TRAINING and snapshot.step:
        _go_on_gentler(snapshot)
    elif can_go_on(RunFolder.of(info.run_id).path, info):
        resume_row(snapshot)


# Below this share of right answers on ten classes a network has learned next to nothing.
_LEARNED = 0.3


def _nothing_learned(snapshot: RunView) -> str:
    """The likeliest cause by what was recorded, and what to do."""
    config, losses = snapshot.config, snapshot.steps.column("loss")
    rate = f"{config.learning_rate:g}"
    if snapshot.tested and snapshot.tested.evaluation.unanswered:
        return (
            "Its answers are not numbers (NaN): the weights or BatchNorm's statistics have run away. Lower the learning rate."
        )
    if config.order == "by_class":
        return "It saw the digits sorted by class and forgot each while it learned the next. Shuffle them."
    finite = losses[np.isfinite(losses)]
    if len(finite) and float(np.quantile(finite, 0.9)) > 1.2 * LN10:  # not one spike: a tenth of the run
        return (
            f"In a tenth of the steps the loss was above {np.quantile(finite, 0.9):.3g}, more than guessing has: a "
            f"learning rate of {rate} is too high here. Try {config.learning_rate / 10:g}."
        )
    epochs = "1 epoch" if config.epochs == 1 else f"{config.epochs} epochs"
    return (
        f"The loss hardly left that of guessing: a learning rate of {rate} with {wording.CHOICE_WORDS[config.optimizer]} is "
        f"too low, or {epochs} too few. Try {config.learning_rate * 10:g}."
    )


def _go_on_gentler(snapshot: RunView) -> None:
    """After a loss that was no number: the same steps would end in the same place, so a fork with a lower rate is offered."""
    run_id, rate = snapshot.info.run_id, snapshot.config.learning_rate / 10
    steps = list(RunFolder.of(run_id).states())
    if not steps:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Fork from step {steps[-1]:,} with learning rate {rate:g}",
            icon=":material/fork_right:",
            key="fork_gentler",
            args=(run_id, steps[-1], replace(snapshot.config, learning_rate=rate), None),
            on_click=fork_session.start_fork,
            disabled=not may_control(),
        )
        st.caption("Resuming would take the same steps to the same end.", width="content")
    if problem := fork_session.problem(run_id):
        st.error(wording.plain(problem))


def resume_row(snapshot: RunView) -> None:
    """The way on for a run that has ended early."""
    info, started = snapshot.info, snapshot.started
    steps = list(RunFolder.of(info.run_id).states())
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Resume",
            icon=":material/resume:",
            key="take_up",
            on_click=train_session.resume_run,
            args=(info.run_id,),
            disabled=not may_control(),
        )
        if not steps:
            words = "It had only waited in line, and begins when its turn comes."
            if info.status == RunStatus.FAILED:
                words = "It failed before its first step; it begins once more, best after the cause above is mended."
            st.caption(words, width="content")
            return
        exact = ", bit for bit as if it had never stopped" if started and started.device == "cpu" else ""
        lost = f"; the {info.step - steps[-1]:,} steps after it are trained again" if info.step > steps[-1] else ""
        st.caption(f"Goes on from the state saved after step {steps[-1]:,}{exact}{lost}.", width="content")


def parent_note(info: RunInfo) -> RunView | None:
    """The run that this one started from, to be drawn behind it; None without one, and a word when it is gone."""
    if info.parent is None:
        return None
    words = f":material/fork_right: Starts from run {wording.plain(info.parent)} after its step {info.parent_step or 0:,}"
    try:
        parent = get_readers().read(runs_root(), info.parent)
        st.caption(f"{words}; that run's curves are drawn in gray.")
        return parent
    except RunError as error:
        st.caption(f"{words}. That run's curves cannot be drawn: {wording.plain(str(error))}")
        return None
