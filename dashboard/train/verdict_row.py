"""What to think of a run that has ended, in one line, with the one button that does what the line advises."""

from dataclasses import replace

import streamlit as st

from core.errors import Failure
from core.execution.process import get_trainer
from core.finding import Finding, Verdict
from core.runs.folder import RunFolder
from core.runs.info import can_go_on
from core.runs.reader import RunView
from core.runs.speed import speed_finding
from core.runs.verdict import so_far, verdict
from core.status import RunStatus
from dashboard import wording
from dashboard.shell import start_session
from dashboard.shell.policy_session import may_control
from dashboard.train import fork_session
from dashboard.train import session as train_session
from dashboard.train.remedy import remedy_words, start_button

_MOST_WORDS = 230
_MARKS = {
    Verdict.OK: ":green[:material/flag:]",
    Verdict.NOTE: ":orange[:material/flag:]",
    Verdict.FAIL: ":red[:material/error:]",
}


def verdict_row(view: RunView) -> None:
    """The line. While the run trains it says how that goes, at the same height, so that nothing moves when it ends."""
    for note in view.damage:
        st.caption(f":material/info: {wording.plain(note)}")
    found, elsewhere = verdict(view), view.info.status.is_active and view.info.run_id not in get_trainer().active()
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="run_verdict"):
        if found is None:
            _in_training(view, elsewhere)
            return
        mark = _MARKS[found.verdict]
        st.markdown(f"{mark} {wording.plain(_short(f'{found.evidence} {found.advice}'.strip()))}", width="stretch")
        _button(view, found)
    # Also in the sidebar, which a phone does not show.
    if problem := fork_session.problem(view.info.run_id) or start_session.start_problem():
        st.error(wording.plain(problem))


def _in_training(view: RunView, elsewhere: bool) -> None:
    """How the learning goes; where nothing is to be said against it, what slows the run down."""
    learning, speed = so_far(view), speed_finding(view)
    where = "Another process trains this run (a terminal, say); it is stopped there. " if elsewhere else ""
    if speed and speed.verdict == Verdict.NOTE and (learning is None or learning.verdict == Verdict.OK):
        told = wording.plain(_short(f"{speed.evidence} {speed.advice}".strip()))
        st.markdown(f":orange[:material/speed:] {where}{told}", width="stretch")
        if speed.remedy:
            start_button(view, speed, key="mend_speed_now")
        return
    told = wording.plain(learning.evidence) if learning else ""
    st.markdown(f":gray[:material/monitoring:] {where}{told}", width="stretch")


def _short(words: str) -> str:
    """The first sentences, for a line above the curves; all of them stand in the settings tab."""
    if len(words) <= _MOST_WORDS:
        return words
    end = max(words.rfind(". ", 0, _MOST_WORDS), words.rfind(": ", 0, _MOST_WORDS))
    return f"{words[: end + 1] if end > 0 else words[:_MOST_WORDS]} (More under Settings.)"


def _button(view: RunView, found: Finding) -> None:
    """One action: the remedy, or the way on."""
    info, locked = view.info, not may_control()
    states = list(RunFolder.of(info.run_id).states())
    if info.failure == Failure.DATA:
        st.button(
            "Download the missing or damaged files",
            on_click=train_session.start_download,
            icon=":material/download:",
            key="mend_data",
            disabled=locked,
        )
    elif found.remedy and _goes_on(view, found) and states:
        config = replace(view.config, **found.remedy)
        st.button(
            f"Fork with {remedy_words(view.config, config)}",
            icon=":material/fork_right:",
            key="mend_fork",
            args=(info.run_id, states[-1], config, None),
            on_click=fork_session.start_fork,
            disabled=locked,
            help=f"A new run from the state saved after step {states[-1]:,}, with nothing else changed.",
        )
    elif found.remedy:
        start_button(view, found, key="mend_start")
    elif can_go_on(RunFolder.of(info.run_id).path, info):
        _resume(view, states, locked)
    elif found.verdict == Verdict.OK:
        st.page_link("draw/page.py", label="Draw a digit for it", icon=":material/draw:")


def _goes_on(view: RunView, found: Finding) -> bool:
    """Whether the remedy is for the run's own last state: a failed training, or one that only wants more epochs."""
    return view.info.status == RunStatus.FAILED or found.remedy.get("epochs", 0) > view.config.epochs


def _resume(view: RunView, states: list[int], locked: bool) -> None:
    info, started = view.info, view.started
    words = "It had only waited in line, and begins when its turn comes."
    if states:
        exact = ", bit for bit as if it had never stopped" if started and started.device == "cpu" else ""
        lost = f"; the {info.step - states[-1]:,} steps after it are trained again" if info.step > states[-1] else ""
        words = f"Goes on from the state saved after step {states[-1]:,}{exact}{lost}."
    elif info.status == RunStatus.FAILED:
        words = "It failed before its first step; it begins once more, best after the cause is mended."
    st.button(
        f"Resume from step {states[-1]:,}" if states else "Begin it",
        icon=":material/resume:",
        key="take_up",
        on_click=train_session.resume_run,
        args=(info.run_id,),
        disabled=locked,
        help=words,
    )
