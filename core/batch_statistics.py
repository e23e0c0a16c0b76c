"""Inside BatchNorm: a batch's statistics against the running ones, how they are poisoned, and how they are set right."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from core.batches import normalise
from core.data import Digits
from core.evaluation import finish
from core.events import Progress
from core.model_fit import weights_problems
from core.models import reseed_dropout
from core.modes import (
    BATCHNORM_ONLY,
    EVAL,
    BatchNorm,
    ask,
    batches_of,
    forward,
    switched,
    unchanged,
)
from core.predictor import Images
from core.randomness import generator_for

Floats = npt.NDArray[np.float64]
BINS = 48


def norm_layers(model: nn.Module) -> dict[str, BatchNorm]:
    """The BatchNorm layers by name, in the order of the forward pass."""
    return {name: module for name, module in model.named_modules() if isinstance(module, BatchNorm)}


def statistics_problems(model: nn.Module) -> list[str]:
    """What is wrong with the weights and running statistics, in words; empty when eval mode can use them."""
    found = [
        f"{name} keeps no {what}: eval mode uses each batch's own statistics."
        for name, layer in norm_layers(model).items()
        for what in ("running_mean", "running_var")
        if getattr(layer, what) is None
    ]
    return found + weights_problems(model.state_dict())


# --- inside a layer ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LayerInside:
    """A BatchNorm layer while a batch goes through in train mode, one value a channel, (c,).

    Attributes:
        batch_mean, batch_variance: of the values that come in; the variance divided by n, as train mode normalises.
        running_mean, running_variance: what eval mode uses. weight, bias: gamma and beta. eps: added to the variance.
        values: n, how many numbers a channel's statistics are made of.
        edges: (BINS + 1,) of the histograms of one channel. before: counts of what comes in, (BINS,).
        after_edges: likewise for what goes out. after_eval, after_train: counts by the running and by the batch statistics.
        channel: which one the histograms show.
    """

    name: str
    batch_mean: Floats
    batch_variance: Floats
    running_mean: Floats
    running_variance: Floats
    weight: Floats
    bias: Floats
    eps: float
    values: int
    channel: int
    edges: Floats
    before: npt.NDArray[np.int64]
    after_edges: Floats
    after_eval: npt.NDArray[np.int64]
    after_train: npt.NDArray[np.int64]


def inside_layer(model: nn.Module, images: Images, layer: str, channel: int) -> LayerInside:
    """Look at one BatchNorm layer of a copy in train mode, Dropout off, while images (n, 1, 28, 28) go through.

    Raises:
        KeyError: no BatchNorm layer of that name. IndexError: no such channel. BatchOfOneError: see `modes.forward`.
    """
    with unchanged(model):
        twin = switched(model, BATCHNORM_ONLY)
        norm, seen = norm_layers(twin)[layer], {}
        running = doubles(norm.running_mean), doubles(norm.running_var)  # before this batch moves the copy's
        norm.register_forward_pre_hook(lambda _, inputs: seen.update(x=inputs[0].double()))
        forward(twin, torch.from_numpy(images))
    x: Tensor = seen["x"]
    others = [axis for axis in range(x.dim()) if axis != 1]
    mean, variance = x.mean(others).numpy(), x.var(others, correction=0).numpy()
    weight, bias = doubles(norm.weight), doubles(norm.bias)
    values = x.select(1, channel).reshape(-1).numpy()
    in_eval, in_train = (
        (values - m[channel]) / _root(v[channel] + norm.eps) * weight[channel] + bias[channel]
        for m, v in (running, (mean, variance))
    )
    edges, (before,) = _histograms(values)
    after_edges, (after_eval, after_train) = _histograms(in_eval, in_train)
    return LayerInside(
        layer, mean, variance, *running, weight, bias, norm.eps, len(values), channel,
        edges, before, after_edges, after_eval, after_train,
    )  # fmt: skip


def _histograms(*groups: Floats) -> tuple[Floats, list[npt.NDArray[np.int64]]]:
    """(edges over all groups, counts of each). Values that are not finite, or nearly so, lie in no bin: a broken model is
    looked at, too."""
    finite = [values[np.abs(values) < 1e150] for values in groups]
    together = np.concatenate(finite)
    together = together if len(together) else np.zeros(1)
    low, high = float(together.min()), float(together.max())
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # no room for bins between such large numbers
        low, high = low - 0.5 - 1e-6 * abs(low), high + 0.5 + 1e-6 * abs(high)
    edges = np.histogram_bin_edges(together, BINS, (low, high))
    return edges, [np.histogram(values, edges)[0] for values in finite]


def _root(value: float) -> float:
    """A square root; NaN below 0, without a warning: a damaged variance is shown, not hidden."""
    return float(np.sqrt(value)) if value >= 0 else float("nan")


def doubles(values: Tensor | None) -> Floats:
    """A copy of a tensor as float64, for arithmetic that is shown."""
    assert values is not None
    return values.detach().double().cpu().numpy().copy()


# --- poisoning and recalibration ---------------------------------------------------------------------------------------

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
    model: nn.Module, digits: Digits, clean: Digits, poison: Poison, *, forwards: int = 50, label: int = 0, size: int = 64,
    recalibration: int = 20, seed: int = 0,
) -> Iterator[Progress | PoisonScore]:  # fmt: skip
    """Let bad batches go through a copy in train mode under no_grad, then reset its statistics and let clean ones through.

    Args:
        digits: scored in eval mode. clean: training digits for recalibration and for "one_class".
        forwards, recalibration: how many batches of `size` in each part.
    """
    with unchanged(model):
        twin = switched(model, EVAL)
        norms = list(norm_layers(twin).values())
        watched = {*_marks(forwards)}
        yield _poison_score("poison", 0, twin, digits)
        for number in range(1, forwards + 1):
            _in_train_mode(twin, _bad_batch(poison, size, clean, label, seed + number), seed)
            if number in watched:
                yield _poison_score("poison", number, twin, digits)
            yield Progress(number, forwards + recalibration, "Forwards in train mode", "forwards")
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain average over all clean batches
        batches, watched = batches_of("shuffled", clean.labels, size, seed), {*_marks(recalibration)}
        yield _poison_score("recalibrate", 0, twin, digits)
        for number, batch in enumerate(batches[:recalibration], 1):
            _in_train_mode(twin, normalise(torch.from_numpy(clean.images[batch])), seed)
            if number in watched:
                yield _poison_score("recalibrate", number, twin, digits)
            yield Progress(forwards + number, forwards + recalibration, "Clean forwards after a reset", "forwards")


def _marks(last: int) -> list[int]:
    """1, 2, 3, 5, 8, ... up to and with `last`."""
    marks = [1, 2]
    while marks[-1] < last:
        marks.append(marks[-1] + marks[-2])
    return [mark for mark in marks if mark < last] + [last]


def _in_train_mode(twin: nn.Module, batch: Tensor, seed: int) -> None:
    for norm in norm_layers(twin).values():
        norm.train()
    reseed_dropout(twin, seed, 0)
    forward(twin, batch)
    twin.eval()


def _bad_batch(poison: Poison, size: int, clean: Digits, label: int, seed: int) -> Tensor:
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


def _poison_score(phase: Literal["poison", "recalibrate"], forwards: int, twin: nn.Module, digits: Digits) -> PoisonScore:
    answers = finish(ask(twin, digits, batches_of("stored", digits.labels, 250)))
    first = next(iter(norm_layers(twin).values()))
    assert first.running_mean is not None
    assert first.running_var is not None
    return PoisonScore(phase, forwards, answers.accuracy, int((answers.digits < 0).sum()),
                       float(first.running_mean.mean()), float(first.running_var.mean()))  # fmt: skip
