"""What the mode does to accuracy: one switch, the batch size, and the company in a batch.

Each experiment is a generator that gives `Progress` and results as they come, works on deep copies and checks by a hash that
the model is the same afterwards.
"""

import contextlib
import copy
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from core.batches import normalise
from core.data import MEAN, STD, Digits
from core.events import Progress
from core.modes import (
    BATCHNORM_ONLY,
    DROPOUT_ONLY,
    EVAL,
    TRAIN,
    Answers,
    BatchNorm,
    BatchOfOneError,
    Indices,
    MakeUp,
    Switch,
    ask,
    batches_of,
    company_of,
    forward,
    mode_layers,
    switched,
    unchanged,
)
from core.predictor import Images

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_LARGE = 250  # eval mode's answer does not depend on the batch


# --- one switch --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OneSwitch:
    """The same weights asked about the same digits: in eval mode, in train mode, and with one kind of layer switched."""

    eval: Answers
    train: Answers
    batchnorm: Answers
    dropout: Answers

    @property
    def changed(self) -> Indices:
        """Places of the digits that eval mode and train mode answer differently."""
        return np.flatnonzero(self.eval.digits != self.train.digits)


def one_switch(
    model: nn.Module, digits: Digits, *, size: int, make_up: MakeUp, seed: int = 0
) -> Iterator[Progress | OneSwitch]:
    """Accuracy and loss of eval mode, train mode, BatchNorm alone and Dropout alone in train mode.

    Args:
        size: batch size, 1 or more. make_up: which digits share a batch.
    """
    layers, batches = mode_layers(model), batches_of(make_up, digits.labels, size, seed)
    with unchanged(model):
        in_eval = yield from _asked(model, EVAL, digits, batches_of("stored", digits.labels, _LARGE), "Eval mode", seed)
        batchnorm = dropout = in_eval
        if layers.batchnorm:
            batchnorm = yield from _asked(model, BATCHNORM_ONLY, digits, batches, "BatchNorm in train mode", seed)
        if layers.dropout:
            dropout = yield from _asked(model, DROPOUT_ONLY, digits, batches, "Dropout in train mode", seed)
        train = batchnorm if layers.batchnorm else dropout
        if layers.batchnorm and layers.dropout:
            train = yield from _asked(model, TRAIN, digits, batches, "Train mode", seed)
    yield OneSwitch(in_eval, train, batchnorm, dropout)


def _asked(
    model: nn.Module, switch: Switch, digits: Digits, batches: Sequence[Indices], words: str, seed: int
) -> Generator[Progress, None, Answers]:
    steps = ask(switched(model, switch), digits, batches, seed=seed)
    while True:
        try:
            done = next(steps)
        except StopIteration as end:
            return end.value
        yield Progress(done, len(digits), words, "digits")


# --- batch size --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SizeScore:
    """Accuracy in [0, 1] at one batch size: train mode, and BatchNorm alone in train mode. None, with the reason, where a
    batch of one has no answer."""

    size: int
    train: float | None
    batchnorm: float | None
    reason: str = ""


@dataclass(frozen=True)
class LayerOfOne:
    """What a layer makes of a single image in train mode.

    Attributes:
        name: within the model. kind: its class. values: numbers that a BatchNorm layer averages for one channel; None for
            other layers. words: what happens, with PyTorch's own error where there is one.
    """

    name: str
    kind: str
    values: int | None
    words: str


def batch_sizes(
    model: nn.Module, digits: Digits, *, sizes: Sequence[int] = SIZES, make_up: MakeUp = "shuffled", seed: int = 0
) -> Iterator[Progress | float | SizeScore]:
    """Train mode's accuracy over batch sizes. First eval mode's accuracy (a float), then a SizeScore for each size."""
    with unchanged(model):
        stored = batches_of("stored", digits.labels, _LARGE)
        yield (yield from _asked(model, EVAL, digits, stored, "Eval mode", seed)).accuracy
        for size in sorted(sizes, reverse=True):  # the quick ones first
            batches, words = batches_of(make_up, digits.labels, size, seed), f"Train mode, batches of {size}"
            try:
                train = (yield from _asked(model, TRAIN, digits, batches, words, seed)).accuracy
                batchnorm = train
                if mode_layers(model).dropout:
                    batchnorm = (yield from _asked(model, BATCHNORM_ONLY, digits, batches, words, seed)).accuracy
                yield SizeScore(size, train, batchnorm)
            except BatchOfOneError as error:
                yield SizeScore(size, None, None, str(error))


def layers_with_one(model: nn.Module, image: Images) -> list[LayerOfOne]:
    """Send one image (1, 1, 28, 28) through a copy in train mode and say, layer by layer, what becomes of it; the last line
    is BatchNorm1d on ten numbers, which PyTorch refuses, for comparison."""
    twin, found = switched(model, TRAIN), []

    def look(name: str, module: nn.Module) -> None:
        def hook(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            found.append(_layer_of_one(name, module, inputs[0]))

        module.register_forward_pre_hook(hook)

    for name, module in twin.named_modules():
        if not any(module.children()):
            look(name, module)
    with contextlib.suppress(BatchOfOneError):  # the layer that raises has said so itself
        forward(twin, torch.from_numpy(image))
    return [*found, _layer_of_one("(not in this model)", nn.BatchNorm1d(10), torch.arange(10.0)[None])]


def _layer_of_one(name: str, module: nn.Module, given: torch.Tensor) -> LayerOfOne:
    kind = type(module).__name__
    if isinstance(module, BatchNorm):
        values = given.numel() // given.shape[1]
        try:
            copy.deepcopy(module).forward(given)  # not called: a call would run the hook again
        except ValueError as error:
            return LayerOfOne(name, kind, values, f"refuses: ValueError: {error}")
        return LayerOfOne(name, kind, values, f"normalises with the mean of this image's own {values} values a channel")
    if isinstance(module, nn.Dropout):
        return LayerOfOne(name, kind, None, f"drops {module.p:.0%} at random; the batch size does not matter")
    return LayerOfOne(name, kind, None, "the same in both modes")


# --- company -----------------------------------------------------------------------------------------------------------

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
        everyone = batches_of("stored", asked.labels, _LARGE)
        answers = yield from _asked(model, EVAL, asked, everyone, "Eval mode", seed)
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
