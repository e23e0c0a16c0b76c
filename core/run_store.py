"""A run's folder: the truth about a run, whoever trained it. Written by appending; `run_reader` reads it by tailing.

runs/<id>/config.json        settings (TrainConfig.to_json)
          environment.json   versions and machine
          status.json        state, reason, progress, result; replaced as a whole about once a second
          steps.bin          rows of events.STEP_DTYPE, appended about ten times a second
          reports.bin        rows of events.REPORT_DTYPE, likewise
          events.jsonl       started, validated, tested, stopped early: one JSON object a line
          best.pt, last.pt   weights (core.checkpoints)
          snapshots/         weights along the way (core.snapshots)
          states/            whole training states to go on from (core.saved_state)
          drawings.npz       what a lesson taught besides its data set (core.lesson)
          lock               held by the process that trains, so that a killed run is not taken for a running one
"""

import base64
import json
import math
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from filelock import FileLock, Timeout

from core.config import TrainConfig
from core.errors import RunError
from core.events import (
    REPORT_DTYPE,
    STEP_DTYPE,
    Event,
    RunStarted,
    RunStatus,
    StepsEnded,
    StoppedEarly,
    Tested,
    Validated,
)
from core.files import remove_parts, replace_text
from core.records import json_object, record

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_STATE = re.compile(r"step-(\d{8})(-kept)?\.pt", re.ASCII)
_STATUS_SECONDS = 1.0
_LOCK_SECONDS = 1.0  # somebody may just be looking whether it is held


def runs_root() -> Path:
    """The runs folder: DIGIT_LAB_RUNS, else `runs` in the working directory."""
    return Path(os.environ.get("DIGIT_LAB_RUNS") or "runs")


def run_folder(root: Path, run_id: str) -> Path:
    """The folder of a run. Raises RunError for an id that is none, so no text from a browser becomes another path."""
    if not _ID.fullmatch(run_id):
        raise RunError(
            "This is not a run's id, which has letters, digits, - and _ only."
        )  # not repeated: a link may say anything
    return root / run_id


@dataclass(frozen=True)
class RunInfo:
    """What status.json says.

    Attributes:
        status: as last written; readers of an abandoned run get INTERRUPTED.
        reason: one or two sentences for a person, "" when all is well. details: a traceback, or "". failure: the kind of
            error, such as "DataError".
        created_at, updated_at: seconds since 1970.
        step, total_steps: progress when it was written.
        test_accuracy, best_accuracy: in [0, 1]; None until known.
        train_seconds: time in training steps, validations and pauses left out. images: digits trained on in it.
        parent, parent_step: the run and its step whose weights this one started from; None when it started anew.
        first_step: steps before its first own one: above 0 for a fork, which counts on where its parent stood.
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


class RunWriter:
    """The one writer of a run's folder. Holds its lock until `close`. Made by `create` or `reopen`."""

    def __init__(self, folder: Path, info: RunInfo, lock: FileLock) -> None:
        self.run_id, self.folder, self.info, self._lock = folder.name, folder, info, lock
        self._streams = {
            name: open(folder / name, "ab", buffering=0)  # noqa: SIM115 - open as long as the run
            for name in ("steps.bin", "reports.bin", "events.jsonl")
        }
        self._written_at = 0.0
        self.set_status(RunStatus.QUEUED)

    @classmethod
    def create(cls, root: Path, config: TrainConfig, preset: str | None = None) -> Self:
        """Make a folder for a new run. Raises RunError when it cannot be written."""
        created = time.time()
        try:
            folder = _new_folder(root, created)
            lock = FileLock(folder / "lock", thread_local=False)
            lock.acquire(timeout=5)
            replace_text(folder / "config.json", config.to_json())
            info = RunInfo(folder.name, RunStatus.QUEUED, config.model, config.dataset, preset, created_at=created,
                           total_steps=config.total_steps())  # fmt: skip
            return cls(folder, info, lock)
        except OSError as error:
            raise RunError(f"A run cannot be saved in {root}: {error.strerror or error}. Choose a writable folder with "
                           "DIGIT_LAB_RUNS, or make room on the disk.") from error  # fmt: skip

    @classmethod
    def reopen(cls, folder: Path) -> Self:
        """Take up the folder of a run that has ended. Raises RunError: it is trained elsewhere, or cannot be written."""
        lock = _locked(folder, "is being trained already, by this server or another process.", "written")
        try:
            remove_parts(folder)
            info = _read_status(folder)
            return cls(folder, replace(info, updated_at=time.time()), lock)
        except OSError as error:
            lock.release()
            raise RunError(f"Run {folder.name} cannot be written: {error.strerror or error}.") from error
        except RunError:
            lock.release()
            raise

    def recorded_steps(self) -> int:
        """Up to which step the metrics of this run reach, whole rows only."""
        return self.info.first_step + (self.folder / "steps.bin").stat().st_size // STEP_DTYPE.itemsize

    def take_back(self, step: int, validated_step: int, seconds: float, best_accuracy: float | None) -> None:
        """Drop what was recorded after `step`, and scores after `validated_step`: a run goes on from there.

        A crash in between leaves a folder from which this can be done again. Raises RunError.

        Args:
            seconds: training time up to `step`. best_accuracy: the best validation until then.
        """
        try:
            os.truncate(self.folder / "steps.bin", (step - self.info.first_step) * STEP_DTYPE.itemsize)
            images = int(np.fromfile(self.folder / "steps.bin", STEP_DTYPE)["images"].sum())
            reports = np.fromfile(self.folder / "reports.bin", REPORT_DTYPE)
            os.truncate(self.folder / "reports.bin", int((reports["step"] <= step).sum()) * REPORT_DTYPE.itemsize)
            lines = (self.folder / "events.jsonl").read_bytes().splitlines(keepends=True)
            self._streams.pop("events.jsonl").close()
            kept = b"".join(line for line in lines if _is_kept(line, validated_step))
            replace_text(self.folder / "events.jsonl", kept.decode())
            self._streams["events.jsonl"] = open(self.folder / "events.jsonl", "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise RunError(f"Run {self.run_id} cannot go on: {error.strerror or error}.") from error
        # Viewers read the folder anew when this number changes.
        self.update(resumes=self.info.resumes + 1, step=step, images=images, train_seconds=seconds,
                    best_accuracy=best_accuracy, test_accuracy=None)  # fmt: skip
        self._write_info()

    def set_status(self, status: RunStatus, reason: str = "", details: str = "", failure: str = "") -> None:
        """Write a new state at once."""
        self.update(status=status, reason=reason, details=details, failure=failure)
        self._write_info()

    def update(self, **changes: Any) -> None:
        """Change what status.json holds; it is written at the next state, or within a second of training."""
        self.info = replace(self.info, **changes)

    def write_environment(self, environment: dict[str, Any]) -> None:
        """Record the machine and the versions."""
        try:
            replace_text(self.folder / "environment.json", json.dumps(environment, indent=2) + "\n")
        except OSError as error:
            raise RunError(f"environment.json of run {self.run_id} cannot be written: {error.strerror or error}.") from error

    def append(self, event: Event) -> None:
        """Add what a training loop reported. Each call ends in the system's hands: a kill -9 loses nothing of it."""
        match event:
            case StepsEnded(steps, report):
                self._write("steps.bin", steps.tobytes())
                self._write("reports.bin", report.tobytes())
                images = self.info.images + int(steps["images"].sum())
                self.update(step=int(steps["step"][-1]), train_seconds=float(report["seconds"][0]), images=images)
                if time.monotonic() - self._written_at >= _STATUS_SECONDS:
                    with suppress(RunError):  # progress only; a disk that takes nothing is told by the steps themselves
                        self._write_info()
            case RunStarted() | Validated() | Tested() | StoppedEarly():
                self._append_json(_EVENT_NAMES[type(event)], asdict(event))
            case _:
                pass

    def close(self) -> None:
        """Close the files and let go of the run."""
        for stream in self._streams.values():
            stream.close()
        self._lock.release()

    def _write(self, name: str, content: bytes) -> None:
        try:
            written = self._streams[name].write(content)
        except OSError as error:
            raise RunError(f"{name} of run {self.run_id} cannot be written: {error.strerror or error}. What was written "
                           "before is whole.") from error  # fmt: skip
        if written != len(content):
            raise RunError(f"{name} of run {self.run_id} could be written only in part: the disk is full.")

    def _append_json(self, kind: str, values: dict[str, Any]) -> None:
        line = json.dumps({"kind": kind, **values}, default=lambda raw: base64.b64encode(raw).decode())
        self._write("events.jsonl", line.encode() + b"\n")

    def _write_info(self) -> None:
        self.info = replace(self.info, updated_at=time.time())
        self._written_at = time.monotonic()
        try:
            replace_text(self.folder / "status.json", json.dumps(asdict(self.info), indent=2) + "\n")
        except OSError as error:
            raise RunError(f"status.json of run {self.run_id} cannot be written: {error.strerror or error}.") from error


def _new_folder(root: Path, created: float) -> Path:
    """A folder that nobody had."""
    root.mkdir(parents=True, exist_ok=True)
    while True:
        folder = root / fresh_id(root, created)
        with suppress(FileExistsError):  # another process took the same digits in the same moment
            folder.mkdir()
            return folder


def fresh_id(root: Path, created: float | None = None) -> str:
    """An id that no run has. It says when, in local time, to 1/256 of a second, so that ids are in the order of time."""
    created = time.time() if created is None else created
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(created)) + f"-{int(created % 1 * 256):02x}"
    while (root / (name := f"{stamp}{secrets.token_hex(1)}")).exists():
        pass
    return name


def _is_kept(line: bytes, validated_step: int) -> bool:
    """Whether an event still holds for a run that goes on after a validation at `validated_step`; damaged lines do not."""
    try:
        event = json_object(line)
        return event["kind"] == "started" or (event["kind"] == "validated" and event["step"] <= validated_step)
    except (ValueError, KeyError, TypeError):
        return False


_EVENT_NAMES: dict[type, str] = {
    RunStarted: "started",
    Validated: "validated",
    Tested: "tested",
    StoppedEarly: "stopped_early",
}


def read_info(folder: Path) -> RunInfo:
    """What status.json says, corrected: an active run that no process holds is INTERRUPTED. Raises RunError."""
    info = _read_status(folder)
    if not info.status.is_active or is_held(folder):
        return info
    info = _read_status(folder)  # it may have ended between the two looks
    if not info.status.is_active:
        return info
    return replace(info, status=RunStatus.INTERRUPTED,
                   reason="Its process ended without a word: it was killed, or the machine went down.")  # fmt: skip


def can_go_on(folder: Path, info: RunInfo) -> bool:
    """True for a run that was not trained to its end and can be: it keeps a state, or waited and never began."""
    if info.status.is_active or info.status == RunStatus.FINISHED:
        return False
    return bool(saved_states(folder)) or not (info.parent or info.imported or info.step or (folder / "best.pt").exists())


def _read_status(folder: Path) -> RunInfo:
    try:
        values = json_object((folder / "status.json").read_bytes())
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


def is_held(folder: Path) -> bool:
    """True while some process trains this run.

    On POSIX looking takes a shared lock, so that any number of people may look at a time, and a folder that cannot be
    written can be looked at, too.
    """
    if fcntl is None:  # Windows
        lock = FileLock(folder / "lock", thread_local=False)
        try:
            lock.acquire(timeout=0.05)
        except Timeout:
            return True
        except OSError:
            return False
        lock.release()
        return False
    try:
        with open(folder / "lock", "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a run's lock, so that nobody begins to train it meanwhile. Raises RunError: somebody trains it."""
    lock = _locked(folder, "is being trained or waits in the queue. Stop it first.", "changed")
    try:
        yield
    finally:
        lock.release()


def _locked(folder: Path, when_held: str, what: str) -> FileLock:
    """A run's lock, taken. Raises RunError: "Run X" with `when_held`, or that it cannot be `what`."""
    lock = FileLock(folder / "lock", thread_local=False)
    try:
        lock.acquire(timeout=_LOCK_SECONDS)
    except Timeout:
        raise RunError(f"Run {folder.name} {when_held}") from None
    except OSError as error:
        raise RunError(f"Run {folder.name} cannot be {what}: {error.strerror or error}.") from error
    return lock


def run_names(root: Path) -> list[str]:
    """Names of all folders that a run could have, in no order."""
    try:
        with os.scandir(root) as entries:
            return [entry.name for entry in entries if _ID.fullmatch(entry.name) and entry.is_dir()]
    except OSError:
        return []


def state_path(folder: Path, step: int, *, kept: bool = False) -> Path:
    """Where the training state of a step lies (core.saved_state); `kept`: a person asked for it, so it is never thinned out."""
    return folder / "states" / f"step-{step:08d}{'-kept' if kept else ''}.pt"


def saved_states(folder: Path) -> dict[int, Path]:
    """Step -> file of the training states that a run can go on from, by step; looks at names only. Of one step that was saved
    by itself and by hand the automatic file is given, so that it can be thinned out."""
    try:
        found = {path.name: int(match[1]) for path in (folder / "states").iterdir() if (match := _STATE.fullmatch(path.name))}
    except OSError:
        return {}
    # In this order the shorter, automatic name comes last and stays.
    return dict(sorted((step, folder / "states" / name) for name, step in sorted(found.items(), key=lambda one: -len(one[0]))))


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
