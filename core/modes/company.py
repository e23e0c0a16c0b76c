"""One image's answer in train mode beside different kinds of images."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from core.data.batches import normalise
from core.data.sources import MEAN, STD, Digits
from core.model.predictor import Images
from core.modes.batch_mates import batch_mates
from core.modes.copies import (
    BATCHNORM_ONLY,
    EVAL,
    LARGE_BATCH,
    Answers,
    asked_in_mode,
    batches_of,
    copy_in_mode,
    forward,
    unchanged,
)
from core.status import Progress

MatesAsked = Literal["eval", "mixed", "own_class", "one_class", "outlier", "blank", "drawings"]
MATES_ASKED: tuple[MatesAsked, ...] = ("eval", "mixed", "own_class", "one_class", "outlier", "blank", "drawings")


@dataclass(frozen=True, eq=False)
class MatesRow:
    """The answers beside one kind of batch mates.

    Attributes:
        mates: which ones; "eval" is eval mode, where they do not matter.
        probabilities: float32 (10,), the answer for the image that is looked at closely.
        accuracy: of many digits, each in turn alone among such mates, in [0, 1].
    """

    mates: MatesAsked
    probabilities: npt.NDArray[np.float32]
    accuracy: float


def beside_mates(
    model: nn.Module, digits: Digits, image: Digits, *, size: int, other: int, drawings: npt.NDArray[np.uint8], seed: int = 0
) -> Iterator[Progress | tuple[MatesRow, ...]]:
    """The same digits in batches with different mates: BatchNorm in train mode, Dropout off. Gives the rows so far.

    Args:
        digits: each of them joins `size - 1` mates in turn. image: one more, looked at closely.
        other: the class of "one_class". drawings: uint8 (m, 28, 28), at least one, for "drawings"; left out when empty.
    """
    with unchanged(model):
        asked = Digits(np.concatenate([image.images, digits.images]), np.concatenate([image.labels, digits.labels]))
        everyone = batches_of("stored", asked.labels, LARGE_BATCH)
        answers = yield from asked_in_mode(model, EVAL, asked, everyone, "Eval mode", seed)
        rows = (_mates_row("eval", answers),)
        yield rows
        copied = copy_in_mode(model, BATCHNORM_ONLY)
        for kind in MATES_ASKED[1:]:
            if kind == "drawings" and not len(drawings):
                continue
            logits = np.empty((len(asked), 10), np.float32)
            # One digit at a time among mates of its own: in one batch the digits would be each other's mates.
            for place, label in enumerate(asked.labels.tolist()):
                mates = _mates_for(kind, size - 1, digits, label, other, drawings, seed + place)
                own = normalise(torch.from_numpy(asked.images[place : place + 1])).numpy()
                logits[place] = forward(copied, torch.from_numpy(np.concatenate([own, mates])))[0].numpy()
                if place % 10 == 0:
                    yield Progress(place, len(asked), f"Beside {kind.replace('_', ' ')}", "digits")
            rows = (*rows, _mates_row(kind, Answers(logits, asked.labels)))
            yield rows


def _mates_row(kind: MatesAsked, answers: Answers) -> MatesRow:
    return MatesRow(kind, answers.probabilities(0), Answers(answers.logits[1:], answers.labels[1:]).accuracy)


def _mates_for(
    kind: MatesAsked, count: int, digits: Digits, label: int, other: int, drawings: npt.NDArray[np.uint8], seed: int
) -> Images:
    """float32 (count, 1, 28, 28), normalised."""
    if kind == "own_class":
        return batch_mates("one_class", count, digits, label=label, seed=seed)
    if kind == "outlier":
        mates = batch_mates("mixed", count, digits, seed=seed)
        mates[:1] = (255 * (mates[:1] * STD + MEAN) - MEAN) / STD  # an image that nobody divided by 255
        return mates
    assert kind != "eval"
    return batch_mates(kind, count, digits, label=other, drawings=drawings, seed=seed)
