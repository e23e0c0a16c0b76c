"""A run read back from its folder, by tailing: what a page draws of it, whoever trains it."""

import base64
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from core.config.train_config import PRECISIONS, TrainConfig
from core.errors import ConfigError, NewerFormatError, RunError, UnknownSettingError
from core.events import (
    DEVICE,
    MAX_CORES,
    MAX_THREADS,
    REPORT_DTYPE,
    Evaluation,
    Event,
    Mistake,
    RunStarted,
    StoppedEarly,
    Tested,
    Validated,
)
from core.runs.folder import CONFIG, EVENTS, REPORTS, STEPS
from core.runs.format import converted, current_dtype, stored_dtype
from core.runs.history import ReportHistory, StepHistory
from core.runs.info import RunInfo, read_info
from core.storage.records import MAX_NUMBER, json_object, record

MAX_MISTAKES, MAX_NOTES, MAX_LINE_BYTES = 50, 50, 2**18
# The mistakes of all validations but the last are passed over before they are parsed: they are nine tenths of the file.
_VALIDATED = b'{"kind": "validated"'
_MISTAKES, _AFTER_MISTAKES = b'"mistakes": [', b'], "seconds"'


@dataclass(frozen=True, eq=False)
class RunView:
    """All that a page draws of a run, at one moment; frozen.

    Attributes:
        started: None until training began.
        validations: oldest first; the mistakes of the last one only.
        damage: what of the folder could not be read, in words; empty when all is whole.
        quiet: seconds for which nothing was recorded, as far as the reader saw.
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
    quiet: float = 0.0

    @property
    def step(self) -> int:
        """Finished updates."""
        return int(self.steps.column("step")[-1]) if len(self.steps) else self.info.first_step

    @property
    def epoch(self) -> int:
        """The epoch of the next update, from 1; the last one after the end."""
        return min(self.config.epochs, self.step // self.config.steps_per_epoch() + 1)

    @property
    def total_steps(self) -> int:
        """Updates when the run reaches its end."""
        return self.config.total_steps()

    def seconds_at(self, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Training time after each of these steps, in seconds; steps that are not recorded count as the nearest one."""
        seconds = self.steps.column("seconds")
        if not len(seconds):
            return np.zeros(len(steps))
        rows = steps - 1 - self.info.first_step
        return seconds[np.clip(rows, 0, len(seconds) - 1)].astype(np.float64)

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


class RunReader:
    """Follows one run's folder: each `read` takes only what was appended since the last."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._config: TrainConfig | None = None
        self._resumes = self._first_step = 0
        self._forget()

    def _forget(self) -> None:
        """Read the folder from its beginning the next time."""
        self._steps, self._reports = StepHistory(), ReportHistory()
        self._started: RunStarted | None = None
        self._validations: list[Validated] = []
        self._tested: Tested | None = None
        self._stopped_early: StoppedEarly | None = None
        self._offsets = {STEPS: 0, REPORTS: 0, EVENTS: 0}
        self._damage: dict[str, str] = {}
        self._news = monotonic()

    def read(self) -> RunView:
        """The run as it is now. Raises RunError when there is no such run or its settings cannot be read."""
        info = read_info(self.folder)
        self._first_step = info.first_step
        if info.resumes != self._resumes:  # what came after a saved state was taken back
            self._resumes = info.resumes
            self._forget()
        if self._config is None:
            self._config = read_config(self.folder)
        before = sum(self._offsets.values())
        self._steps.append(self._read_rows(STEPS, info.format))
        self._reports.append(self._read_rows(REPORTS, info.format))
        for event in self._read_events():
            match event:
                case RunStarted():
                    self._started = event
                case Validated():
                    if self._validations:  # twelve pictures each: only those of the last one are ever shown
                        self._validations[-1] = _without_mistakes(self._validations[-1])
                    self._validations.append(event)
                case Tested():
                    self._tested = event
                case StoppedEarly():
                    self._stopped_early = event
                case _:
                    pass
        if sum(self._offsets.values()) != before:
            self._news = monotonic()
        return RunView(
            info,
            self._config,
            self._started,
            self._steps.frozen(),
            self._reports.frozen(),
            tuple(self._validations),
            self._tested,
            self._stopped_early,
            tuple(self._damage.values()),
            monotonic() - self._news,
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

    def _read_rows(self, name: str, version: int) -> npt.NDArray[np.void]:
        """Whole rows only, as today's: the last one of a killed process may be torn."""
        content, dtype = self._read_new(name), stored_dtype(name, version)
        whole = len(content) // dtype.itemsize * dtype.itemsize
        self._offsets[name] += whole
        rows = converted(np.frombuffer(content[:whole], dtype), current_dtype(name))
        if name == STEPS and len(rows):
            known = self._first_step + len(self._steps)
            expected = known + 1 + np.arange(len(rows))
            wrong = np.flatnonzero((rows["step"] != expected) | _impossible_steps(rows))
            if len(wrong):
                self._damage[name] = f"{name} is damaged after step {known + int(wrong[0]):,}."
                rows = rows[: wrong[0]]
        elif len(rows) and len(wrong := np.flatnonzero(_impossible_reports(rows))):
            self._damage[name] = f"{name} is damaged after report {len(self._reports) + int(wrong[0]):,}."
            rows = rows[: wrong[0]]
        return rows

    def _read_events(self) -> Iterator[Event]:
        content = self._read_new(EVENTS)
        whole = content.rfind(b"\n") + 1
        self._offsets[EVENTS] += whole
        lines = content[:whole].splitlines()
        last = max((number for number, line in enumerate(lines) if line.startswith(_VALIDATED)), default=0)
        for number, line in enumerate(lines):
            try:
                if len(line) > MAX_LINE_BYTES:
                    raise ValueError("a line longer than any event")
                yield _event_of(json_object(line if number >= last else _cut(line)))
            except (ValueError, KeyError, TypeError):
                self._damage[EVENTS] = "events.jsonl holds lines that cannot be read; they are left out."


def _impossible_steps(rows: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Rows that no training writes: losses and norms may be anything, times, rates and counts may not."""
    return (
        ~(np.isfinite(rows["seconds"]) & (rows["seconds"] >= 0) & np.isfinite(rows["learning_rate"]))
        | (rows["learning_rate"] < 0)
        | (rows["images"] == 0)
        | (rows["correct"] > rows["images"])
    )


_ALWAYS_KNOWN = ("seconds", "duration", "data_seconds")


def _impossible_reports(rows: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    wrong = np.zeros(len(rows), bool)
    for name in REPORT_DTYPE.names or ():
        if REPORT_DTYPE[name].kind == "f":
            # Measured times are NaN in runs of an older version, and where a system does not tell them.
            unknown = np.isnan(rows[name]) if name not in _ALWAYS_KNOWN else False
            wrong |= ~(unknown | (np.isfinite(rows[name]) & (rows[name] >= 0)))
        else:
            wrong |= rows[name] > MAX_NUMBER
    return wrong


def _cut(line: bytes) -> bytes:
    """A validation's line without its mistakes; any other line as it is."""
    first, last = line.find(_MISTAKES), line.rfind(_AFTER_MISTAKES)
    if not line.startswith(_VALIDATED) or not 0 <= first < last:
        return line
    return line[: first + len(_MISTAKES)] + line[last:]


def _without_mistakes(validated: Validated) -> Validated:
    return replace(validated, evaluation=replace(validated.evaluation, mistakes=()))


def read_config(folder: Path) -> TrainConfig:
    """The settings of a run. Raises RunError."""
    try:
        return TrainConfig.from_json((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RunError(f"config.json of run {folder.name} cannot be read: {words}.") from error
    except UnknownSettingError as error:
        names = ", ".join(error.problems)
        raise NewerFormatError(
            f"Run {folder.name} was trained with settings that this Digit Lab does not have ({names}): most likely a newer one "
            "wrote it. Nothing is wrong with it: update Digit Lab to see it."
        ) from error
    except ConfigError as error:
        raise RunError(f"config.json of run {folder.name} holds unusable settings: {error}") from error


def _event_of(values: dict[str, Any]) -> Event:
    kind = values.pop("kind")
    if kind == "started":
        started = record(RunStarted, values)
        # The run's script is written with these.
        if not DEVICE.fullmatch(started.device) or started.precision not in PRECISIONS[1:]:
            raise ValueError("a device or precision that does not exist")
        if started.fastest_precision not in ("", *PRECISIONS[1:]) or not 0 <= started.cores <= MAX_CORES:
            raise ValueError("a precision or a number of cores that does not exist")
        if not 1 <= started.threads <= MAX_THREADS or len(started.notes) > MAX_NOTES:
            raise ValueError("more threads or notes than a run has")
        return started
    if kind == "stopped_early":
        return record(StoppedEarly, values)
    values["evaluation"] = _evaluation_of(values["evaluation"])
    return record(Validated, values) if kind == "validated" else record(Tested, values)


def _evaluation_of(values: dict[str, Any]) -> Evaluation:
    if len(values["mistakes"]) > MAX_MISTAKES:
        raise ValueError("more mistakes than are ever kept")
    mistakes = tuple(record(Mistake, {**value, "image": base64.b64decode(value["image"])}) for value in values["mistakes"])
    found = record(Evaluation, {**values, "mistakes": mistakes})
    whole = len(found.confusion) == 10 and all(len(row) == 10 for row in found.confusion)
    whole = whole and len(found.unanswered_by_label) == 10 and min(found.unanswered_by_label) >= 0
    if not whole or any(
        len(mistake.image) != 784 or {mistake.label, mistake.predicted} - set(range(10)) for mistake in mistakes
    ):
        raise ValueError("an evaluation of something else than ten digits")
    if not 0 <= found.accuracy <= 1 or not 0 <= found.seconds < math.inf or found.unanswered < 0:
        raise ValueError("an accuracy or a time that cannot be")
    return found
