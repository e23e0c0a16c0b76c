"""The Train page's actions: start, resume, pause, stop, save, prove, download, and which runs it lists."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from core.config.train_config import TrainConfig
from core.data.sources import data_root
from core.errors import CoreError, Failure, RunError
from core.execution.process import get_jobs, get_trainer
from core.runs.folder import RunFolder, runs_root
from core.runs.info import RunInfo, can_go_on
from core.runs.notes import read_notes
from core.status import RunStatus
from dashboard.settings.form_session import form_config, form_key
from dashboard.shell.policy_session import asker, controlled
from dashboard.shell.run_session import show_run
from dashboard.shell.start_session import start_config, start_problem, start_several
from dashboard.shell.widget_session import changed_choice

if TYPE_CHECKING:
    from core.preflight.repeatability import ProofKind

DOWNLOAD_JOB = "download"


@controlled
def start_run() -> None:
    """Start what the form says and show it. Problems are kept for the page."""
    config, found = form_config()
    if config is None or found:
        return
    count = st.session_state.get("start_seeds", 1)
    if count == 1:
        start_config(config)
    elif run_id := start_several([replace(config, seed=config.seed + number) for number in range(count)]):
        show_run(run_id)


@controlled
def start_seeds(config: TrainConfig, seeds: list[int]) -> None:
    """Train the same settings with other seeds, one after the other; what is shown stays."""
    start_several([replace(config, seed=seed) for seed in seeds])


@controlled
def start_changed(config: TrainConfig) -> None:
    """Start a run with the settings that a verdict advises, and show it."""
    start_config(config)


@controlled
def resume_run(run_id: str) -> None:
    """Go on with a run that has ended early, and show it. Problems are kept for the page."""
    try:
        get_trainer().resume(run_id, data_root(), runs_root())
    except CoreError as error:
        st.session_state.start_problem = str(error)
        return
    st.session_state.start_problem = ""
    show_run(run_id)


@controlled
def resume_all(ids: list[str]) -> None:
    """Go on with several runs in this order; the first is shown. Ends at the first that cannot: its words stay on the page."""
    for run_id in ids:
        resume_run(run_id)
        if start_problem():
            return
    show_run(ids[0])


@controlled
def pause_run(run_id: str) -> None:
    """Stand still after the current step."""
    show_run(run_id)
    get_trainer().pause(run_id)


@controlled
def unpause_run(run_id: str) -> None:
    """Go on after a pause."""
    show_run(run_id)
    get_trainer().unpause(run_id)


@controlled
def stop_run(run_id: str) -> None:
    """End after the current step."""
    show_run(run_id)
    get_trainer().stop(run_id)


@controlled
def save_run(run_id: str) -> None:
    """Keep the whole training state as it is now."""
    show_run(run_id)
    get_trainer().save_now(run_id)


def left_unfinished(runs: list[RunInfo], shown: str | None) -> list[RunInfo]:
    """Those of `runs` that a crash or the end of their server cut short and that can go on; not the shown one, archived ones,
    or those that a person has put aside."""
    aside = st.session_state.get("runs_put_aside", ())
    return [
        info
        for info in runs
        if info.run_id not in (shown, *aside)
        and (info.status == RunStatus.INTERRUPTED or info.failure == Failure.SHUT_DOWN)
        and can_go_on(folder := RunFolder.of(info.run_id).path, info)
        and not _is_archived(folder)
    ]


def _is_archived(folder: Path) -> bool:
    with suppress(RunError):  # damaged notes are told on the Runs page
        return read_notes(folder).archived
    return False


def put_aside(ids: list[str]) -> None:
    """Say no more about these unfinished runs in this session."""
    st.session_state.runs_put_aside = (*st.session_state.get("runs_put_aside", ()), *ids)


def choose_shown_run(key: str, drawn: str | None) -> None:
    """Show the run that a widget names; it was drawn with `drawn`."""
    if run_id := changed_choice(key, drawn):
        show_run(run_id)


@controlled
def start_download() -> None:
    """Fetch what is missing or damaged of MNIST."""
    from core.data.download import download_mnist

    get_jobs().start(DOWNLOAD_JOB, lambda: download_mnist(data_root()))


def use_mnist_if_just_downloaded() -> None:
    """After a finished download: choose MNIST in the form, once."""
    get_jobs().forget(DOWNLOAD_JOB)
    st.session_state[form_key("dataset")] = "mnist"


def proof_job(run_id: str, kind: str) -> str:
    """The name of the job that proves something about a run."""
    return f"proof-{kind}-{run_id}"


def is_proving(run_id: str) -> bool:
    """True while something is being proved about a run."""
    jobs = [get_jobs().get(proof_job(run_id, kind)) for kind in ("repeat", "resume")]
    return any(job is not None and job.status.is_active for job in jobs)


@controlled
def start_proof(run_id: str, kind: "ProofKind", config: TrainConfig) -> None:
    """Train the first steps of a run twice, in a process of its own."""
    from core.preflight.repeatability import prove_apart

    get_jobs().start(
        proof_job(run_id, kind), lambda: prove_apart(kind, config, data_root()), heavy=True, asker=asker(for_all=True)
    )
