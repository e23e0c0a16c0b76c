"""Running statistics spoiled by forward passes alone, and recalibrated."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from core.data.batches import normalise
from core.data.sources import Digits
from core.model.networks import reseed_dropout
from core.modes.copies import EVAL, ask, batches_of, copy_in_mode, forward, unchanged
from core.modes.norm_layers import norm_layers
from core.randomness import generator_for
from core.status import Progress, result_of

Poison = Literal["noise", "blank", "one_class", "inf"]
POISONS: tuple[Poison, ...] = ("noise", "blank", "one_class", "inf")


@dataclass(frozen=True)
class PoisonScore:
    """Eval mode's accuracy, in [0, 1], after so many forwards in train mode.

    Attributes:
        phase: "poison" while bad batches go through, "recalibrate" while clean ones do, after a reset.
        running_mean, running_variance: mean over the channels of the first BatchNorm layer.
        unanswered: digits whose answer is not finite.
    """

    phase: Literal["poison", "recalibrate"]
    forwards: int
    accuracy: float
    unanswered: int
    running_mean: float
    running_variance: float


def poisoning(
    model: nn.Module,
    digits: Digits,
    clean: Digits,
    poison: Poison,
    *,
    forwards: int = 50,
    label: int = 0,
    size: int = 64,
    recalibration: int = 20,
    seed: int = 0,
) -> Iterator[Progress | tuple[PoisonScore, ...]]:
    """Let bad batches go through a copy in train mode under no_grad, then reset its statistics and let clean ones through.

    Gives the scores so far.

    Args:
        digits: scored in eval mode. clean: training digits for recalibration and for "one_class".
        forwards, recalibration: how many batches of `size` in each part.
    """
    with unchanged(model):
        copied = copy_in_mode(model, EVAL)
        norms = list(norm_layers(copied).values())
        watched = {*_marks(forwards)}
        scores = (_poison_score("poison", 0, copied, digits),)
        yield scores
        for number in range(1, forwards + 1):
            _in_train_mode(copied, bad_batch(poison, size, clean, label, seed + number), seed)
            if number in watched:
                scores = (*scores, _poison_score("poison", number, copied, digits))
                yield scores
            yield Progress(number, forwards + recalibration, "Forwards in train mode", "forwards")
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain average over all clean batches
        batches, watched = batches_of("shuffled", clean.labels, size, seed), {*_marks(recalibration)}
        scores = (*scores, _poison_score("recalibrate", 0, copied, digits))
        yield scores
        for number, batch in enumerate(batches[:recalibration], 1):
            _in_train_mode(copied, normalise(torch.from_numpy(clean.images[batch])), seed)
            if number in watched:
                scores = (*scores, _poison_score("recalibrate", number, copied, digits))
                yield scores
            yield Progress(forwards + number, forwards + recalibration, "Clean forwards after a reset", "forwards")


def _marks(last: int) -> list[int]:
    """1, 2, 3, 5, 8, ... up to and with `last`."""
    marks = [1, 2]
    while marks[-1] < last:
        marks.append(marks[-1] + marks[-2])
    return [mark for mark in marks if mark < last] + [last]


def _in_train_mode(copied: nn.Module, batch: Tensor, seed: int) -> None:
    for norm in norm_layers(copied).values():
        norm.train()
    reseed_dropout(copied, seed, 0)
    forward(copied, batch)
    copied.eval()


def bad_batch(poison: Poison, size: int, clean: Digits, label: int, seed: int) -> Tensor:
    """float32 (size, 1, 28, 28), as a careless caller might send it."""
    generator = generator_for(seed, "poison")
    if poison == "noise":
        return normalise(torch.randint(0, 256, (size, 1, 28, 28), generator=generator, dtype=torch.uint8))
    if poison == "one_class":
        pool = np.flatnonzero(clean.labels == label)
        chosen = pool[torch.randint(len(pool), (size,), generator=generator).numpy()]
        return normalise(torch.from_numpy(clean.images[chosen]))
    blank = normalise(torch.zeros(size, 1, 28, 28, dtype=torch.uint8))
    if poison == "inf":
        blank[0, 0, 14, 14] = torch.inf
    return blank


def _poison_score(phase: Literal["poison", "recalibrate"], forwards: int, copied: nn.Module, digits: Digits) -> PoisonScore:
    answers = result_of(ask(copied, digits, batches_of("stored", digits.labels, 250)))
    first = next(iter(norm_layers(copied).values()))
    assert first.running_mean is not None
    assert first.running_var is not None
    return PoisonScore(
        phase,
        forwards,
        answers.accuracy,
        int((answers.digits < 0).sum()),
        float(first.running_mean.mean()),
        float(first.running_var.mean()),
    )
