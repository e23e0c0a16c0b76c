"""Which runs a person looks at and has chosen on the Runs page. With the other `*session.py` files the only ones that touch
Streamlit's state."""

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.config.train_config import TrainConfig
from core.data.sources import data_root, load_pool
from core.errors import CoreError
from core.execution.jobs import JobView
from core.execution.process import get_jobs, get_trainer
from core.runs.folder import RunFolder, run_folder, runs_root
from core.runs.index import RunRow, index_of
from core.runs.notes import change_notes, tags_of
from core.runs.search import search
from core.runs.trash import delete_run, empty_bin, restore_run
from core.status import Progress
from dashboard.shell.policy_session import asker, controlled, session_id

if TYPE_CHECKING:
    from core.model.predictor import Predictor

SWEEP_JOB = "sweep"
SEARCH_KEY, ARCHIVED_KEY = "runs_search", "runs_archived"
ORDER_KEY, UPWARDS_KEY = "runs_order", "runs_upwards"


def listed_rows() -> tuple[list[RunRow], int, list[str]]:
    """(the runs that fit the search, newest first; how many there are in all; words of the search that fit none)."""
    rows = index_of(runs_root().absolute()).rows()
    shown = rows if st.session_state.get(ARCHIVED_KEY) else [row for row in rows if not row.notes.archived]
    found, unknown = search(shown, st.session_state.get(SEARCH_KEY) or "")
    return found, len(rows), unknown


def table_key(ids: Sequence[str]) -> str:
    """The table's key: another one for another list of runs, since a selection is kept by row numbers."""
    digest = hashlib.blake2b("/".join(ids).encode(), digest_size=6).hexdigest()
    revision = st.session_state.get("runs_revision", 0)
    key = f"runs_table_{digest}_{revision}"
    st.session_state.runs_drawn = {key: tuple(ids)}
    return key


def take_selection(key: str) -> None:
    """Note which runs are selected, by id."""
    ids = st.session_state.runs_drawn.get(key)
    if ids is None:  # an old message about a table that is no longer there
        return
    rows = st.session_state[key]["selection"]["rows"]
    st.session_state.runs_selected = tuple(ids[row] for row in rows if row < len(ids))


def selected_ids() -> tuple[str, ...]:
    """The chosen runs, in the order of the table."""
    return st.session_state.get("runs_selected", ())


def select(ids: Iterable[str]) -> None:
    """Choose these runs from code."""
    st.session_state.runs_selected = tuple(ids)
    st.session_state.runs_revision = st.session_state.get("runs_revision", 0) + 1


def select_clicked(key: str) -> None:
    """Add the run whose point was clicked to the chosen ones, or take it out."""
    clicked = st.session_state[key].clicked
    chosen = selected_ids()
    select([one for one in chosen if one != clicked] if clicked in chosen else [*chosen, clicked])


def problem() -> str:
    """Why the last action failed, in words; "" when it did not."""
    return st.session_state.get("runs_problem", "")


def _for_each(ids: Iterable[str], action: Any) -> list[str]:
    """Do something to runs; keeps the first problem, and returns the ids of those it was done to."""
    done = []
    st.session_state.runs_problem = ""
    for run_id in ids:
        try:
            action(run_id)
            done.append(run_id)
        except CoreError as error:
            st.session_state.runs_problem = st.session_state.runs_problem or str(error)
    return done


@controlled
def save_notes(run_id: str, revision: int) -> None:
    """Keep the name, tags and note that the form of a run holds."""
    state = st.session_state
    name, tags, note = (state[f"notes_{part}_{run_id}_{revision}"] for part in ("name", "tags", "note"))
    _for_each([run_id], lambda one: change_notes(RunFolder.of(one).path, name=name.strip(), tags=tags_of(tags), note=note))


@controlled
def add_tags(rows: Sequence[RunRow]) -> None:
    """Add the tags in the field to several runs."""
    new = tags_of(st.session_state.get("runs_new_tags", ""))
    known = {row.run_id: row.notes.tags for row in rows}

    def add(run_id: str) -> None:
        change_notes(RunFolder.of(run_id).path, tags=tuple(dict.fromkeys((*known[run_id], *new))))

    _for_each(known, add)
    st.session_state.runs_new_tags = ""


@controlled
def archive(ids: Sequence[str], archived: bool) -> None:
    """Take runs out of the table, or put them back."""
    _for_each(ids, lambda one: change_notes(RunFolder.of(one).path, archived=archived))
    if archived and not st.session_state.get(ARCHIVED_KEY):
        select(())


@controlled
def delete(ids: Sequence[str]) -> None:
    """Move runs to the deleted ones; they can come back."""
    done = _for_each(ids, lambda one: delete_run(runs_root(), one))
    st.session_state.runs_just_deleted = tuple(done)
    select([one for one in ids if one not in done])


def just_deleted() -> tuple[str, ...]:
    """What the last deletion took away, for Undo."""
    return st.session_state.get("runs_just_deleted", ())


@controlled
def restore(ids: Sequence[str]) -> None:
    """Bring deleted runs back."""
    back = _for_each(ids, lambda one: restore_run(runs_root(), one))
    st.session_state.runs_just_deleted = tuple(one for one in just_deleted() if one not in back)


@controlled
def delete_for_good() -> None:
    """Empty the deleted runs."""
    _for_each([""], lambda _: empty_bin(runs_root()))
    st.session_state.runs_just_deleted = ()


def upload_key() -> str:
    """The uploader's key; a new one empties it."""
    return f"runs_upload_{st.session_state.get('runs_uploads', 0)}"


def import_job() -> str:
    """The name of this session's job that takes a run in."""
    return f"import-run-{session_id()}"


@controlled
def import_zip(key: str) -> None:
    """Take in the zip that a person chose, as a job."""
    from core.transfer.run_zip import unpack_run

    given, name = st.session_state.get(key), import_job()
    if given is None:
        return
    content, root = given.getvalue(), runs_root()

    def steps() -> Any:
        yield Progress(0, 0, "Checking every file of the run")
        yield unpack_run(content, root, given.name)

    jobs = get_jobs()
    if (current := jobs.get(name)) and current.status.is_active:
        st.session_state.runs_problem = f"{given.name} waits: another file is just being checked. Choose it again after that."
        return
    jobs.forget(name)
    jobs.start(name, steps)
    st.session_state.runs_uploads = st.session_state.get("runs_uploads", 0) + 1


def dispute_job(first: str, second: str) -> str:
    """The name of the job that compares two models, by their weights as they are now."""
    stamps = []
    for run_id in (first, second):
        with suppress(OSError):
            stamps.append(f"{RunFolder.of(run_id).best.stat().st_mtime_ns:x}")
    return "-".join(("disagree", first, second, *stamps))


def start_dispute(first: str, second: str, dataset: str) -> None:
    """Ask two runs' best models about the test digits of a data set."""
    from core.insight.disagreement import disagreement
    from core.model.predictor import load_predictor

    root, data = runs_root(), data_root()

    def load(run_id: str) -> "Predictor":
        return load_predictor(RunFolder(run_folder(root, run_id)).best)

    def steps() -> Any:
        yield Progress(0, 0, "Reading the digits")
        yield from disagreement(load(first), load(second), load_pool(dataset, data)[1])

    get_jobs().start(dispute_job(first, second), steps, heavy=True, asker=asker(for_all=True))


def sweep_form() -> tuple[dict[str, str], int | None, float | None]:
    """(setting -> values as text, random runs or None for a grid, minutes or None) as the form holds them."""
    state = st.session_state
    choices = {name: state.get(f"sweep_values_{name}") or "" for name in state.get("sweep_names", [])}
    runs = int(state.get("sweep_runs") or 1) if state.get("sweep_how") == "random" else None
    return choices, runs, state.get("sweep_minutes")


@controlled
def start_sweep(base: TrainConfig) -> None:
    """Start the sweep of the form, and list its runs."""
    from core.sweeps.local import run_sweep
    from core.sweeps.search import sweep_of

    if (job := sweep_job()) and job.status.is_active:
        st.session_state.sweep_problem = "A sweep is under way already; one at a time."
        return
    choices, runs, minutes = sweep_form()
    try:
        sweep = sweep_of(base, choices, random_runs=runs, seed=base.seed)
    except CoreError as error:
        st.session_state.sweep_problem = str(error)
        return
    st.session_state.sweep_problem = ""
    trainer, data, root = get_trainer(), data_root(), runs_root()
    get_jobs().start(SWEEP_JOB, lambda: run_sweep(sweep, trainer, data, root, minutes=minutes))
    st.session_state.sweep_tag = sweep.tag
    st.session_state[SEARCH_KEY] = sweep.tag
    select(())


def planned_sweep(base: TrainConfig | None) -> tuple[int, str]:
    """(runs that the form asks for, what is to be said of them); (0, why) when it cannot start, (0, "") while it is empty."""
    choices, runs, _ = sweep_form()
    if base is None or not choices or not all(text.strip() for text in choices.values()):
        return 0, ""
    from core.sweeps.local import trained_already
    from core.sweeps.search import sweep_of

    try:
        sweep = sweep_of(base, choices, random_runs=runs, seed=base.seed)
    except CoreError as error:
        return 0, str(error)
    notes = [sweep.note] if sweep.note else []
    if known := len(trained_already(sweep.configs, runs_root())):
        notes.append(
            f"Trained with equal settings before: {known} of these {len(sweep.configs)}. They get the sweep's tag and "
            "are not trained again"
        )
    return len(sweep.configs), ". ".join(notes)


def sweep_problem() -> str:
    """Why the last sweep did not start; "" when it did."""
    return st.session_state.get("sweep_problem", "")


def sweep_job() -> JobView | None:
    """The sweep that runs or ran last in this process."""
    return get_jobs().get(SWEEP_JOB)


def is_working() -> bool:
    """True while something that this page shows is under way."""
    trainer = get_trainer()
    jobs = [get_jobs().get(import_job()), get_jobs().get(SWEEP_JOB)]
    if len(chosen := selected_ids()) == 2:
        jobs.append(get_jobs().get(dispute_job(*chosen)))
    return bool(trainer.active()) or any(job is not None and job.status.is_active for job in jobs)
