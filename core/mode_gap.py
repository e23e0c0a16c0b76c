"""What part of the gap between train and validation loss is the mode's, and what part is overfitting."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from core.batches import Batch, Batches, make_batches
from core.config import TrainConfig
from core.data import Splits, load_splits
from core.errors import CoreError, RunError
from core.evaluation import finish
from core.events import Progress
from core.lesson import LessonBatches, load_drawings
from core.modes import EVAL, Answers, ask, batches_of, forward, some_digits, switched
from core.predictor import load_predictor
from core.run_reader import RunReader, RunSnapshot
from core.snapshots import kept_snapshots

MAX_STEPS = 25
_VALIDATION_DIGITS = 1000


@dataclass(frozen=True)
class GapPoint:
    """Three views at one step; losses in nats, accuracies in [0, 1].

    Attributes:
        digits: how many training digits the first two are of: those of the last few steps.
        optimizer_loss, optimizer_accuracy: as training recorded them, in train mode, before each of these updates.
        train_loss, train_accuracy: the very same images, augmentation included, in eval mode after the last of them.
        validation_loss, validation_accuracy: validation digits in eval mode.
    """

    step: int
    digits: int
    optimizer_loss: float
    optimizer_accuracy: float
    train_loss: float
    train_accuracy: float
    validation_loss: float
    validation_accuracy: float


def window(step: int) -> int:
    """How many steps a point looks back over: few at first, since the weights change quickly then."""
    return max(1, min(MAX_STEPS, step // 8))


def mode_gap(run: Path, data_root: Path, known: Mapping[int, GapPoint] | None = None) -> Iterator[Progress | GapPoint]:
    """A GapPoint for each snapshot that the run keeps so far, in the order of the steps.

    Args:
        known: points that were worked out before, by step; they are given again as they are.

    Raises:
        RunError: no snapshot is kept after the first step.
    """
    snapshot = RunReader(run).read()
    first = snapshot.info.first_step  # a fork's own steps begin there
    kept = {
        step: path for step, path in kept_snapshots(run).items() if 0 < step <= snapshot.step and step - window(step) >= first
    }
    if not kept:
        raise RunError(f"Run {run.name} keeps no snapshot after a step yet. Runs keep them while they train.")
    yield Progress(0, len(kept), "Reading the digits", "snapshots")
    source = _Source(snapshot.config, run, data_root)
    for number, (step, path) in enumerate(kept.items()):
        if known and step in known:
            yield known[step]
            continue
        yield Progress(number, len(kept), f"Step {step:,} again in eval mode", "snapshots")
        try:
            yield _point(snapshot, step, path, source)
        except CoreError:
            continue  # a damaged snapshot: Over training names it


class _Source:
    """The batches of a run, made again, and its validation digits."""

    def __init__(self, config: TrainConfig, run: Path, data_root: Path) -> None:
        self.config = config
        splits, drawings = _splits(config, data_root), load_drawings(run)
        device = torch.device("cpu")
        self._batches: Batches = make_batches(replace(config, workers=0), splits.train, device)
        if drawings is not None:
            self._batches = LessonBatches(self._batches, config, drawings, device)
        self.validation = some_digits(splits.validation, _VALIDATION_DIGITS)

    def last_batches(self, step: int) -> list[Batch]:
        """The batches of the last `window(step)` steps up to `step`, as training saw them."""
        config, found, first = self.config, [], step - window(step)
        per_epoch, group = config.steps_per_epoch(), config.accumulation_steps
        while first < step:
            epoch, place = divmod(first, per_epoch)
            last = min(step - epoch * per_epoch, per_epoch)
            count = min(last * group, config.batches_per_epoch()) - place * group
            found += islice(self._batches.epoch(epoch, place * group), count)
            first = epoch * per_epoch + last
        return found


@lru_cache(maxsize=2)
def _splits(config: TrainConfig, data_root: Path) -> Splits:
    return load_splits(config, data_root)


def _point(snapshot: RunSnapshot, step: int, path: Path, source: _Source) -> GapPoint:
    predictor = load_predictor(path)
    twin, batches = switched(predictor.model, EVAL), source.last_batches(step)
    labels = torch.cat([labels for _, labels in batches])
    logits = torch.cat([forward(twin, images) for images, _ in batches])
    again = Answers(logits.numpy(), labels.numpy())
    last = step - snapshot.info.first_step
    rows = slice(last - window(step), last)
    weights = snapshot.steps.column("images")[rows].astype(np.float64)
    losses = snapshot.steps.column("loss")[rows].astype(np.float64)
    validation = finish(ask(twin, source.validation, batches_of("stored", source.validation.labels, 250)))
    smoothing = snapshot.config.label_smoothing
    return GapPoint(
        step, len(labels), float((losses * weights).sum() / weights.sum()),
        float(snapshot.steps.column("correct")[rows].sum() / weights.sum()),
        _loss(again, smoothing), again.accuracy, _loss(validation, smoothing), validation.accuracy,
    )  # fmt: skip


def _loss(answers: Answers, smoothing: float) -> float:
    """Mean cross-entropy with the run's label smoothing, so that all three curves measure the same."""
    loss = F.cross_entropy(torch.from_numpy(answers.logits), torch.from_numpy(answers.labels), label_smoothing=smoothing)
    return float(loss) if math.isfinite(float(loss)) else math.nan
