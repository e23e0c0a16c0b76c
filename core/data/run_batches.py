"""The batches of a run, as its training took them and as often as somebody wants to see them again."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import torch

from core.config.train_config import TrainConfig
from core.data.batches import Batch, Batches, make_batches
from core.data.drawn_batches import LessonBatches
from core.data.sources import Digits


def run_batches(
    config: TrainConfig, train: Digits, drawings: Digits | None, device: torch.device, *, augmented: bool = True
) -> Batches:
    """The pipeline of a run.

    Args:
        train: its training digits. drawings: what a lesson teaches besides; None for other runs.
        augmented: False for the same digits as they lie in the data set.
    """
    if not augmented:
        config = replace(config, augment_shift=0, augment_rotation=0.0, augment_scale=0.0)
    batches = make_batches(config, train, device)
    return batches if drawings is None else LessonBatches(batches, config, drawings, device, moved=augmented)


def replayed_batches(config: TrainConfig, train: Digits, drawings: Digits | None, *, augmented: bool = True) -> Batches:
    """The same batches bit for bit, on the CPU and in this process, for a look at a run that trains or has ended."""
    return run_batches(replace(config, workers=0), train, drawings, torch.device("cpu"), augmented=augmented)


def groups_of_steps(config: TrainConfig, batches: Batches, first: int, last: int) -> Iterator[list[Batch]]:
    """What each of the updates `first` + 1 to `last` was made from: `config.accumulation_steps` batches, fewer at the end of an
    epoch."""
    per_epoch, group = config.steps_per_epoch(), config.accumulation_steps
    step = first
    while step < last:
        epoch, within = divmod(step, per_epoch)
        source = batches.epoch(epoch, within * group)
        for _ in range(min(last - step, per_epoch - within)):
            yield list(islice(source, group))
            step += 1
