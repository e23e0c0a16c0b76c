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

from core.batches import Batches, make_batches
from core.checkpoints import save_weights
from core.config import TrainConfig
from core.data import load_splits
from core.errors import CoreError
from core.events import Event, StepDone, Tested, Validated
from core.fork import Fork, forked
from core.hardware import environment, is_out_of_memory, keep_freed_memory, memory_words, numerics, release_device_memory
from core.lesson import Lesson, LessonBatches, load_drawings, save_drawings
from core.run_store import RunWriter, saved_states, state_path
from core.saved_state import forget_after, newest_state, restored, save_state, thin_out
from core.snapshots import forget_snapshots_after, snapshot_path, snapshot_steps
from core.train_loop import TrainState, copy_weights, new_state, restart_clock, take_pending, train


@dataclass(frozen=True, eq=False)
class LiveWeights:
    """The weights of a run in training, at one step; a copy, on the CPU."""

    step: int
    config: TrainConfig
    weights: dict[str, Tensor]


class RecordedRun:
    """Trains one configuration and records it. Use as a context: leaving it saves what is there, whatever happened.

    Args:
        config: checked settings. data_root: the data folder. writer: the run's folder.
        shared: the process serves pages too. origin: what to start from when the run does not start anew.
        goes_on: take the run up again where its newest whole state stands, instead of from the start.
    """

    def __init__(
        self, config: TrainConfig, data_root: Path, writer: RunWriter, *, shared: bool, origin: Lesson | Fork | None = None,
        goes_on: bool = False,
    ) -> None:  # fmt: skip
        self._config, self._data_root, self._writer, self._shared = config, data_root, writer, shared
        self._origin, self._snapshot_steps = origin, snapshot_steps(config)
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
        with numerics(state.threads, deterministic=self._config.deterministic):
            self._batches = make_batches(self._config, splits.train, state.device)
            self._add_lesson(state)
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
        save_state(state_path(self._writer.folder, state.step, kept=kept), state)
        thin_out(self._writer.folder, self._config.checkpoints_kept, state.best_step)
        self._saved_step, self._saved_at = state.step, monotonic()
        restart_clock(state)  # writing is no training time

    def _first_state(self) -> TrainState:
        if self._goes_on:
            return self._take_up()
        if isinstance(self._origin, Fork):
            return forked(self._origin, shared=self._shared)
        return new_state(self._config, shared=self._shared)

    def _take_up(self) -> TrainState:
        """The newest state that the recorded metrics reach up to, or the first one; what came after it is taken back."""
        folder = self._writer.folder
        if saved_states(folder):
            state = restored(newest_state(folder, self._writer.recorded_steps()))
            self._saved_step = state.step
        else:
            state = new_state(self._config, shared=self._shared)  # it had waited only
        scored = bool(state.best_weights)
        self._writer.take_back(state.step, state.validated_step, state.seconds, state.best_score[0] if scored else None)
        forget_after(folder, state.step)
        forget_snapshots_after(folder, state.step)
        (folder / "last.pt").unlink(missing_ok=True)
        if scored:
            save_weights(folder / "best.pt", state.best_weights, self._config, state.best_step, state.best_score[0])
        else:
            (folder / "best.pt").unlink(missing_ok=True)
        return state

    def _add_lesson(self, state: TrainState) -> None:
        assert self._batches is not None
        if isinstance(self._origin, Lesson):
            state.model.load_state_dict(self._origin.weights)
            save_drawings(self._writer.folder, self._origin.drawings)
        if isinstance(self._origin, Fork):  # a fork of a lesson goes on with the same drawings among the digits
            taught = load_drawings(self._writer.folder.parent / self._origin.parent)
            if taught is not None:
                save_drawings(self._writer.folder, taught)
        drawings = load_drawings(self._writer.folder)
        if drawings is not None:
            self._batches = LessonBatches(self._batches, self._config, drawings, state.device)

    def _keep_snapshot(self, state: TrainState) -> None:
        path = snapshot_path(self._writer.folder, state.step)
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
                step, validated = self._state.step, self._validated
                accuracy = validated.evaluation.accuracy if validated and validated.step == step else None
                save_weights(self._writer.folder / "last.pt", copy_weights(self._state.model), self._config, step, accuracy)
                # An error may have left an update half made; the state saved before it is whole.
                if error is None and step != self._saved_step:
                    self.save_state()
        if self._batches is not None:
            self._batches.close()
        self._state = self._batches = None
        if self._device is not None:
            release_device_memory(self._device)

    def failure_words(self, error: Exception) -> str:
        """A failure in words for a learner."""
        if isinstance(error, CoreError):
            return str(error)
        if is_out_of_memory(error):
            config = self._config
            left = f" {memory_words(self._device)} now." if self._device is not None else ""
            return (f"Memory ran out with {config.model} at batch size {config.batch_size:,}.{left} Try half the batch size "
                    "(with gradient accumulation 2 the updates stay the same), a smaller model, or close other "
                    "programs. The memory of this run was given back.")  # fmt: skip
        return f"An unexpected error ended the run: {type(error).__name__}: {error}. The details below belong in a bug report."

    def _record(self, event: Event) -> None:
        state = self._state
        assert state is not None
        if isinstance(event, Validated):
            self._validated = event
            if event.best:
                self._writer.update(best_accuracy=event.evaluation.accuracy)
        if isinstance(event, Tested):
            self._writer.update(test_accuracy=event.evaluation.accuracy)
        self._writer.append(event)
        if isinstance(event, Validated) and state.best_step == event.step:
            path = self._writer.folder / "best.pt"
            save_weights(path, state.best_weights, self._config, event.step, event.evaluation.accuracy)
            self.save_state()
