"""The thread that trains: a queue of runs, start, pause, resume, stop.

What a run has reached is in its folder; this file holds only what a folder cannot: who waits, who is asked to pause or
stop. A process that serves pages has one (`process.get_trainer`).
"""

import gc
import shutil
import threading
import traceback
from collections import OrderedDict
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from core.config.presets import preset_of
from core.config.train_config import TrainConfig
from core.errors import CoreError, Failure, RunError, failure_of
from core.events import RunStarted
from core.execution.origin import Origin
from core.execution.readers import Readers
from core.runs.folder import run_folder
from core.runs.info import can_go_on, read_info
from core.runs.reader import read_config
from core.runs.writer import RunWriter
from core.status import RunStatus
from core.storage.disk_use import check_disk

if TYPE_CHECKING:
    from core.execution.recorder import LiveWeights, RecordedRun

MAX_QUEUE = 20
_SHUTDOWN_SECONDS = 8.0


@dataclass(eq=False)
class _Run:
    """A run that this process trains or will train."""

    writer: RunWriter
    config: TrainConfig
    data_root: Path
    pause: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    status: RunStatus = RunStatus.QUEUED
    weights: "LiveWeights | None" = None
    weights_wanted: threading.Event = field(default_factory=threading.Event)
    save_wanted: threading.Event = field(default_factory=threading.Event)
    goes_on: bool = False


@dataclass(frozen=True)
class _Ending:
    status: RunStatus
    reason: str = ""
    details: str = ""
    failure: str = ""


class Trainer:
    """Trains one run at a time in a thread of its own; the others wait in line.

    Args:
        beside_pages: the process also serves pages, so a core is left to them.

    Attributes:
        readers: the runs as their folders show them, and endings that no disk took.
    """

    def __init__(self, *, beside_pages: bool = True) -> None:
        self.readers = Readers()
        self._beside_pages = beside_pages
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._runs: OrderedDict[str, _Run] = OrderedDict()  # active ones, in the order of their turn
        self._thread: threading.Thread | None = None
        self._closing = False

    def start(
        self,
        config: TrainConfig,
        data_root: Path,
        runs_root: Path,
        *,
        origin: Origin | None = None,
    ) -> str:
        """Put a run in line and return its id; it begins at once when nothing runs.

        Args:
            origin: what to start from, when the run is not to start anew.

        Raises:
            ConfigError: unusable settings. RunError: the queue is full, the folder cannot be written, or the origin does not
            fit. CheckpointError, DeviceError: of an origin.
        """
        config.validate()
        check_disk(runs_root, config.checkpoints_kept)
        with self._wake:
            self._check_room()
            writer = RunWriter.create(runs_root, config, preset_of(config))
            if origin is not None:
                self._write_origin(writer, config, origin)
            self._queue(_Run(writer, config, data_root))
            return writer.run_id

    def _write_origin(self, writer: RunWriter, config: TrainConfig, origin: Origin) -> None:
        from core.execution.recorder import write_origin  # torch comes with it, and is here already: the origin holds tensors

        try:
            first = origin.first_step  # told first: a kill between the two must not leave a run that looks like a new one
            writer.update(parent=origin.parent, parent_step=origin.parent_step, first_step=first, step=first)
            write_origin(writer, config, origin, beside_pages=self._beside_pages)
            writer.set_status(RunStatus.QUEUED)
        except Exception as error:
            writer.close()
            shutil.rmtree(writer.folder, ignore_errors=True)  # it never came to be
            if isinstance(error, CoreError):
                raise
            raise RunError(f"The run could not be prepared: {type(error).__name__}: {error}") from error

    def resume(self, run_id: str, data_root: Path, runs_root: Path) -> None:
        """Put a run that has ended before its last step in line again: it goes on from its newest whole state, bit for bit,
        or begins when it had waited only.

        Raises:
            RunError: there is no such run, no saved state, it has reached its end, it is being trained already,
                the queue is full, or the folder cannot be written.
        """
        folder = run_folder(runs_root, run_id)
        check_disk(runs_root)
        with self._wake:
            if run_id in self._runs:
                return  # a double click
            self._check_room()
            info = read_info(folder)
            if info.status == RunStatus.FINISHED:
                raise RunError(f"Run {run_id} has reached its end; there is nothing left to resume.")
            if info.status.is_active:
                raise RunError(f"Run {run_id} is being trained already, by this server or another process.")
            if not can_go_on(folder, info):
                raise RunError(f"Run {run_id} keeps no saved state to go on from.")
            config = read_config(folder)
            self.readers.forget(folder)
            writer = RunWriter.reopen(folder)
            self._queue(_Run(writer, config, data_root, goes_on=True))

    def _check_room(self) -> None:
        if self._closing:
            raise RunError("The server is shutting down; nothing new is started.")
        if len(self._runs) > MAX_QUEUE:
            raise RunError(f"{MAX_QUEUE} runs wait already. Stop some, or wait until one has ended.")

    def _queue(self, run: _Run) -> None:
        self._runs[run.writer.run_id] = run
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="trainer", daemon=True)
            self._thread.start()
        self._wake.notify_all()

    def save_now(self, run_id: str) -> None:
        """Save the whole state of a run that trains or is paused here after its current step, and keep it. Nothing for
        others."""
        if run := self._active(run_id):
            run.save_wanted.set()
            with self._wake:
                self._wake.notify_all()

    def pause(self, run_id: str) -> None:
        """Stand still after the current step. Does nothing for a run that is not active here."""
        if run := self._active(run_id):
            run.pause.set()

    def unpause(self, run_id: str) -> None:
        """Go on after a pause."""
        if run := self._active(run_id):
            run.pause.clear()
            with self._wake:
                self._wake.notify_all()

    def stop(self, run_id: str) -> None:
        """End the run after the current step, or take it out of the line. Its weights are saved."""
        with self._wake:
            run = self._runs.get(run_id)
            if run is None:
                return
            run.stop.set()
            waits = run_id != next(iter(self._runs))
            if waits:
                del self._runs[run_id]
            self._wake.notify_all()
        if waits:
            self._end(run, _Ending(RunStatus.STOPPED))

    def active(self) -> dict[str, RunStatus]:
        """Runs of this process that have not ended, in the order of their turn."""
        with self._lock:
            return {run_id: run.status for run_id, run in self._runs.items()}

    def is_stopping(self, run_id: str) -> bool:
        """True from a stop until the run has ended."""
        run = self._active(run_id)
        return run is not None and run.stop.is_set()

    def weights(self, run_id: str) -> "LiveWeights | None":
        """The newest copy of the weights of a run that trains here, and a request for a newer one, which is made between
        two of its steps. None for a run that has none yet, or does not train here."""
        run = self._active(run_id)
        if run is None:
            return None
        run.weights_wanted.set()
        return run.weights

    def shutdown(self, seconds: float = _SHUTDOWN_SECONDS) -> None:
        """Stop everything, save what there is, and wait for it at most so long."""
        with self._wake:
            self._closing = True
            for run in self._runs.values():
                run.stop.set()
            self._wake.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until no run is active; False when that took longer than `seconds`."""
        deadline = monotonic() + seconds
        with self._wake:
            return self._wake.wait_for(lambda: not self._runs, max(0.0, deadline - monotonic()))

    def _active(self, run_id: str) -> _Run | None:
        with self._lock:
            return self._runs.get(run_id)

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._runs or self._closing)
                if not self._runs:
                    return
                run = next(iter(self._runs.values()))
            try:
                self._train(run)
            finally:
                with self._wake:
                    self._runs.pop(run.writer.run_id, None)
                    self._wake.notify_all()

    def _train(self, run: _Run) -> None:
        """One run from its turn to its end; every failure ends in its status."""
        try:
            ending = self._stopped() if run.stop.is_set() else self._follow(run)
        except Exception as error:  # even telling the failure failed: a broken GPU answers no question
            ending = _Ending(RunStatus.FAILED, f"{type(error).__name__}: {error}", traceback.format_exc(), failure_of(error))
        self._end(run, ending)

    def _end(self, run: _Run, ending: _Ending) -> None:
        try:
            self._set(run, ending.status, ending.reason, ending.details, ending.failure)
        except RunError:
            run.status = ending.status
            self.readers.tell_instead(run.writer.info)
        with suppress(Exception):
            run.writer.close()

    def _follow(self, run: _Run) -> "_Ending":
        recorded = None
        try:
            self._set(run, RunStatus.PREPARING)
            from core.execution.recorder import RecordedRun  # torch comes with it: not before the first run

            recorded = RecordedRun(run.config, run.data_root, run.writer, beside_pages=self._beside_pages, goes_on=run.goes_on)
            with recorded, closing(recorded.events()) as events:
                for event in events:
                    if isinstance(event, RunStarted):
                        self._set(run, RunStatus.RUNNING)
                    if run.weights_wanted.is_set() or run.pause.is_set():
                        run.weights_wanted.clear()
                        run.weights = recorded.weights()
                    self._save_if_wanted(run, recorded)
                    if run.pause.is_set() and not run.stop.is_set():
                        self._stand_still(run, recorded)
                    if run.stop.is_set():
                        return self._stopped()
            return _Ending(RunStatus.FINISHED)
        except Exception as error:
            if run.stop.is_set():  # a worker process that ended with the server, say
                words = recorded.failure_words(error) if recorded else str(error)
                clear_frames_of(error)
                return self._stopped(f"While it was being stopped: {words}")
            details = "".join(traceback.format_exception(error))
            kind = recorded.failure_kind(error) if recorded else failure_of(error)
            # The traceback's frames hold the tensors that did not fit; without them the memory is free again.
            clear_frames_of(error)
            gc.collect()
            words = recorded.failure_words(error) if recorded else f"The run could not begin: {type(error).__name__}: {error}"
            return _Ending(RunStatus.FAILED, words, details, kind)

    def _stopped(self, words: str = "") -> _Ending:
        if self._closing:
            return _Ending(
                RunStatus.STOPPED, f"Its server or terminal was shut down. {words}".strip(), failure=Failure.SHUT_DOWN
            )
        return _Ending(RunStatus.STOPPED, words)

    def _save_if_wanted(self, run: _Run, recorded: "RecordedRun") -> None:
        if run.save_wanted.is_set():
            run.save_wanted.clear()
            recorded.save_state(kept=True)

    def _stand_still(self, run: _Run, recorded: "RecordedRun") -> None:
        recorded.flush()
        self._set(run, RunStatus.PAUSED)
        while run.pause.is_set() and not run.stop.is_set():
            with self._wake:
                self._wake.wait_for(lambda: run.stop.is_set() or not run.pause.is_set() or run.save_wanted.is_set())
            self._save_if_wanted(run, recorded)
        if not run.stop.is_set():
            self._set(run, RunStatus.RUNNING)
        recorded.continue_clock()

    def _set(self, run: _Run, status: RunStatus, *ending: str) -> None:
        run.status = status
        run.writer.set_status(status, *ending)


def clear_frames_of(error: BaseException) -> None:
    """Let go of everything that the frames of an error and of those behind it hold."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__  # pyright: ignore[reportAssignmentType]
