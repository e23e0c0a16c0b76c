"""A lesson: a run that starts from another run's weights and sees a person's drawings among the training digits."""

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from core.archives import ArchiveError, read_archive
from core.batches import Batch, Batches, augment, normalise
from core.config import TrainConfig
from core.data import Digits
from core.errors import RunError
from core.pins import MAX_PINS
from core.randomness import generator_for

DRAWINGS_FILE = "drawings.npz"
_MAX_FILE_BYTES, _MAX_ARRAY_BYTES = 2**18, 2**16
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
        schedule_start=0,  # a parent's schedule may begin after more steps than a lesson has
    ).validate()  # fmt: skip


class LessonBatches:
    """The batches of another pipeline, each with some of the drawings added, a little moved, turned and scaled (unless `moved`
    is False)."""

    def __init__(
        self, inner: Batches, config: TrainConfig, drawings: Digits, device: torch.device, *, moved: bool = True
    ) -> None:
        self._inner, self._config, self._device, self._moved = inner, config, device, moved
        self._images = torch.from_numpy(drawings.images.copy()).to(device)
        self._labels = torch.from_numpy(drawings.labels.copy()).to(device)

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Batch]:
        """See `Batches.epoch`."""
        for number, (images, labels) in enumerate(self._inner.epoch(epoch, first_batch), first_batch):
            generator = generator_for(self._config.seed, "lesson", epoch, number)
            count = max(1, round(len(labels) * DRAWN_SHARE / (1 - DRAWN_SHARE)))
            chosen = torch.randint(len(self._labels), (count,), generator=generator).to(self._device)
            drawn = normalise(self._images[chosen])
            if self._moved:
                drawn = augment(drawn, _VARIATION, generator)
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
    """The drawings of a lesson; None for a run that is none. Raises RunError when they are damaged or no such drawings."""
    path = run / DRAWINGS_FILE
    if not path.exists():
        return None
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise RunError(f"The drawings of run {run.name} cannot be read: the file is larger than {MAX_PINS} drawings.")
        entries = read_archive(path.read_bytes(), _limit_of, max_entries=2, max_bytes=2 * _MAX_ARRAY_BYTES)
        images, labels = (_array(entries[name]) for name in ("images.npy", "labels.npy"))
        return _checked_drawings(images, labels)
    except (ArchiveError, OSError, ValueError, KeyError, EOFError) as error:
        raise RunError(f"The drawings of run {run.name} cannot be read: {str(error) or type(error).__name__}.") from error


def _limit_of(name: str) -> int | None:
    return _MAX_ARRAY_BYTES if name in ("images.npy", "labels.npy") else None


def _array(content: bytes) -> npt.NDArray[Any]:
    """A .npy file whose header was looked at before numpy makes room for what it claims. Raises ValueError."""
    try:
        return _checked_array(io.BytesIO(content), len(content))
    except Exception as error:  # numpy's header parser raises many kinds
        raise ValueError(f"an array cannot be read ({type(error).__name__}: {error})") from error


def _checked_array(stream: io.BytesIO, size: int) -> npt.NDArray[Any]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array has format version {version}")
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream, max_header_size=1000)
    if dtype.hasobject or dtype.itemsize * math.prod(shape) != size - stream.tell():
        raise ValueError("an array does not hold what its header says")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False, max_header_size=1000)


def _checked_drawings(images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Digits:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (1, 28, 28):
        raise ValueError(f"images are {images.dtype} {images.shape}, where uint8 (n, 1, 28, 28) belong")
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        raise ValueError(f"labels are {labels.dtype} {labels.shape}, where one whole number a drawing belongs")
    if not 1 <= len(labels) <= MAX_PINS:
        raise ValueError(f"there are {len(labels)} drawings, where 1 to {MAX_PINS} belong")
    if not ((labels >= 0) & (labels <= 9)).all():
        raise ValueError(f"a label is {labels[(labels < 0) | (labels > 9)][0]}, where 0 to 9 belong")
    return Digits(images.copy(), labels.astype(np.int64))
