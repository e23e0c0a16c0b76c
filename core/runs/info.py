"""What status.json says of a run, and the list of all runs."""

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from core.errors import RunError
from core.runs.folder import STATUS, RunFolder, run_names
from core.runs.format import check_version
from core.runs.lock import is_held
from core.status import RunStatus
from core.storage.records import json_object, record


@dataclass(frozen=True)
class RunInfo:
    """What status.json says.

    Attributes:
        status: as last written; readers of an abandoned run get INTERRUPTED.
        reason: one or two sentences for a person, "" when all is well. details: a traceback, or "". failure: see
            `errors.Failure`.
        created_at, updated_at: seconds since 1970.
        step, total_steps: progress when it was written.
        test_accuracy, best_accuracy: in [0, 1]; None until known.
        train_seconds: time in training steps, validations and pauses left out. images: digits trained on in it.
        parent, parent_step: the run and its step whose weights this one started from; None when it started anew.
        first_step: steps before its first own one: above 0 for a fork, which counts on where its parent stood.
        format: the version of the folder's format (core/runs/format.py).
        imported: the name of the file it came from, when it was not trained here; its words are somebody else's.
        resumes: how often it was taken up again; what was recorded after the state it went on from is taken back then.
    """

    run_id: str
    status: RunStatus
    model: str = ""
    dataset: str = ""
    preset: str | None = None
    reason: str = ""
    details: str = ""
    failure: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    step: int = 0
    total_steps: int = 0
    test_accuracy: float | None = None
    best_accuracy: float | None = None
    train_seconds: float = 0.0
    images: int = 0
    parent: str | None = None
    parent_step: int | None = None
    first_step: int = 0
    resumes: int = 0
    imported: str = ""
    format: int = 1


def read_info(folder: Path) -> RunInfo:
    """What status.json says, corrected: an active run that no process holds is INTERRUPTED. Raises RunError."""
    info = read_status(folder)
    if not info.status.is_active or is_held(folder):
        return info
    info = read_status(folder)  # it may have ended between the two looks
    if not info.status.is_active:
        return info
    return replace(
        info, status=RunStatus.INTERRUPTED, reason="Its process ended without a word: it was killed, or the machine went down."
    )


def can_go_on(folder: Path, info: RunInfo) -> bool:
    """True for a run that was not trained to its end and can be: it keeps a state, or waited and never began."""
    if info.status.is_active or info.status == RunStatus.FINISHED:
        return False
    return bool(RunFolder(folder).states()) or not (
        info.parent or info.imported or info.step or RunFolder(folder).best.exists()
    )


def read_status(folder: Path) -> RunInfo:
    """What status.json says, whoever holds the run. Raises RunError when it cannot be read."""
    try:
        values = json_object((folder / STATUS).read_bytes())
        check_version(values, folder.name)
        info = record(RunInfo, {**values, "run_id": folder.name})
        if not all(math.isfinite(value) for value in asdict(info).values() if isinstance(value, float)):
            raise ValueError("a number in it is not finite")
        if not all(value is None or 0 <= value <= 1 for value in (info.test_accuracy, info.best_accuracy)):
            raise ValueError("an accuracy in it is not between 0 and 1")
        return info
    except FileNotFoundError:
        raise RunError(f"There is no run {folder.name}. It may have been deleted.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"status.json of run {folder.name} cannot be read ({error}).") from error


def newest_run_id(root: Path) -> str | None:
    """The id of the run that was made last, by its name alone; None when there is none."""
    return max(run_names(root), default=None)


def list_runs(root: Path, limit: int | None = None) -> list[RunInfo]:
    """Runs, newest first; folders that hold none are passed over."""
    names = sorted(run_names(root), reverse=True)
    found: list[RunInfo] = []
    for name in names:
        if limit is not None and len(found) >= limit:
            break
        try:
            found.append(read_info(root / name))
        except RunError:
            continue
    return found
