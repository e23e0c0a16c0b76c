"""What the gap between train and validation loss is made of, each part measured by changing one thing at a time."""

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from core.config.train_config import TrainConfig
from core.data.batches import Batch
from core.data.run_batches import groups_of_steps, replayed_batches
from core.data.sources import Splits, load_splits
from core.errors import CoreError, RunError
from core.model.networks import enter_train_mode, reseed_dropout
from core.model.predictor import load_predictor
from core.modes.copies import EVAL, Answers, Indices, ask, batches_of, copy_in_mode, forward, some_digits
from core.runs.drawings import load_drawings
from core.runs.folder import RunFolder
from core.runs.reader import RunReader, RunView
from core.status import Progress, result_of

MAX_STEPS = 25
_VALIDATION_DIGITS = 1000


@dataclass(frozen=True)
class GapPoint:
    """Five views at one step; losses in nats with the run's label smoothing in all of them, accuracies in [0, 1].

    Attributes:
        digits: how many training digits the first four are of: those of the last few steps.
        optimizer_*: as training recorded them, in train mode, before each of these updates.
        again_*: the very same batches and dropout masks in train mode, by the weights after the last of these updates.
        train_*: the same images, augmentation included, in eval mode by the same weights.
        clean_*: the same digits without augmentation, likewise; the same as `train_*` for a run that does not augment.
        validation_*: validation digits in eval mode by the same weights.
    """

    step: int
    digits: int
    optimizer_loss: float
    optimizer_accuracy: float
    again_loss: float
    again_accuracy: float
    train_loss: float
    train_accuracy: float
    clean_loss: float
    clean_accuracy: float
    validation_loss: float
    validation_accuracy: float


def window(step: int) -> int:
    """How many steps a point looks back over: few at first, since the weights change quickly then."""
    return max(1, min(MAX_STEPS, step // 8))


def mode_gap(
    run: Path, data_root: Path, known: Mapping[int, GapPoint] | None = None
) -> Iterator[Progress | tuple[GapPoint, ...]]:
    """The points so far, one for each snapshot that the run keeps, in the order of the steps.

    Args:
        known: points that were worked out before, by step; they are given again as they are.

    Raises:
        RunError: no snapshot is kept after the first step.
    """
    snapshot = RunReader(run).read()
    first = snapshot.info.first_step  # a fork's own steps begin there
    kept = {
        step: path
        for step, path in RunFolder(run).snapshots().items()
        if 0 < step <= snapshot.step and step - window(step) >= first
    }
    if not kept:
        raise RunError(f"Run {run.name} keeps no snapshot after a step yet. Runs keep them while they train.")
    yield Progress(0, len(kept), "Reading the digits", "snapshots")
    source, points = _Source(snapshot.config, run, data_root), ()
    for number, (step, path) in enumerate(kept.items()):
        if known and step in known:
            points = (*points, known[step])
        else:
            yield Progress(number, len(kept), f"Step {step:,} again in eval mode", "snapshots")
            with suppress(CoreError):  # a damaged snapshot: Over training names it
                points = (*points, _point(snapshot, step, path, source))
        yield points


class _Source:
    """The batches of a run, made again, and its validation digits."""

    def __init__(self, config: TrainConfig, run: Path, data_root: Path) -> None:
        self.config = config
        splits, drawings = _splits(config, data_root), load_drawings(run)
        self._batches = replayed_batches(config, splits.train, drawings)
        self._plain = replayed_batches(config, splits.train, drawings, augmented=False)
        self.augments = drawings is not None or config.augments()
        self.validation = some_digits(splits.validation, _VALIDATION_DIGITS)

    def last_groups(self, step: int, *, augmented: bool = True) -> list[list[Batch]]:
        """The batches of each of the last `window(step)` updates up to `step`, as training saw them; `augmented=False`: the
        same digits as they are."""
        batches = self._batches if augmented else self._plain
        return list(groups_of_steps(self.config, batches, step - window(step), step))


@lru_cache(maxsize=2)
def _splits(config: TrainConfig, data_root: Path) -> Splits:
    return load_splits(config, data_root)


def _point(snapshot: RunView, step: int, path: Path, source: _Source) -> GapPoint:
    predictor = load_predictor(path)
    copied, groups = copy_in_mode(predictor.model, EVAL), source.last_groups(step)
    in_eval = _answers(copied, groups)
    clean = _answers(copied, source.last_groups(step, augmented=False)) if source.augments else in_eval
    again = _in_train_mode(predictor.model, source.config, step, groups)
    last = step - snapshot.info.first_step
    rows = slice(last - window(step), last)
    weights = snapshot.steps.column("images")[rows].astype(np.float64)
    losses = snapshot.steps.column("loss")[rows].astype(np.float64)
    validation = result_of(ask(copied, source.validation, batches_of("stored", source.validation.labels, 250)))
    smoothing = snapshot.config.label_smoothing
    return GapPoint(
        step,
        len(in_eval.labels),
        float((losses * weights).sum() / weights.sum()),
        float(snapshot.steps.column("correct")[rows].sum() / weights.sum()),
        _loss(again, smoothing),
        again.accuracy,
        _loss(in_eval, smoothing),
        in_eval.accuracy,
        _loss(clean, smoothing),
        clean.accuracy,
        _loss(validation, smoothing),
        validation.accuracy,
    )


def _answers(copied: nn.Module, groups: list[list[Batch]]) -> Answers:
    return Answers(torch.cat([forward(copied, images) for group in groups for images, _ in group]).numpy(), _labels(groups))


def _labels(groups: list[list[Batch]]) -> Indices:
    return torch.cat([labels for group in groups for _, labels in group]).numpy()


def _in_train_mode(model: nn.Module, config: TrainConfig, step: int, groups: list[list[Batch]]) -> Answers:
    """The batches in train mode as the run means it, each group with the dropout masks that its update had."""
    copied = copy.deepcopy(model).requires_grad_(False)
    enter_train_mode(copied, config)
    logits = []
    for number, group in enumerate(groups, step - window(step)):
        reseed_dropout(copied, config.seed, number)
        logits += [forward(copied, images) for images, _ in group]
    return Answers(torch.cat(logits).numpy(), _labels(groups))


def _loss(answers: Answers, smoothing: float) -> float:
    """Mean cross-entropy with the run's label smoothing, so that all five views measure the same."""
    loss = F.cross_entropy(torch.from_numpy(answers.logits), torch.from_numpy(answers.labels), label_smoothing=smoothing)
    return float(loss) if math.isfinite(float(loss)) else math.nan
