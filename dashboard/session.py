"""The shown run, charts and jobs of a browser session. Only the `*session.py` files touch st.session_state,
Streamlit's caches and the address bar."""

import gc
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.config import TrainConfig
from core.data import data_root, missing_files
from core.errors import CoreError, RunError
from core.events import Progress, RunStatus
from core.hardware import choose_threads
from core.preflight import check
from core.presets import preset_named
from core.run_notes import read_notes
from core.run_store import RunInfo, can_go_on, list_runs, read_info, run_folder, runs_root
from core.trainer import SHUT_DOWN, get_trainer
from dashboard.charts import Sent, View
from dashboard.form_session import changed_choice, form_config, form_key
from dashboard.policy_session import asker, controlled, is_timed_refresh, session_id

if TYPE_CHECKING:
    from core.proofs import ProofKind

DOWNLOAD_JOB = "download"
CHECK_JOB = "check"
WARM_UP_JOB = "warm-up"


# --- runs --------------------------------------------------------------------------------------------------------------


@controlled
def start_run() -> None:
    """Start what the form says and show it. Problems are kept for the page."""
    config, found = form_config()
    if config is not None and not found:
        _start(config)


@controlled
def start_preset(name: str) -> None:
    """Start a preset on the digits that are here and show it. Problems are kept for the page."""
    _start(replace(preset_named(name), dataset="mnist_sample" if missing_files(data_root()) else "mnist"))


def _start(config: TrainConfig) -> None:
    try:
        run_id = get_trainer().start(config, data_root(), runs_root(), token=session_id())
    except Exception as error:
        st.session_state.start_problem = str(error)
        return
    st.session_state.start_problem = ""
    show_run(run_id)


@controlled
def resume_run(run_id: str) -> None:
    """Go on with a run that has ended early, and show it. Problems are kept for the page."""
    try:
        get_trainer().take_up(run_id, data_root(), runs_root())
    except CoreError as error:
        st.session_state.start_problem = str(error)
        return
    st.session_state.start_problem = ""
    show_run(run_id)


@controlled
def pause_run(run_id: str) -> None:
    """Stand still after the current step."""
    show_run(run_id)
    get_trainer().pause(run_id)


@controlled
def continue_run(run_id: str) -> None:
    """Go on after a pause."""
    show_run(run_id)
    get_trainer().resume(run_id)


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


def start_problem() -> str:
    """Why the last Start or Resume did not start; "" when it did."""
    return st.session_state.get("start_problem", "")


def show_run(run_id: str) -> None:
    """Make this the run that the page shows, in the address bar too."""
    st.session_state.shown_run = st.session_state.run_in_address = run_id
    st.query_params["run"] = run_id


def shown_run() -> str | None:
    """The run to show: the chosen one, else the one that trains, else the newest; None before the first."""
    state, there = st.session_state, st.query_params.get("run")
    # A link, or the browser's Back: both draw the whole page. A timer's refresh may carry the address from before a click.
    if there and there != state.get("run_in_address") and not is_timed_refresh():
        state.shown_run = state.run_in_address = there
    if chosen := state.get("shown_run"):
        if there != chosen:  # another page took it out of the address
            show_run(chosen)
        return chosen
    if active := get_trainer().active():
        return next(iter(active))
    newest = list_runs(runs_root(), limit=1)
    return newest[0].run_id if newest else None


NOT_HERE = "The run of this link is not on this server: it was deleted, or never was here."
"""Its id is not repeated: whoever makes a link could write anything there."""


def is_here(run_id: str) -> bool:
    """Whether there is a run of this id."""
    with suppress(RunError):
        return run_folder(runs_root(), run_id).is_dir()
    return False


def recent_runs(limit: int = 30) -> list[RunInfo]:
    """The newest runs, and the one that is shown, however old it is."""
    found = list_runs(runs_root(), limit)
    shown = shown_run()
    if shown and all(info.run_id != shown for info in found):
        with suppress(RunError):
            found.append(read_info(run_folder(runs_root(), shown)))
    return found


def left_unfinished(runs: list[RunInfo], shown: str | None) -> list[RunInfo]:
    """Those of `runs` that a crash or the end of their server cut short and that can go on; not the shown one, archived ones,
    or those that a person has put aside."""
    aside = st.session_state.get("runs_put_aside", ())
    return [
        info
        for info in runs
        if info.run_id not in (shown, *aside)
        and (info.status == RunStatus.INTERRUPTED or info.failure == SHUT_DOWN)
        and can_go_on(folder := run_folder(runs_root(), info.run_id), info)
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


# --- live charts -------------------------------------------------------------------------------------------------------


def charts_view() -> View:
    """How this session wants to see runs."""
    return View(
        axis=st.session_state.get("view_axis") or "step",
        window=st.session_state.get("view_window", 25),
        log=st.session_state.get("view_log", False),
    )


def charts_sent(key: str) -> Sent | None:
    """What this session's browser has of the charts; None when everything must be sent."""
    return st.session_state.get(f"sent_{key}")


def remember_charts_sent(key: str, sent: Sent | None) -> None:
    """Note what the browser has after this refresh."""
    st.session_state[f"sent_{key}"] = sent


def charts_failed(key: str) -> bool:
    """True when this browser could not load plotly.js."""
    return st.session_state.get(f"failed_{key}", False)


def remember_charts_failed(key: str) -> None:
    """Draw plain charts from now on."""
    st.session_state[f"failed_{key}"] = True


def page_was_drawn_anew(key: str) -> None:
    """A whole page run: the browser may have lost the charts (another page, a reload), so they are sent whole once."""
    remember_charts_sent(key, None)


# --- jobs --------------------------------------------------------------------------------------------------------------


@controlled
def start_download() -> None:
    """Fetch what is missing or damaged of MNIST."""
    from core.download import download_mnist

    get_trainer().jobs.start(DOWNLOAD_JOB, lambda: download_mnist(data_root()))


def use_mnist_if_just_downloaded() -> None:
    """After a finished download: choose MNIST in the form, once."""
    get_trainer().jobs.forget(DOWNLOAD_JOB)
    st.session_state[form_key("dataset")] = "mnist"


@controlled
def cancel_job(name: str) -> None:
    """Ask a download, a sweep or a proof to end."""
    get_trainer().jobs.cancel(name)


def start_check() -> None:
    """Look at the installation."""
    get_trainer().jobs.start(CHECK_JOB, check)


def proof_job(run_id: str, kind: str) -> str:
    """The name of the job that proves something about a run."""
    return f"proof-{kind}-{run_id}"


def is_proving(run_id: str) -> bool:
    """True while something is being proved about a run."""
    jobs = [get_trainer().jobs.get(proof_job(run_id, kind)) for kind in ("repeat", "resume")]
    return any(job is not None and job.status.is_active for job in jobs)


@controlled
def start_proof(run_id: str, kind: "ProofKind", config: TrainConfig) -> None:
    """Train the first steps of a run twice, in a process of its own."""
    from core.proofs import prove_apart

    get_trainer().jobs.start(proof_job(run_id, kind), lambda: prove_apart(kind, config, data_root()), heavy=True,
                             asker=asker(for_all=True))  # fmt: skip


def warm_up() -> None:
    """Import torch in the background once a process, so that the first page does not wait for it.

    Then everything imported is taken out of the garbage collector's sight: with torch a collection takes 0.2 s, in
    which no thread runs, training included.
    """

    def steps() -> Any:
        yield Progress(0, 0, "Importing PyTorch")
        import torch

        import core.recorded_run  # noqa: F401

        # What pages and experiments compute leaves a core to the rest, as runs do. Set once, before any run: a run's own
        # number of threads is part of its result.
        torch.set_num_threads(choose_threads(None, shared=True))
        yield Progress(0, 0, "Making a first optimizer")
        # The first optimizer of a process imports torch._dynamo: 2 s and 135,000 objects, which a full collection would look
        # through each time if they came after the freeze.
        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        gc.collect()
        gc.freeze()

    if get_trainer().jobs.get(WARM_UP_JOB) is None:
        get_trainer().jobs.start(WARM_UP_JOB, steps, lasting=True)


def is_warm() -> bool:
    """True once torch is imported."""
    job = get_trainer().jobs.get(WARM_UP_JOB)
    return job is not None and not job.status.is_active


def torch_problem() -> str:
    """Why PyTorch cannot be used, in words; "" when it can, or while it is imported."""
    job = get_trainer().jobs.get(WARM_UP_JOB)
    return job.reason if job is not None else ""


def has_torch() -> bool:
    """True once PyTorch can be used."""
    return is_warm() and not torch_problem()


_last_seen: dict[str, float] = {}
_REFRESHES_A_SECOND, _SLOWEST = 5, 10  # of all pages together; seconds between those of one
_GONE_AFTER = 25.0  # seconds


def refresh_seconds() -> float:
    """Seconds between the refreshes of a page on which something changes: 1, and more when more than five watch.

    A refresh takes the server some 20 ms: thirty viewers at one a second would leave the training half its speed.
    """
    now = monotonic()
    _last_seen[session_id()] = now
    for viewer, seen in list(_last_seen.items()):
        if now - seen > _GONE_AFTER:
            _last_seen.pop(viewer, None)
    return float(min(_SLOWEST, max(1, math.ceil(len(_last_seen) / _REFRESHES_A_SECOND))))
