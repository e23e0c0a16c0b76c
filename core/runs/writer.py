"""The one writer of a run's folder: settings, status, rows of numbers and events, appended as they come."""

import base64
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from filelock import FileLock

from core.config.train_config import TrainConfig
from core.errors import RunError
from core.events import Event, RunStarted, StepsEnded, StoppedEarly, Tested, Validated
from core.runs.folder import CONFIG, ENVIRONMENT, EVENTS, LOCK, REPORTS, STATUS, STEPS, fresh_id
from core.runs.format import VERSION, converted, stored_dtype
from core.runs.info import RunInfo, read_status
from core.runs.lock import locked
from core.status import RunStatus
from core.storage.atomic import remove_parts, replace_text
from core.storage.records import json_object

_STATUS_SECONDS = 1.0


class RunWriter:
    """The one writer of a run's folder. Holds its lock until `close`. Made by `create` or `reopen`."""

    def __init__(self, folder: Path, info: RunInfo, lock: FileLock) -> None:
        self.run_id, self.folder, self.info, self._lock = folder.name, folder, info, lock
        self._streams = {
            name: open(folder / name, "ab", buffering=0)  # noqa: SIM115 - open as long as the run
            for name in (STEPS, REPORTS, EVENTS)
        }
        self._written_at = 0.0
        self.set_status(RunStatus.QUEUED)

    @classmethod
    def create(cls, root: Path, config: TrainConfig, preset: str | None = None) -> Self:
        """Make a folder for a new run. Raises RunError when it cannot be written."""
        created = time.time()
        try:
            folder = _new_folder(root, created)
            lock = FileLock(folder / LOCK, thread_local=False)
            lock.acquire(timeout=5)
            replace_text(folder / CONFIG, config.to_json())
            info = RunInfo(
                folder.name,
                RunStatus.QUEUED,
                config.model,
                config.dataset,
                preset,
                created_at=created,
                total_steps=config.total_steps(),
                format=VERSION,
            )
            return cls(folder, info, lock)
        except OSError as error:
            raise RunError(
                f"A run cannot be saved in {root}: {error.strerror or error}. Choose a writable folder with "
                "DIGIT_LAB_RUNS, or make room on the disk."
            ) from error

    @classmethod
    def reopen(cls, folder: Path) -> Self:
        """Take up the folder of a run that has ended. Raises RunError: it is trained elsewhere, or cannot be written."""
        lock = locked(folder, "is being trained already, by this server or another process.", "written")
        try:
            remove_parts(folder)
            info = read_status(folder)
            return cls(folder, replace(info, updated_at=time.time()), lock)
        except OSError as error:
            lock.release()
            raise RunError(f"Run {folder.name} cannot be written: {error.strerror or error}.") from error
        except RunError:
            lock.release()
            raise

    def recorded_steps(self) -> int:
        """Up to which step the metrics of this run reach, whole rows only."""
        return self.info.first_step + (self.folder / STEPS).stat().st_size // self._dtype(STEPS).itemsize

    def _dtype(self, name: str) -> np.dtype[np.void]:
        """A run that was begun in an older format goes on in it: one file holds one kind of row."""
        return stored_dtype(name, self.info.format)

    def take_back(self, step: int, validated_step: int, seconds: float, best_accuracy: float | None) -> None:
        """Drop what was recorded after `step`, and scores after `validated_step`: a run goes on from there.

        A crash in between leaves a folder from which this can be done again. Raises RunError.

        Args:
            seconds: training time up to `step`. best_accuracy: the best validation until then.
        """
        try:
            step_rows, report_rows = self._dtype(STEPS), self._dtype(REPORTS)
            os.truncate(self.folder / STEPS, (step - self.info.first_step) * step_rows.itemsize)
            images = int(np.fromfile(self.folder / STEPS, step_rows)["images"].sum())
            reports = np.fromfile(self.folder / REPORTS, report_rows)
            os.truncate(self.folder / REPORTS, int((reports["step"] <= step).sum()) * report_rows.itemsize)
            lines = (self.folder / EVENTS).read_bytes().splitlines(keepends=True)
            self._streams.pop(EVENTS).close()
            kept = b"".join(line for line in lines if _is_kept(line, validated_step))
            replace_text(self.folder / EVENTS, kept.decode())
            self._streams[EVENTS] = open(self.folder / EVENTS, "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise RunError(f"Run {self.run_id} cannot go on: {error.strerror or error}.") from error
        # Viewers read the folder anew when this number changes.
        self.update(
            resumes=self.info.resumes + 1,
            step=step,
            images=images,
            train_seconds=seconds,
            best_accuracy=best_accuracy,
            test_accuracy=None,
        )
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
            replace_text(self.folder / ENVIRONMENT, json.dumps(environment, indent=2) + "\n")
        except OSError as error:
            raise RunError(f"environment.json of run {self.run_id} cannot be written: {error.strerror or error}.") from error

    def append(self, event: Event) -> None:
        """Add what a training loop reported. Each call ends in the system's hands: a kill -9 loses nothing of it."""
        match event:
            case StepsEnded(steps, report):
                self._write(STEPS, converted(steps, self._dtype(STEPS)).tobytes())
                self._write(REPORTS, converted(report, self._dtype(REPORTS)).tobytes())
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
            raise RunError(
                f"{name} of run {self.run_id} cannot be written: {error.strerror or error}. What was written before is whole."
            ) from error
        if written != len(content):
            raise RunError(f"{name} of run {self.run_id} could be written only in part: the disk is full.")

    def _append_json(self, kind: str, values: dict[str, Any]) -> None:
        line = json.dumps({"kind": kind, **values}, default=lambda raw: base64.b64encode(raw).decode())
        self._write(EVENTS, line.encode() + b"\n")

    def _write_info(self) -> None:
        self.info = replace(self.info, updated_at=time.time())
        self._written_at = time.monotonic()
        try:
            replace_text(self.folder / STATUS, json.dumps(asdict(self.info), indent=2) + "\n")
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
