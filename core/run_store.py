"""A run's folder: the truth about a run, whoever trained it. Written by appending; `run_reader` reads it by tailing.

runs/<id>/config.json        settings (TrainConfig.to_json)
          environment.json   versions and machine
          status.json        state, reason, progress, result; replaced as a whole about once a second
          steps.bin          rows of events.STEP_DTYPE, appended about ten times a second
          reports.bin        rows of events.REPORT_DTYPE, likewise
          events.jsonl       started, validated, tested, stopped early: one JSON object a line
          best.pt, last.pt   weights (core.checkpoints)
          snapshots/         weights along the way (core.snapshots)
          drawings.npz       what a lesson taught besides its data set (core.lesson)
          lock               held by the process that trains, so that a killed run is not taken for a running one
"""

import base64
import json
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from core.config import TrainConfig
from core.errors import RunError
from core.events import Event, RunStarted, RunStatus, StepsEnded, StoppedEarly, Tested, Validated
from core.files import replace_text

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_STATUS_SECONDS = 1.0


def runs_root() -> Path:
    """The runs folder: DIGIT_LAB_RUNS, else `runs` in the working directory."""
    return Path(os.environ.get("DIGIT_LAB_RUNS") or "runs")


def run_folder(root: Path, run_id: str) -> Path:
    """The folder of a run. Raises RunError for an id that is none, so no text from a browser becomes another path."""
    if not _ID.fullmatch(run_id):
        raise RunError(f"{run_id!r:.80} is not a run's id: letters, digits, - and _ only.")
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
        train_seconds: time in training steps, validations and pauses left out.
        parent, parent_step: the run and its step whose weights this one started from; None when it started anew.
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
    parent: str | None = None
    parent_step: int | None = None


class RunWriter:
    """The one writer of a run's folder. Holds its lock until `close`."""

    def __init__(self, root: Path, config: TrainConfig, preset: str | None = None) -> None:
        """Make the folder. Raises RunError when it cannot be written."""
        created = time.time()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(created))
        self.run_id = f"{stamp}-{secrets.token_hex(2)}"
        self.folder = root / self.run_id
        try:
            self.folder.mkdir(parents=True)
            self._lock = FileLock(self.folder / "lock", thread_local=False)
            self._lock.acquire(timeout=5)
            replace_text(self.folder / "config.json", config.to_json())
            self._streams = {
                name: open(self.folder / name, "ab", buffering=0)  # noqa: SIM115 - open as long as the run
                for name in ("steps.bin", "reports.bin", "events.jsonl")
            }
        except OSError as error:
            raise RunError(f"A run cannot be saved in {root}: {error.strerror or error}. Choose a writable folder with "
                           "DIGIT_LAB_RUNS, or make room on the disk.") from error  # fmt: skip
        self.info = RunInfo(self.run_id, RunStatus.QUEUED, config.model, config.dataset, preset, created_at=created,
                            total_steps=config.total_steps())  # fmt: skip
        self._written_at = 0.0
        self.set_status(RunStatus.QUEUED)

    def set_status(self, status: RunStatus, reason: str = "", details: str = "", failure: str = "") -> None:
        """Write a new state at once."""
        self.update(status=status, reason=reason, details=details, failure=failure)
        self._write_info()

    def update(self, **changes: Any) -> None:
        """Change what status.json holds; it is written at the next state, or within a second of training."""
        self.info = replace(self.info, **changes)

    def write_environment(self, environment: dict[str, Any]) -> None:
        """Record the machine and the versions."""
        replace_text(self.folder / "environment.json", json.dumps(environment, indent=2) + "\n")

    def append(self, event: Event) -> None:
        """Add what a training loop reported. Each call ends in the system's hands: a kill -9 loses nothing of it."""
        match event:
            case StepsEnded(steps, report):
                self._write("steps.bin", steps.tobytes())
                self._write("reports.bin", report.tobytes())
                self.update(step=int(steps["step"][-1]), train_seconds=float(report["seconds"][0]))
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


def _read_status(folder: Path) -> RunInfo:
    try:
        values = json.loads((folder / "status.json").read_text(encoding="utf-8"))
        return RunInfo(**{**values, "run_id": folder.name, "status": RunStatus(values["status"])})
    except FileNotFoundError:
        raise RunError(f"There is no run {folder.name}. It may have been deleted.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"status.json of run {folder.name} cannot be read ({error}).") from error


def is_held(folder: Path) -> bool:
    """True while some process trains this run."""
    lock = FileLock(folder / "lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


def _run_names(root: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(root) if _ID.fullmatch(entry.name) and entry.is_dir()]
    except OSError:
        return []


def newest_run_id(root: Path) -> str | None:
    """The id of the run that was made last, by its name alone; None when there is none."""
    return max(_run_names(root), default=None)


def list_runs(root: Path, limit: int | None = None) -> list[RunInfo]:
    """Runs, newest first; folders that hold none are passed over."""
    names = sorted(_run_names(root), reverse=True)
    found: list[RunInfo] = []
    for name in names:
        if limit is not None and len(found) >= limit:
            break
        try:
            found.append(read_info(root / name))
        except RunError:
            continue
    return found
