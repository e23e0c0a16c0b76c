"""Images that differ from those of the training, and what each mode makes of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torchvision.transforms.v2 import functional as VF

from core.data.sources import Digits
from core.modes.copies import BATCHNORM_ONLY, EVAL, LARGE_BATCH, BatchOrder, Switch, ask, batches_of, copy_in_mode, unchanged
from core.randomness import generator_for
from core.status import Progress, result_of


@dataclass(frozen=True)
class Shift:
    """How images differ from those of the training.

    Attributes:
        brightness: factor on every pixel. contrast: factor on the distance from the image's mean grey.
        noise: standard deviation of what is added to pixels of 0 to 1. Afterwards all are cut to 0 to 1.
    """

    brightness: float = 1.0
    contrast: float = 1.0
    noise: float = 0.0


SHIFTS: dict[str, tuple[float, ...]] = {
    "brightness": (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0),
    "contrast": (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0),
    "noise": (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0),
}


def shifted(images: npt.NDArray[np.uint8], shift: Shift, seed: int = 0) -> npt.NDArray[np.uint8]:
    """uint8 (n, 1, 28, 28) images, shifted; the same noise for the same seed."""
    # On pixels from 0 to 1, before normalisation: that is where a camera or a lamp would change them.
    values = torch.from_numpy(images).float() / 255
    values = VF.adjust_contrast(VF.adjust_brightness(values, shift.brightness), shift.contrast)
    if shift.noise:
        values = values + shift.noise * torch.randn(values.shape, generator=generator_for(seed, "noise"))
    return (values.clamp(0, 1) * 255).round().to(torch.uint8).numpy()


@dataclass(frozen=True)
class ShiftScore:
    """Accuracies in [0, 1] under one shift: eval mode, BatchNorm in train mode in shuffled batches, and in batches that are
    sorted by class."""

    shift: Shift
    eval: float
    train: float
    train_sorted: float


def shift_scores(
    model: nn.Module, digits: Digits, shifts: Sequence[Shift], *, size: int, seed: int = 0
) -> Iterator[Progress | tuple[ShiftScore, ...]]:
    """The scores so far, one for each shift. Dropout stays off: what is compared is where BatchNorm takes its statistics from.

    Args:
        size: batch size in train mode.
    """
    plans: tuple[tuple[Switch, BatchOrder, int], ...] = (
        (EVAL, "stored", LARGE_BATCH),
        (BATCHNORM_ONLY, "shuffled", size),
        (BATCHNORM_ONLY, "by_class", size),
    )
    found: tuple[ShiftScore, ...] = ()
    with unchanged(model):
        for number, shift in enumerate(shifts):
            yield Progress(number, len(shifts), "Shifted images", "shifts")
            moved = Digits(shifted(digits.images, shift, seed), digits.labels)
            scores = []
            for switch, order, batch in plans:
                scores.append(
                    result_of(ask(copy_in_mode(model, switch), moved, batches_of(order, moved.labels, batch, seed))).accuracy
                )
                yield Progress(number + len(scores) / len(plans), len(shifts), "Shifted images", "shifts")
            found = (*found, ShiftScore(shift, *scores))
            yield found
