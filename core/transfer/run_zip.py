"""A whole run as one zip, to be taken to another machine, and back in: checked like any file from elsewhere.

No name in a zip ever becomes a path: files are taken by names that are known here, and nothing else is unpacked.
"""

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import time
import zipfile
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from core.errors import CoreError, RunError
from core.model.predictor import read_predictor
from core.runs.drawings import load_drawings
from core.runs.folder import CONFIG, ENVIRONMENT, EVENTS, REPORTS, STATUS, STEPS, RunFolder, fresh_id, is_run_file, run_folder
from core.runs.info import read_info
from core.runs.notes import read_notes
from core.runs.reader import RunReader
from core.status import RunStatus
from core.storage.archives import ArchiveError, read_archive
from core.storage.atomic import replace_text
from core.storage.disk_use import check_disk
from core.storage.records import json_object
from core.training.saved_state import load_state

MANIFEST, FORMAT, VERSION = "digit-lab-run.json", "digit-lab-run", 1
MAX_FILES, MAX_UNPACKED_BYTES = 500, 512 * 2**20
_OWN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}(-\d{1,2})?", re.ASCII)
_MAX_WEIGHTS_BYTES = 64 * 2**20
_LIMITS = {STEPS: 256 * 2**20, REPORTS: 64 * 2**20, EVENTS: 64 * 2**20}
_NEEDED = (CONFIG, STATUS)
_PART, _PART_SECONDS = ".part-", 3600


@dataclass(frozen=True)
class Unpacked:
    """A run that came in.

    Attributes:
        run_id: under which it is kept now. notes: what a person should know, in words.
    """

    run_id: str
    notes: tuple[str, ...]


def pack_run(folder: Path) -> bytes:
    """A run's folder as a zip with a manifest of SHA-256 digests. Raises RunError."""
    packed, digests = io.BytesIO(), {}
    try:
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in _files_of(folder):
                content = (folder / name).read_bytes()
                digests[name] = hashlib.sha256(content).hexdigest()
                archive.writestr(name, content)
            about = {"format": FORMAT, "version": VERSION, "run_id": folder.name, "files": digests}
            archive.writestr(MANIFEST, json.dumps(about, indent=1))
    except OSError as error:
        raise RunError(f"Run {folder.name} cannot be packed: {error.strerror or error}.") from error
    return packed.getvalue()


def _files_of(folder: Path) -> list[str]:
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    return sorted(name for name in found if is_run_file(name))


def unpack_run(content: bytes, runs_root: Path, name: str = "a zip") -> Unpacked:
    """Take a zip of `pack_run` in as a run, under its own id where that is free.

    Args:
        name: what the file was called; it is kept as words only.

    Raises:
        RunError: says what is wrong with the file, or that there is no room; nothing is kept then.
    """
    check_disk(runs_root)
    run_id, files = _read(content)
    _remove_old_parts(runs_root)
    target = _free_folder(runs_root, run_id)
    # A name that no run can have: nobody sees the folder before it is whole.
    part = runs_root / f"{_PART}{secrets.token_hex(4)}"
    try:
        part.mkdir(parents=True)
        for entry, data in files.items():
            path = part / entry  # a known name: `_read` has looked
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        _check(part)
        _sign(part, target.name, name)
        os.rename(part, target)
    except OSError as error:
        raise RunError(f"The run cannot be kept in {runs_root}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    notes = (
        ()
        if target.name == run_id
        else (
            f"There is a run {run_id} already, or its name is none that a run here gets, so this one is called {target.name}.",
        )
    )
    return Unpacked(target.name, notes)


def _remove_old_parts(root: Path) -> None:
    """Delete what a killed server had not taken in yet."""
    with suppress(OSError):
        for path in root.glob(f"{_PART}*"):
            if time.time() - path.stat().st_mtime > _PART_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _sign(folder: Path, run_id: str, name: str) -> None:
    """Note where the run came from. A copy of one that was being trained is a stopped one: nobody trains the copy."""
    info = replace(read_info(folder), run_id=run_id, imported=name[:120] or "a zip")
    if info.status == RunStatus.INTERRUPTED:
        info = replace(info, status=RunStatus.STOPPED, reason="The copy was made while the run was being trained.")
    replace_text(folder / STATUS, json.dumps(asdict(info), indent=2) + "\n")


def _read(content: bytes) -> tuple[str, dict[str, bytes]]:
    """(id, content by known name), held against the manifest."""
    try:
        files = read_archive(content, _limit_of, max_entries=MAX_FILES, max_bytes=MAX_UNPACKED_BYTES)
    except ArchiveError as error:
        raise RunError(f"This zip is not taken in: {error}. A run's zip comes from Export, Whole run.") from error
    if MANIFEST not in files:
        raise RunError("This zip is not a run of Digit Lab: its list of files is missing. Export a run with Zip.")
    try:
        about = json_object(files.pop(MANIFEST))
        if about.get("format") != FORMAT:
            raise RunError("This zip is not a run of Digit Lab. Export a run with Zip.")
        if about.get("version") != VERSION:
            raise RunError(f"This run's zip has version {about.get('version')!r:.20}; this one reads {VERSION}.")
        digests, run_id = dict(about["files"]), str(about["run_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"The zip's list of files is damaged ({type(error).__name__}).") from error
    if missing := [name for name in (*_NEEDED, *digests) if name not in digests or name not in files]:
        raise RunError(f"The zip lacks {repr(missing[0])[1:-1]:.80}.")
    for name, data in files.items():
        if digests.get(name) != hashlib.sha256(data).hexdigest():
            raise RunError(f"{name} in the zip is damaged: its digest does not fit.")
    run_folder(Path("."), run_id)  # an id, not a path
    return run_id, files


def _limit_of(name: str) -> int | None:
    """The most bytes that a file of a run has."""
    if name == MANIFEST:
        return 2**20
    if not is_run_file(name):
        return None
    return _LIMITS.get(name, _MAX_WEIGHTS_BYTES if name.endswith(".pt") else 2**20)


def _free_folder(root: Path, run_id: str) -> Path:
    """Under its own id where that is free and of a time that has been; else under one of now. Another name would be the newest
    run of this server for good."""
    if _is_of_the_past(run_id) and not (folder := run_folder(root, run_id)).exists():
        return folder
    return root / fresh_id(root)


def _is_of_the_past(run_id: str) -> bool:
    try:
        made = time.mktime(time.strptime(run_id[:15], "%Y%m%d-%H%M%S"))
    except (ValueError, OverflowError):
        return False
    return _OWN_ID.fullmatch(run_id) is not None and made < time.time() + 86_400


def _check(folder: Path) -> None:
    """Read everything once as the pages will. Raises RunError that names what cannot be read."""
    try:
        snapshot = RunReader(folder).read()
        read_notes(folder)
        load_drawings(folder)
        kept = RunFolder(folder)
        environment = folder / ENVIRONMENT
        if environment.exists():
            json_object(environment.read_bytes())
        for path in (kept.best, kept.last, *kept.snapshots().values()):
            if path.exists():
                read_predictor(path)
        for step, path in kept.states().items():
            if load_state(path).step != step:
                raise RunError(f"{path.name} holds the state of another step.")
    except (CoreError, ValueError) as error:
        raise RunError(f"The zip holds a run that cannot be read: {str(error).replace(folder.name, 'in it')}") from error
    if snapshot.damage:
        raise RunError(f"The zip holds a damaged run: {' '.join(snapshot.damage)}")
