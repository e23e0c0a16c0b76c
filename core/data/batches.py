"""Two ways of feeding a training: the whole split as one tensor on the device, or a DataLoader with transforms."""

import math
import signal
from collections.abc import Iterator
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

from core.config.train_config import TrainConfig
from core.data.sources import MEAN, STD, Digits
from core.randomness import generator_for, seed_for

Batch = tuple[Tensor, Tensor]


class Batches(Protocol):
    """What the training loop needs of a pipeline."""

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Batch]:
        """Batches of one epoch from `first_batch` on: images float32 (n, 1, 28, 28), normalised, and labels int64 (n,),
        both on the device."""
        ...

    def close(self) -> None:
        """End worker processes, if there are any."""
        ...


def normalise(images: Tensor) -> Tensor:
    """uint8 (n, 1, 28, 28) -> float32 with MNIST's mean 0 and standard deviation 1."""
    return images.float().mul_(1 / (255 * STD)).sub_(MEAN / STD)


def batch_bounds(config: TrainConfig) -> list[tuple[int, int]]:
    """Where each batch of an epoch begins and ends within the epoch's order.

    See `TrainConfig.joins_last_digit` for the last one.
    """
    size, (train, _, _) = config.batch_size, config.split_sizes()
    bounds = [(start, min(start + size, train)) for start in range(0, train, size)]
    if config.joins_last_digit():
        bounds[-2:] = [(bounds[-2][0], train)]
    return bounds


def epoch_order(config: TrainConfig, labels: npt.NDArray[np.int64], epoch: int) -> npt.NDArray[np.int64]:
    """The order in which an epoch visits the training digits: a permutation of their indices."""
    if config.order == "by_class":
        return np.argsort(labels, kind="stable")
    if config.order == "stored":
        return np.arange(len(labels))
    # From the epoch's number, not from a generator that runs along: a resumed run finds any epoch's order without replaying.
    return np.random.default_rng(seed_for(config.seed, "order", epoch)).permutation(len(labels))


def augment(images: Tensor, config: TrainConfig, generator: torch.Generator) -> Tensor:
    """Move, turn and scale each image of a batch at random.

    Args:
        images: float32 (n, 1, 28, 28), normalised; what comes in at the border is black.
        generator: a CPU generator.
    """
    count, device = len(images), images.device
    # Drawn on the CPU even for a GPU: the two have other generators, and one seed would mean two different runs.
    drawn = torch.rand(count, 4, generator=generator).mul_(2).sub_(1).to(device)
    angle = drawn[:, 0] * math.radians(config.augment_rotation)
    scale = 1 + drawn[:, 1] * config.augment_scale
    # Whole pixels: half a one would blur the strokes as no digit of MNIST is blurred. Half more than the limit before rounding,
    # so that the outermost shift is as likely as the others.
    shift = (drawn[:, 2:] * (config.augment_shift + 0.5)).round().clamp(-config.augment_shift, config.augment_shift) / 14
    cosine, sine = torch.cos(angle) / scale, torch.sin(angle) / scale
    rows = [torch.stack([cosine, -sine, shift[:, 0]], 1), torch.stack([sine, cosine, shift[:, 1]], 1)]
    grid = F.affine_grid(torch.stack(rows, 1), [count, 1, 28, 28], align_corners=False)
    # grid_sample fills with 0, which is grey in normalised pixels: black is lifted to 0 first, and put back.
    black = MEAN / STD
    return F.grid_sample(images + black, grid, padding_mode="zeros", align_corners=False) - black


class MemoryBatches:
    """All images as one uint8 tensor on the device; a batch is one indexing, normalised there."""

    def __init__(self, config: TrainConfig, digits: Digits, device: torch.device) -> None:
        self._config, self._bounds = config, batch_bounds(config)
        self._labels_on_cpu = digits.labels
        # torch wants writable memory; the verified arrays are read-only views of the file's bytes. A split is a copy already.
        images = digits.images if digits.images.flags.writeable else digits.images.copy()
        self._images = torch.from_numpy(images).to(device)
        self._labels = torch.from_numpy(digits.labels.copy()).to(device)

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Batch]:
        """See `Batches.epoch`."""
        order = torch.from_numpy(epoch_order(self._config, self._labels_on_cpu, epoch)).to(self._images.device)
        for batch, (start, end) in enumerate(self._bounds[first_batch:], first_batch):
            indices = order[start:end]
            images = normalise(self._images[indices])
            if self._config.augments():
                images = augment(images, self._config, generator_for(self._config.seed, "augment", epoch, batch))
            yield images, self._labels[indices]

    def close(self) -> None:
        """Nothing to end."""


class _TransformedDigits(Dataset[Batch]):
    """One image at a time through the transforms that tutorials use. Indexed by (epoch, index), so that augmentation
    is the same whichever worker prepares the image, and workers can stay alive between epochs."""

    def __init__(self, config: TrainConfig, digits: Digits) -> None:
        from torchvision import transforms

        self._config, self._digits = config, digits
        self._transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])

    def __getitem__(self, key: tuple[int, int]) -> tuple[Tensor, int]:  # pyright: ignore[reportIncompatibleMethodOverride]
        from PIL import Image

        epoch, index = key
        image = cast(Tensor, self._transform(Image.fromarray(self._digits.images[index, 0])))
        if self._config.augments():
            generator = generator_for(self._config.seed, "augment", epoch, index)
            image = augment(image[None], self._config, generator)[0]
        return image, int(self._digits.labels[index])


class _EpochSampler(Sampler[list[tuple[int, int]]]):
    """Batches of (epoch, index) in the run's own order."""

    def __init__(self, config: TrainConfig, labels: npt.NDArray[np.int64]) -> None:
        self._config, self._labels, self._bounds = config, labels, batch_bounds(config)
        self.place: tuple[int, int] = (0, 0)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch, first_batch = self.place
        order = epoch_order(self._config, self._labels, epoch)
        for start, end in self._bounds[first_batch:]:
            yield [(epoch, int(index)) for index in order[start:end]]


def _leave_interrupts(worker: int) -> None:
    """Ctrl-C reaches every process of a terminal. The training ends its workers itself, once it has stopped and saved."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class LoaderBatches:
    """torch's DataLoader over per-image transforms, with `config.workers` processes."""

    def __init__(self, config: TrainConfig, digits: Digits, device: torch.device) -> None:
        self._device, self._sampler = device, _EpochSampler(config, digits.labels)
        options: dict[str, Any] = {}
        if config.workers:
            # A fork of a process with threads can hang. A fork server would stand between: PyTorch's workers end when their
            # parent has gone, and the server lives as long as they do, so both would outlive a killed training.
            options = {"multiprocessing_context": "spawn", "persistent_workers": True, "worker_init_fn": _leave_interrupts}
        self._loader: DataLoader[Batch] | None = DataLoader(
            _TransformedDigits(config, digits),
            batch_sampler=self._sampler,
            num_workers=config.workers,
            pin_memory=device.type == "cuda",  # from ordinary memory a copy to a GPU cannot run beside its work
            generator=generator_for(config.seed, "loader"),
            **options,
        )

    def epoch(self, epoch: int, first_batch: int = 0) -> Iterator[Batch]:
        """See `Batches.epoch`."""
        if self._loader is None:
            raise ValueError("this pipeline was closed")
        self._sampler.place = (epoch, first_batch)
        for images, labels in self._loader:
            yield images.to(self._device, non_blocking=True), labels.to(self._device, non_blocking=True)

    def close(self) -> None:
        """End the worker processes."""
        self._loader = None


def make_batches(config: TrainConfig, digits: Digits, device: torch.device) -> Batches:
    """The pipeline that the settings name."""
    return (MemoryBatches if config.pipeline == "memory" else LoaderBatches)(config, digits, device)
