"""Deleted runs: moved into a folder beside the others, from which they can come back until it is emptied."""

import os
import shutil
from pathlib import Path

from core.errors import RunError
from core.runs.folder import run_folder, run_names
from core.runs.lock import held
from core.storage.disk_use import folder_bytes

FOLDER = ".deleted"


def delete_run(root: Path, run_id: str) -> None:
    """Move a run out of sight. Raises RunError: there is none, it is being trained, or the folder cannot be written."""
    folder = run_folder(root, run_id)
    if not folder.is_dir():
        raise RunError(f"There is no run {run_id}. It may have been deleted already.")
    target = run_folder(root / FOLDER, run_id)
    with held(folder):
        if os.name != "nt":
            _move(folder, target)
    if os.name == "nt":  # there a folder with an open file in it cannot be moved
        _move(folder, target)


def restore_run(root: Path, run_id: str) -> None:
    """Bring a deleted run back as it was. Raises RunError."""
    folder = run_folder(root / FOLDER, run_id)
    if not folder.is_dir():
        raise RunError(f"Run {run_id} is not among the deleted ones: it was deleted for good, or is back already.")
    if run_folder(root, run_id).exists():
        raise RunError(f"There is a run {run_id} again, so the deleted one cannot come back under this id.")
    _move(folder, run_folder(root, run_id))


def deleted_runs(root: Path) -> list[str]:
    """Ids of the runs that can come back, newest first."""
    return sorted(run_names(root / FOLDER), reverse=True)


def deleted_bytes(root: Path) -> int:
    """What they take on the disk."""
    return folder_bytes(root / FOLDER)


def empty_bin(root: Path) -> None:
    """Delete them for good. Raises RunError for what cannot be deleted."""
    failed: list[str] = []
    for run_id in deleted_runs(root):
        try:
            shutil.rmtree(run_folder(root / FOLDER, run_id))
        except OSError as error:
            failed.append(f"{run_id}: {error.strerror or error}")
    if failed:
        raise RunError(f"These runs could not be deleted for good: {'; '.join(failed[:5])}.")


def _move(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(exist_ok=True)
        if target.parent.name == FOLDER and target.exists():  # deleted once before; a copy had come in as a zip since
            shutil.rmtree(target)
        os.rename(source, target)
    except OSError as error:
        raise RunError(f"Run {source.name} cannot be moved: {error.strerror or error}.") from error
