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
from core.modes.batch_mates import company_of
from core.modes.copies import (
    BATCHNORM_ONLY,
    EVAL,
    LARGE_BATCH,
    Answers,
    asked_in_mode,
    batches_of,
    forward,
    switched,
    unchanged,
)
from core.status import Progress

Companions = Literal["eval", "mixed", "own_class", "one_class", "outlier", "blank", "drawings"]
COMPANIONS: tuple[Companions, ...] = ("eval", "mixed", "own_class", "one_class", "outlier", "blank", "drawings")


@dataclass(frozen=True, eq=False)
class CompanyRow:
    """One kind of company.

    Attributes:
        kind: "eval" is eval mode, where company does not matter.
        probabilities: float32 (10,), the answer for the image that is looked at closely.
        accuracy: of many digits, each in turn alone among such companions, in [0, 1].
    """

    kind: Companions
    probabilities: npt.NDArray[np.float32]
    accuracy: float


def companies(
    model: nn.Module, digits: Digits, image: Digits, *, size: int, other: int, drawings: npt.NDArray[np.uint8], seed: int = 0
) -> Iterator[Progress | CompanyRow]:
    """The same digits in batches with different companions: BatchNorm in train mode, Dropout off.

    Args:
        digits: each of them joins `size - 1` companions in turn. image: one more, looked at closely.
        other: the class of "one_class". drawings: uint8 (m, 28, 28), at least one, for "drawings"; left out when empty.
    """
    with unchanged(model):
        asked = Digits(np.concatenate([image.images, digits.images]), np.concatenate([image.labels, digits.labels]))
        everyone = batches_of("stored", asked.labels, LARGE_BATCH)
        answers = yield from asked_in_mode(model, EVAL, asked, everyone, "Eval mode", seed)
        yield _company_row("eval", answers)
        twin = switched(model, BATCHNORM_ONLY)
        for kind in COMPANIONS[1:]:
            if kind == "drawings" and not len(drawings):
                continue
            logits = np.empty((len(asked), 10), np.float32)
            for place, label in enumerate(asked.labels.tolist()):
                company = _companions(kind, size - 1, digits, label, other, drawings, seed + place)
                own = normalise(torch.from_numpy(asked.images[place : place + 1])).numpy()
                logits[place] = forward(twin, torch.from_numpy(np.concatenate([own, company])))[0].numpy()
                if place % 10 == 0:
                    yield Progress(place, len(asked), f"Company: {kind.replace('_', ' ')}", "digits")
            yield _company_row(kind, Answers(logits, asked.labels))


def _company_row(kind: Companions, answers: Answers) -> CompanyRow:
    return CompanyRow(kind, answers.probabilities(0), Answers(answers.logits[1:], answers.labels[1:]).accuracy)


def _companions(
    kind: Companions, count: int, digits: Digits, label: int, other: int, drawings: npt.NDArray[np.uint8], seed: int
) -> Images:
    """float32 (count, 1, 28, 28), normalised."""
    if kind == "own_class":
        return company_of("one_class", count, digits, label=label, seed=seed)
    if kind == "outlier":
        company = company_of("mixed", count, digits, seed=seed)
        company[:1] = (255 * (company[:1] * STD + MEAN) - MEAN) / STD  # an image that nobody divided by 255
        return company
    assert kind != "eval"
    return company_of(kind, count, digits, label=other, drawings=drawings, seed=seed)
