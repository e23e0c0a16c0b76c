"""A lesson: a run that starts from another run's weights and sees a person's drawings among the training digits."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from core.batches import Batch, Batches, augment, normalise
from core.config import TrainConfig
from core.data import Digits
from core.errors import RunError
from core.randomness import generator_for

DRAWINGS_FILE = "drawings.npz"
# Of each batch; the other digits keep the network from forgetting what it knew.
DRAWN_SHARE = 0.25
_VARIATION = TrainConfig(augment_shift=1, augment_rotation=10.0, augment_scale=0.1)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a run starts from, and what it is to learn besides its data set.

    Attributes:
        parent: the run's id. parent_step: updates behind the weights. weights: parameters and buffers.
        drawings: the labelled drawings, at least one.
    """

    parent: str
    parent_step: int
    weights: dict[str, Tensor]
    drawings: Digits

    @property
    def first_step(self) -> int:
        """Its own steps begin at 0: its schedule, batches and optimizer are new."""
        return 0


def lesson_config(parent: TrainConfig, steps: int, learning_rate: float) -> TrainConfig:
    """The settings of a lesson: the parent's network and data, a constant low rate for so many steps. Raises ConfigError."""
    whole = replace(parent, train_size=None).split_sizes()[0]
    wanted = steps * parent.batch_size * parent.accumulation_steps
    train_size = min(whole, wanted)
    epochs = -(-wanted // train_size)
    return replace(
        parent, train_size=train_size, epochs=epochs, learning_rate=learning_rate, schedule="constant", warmup_steps=0,
        early_stopping_patience=None, validations_per_epoch=1, order="shuffled", optimizer="adam", weight_decay=0.0,
    ).validate()  # fmt: skip


class LessonBatches:
    """The batches of another pipeline, each with some of the drawings added, a little moved, turned and scaled."""

    def __init__(self, inner: Batches, config: TrainConfig, drawings: Digits, device: torch.device) -> None:
        self._inner, self._config, self._device = inner, config, device
        self._images = torch.from_numpy(drawings.images.copy()).to(device)
        self._labels = torch.from_numpy(drawings.labels.copy()).to(device)

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Batch]:
        """See `Batches.epoch`."""
        for number, (images, labels) in enumerate(self._inner.epoch(epoch, first_batch), first_batch):
            generator = generator_for(self._config.seed, "lesson", epoch, number)
            count = max(1, round(len(labels) * DRAWN_SHARE / (1 - DRAWN_SHARE)))
            chosen = torch.randint(len(self._labels), (count,), generator=generator).to(self._device)
            drawn = augment(normalise(self._images[chosen]), _VARIATION, generator)
            yield torch.cat([images, drawn]), torch.cat([labels, self._labels[chosen]])

    def close(self) -> None:
        """End the other pipeline."""
        self._inner.close()


def save_drawings(run: Path, drawings: Digits) -> None:
    """Keep a lesson's drawings in its run's folder. Raises RunError."""
    try:
        np.savez_compressed(run / DRAWINGS_FILE, images=drawings.images, labels=drawings.labels)
    except OSError as error:
        raise RunError(f"The drawings of run {run.name} cannot be saved: {error.strerror or error}.") from error


def load_drawings(run: Path) -> Digits | None:
    """The drawings of a lesson; None for a run that is none. Raises RunError when they are damaged."""
    path = run / DRAWINGS_FILE
    if not path.exists():
        return None
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
            return Digits(content["images"].astype(np.uint8), content["labels"].astype(np.int64))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(f"The drawings of run {run.name} cannot be read ({type(error).__name__}).") from error
