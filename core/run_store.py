"""A run's folder: the truth about a run, whoever trained it. Written by appending, read by tailing.

runs/<id>/config.json        settings (TrainConfig.to_json)
          environment.json   versions and machine
          status.json        state, reason, progress, result; replaced as a whole about once a second
          steps.bin          rows of events.STEP_DTYPE, appended about ten times a second
          reports.bin        rows of events.REPORT_DTYPE, likewise
          events.jsonl       started, validated, tested, stopped early: one JSON object a line
          best.pt, last.pt   weights (core.checkpoints)
          lock               held by the process that trains, so that a killed run is not taken for a running one
"""

import base64
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from core.config import TrainConfig
from core.errors import ConfigError, RunError
from core.events import (
    REPORT_DTYPE,
    STEP_DTYPE,
    Evaluation,
    Event,
    Mistake,
    RunStarted,
    RunStatus,
    StepsEnded,
    StoppedEarly,
    Tested,
    Validated,
)
from core.metrics import ReportHistory, StepHistory

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_STATUS_SECONDS = 1.0
_REPLACE_TRIES = 25


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
            _replace_text(self.folder / "config.json", config.to_json())
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
        _replace_text(self.folder / "environment.json", json.dumps(environment, indent=2) + "\n")

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
            _replace_text(self.folder / "status.json", json.dumps(asdict(self.info), indent=2) + "\n")
        except OSError as error:
            raise RunError(f"status.json of run {self.run_id} cannot be written: {error.strerror or error}.") from error


_EVENT_NAMES: dict[type, str] = {
    RunStarted: "started",
    Validated: "validated",
    Tested: "tested",
    StoppedEarly: "stopped_early",
}


@dataclass(frozen=True, eq=False)
class RunSnapshot:
    """All that a page draws of a run, at one moment; frozen.

    Attributes:
        started: None until training began.
        validations: oldest first.
        damage: what of the folder could not be read, in words; empty when all is whole.
    """

    info: RunInfo
    config: TrainConfig
    started: RunStarted | None
    steps: StepHistory
    reports: ReportHistory
    validations: tuple[Validated, ...]
    tested: Tested | None
    stopped_early: StoppedEarly | None
    damage: tuple[str, ...]

    @property
    def step(self) -> int:
        """Finished updates."""
        return int(self.steps.column("step")[-1]) if len(self.steps) else 0

    @property
    def total_steps(self) -> int:
        """Updates when the run reaches its end."""
        return self.config.total_steps()

    def images_per_second(self, window: float = 5.0) -> float | None:
        """Training digits per second of training time over the last `window` seconds; None before there is a figure."""
        seconds = self.steps.column("seconds")
        if len(seconds) < 2:
            return None
        first = int(np.searchsorted(seconds, seconds[-1] - window))
        first = min(first, len(seconds) - 2)
        elapsed = seconds[-1] - seconds[first]
        images = int(self.steps.column("images")[first + 1 :].astype(np.int64).sum())
        return images / elapsed if elapsed > 0 else None

    def data_share(self, window: int = 50) -> float | None:
        """Share of the training time spent waiting for batches over the last `window` reports, in [0, 1]."""
        duration = float(self.reports.column("duration")[-window:].sum()) if len(self.reports) else 0.0
        return float(self.reports.column("data_seconds")[-window:].sum()) / duration if duration > 0 else None


class RunReader:
    """Follows one run's folder: each `read` takes only what was appended since the last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._config: TrainConfig | None = None
        self._steps, self._reports = StepHistory(), ReportHistory()
        self._started: RunStarted | None = None
        self._validations: list[Validated] = []
        self._tested: Tested | None = None
        self._stopped_early: StoppedEarly | None = None
        self._offsets = {"steps.bin": 0, "reports.bin": 0, "events.jsonl": 0}
        self._damage: dict[str, str] = {}

    def read(self) -> RunSnapshot:
        """The run as it is now. Raises RunError when there is no such run or its settings cannot be read."""
        info = read_info(self.folder)
        if self._config is None:
            self._config = _read_config(self.folder)
        self._steps.append(self._read_rows("steps.bin", STEP_DTYPE))
        self._reports.append(self._read_rows("reports.bin", REPORT_DTYPE))
        for event in self._read_events():
            match event:
                case RunStarted():
                    self._started = event
                case Validated():
                    self._validations.append(event)
                case Tested():
                    self._tested = event
                case StoppedEarly():
                    self._stopped_early = event
                case _:
                    pass
        return RunSnapshot(
            info,
            self._config,
            self._started,
            self._steps.snapshot(),
            self._reports.snapshot(),
            tuple(self._validations),
            self._tested,
            self._stopped_early,
            tuple(self._damage.values()),
        )

    def _read_new(self, name: str) -> bytes:
        path = self.folder / name
        try:
            with path.open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                if size < self._offsets[name]:
                    self._damage[name] = f"{name} became shorter while it was read: the rest of it is missing."
                    return b""
                stream.seek(self._offsets[name])
                return stream.read()
        except OSError as error:
            self._damage[name] = f"{name} cannot be read: {error.strerror or error}."
            return b""

    def _read_rows(self, name: str, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """Whole rows only: the last one of a killed process may be torn."""
        content = self._read_new(name)
        whole = len(content) // dtype.itemsize * dtype.itemsize
        self._offsets[name] += whole
        rows = np.frombuffer(content[:whole], dtype)
        if name == "steps.bin" and len(rows):
            expected = len(self._steps) + 1 + np.arange(len(rows))
            wrong = np.flatnonzero(rows["step"] != expected)
            if len(wrong):
                self._damage[name] = f"{name} is damaged after step {len(self._steps) + int(wrong[0]):,}."
                rows = rows[: wrong[0]]
        return rows

    def _read_events(self) -> Iterator[Event]:
        content = self._read_new("events.jsonl")
        whole = content.rfind(b"\n") + 1
        self._offsets["events.jsonl"] += whole
        for line in content[:whole].splitlines():
            try:
                yield _event_of(json.loads(line))
            except (ValueError, KeyError, TypeError):
                self._damage["events.jsonl"] = "events.jsonl holds lines that cannot be read; they are left out."


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


def list_runs(root: Path, limit: int | None = None) -> list[RunInfo]:
    """Runs, newest first; folders that hold none are passed over."""
    try:
        names = sorted((entry.name for entry in os.scandir(root) if entry.is_dir() and _ID.fullmatch(entry.name)), reverse=True)
    except OSError:
        return []
    found: list[RunInfo] = []
    for name in names:
        if limit is not None and len(found) >= limit:
            break
        try:
            found.append(read_info(root / name))
        except RunError:
            continue
    return found


def _read_config(folder: Path) -> TrainConfig:
    try:
        return TrainConfig.from_json((folder / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"config.json of run {folder.name} cannot be read: {error.strerror or error}.") from error
    except ConfigError as error:
        raise RunError(f"config.json of run {folder.name} holds unusable settings: {error}") from error


def _event_of(values: dict[str, Any]) -> Event:
    kind = values.pop("kind")
    if kind == "started":
        return RunStarted(**{**values, "notes": tuple(values["notes"])})
    if kind == "stopped_early":
        return StoppedEarly(**values)
    values["evaluation"] = _evaluation_of(values["evaluation"])
    return Validated(**values) if kind == "validated" else Tested(**values)


def _evaluation_of(values: dict[str, Any]) -> Evaluation:
    mistakes = tuple(Mistake(**{**one, "image": base64.b64decode(one["image"])}) for one in values["mistakes"])
    confusion = tuple(tuple(row) for row in values["confusion"])
    return Evaluation(**{**values, "mistakes": mistakes, "confusion": confusion})


def _replace_text(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    for _ in range(_REPLACE_TRIES - 1):
        try:
            os.replace(part, path)
            return
        except PermissionError:  # on Windows, while a viewer has the file open
            time.sleep(0.02)
    os.replace(part, path)
