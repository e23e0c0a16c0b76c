"""The training digits most like an image, and whether it is like any of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from core.data.sources import Digits
from core.finding import Finding, Verdict
from core.model.predictor import Prediction

_CHUNK = 5_000
_PROBES = 256  # test digits, from whose distances "usual" is taken


@dataclass(frozen=True, eq=False)
class Neighbour:
    """A training digit that is like an image.

    Attributes:
        image: uint8 (28, 28). label: 0 to 9. distance: root mean square of the differences of both, blurred; in [0, 1].
    """

    image: npt.NDArray[np.uint8]
    label: int
    distance: float


class Likeness:
    """How like an image is to each of a set of digits: the root mean square of their pixels' differences. Both sides are
    blurred over 3x3 pixels, so that a line one pixel off still counts as near.

    Args:
        image: (28, 28), 0 to 1.
    """

    def __init__(self, image: npt.NDArray[np.float32], digits: Digits) -> None:
        self._digits = digits
        self._own = _blurred(torch.from_numpy(image)[None, None])
        self._distances = _distances(self._own, digits)[:, 0]

    def nearest(self, label: int | None = None, count: int = 4) -> tuple[Neighbour, ...]:
        """The nearest digits of one class, or of any; nearest first, none when there is no such digit."""
        labels = self._digits.labels
        indices = np.flatnonzero(labels == label) if label is not None else np.arange(len(labels))
        best = indices[np.argsort(self._distances[indices], kind="stable")[:count]]
        images = torch.from_numpy(self._digits.images[best]).float() / 255
        # The quick way to all distances loses digits where two images are nearly the same.
        exact = (_blurred(images) - self._own).square().mean((1, 2, 3)).sqrt().tolist()
        found = [
            Neighbour(self._digits.images[place, 0], int(labels[place]), distance)
            for place, distance in zip(best, exact, strict=True)
        ]
        return tuple(sorted(found, key=lambda one: one.distance))


def nearest_findings(likeness: Likeness, train: Digits, test: Digits, prediction: Prediction) -> tuple[Finding, ...]:
    """What the nearest training digit says of an image and its answer: another digit, or that none is near.

    Args:
        train: what `likeness` was made with. test: digits the network has not seen, which tell what distance is usual.
    """
    closest = likeness.nearest(count=1)
    if not closest or not prediction.is_answer or not len(test):
        return ()
    (near,), found = closest, []
    half, most = usual_distances(train, test)
    if near.distance > most:
        evidence = (
            f"It is like no training digit: the nearest, a {near.label}, is {near.distance:.2f} away. Half of the test digits "
            f"have one within {half:.2f}, 95 of 100 within {most:.2f}."
        )
        advice = "What a network says so far from its data is a guess, however sure it is."
        found.append(Finding("distance", evidence, Verdict.NOTE, advice))
    if near.label != prediction.digit:
        evidence = (
            f"The nearest training digit is a {near.label}, not a {prediction.digit}: {near.distance:.3f} away, the nearest "
            f"{prediction.digit} {_away(likeness, prediction.digit)}."
        )
        found.append(Finding("nearest", evidence, Verdict.NOTE))
    return tuple(found)


def _away(likeness: Likeness, digit: int) -> str:
    near = likeness.nearest(digit, 1)
    return f"{near[0].distance:.3f}" if near else "is not among them"


@lru_cache(maxsize=4)
def usual_distances(train: Digits, test: Digits) -> tuple[float, float]:
    """(median, 95th percentile) of the distances from test digits to their nearest training digit."""
    probes = _blurred(torch.from_numpy(test.images[:_PROBES].copy()).float() / 255)
    median, most = np.quantile(_distances(probes, train).min(0), [0.5, 0.95])
    return float(median), float(most)


def _distances(blurred: Tensor, digits: Digits) -> npt.NDArray[np.float32]:
    """From each of n blurred images to each of N digits: float32 (N, n).

    |Kb - Ka|^2 = |Kb|^2 + |Ka|^2 - 2 b . KKa, where K, the blur, is symmetric: one product instead of N blurred images.
    """
    twice = _blurred(blurred).reshape(len(blurred), -1).T
    dots = torch.cat([chunk.reshape(len(chunk), -1) @ twice for chunk in _chunks(digits)])
    squares = _squares(digits)[:, None] + blurred.square().sum((1, 2, 3))[None] - 2 * dots
    return (squares.clamp_(min=0) / blurred[0].numel()).sqrt_().numpy()


@lru_cache(maxsize=4)
def _squares(digits: Digits) -> Tensor:
    """|Kb|^2 of each digit; float32 (N,). Worked out once for a set: it takes a second for 60,000."""
    return torch.cat([_blurred(chunk).square().sum((1, 2, 3)) for chunk in _chunks(digits)])


def _chunks(digits: Digits) -> Iterator[Tensor]:
    for start in range(0, len(digits), _CHUNK):
        yield torch.from_numpy(digits.images[start : start + _CHUNK].copy()).float().div_(255)


def _blurred(images: Tensor) -> Tensor:
    return F.avg_pool2d(images, 3, stride=1, padding=1)
