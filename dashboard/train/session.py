"""The Train page's actions: start, resume, pause, stop, save, prove, download, and which runs it lists."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from core.config.train_config import TrainConfig
from core.data.sources import data_root
from core.errors import CoreError, Failure, RunError
from core.execution.jobs import JobView
from core.execution.process import get_jobs, get_trainer
from core.runs.folder import RunFolder, runs_root
from core.runs.info import RunInfo, can_go_on
from core.runs.notes import read_notes
from core.runs.reader import RunView
from core.status import Progress, RunStatus
from dashboard.settings.form_session import form_config, form_key
from dashboard.shell.policy_session import asker, controlled
from dashboard.shell.run_session import show_run
from dashboard.shell.start_session import start_and_show, start_config, start_problem, start_several
from dashboard.shell.widget_session import changed_choice

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from core.preflight.repeatability import ProofKind

DOWNLOAD_JOB = "download"


@controlled
def start_run() -> None:
    """Start what the form says and show it. Problems are kept for the page."""
    config, found = form_config()
    if config is None or found:
        return
    count = st.session_state.get("start_seeds", 1)
    start_and_show([replace(config, seed=config.seed + number) for number in range(count)])


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


def looked_at(run_id: str) -> int | None:
    """The step whose weights are looked at; None for the last scoring."""
    run, step = st.session_state.get("looked_at", ("", None))
    if run != run_id or step is None:
        return None
    return step if step in RunFolder.of(run_id).snapshots() else None  # thinned out meanwhile


def look_at(run_id: str, key: str) -> None:
    """Look at the step that the slider names."""
    step = st.session_state[key]
    st.session_state.looked_at = run_id, step if isinstance(step, int) else None


def look_again(job: str) -> None:
    """Ask the snapshots of a run once more, after it failed."""
    get_jobs().forget(job)


def looking_back(view: RunView, drawings: "npt.NDArray[np.float32]") -> JobView:
    """The job that asks every kept snapshot of a run; begun anew when there are more, or other drawings are pinned."""
    from core.data.sources import load_splits
    from core.insight.looking_back import look_back

    folder = RunFolder.of(view.info.run_id).path
    digest = hashlib.blake2b(drawings.tobytes(), digest_size=4).hexdigest()
    name = f"look-back-{view.info.run_id}-{len(RunFolder(folder).snapshots())}-{digest}"
    if (job := get_jobs().get(name)) is not None:
        return job
    config, data = view.config, data_root()

    def steps() -> Iterator[object]:
        yield Progress(0, 0, "Reading the digits")
        yield from look_back(folder, load_splits(config, data).validation, drawings)

    get_jobs().start(name, steps, heavy=True, growing=True, asker=asker(for_all=True))
    job = get_jobs().get(name)
    assert job is not None
    return job


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
