"""One run from its data to its last weights, written to its folder as it goes. Knows no threads."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from core.config.train_config import TrainConfig
from core.data.batches import Batches
from core.data.run_batches import run_batches
from core.data.sources import load_splits
from core.errors import CoreError, Failure, RunError, failure_of
from core.events import Event, StepDone, Tested, Validated
from core.execution.kept_states import newest_state, rewind, thin_out
from core.execution.origin import Origin
from core.machine.hardware import environment, numerics
from core.machine.memory import is_out_of_memory, keep_freed_memory, memory_words, release_device_memory, reset_peak_memory
from core.model.weights import copy_weights, save_weights
from core.runs.drawings import load_drawings, save_drawings
from core.runs.folder import RunFolder
from core.runs.snapshots import snapshot_steps
from core.runs.writer import RunWriter
from core.training.loop import train
from core.training.reporting import restart_clock, take_pending
from core.training.saved_state import restored, save_state
from core.training.state import TrainState, new_state


@dataclass(frozen=True, eq=False)
class LiveWeights:
    """The weights of a run in training, at one step; a copy, on the CPU."""

    step: int
    config: TrainConfig
    weights: dict[str, Tensor]


def write_origin(writer: RunWriter, config: TrainConfig, origin: Origin, *, beside_pages: bool) -> None:
    """Put what a run starts from into its folder, so that it can begin whatever becomes of its parent and of this process.

    Raises:
        CheckpointError, RunError, DeviceError: the state does not fit, the folder cannot be written, or there is no such
            device.
    """
    state = origin.first_state(config, beside_pages=beside_pages)
    if (drawings := origin.drawings_for(writer.folder.parent)) is not None:
        save_drawings(writer.folder, drawings)
    save_state(RunFolder(writer.folder).state(state.step), state)


class RecordedRun:
    """Trains one configuration and records it. Use as a context: leaving it saves what is there, whatever happened.

    Args:
        config: checked settings. data_root: the data folder. writer: the run's folder.
        beside_pages: the process serves pages too.
        goes_on: take the run up again after it had begun: what was recorded after its newest whole state is taken back.
    """

    def __init__(
        self, config: TrainConfig, data_root: Path, writer: RunWriter, *, beside_pages: bool, goes_on: bool = False
    ) -> None:
        self._config, self._data_root, self._writer, self._beside_pages = config, data_root, writer, beside_pages
        self._snapshot_steps = snapshot_steps(config)
        self._state: TrainState | None = None
        self._batches: Batches | None = None
        self._validated: Validated | None = None
        self._device: torch.device | None = None
        self._kept_step, self._saved_step, self._saved_at = -1, -1, monotonic()
        self._goes_on = goes_on

    def __enter__(self) -> Self:
        return self

    def events(self) -> Generator[Event, None, None]:
        """The loop's events, each recorded before it is handed on. Reading data comes before the first."""
        keep_freed_memory()
        self._writer.write_environment(environment())
        splits = load_splits(self._config, self._data_root)
        state = self._state = self._first_state()
        self._device = state.device
        reset_peak_memory(state.device)
        with numerics(state.threads, deterministic=self._config.deterministic):
            self._batches = run_batches(self._config, splits.train, load_drawings(self._writer.folder), state.device)
            if state.step != self._saved_step:
                self.save_state()  # so that the run can go on, without its parent too, whenever its process is killed
            for event in train(state, self._batches, splits.validation, splits.test):
                if not isinstance(event, StepDone):
                    self._record(event)
                if state.step in self._snapshot_steps and state.step != self._kept_step:
                    self._keep_snapshot(state)
                if monotonic() - self._saved_at >= self._config.checkpoint_seconds and state.step != self._saved_step:
                    self.save_state()
                yield event

    def weights(self) -> LiveWeights | None:
        """A copy of the weights as they are between two events; None before there are any."""
        if self._state is None:
            return None
        return LiveWeights(self._state.step, self._config, copy_weights(self._state.model))

    def save_state(self, *, kept: bool = False) -> None:
        """Write the whole state as it is between two events; `kept`: it is never thinned out. Raises CheckpointError."""
        state = self._state
        if state is None:
            return
        self.flush()
        save_state(RunFolder(self._writer.folder).state(state.step, kept=kept), state)
        thin_out(self._writer.folder, self._config.checkpoints_kept, state.best_step)
        self._saved_step, self._saved_at = state.step, monotonic()
        restart_clock(state)  # writing is no training time

    def _first_state(self) -> TrainState:
        """The newest state that the recorded metrics reach up to: of a fork or a lesson its first one (`write_origin`), of a
        run that is taken up its last; without any the state of a new run."""
        folder = self._writer.folder
        if not RunFolder(folder).states():
            if (parent := self._writer.info.parent) and not self._goes_on:
                raise RunError(
                    f"What run {parent} was to hand over is missing: the server ended while it was written. Start "
                    "the fork or lesson anew."
                )
            state = new_state(self._config, beside_pages=self._beside_pages)  # it had waited only
        else:
            state = restored(newest_state(folder, self._writer.recorded_steps()))
            self._saved_step = state.step
        if self._goes_on:
            self._take_back(state)
        return state

    def _take_back(self, state: TrainState) -> None:
        """Drop what was recorded, saved and chosen after the state that the run goes on from."""
        folder, scored = self._writer.folder, bool(state.best_weights)
        best = state.best_score[0] if scored and state.best_score[0] >= 0 else None
        self._writer.take_back(state.step, state.validated_step, state.seconds, best)
        rewind(folder, state.step)
        RunFolder(folder).last.unlink(missing_ok=True)
        if scored:
            save_weights(RunFolder(folder).best, state.best_weights, self._config, state.best_step, best)
        else:
            RunFolder(folder).best.unlink(missing_ok=True)

    def _keep_snapshot(self, state: TrainState) -> None:
        path = RunFolder(self._writer.folder).snapshot(state.step)
        save_weights(path, copy_weights(state.model), self._config, state.step, None, durable=False)
        self._kept_step = state.step

    def flush(self) -> None:
        """Record the steps that were made since the last report: before a pause or at the end."""
        if self._state is not None and (report := take_pending(self._state)):
            self._writer.append(report)

    def continue_clock(self) -> None:
        """After a pause: its time is no training time."""
        if self._state is not None:
            restart_clock(self._state)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # After an out-of-memory error even these may fail; the first error is the one to tell.
        with contextlib.suppress(Exception) if error is not None else contextlib.nullcontext():
            self.flush()
            if self._state is not None and self._state.step:
                self._save_last(self._state)
        if self._batches is not None:
            self._batches.close()
        self._state = self._batches = None
        self.release_memory()

    def _save_last(self, state: TrainState) -> None:
        """The last weights, and the state to go on from. An error takes back what it has begun; one that came while the
        optimizer changed the weights leaves them half changed: then the last saved state has the last whole ones."""
        folder = self._writer.folder
        if not state.whole:
            saved = newest_state(folder, state.step)
            save_weights(RunFolder(folder).last, saved.content["model"], self._config, saved.step, None)
            return
        step, validated = state.step, self._validated
        accuracy = validated.evaluation.accuracy if validated and validated.step == step else None
        save_weights(RunFolder(folder).last, copy_weights(state.model), self._config, step, accuracy)
        if step != self._saved_step:
            self.save_state()

    def release_memory(self) -> None:
        """Give back to the device what nothing refers to any more. An error's traceback refers to a lot: clear it first."""
        if self._device is not None:
            release_device_memory(self._device)

    def failure_kind(self, error: Exception) -> str:
        """The kind of a failure, to be kept."""
        return Failure.MEMORY if is_out_of_memory(error) else failure_of(error)

    def failure_words(self, error: Exception) -> str:
        """A failure in words for a learner."""
        if isinstance(error, CoreError):
            return str(error)
        if is_out_of_memory(error):
            config = self._config
            self.release_memory()  # before it is counted
            left = f" {memory_words(self._device)} now." if self._device is not None else ""
            return (
                f"Memory ran out with {config.model} at batch size {config.batch_size:,}.{left} Try half the batch size "
                "(with gradient accumulation 2 the updates stay the same), a smaller model, or close other "
                "programs. The memory of this run was given back before this was counted."
            )
        return f"An unexpected error ended the run: {type(error).__name__}: {error}. The details below belong in a bug report."

    def _record(self, event: Event) -> None:
        state = self._state
        assert state is not None
        is_best = isinstance(event, Validated) and state.best_step == event.step
        if isinstance(event, Validated):
            self._validated = event
            if is_best:  # before it is recorded: a score whose weights a kill took would have no file
                path = RunFolder(self._writer.folder).best
                save_weights(path, state.best_weights, self._config, event.step, event.evaluation.accuracy)
            if event.best:
                self._writer.update(best_accuracy=event.evaluation.accuracy)
        if isinstance(event, Tested):
            self._writer.update(test_accuracy=event.evaluation.accuracy)
        self._writer.append(event)
        if is_best:
            self.save_state()
