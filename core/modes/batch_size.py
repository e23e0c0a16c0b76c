"""How accuracy in train mode depends on how many digits share a batch, and what a batch of one does to each layer."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from core.data.sources import Digits
from core.model.predictor import Images
from core.modes.copies import (
    BATCHNORM_ONLY,
    EVAL,
    LARGE_BATCH,
    TRAIN,
    BatchNorm,
    BatchOfOneError,
    MakeUp,
    asked_in_mode,
    batches_of,
    forward,
    mode_layers,
    switched,
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


def batch_sizes(
    model: nn.Module, digits: Digits, *, sizes: Sequence[int] = SIZES, make_up: MakeUp = "shuffled", seed: int = 0
) -> Iterator[Progress | float | SizeScore]:
    """Train mode's accuracy over batch sizes. First eval mode's accuracy (a float), then a SizeScore for each size."""
    with unchanged(model):
        stored = batches_of("stored", digits.labels, LARGE_BATCH)
        yield (yield from asked_in_mode(model, EVAL, digits, stored, "Eval mode", seed)).accuracy
        for size in sorted(sizes, reverse=True):  # the quick ones first
            batches, words = batches_of(make_up, digits.labels, size, seed), f"Train mode, batches of {size}"
            try:
                train = (yield from asked_in_mode(model, TRAIN, digits, batches, words, seed)).accuracy
                batchnorm = train
                if mode_layers(model).dropout:
                    batchnorm = (yield from asked_in_mode(model, BATCHNORM_ONLY, digits, batches, words, seed)).accuracy
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
