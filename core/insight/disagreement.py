"""Two models on the same test digits: what each gets right, and the digits on which they disagree."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from core.answers import NO_ANSWER, answers_of
from core.data.batches import normalise
from core.data.sources import Digits
from core.model.predictor import Predictor
from core.status import Progress
from core.training.evaluation import confusion_of

SHOWN = 24
_BATCH = 500


@dataclass(frozen=True)
class Dispute:
    """A digit on which two models disagree.

    Attributes:
        index: its place in the split. label: what it is. answers: what each says, NO_ANSWER when nothing.
        confidences: each in [0, 1]. image: 784 grey values, row by row.
    """

    index: int
    label: int
    answers: tuple[int, int]
    confidences: tuple[float, float]
    image: bytes


@dataclass(frozen=True, eq=False)
class Disagreement:
    """Two models on one split.

    Attributes:
        counts: {"both right", "only first", "only second", "both wrong, alike", "both wrong, differently"}: digits.
        confusions: int64 (2, 10, 10): label by answer.
        disputes: digits with different answers, those first about which both are surest.
        disputed: how many there are in all. steps: updates behind the weights of each model.
        unanswered: digits to which each gave no answer, NaN; they count as wrong.
    """

    counts: dict[str, int]
    confusions: npt.NDArray[np.int64]
    disputes: tuple[Dispute, ...]
    disputed: int
    steps: tuple[int, int]
    unanswered: tuple[int, int] = (0, 0)

    @property
    def p_value(self) -> float:
        """How likely a difference in accuracy this large is by chance alone: McNemar's exact test on the digits that only one
        of the two gets right (McNemar 1947)."""
        from scipy.stats import binomtest

        first, second = self.counts["only first"], self.counts["only second"]
        return float(binomtest(first, first + second, 0.5).pvalue) if first + second else 1.0


def disagreement(first: Predictor, second: Predictor, digits: Digits) -> Iterator[Progress | Disagreement]:
    """Ask two models about every digit, in eval mode. Gives progress, then the result."""
    total = 2 * len(digits)
    answers, confidences = np.empty((2, len(digits)), np.int64), np.empty((2, len(digits)), np.float32)
    for place, predictor in enumerate((first, second)):
        for start in range(0, len(digits), _BATCH):
            yield Progress(place * len(digits) + start, total, f"Asking the {('first', 'second')[place]} model", "digits")
            images = torch.from_numpy(digits.images[start : start + _BATCH].copy())
            with torch.inference_mode():
                shares = predictor.model(normalise(images)).softmax(1)
            answers[place, start : start + _BATCH] = answers_of(shares)
            confidences[place, start : start + _BATCH] = shares.max(1).values.nan_to_num(0.0)  # no answer, no confidence
    yield _compared(answers, confidences, digits, (first.step, second.step))


def _compared(
    answers: npt.NDArray[np.int64], confidences: npt.NDArray[np.float32], digits: Digits, steps: tuple[int, int]
) -> Disagreement:
    right = answers == digits.labels
    alike = answers[0] == answers[1]
    counts = {
        "both right": right.all(0),
        "only first": right[0] & ~right[1],
        "only second": right[1] & ~right[0],
        "both wrong, alike": ~right.any(0) & alike,
        "both wrong, differently": ~right.any(0) & ~alike,
    }
    disputed = np.flatnonzero(~alike)
    order = disputed[np.argsort(-confidences[:, disputed].min(0), kind="stable")]
    disputes = tuple(
        Dispute(
            int(index),
            int(digits.labels[index]),
            (int(answers[0, index]), int(answers[1, index])),
            (float(confidences[0, index]), float(confidences[1, index])),
            digits.images[index].tobytes(),
        )
        for index in order[:SHOWN]
    )
    confusions = np.stack([confusion_of(digits.labels, answer) for answer in answers])
    found = {name: int(mask.sum()) for name, mask in counts.items()}
    first, second = (answers == NO_ANSWER).sum(1).tolist()
    return Disagreement(found, confusions, disputes, len(disputed), steps, (first, second))
