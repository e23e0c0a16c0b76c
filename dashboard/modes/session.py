"""The train/eval page's jobs of one browser session: the question being worked on, and answers given before."""

from collections.abc import Callable, Hashable, Iterator
from itertools import count
from typing import Any

import streamlit as st

from core.execution.jobs import JobView
from core.execution.process import get_jobs
from dashboard.shell.policy_session import asker, session_id

EXPERIMENT_KEY = "m"  # also the name in the address
_KEPT_ANSWERS = 12
_numbers = count(1)


def experiment_job(question: Hashable, steps: Callable[[], Iterator[object]], *, start: bool) -> JobView | None:
    """The job that answers a question: the running one, one that has answered it before, or a new one.

    Args:
        question: all that the answer depends on. steps: the experiment. start: begin when there is no answer yet.

    A job of this session for another question is stopped: its answer is not on the page any more.
    """
    state = st.session_state
    answers: dict[Hashable, JobView] = state.setdefault("modes_answers", {})
    current: tuple[Hashable, str] | None = state.get("modes_job")
    if current and current[0] == question:
        job = get_jobs().get(current[1])
        if job is not None and job.status.is_active:
            return job
        if job is not None:
            _keep(answers, question, job)
            get_jobs().forget(current[1])
        state.modes_job = None
        return answers.get(question)
    if current:
        get_jobs().cancel(current[1])
        state.modes_job = None
    if question in answers:
        return answers[question]
    if not start:
        return None
    name = f"modes-{session_id()}-{next(_numbers)}"
    state.modes_job = question, name
    get_jobs().start(name, steps, heavy=True, growing=True, asker=asker())
    return get_jobs().get(name)


def _keep(answers: dict[Hashable, JobView], question: Hashable, job: JobView) -> None:
    answers[question] = job
    while len(answers) > _KEPT_ANSWERS:
        del answers[next(iter(answers))]


def run_again(question: Hashable) -> None:
    """Forget the answer to a question, so that it is worked out anew, and note that a person wants that."""
    st.session_state.setdefault("modes_answers", {}).pop(question, None)
    st.session_state.modes_wanted = question


def is_wanted(question: Hashable) -> bool:
    """True once a person has asked for an experiment that does not begin by itself."""
    return st.session_state.get("modes_wanted") == question


def stop_experiment() -> None:
    """Stop the job that is running for this session."""
    if current := st.session_state.get("modes_job"):
        get_jobs().cancel(current[1])


def is_working() -> bool:
    """True while a job of this session runs."""
    current = st.session_state.get("modes_job")
    job = get_jobs().get(current[1]) if current else None
    return job is not None and job.status.is_active


def memory(name: str) -> dict[Any, Any]:
    """A small dictionary that lasts as long as the session."""
    return st.session_state.setdefault(f"modes_memory_{name}", {})


def take_click(chart: str, key: str) -> None:
    """Set a widget to the place that was clicked in a chart."""
    clicked = getattr(st.session_state.get(chart), "clicked", None)
    if isinstance(clicked, int | float) and clicked == int(clicked):
        st.session_state[key] = int(clicked)


def keep_in_range(key: str, highest: int) -> None:
    """Bring a number that another choice has put out of range back into it, before its widget is drawn."""
    if st.session_state.get(key, 0) > highest:
        st.session_state[key] = highest
