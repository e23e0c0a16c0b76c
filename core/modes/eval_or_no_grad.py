"""model.eval() against torch.no_grad(): two switches for two different things, measured on the spot."""

import copy
import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor, nn

from core.answers import answers_of
from core.data.batches import normalise
from core.data.sources import Digits
from core.model.networks import reseed_dropout
from core.modes.copies import unchanged
from core.modes.norm_layers import norm_layers
from core.status import Progress

_TIMES = 12


@dataclass(frozen=True)
class Quadrant:
    """One of the four combinations.

    Attributes:
        train_mode: model.train() rather than model.eval(). gradients: autograd records; False under torch.no_grad().
        accuracy: over the digits in one batch, in [0, 1].
        largest_difference: of a logit from that of eval mode.
        statistics_moved: the largest change of a running mean or variance by one forward; 0 when none moved.
        saved_bytes: activations kept for backward, weights left out.
        seconds: of one forward, the quickest of several.
    """

    train_mode: bool
    gradients: bool
    accuracy: float
    largest_difference: float
    statistics_moved: float
    saved_bytes: int
    seconds: float


def two_by_two(model: nn.Module, digits: Digits, *, seed: int = 0) -> Iterator[Progress | tuple[Quadrant, ...]]:
    """The four combinations of mode and gradients for one batch of digits, each on a copy of its own; those so far."""
    images, labels = normalise(torch.from_numpy(digits.images)), torch.from_numpy(digits.labels)
    with unchanged(model):
        expected, found = None, ()
        for train_mode, gradients in ((False, False), (False, True), (True, False), (True, True)):
            yield Progress(2 * train_mode + gradients, 4, "One batch in each combination", "combinations")
            copied = copy.deepcopy(model).train(train_mode).requires_grad_(True)
            reseed_dropout(copied, seed, 0)
            before = _statistics(copied)
            logits, saved = _measured(copied, images, gradients)
            expected = logits if expected is None else expected
            moved = _largest(_statistics(copied) - before)
            quadrant = Quadrant(
                train_mode,
                gradients,
                float((answers_of(logits) == labels).float().mean()),
                _largest(logits - expected),
                moved,
                saved,
                _seconds(copied, images, gradients),
            )
            found = (*found, quadrant)
            yield found


def _largest(change: Tensor) -> float:
    """The largest size; NaN counts as more than any number, and nothing at all as 0."""
    size = change.abs()
    return math.nan if bool(size.isnan().any()) else float(size.max()) if size.numel() else 0.0


def _measured(copied: nn.Module, images: Tensor, gradients: bool) -> tuple[Tensor, int]:
    """(logits, bytes of distinct storages that autograd keeps, weights and the images themselves left out)."""
    known = {value.untyped_storage().data_ptr() for value in (*copied.parameters(), *copied.buffers(), images)}
    kept: dict[int, int] = {}

    def keep(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return value

    with (
        nullcontext() if gradients else torch.no_grad(),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value),
    ):
        logits = copied(images)
    # Read while the graph still lives: what it keeps cannot have been given to anybody else.
    return logits.detach(), sum(kept.values())


def _seconds(copied: nn.Module, images: Tensor, gradients: bool) -> float:
    readings = []
    for _ in range(_TIMES):
        began = perf_counter()
        with nullcontext() if gradients else torch.no_grad():
            copied(images)
        readings.append(perf_counter() - began)
    return min(readings)


def _statistics(copied: nn.Module) -> Tensor:
    """All running means and variances in one vector."""
    found = [value for norm in norm_layers(copied).values() for value in (norm.running_mean, norm.running_var)]
    return torch.cat([value.detach().clone() for value in found if value is not None]) if found else torch.empty(0)
