"""How accuracy in train mode depends on how many digits share a batch, and what a batch of one does to each layer."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from core.data.batches import normalise
from core.data.sources import Digits
from core.errors import BatchOfOneError
from core.model.predictor import Images
from core.modes.copies import (
    BATCHNORM_ONLY,
    EVAL,
    LARGE_BATCH,
    TRAIN,
    BatchNorm,
    BatchOrder,
    asked_in_mode,
    batches_of,
    copy_in_mode,
    forward,
    mode_layers,
    unchanged,
)
from core.status import Progress

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


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


@dataclass(frozen=True)
class BatchSizes:
    """What is known so far.

    Attributes:
        eval: eval mode's accuracy, in [0, 1], whatever the batch. layers: see `layers_with_one`.
        scores: of train mode, in the order they were measured.
    """

    eval: float
    layers: tuple[LayerOfOne, ...]
    scores: tuple[SizeScore, ...] = ()


def batch_sizes(
    model: nn.Module, digits: Digits, *, sizes: Sequence[int] = SIZES, order: BatchOrder = "shuffled", seed: int = 0
) -> Iterator[Progress | BatchSizes]:
    """Eval mode's accuracy, then train mode's at each batch size, the largest first."""
    with unchanged(model):
        stored = batches_of("stored", digits.labels, LARGE_BATCH)
        in_eval = (yield from asked_in_mode(model, EVAL, digits, stored, "Eval mode", seed)).accuracy
        found = BatchSizes(in_eval, tuple(layers_with_one(model, normalise(torch.from_numpy(digits.images[:1])).numpy())))
        yield found
        for size in sorted(sizes, reverse=True):  # the quick ones first
            batches, words = batches_of(order, digits.labels, size, seed), f"Train mode, batches of {size}"
            try:
                train = (yield from asked_in_mode(model, TRAIN, digits, batches, words, seed)).accuracy
                batchnorm = train
                if mode_layers(model).dropout:
                    batchnorm = (yield from asked_in_mode(model, BATCHNORM_ONLY, digits, batches, words, seed)).accuracy
                score = SizeScore(size, train, batchnorm)
            except BatchOfOneError as error:
                score = SizeScore(size, None, None, str(error))
            found = replace(found, scores=(*found.scores, score))
            yield found


def layers_with_one(model: nn.Module, image: Images) -> list[LayerOfOne]:
    """Send one image (1, 1, 28, 28) through a copy in train mode and say, layer by layer, what becomes of it; the last line
    is BatchNorm1d on ten numbers, which PyTorch refuses, for comparison."""
    copied, found = copy_in_mode(model, TRAIN), []

    def look(name: str, module: nn.Module) -> None:
        def hook(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            found.append(_layer_of_one(name, module, inputs[0]))

        module.register_forward_pre_hook(hook)

    for name, module in copied.named_modules():
        if not any(module.children()):
            look(name, module)
    with contextlib.suppress(BatchOfOneError):  # the layer that raises has said so itself
        forward(copied, torch.from_numpy(image))
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
