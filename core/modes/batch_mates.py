"""The images that share a batch with the one that is looked at."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from core.data.batches import normalise
from core.data.sources import Digits
from core.model.predictor import Images
from core.randomness import generator_for

BatchMates = Literal["mixed", "one_class", "blank", "drawings"]
BATCH_MATES: tuple[BatchMates, ...] = ("mixed", "one_class", "blank", "drawings")


def batch_mates(
    kind: BatchMates,
    count: int,
    digits: Digits,
    *,
    label: int = 0,
    drawings: npt.NDArray[np.uint8] | None = None,
    seed: int = 0,
) -> Images:
    """The images that share a batch with one drawing.

    Args:
        kind: "mixed" digits of all classes, "one_class" (all of `label`), "blank" black images, or "drawings", repeated.
        count: how many; 0 for none. digits: where they are drawn from. drawings: uint8 (m, 28, 28), for "drawings".

    Returns:
        float32 (count, 1, 28, 28), normalised.
    """
    # By the count as well: of 7 and of 8 mates the first 7 need not be the same, but each must always be the same.
    generator = np.random.default_rng(int(torch.randint(2**31, (), generator=generator_for(seed, "company", count))))
    if kind == "blank":
        images = np.zeros((count, 1, 28, 28), np.uint8)
    elif kind == "drawings":
        own = np.zeros((1, 28, 28), np.uint8) if drawings is None or not len(drawings) else drawings
        images = own[np.arange(count) % len(own)][:, None]
    else:
        pool = np.flatnonzero(digits.labels == label) if kind == "one_class" else np.arange(len(digits))
        images = digits.images[generator.choice(pool, count, replace=count > len(pool))]
    return normalise(torch.from_numpy(np.ascontiguousarray(images))).numpy()
