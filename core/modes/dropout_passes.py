"""Dropout on one image: many passes as a spread, and how scaling by 1 / (1 - p) keeps their mean at eval mode's answer."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from core.model.networks import reseed_dropout
from core.model.predictor import Images
from core.modes.copies import DROPOUT_ONLY, EVAL, copy_in_mode, forward, unchanged
from core.status import Progress

_BATCH = 100


@dataclass(frozen=True, eq=False)
class DropoutPasses:
    """One image through a model with Dropout in train mode and BatchNorm in eval mode.

    Attributes:
        p: the share that is dropped.
        in_eval: float32 (10,), eval mode's logits.
        logits: float32 (passes, 10), each pass with a mask of its own.
        unscaled: float32 (passes, 10), the same masks without the division by 1 - p.
    """

    p: float
    in_eval: npt.NDArray[np.float32]
    logits: npt.NDArray[np.float32]
    unscaled: npt.NDArray[np.float32]

    def probabilities(self) -> npt.NDArray[np.float32]:
        """float32 (passes, 10)."""
        return torch.from_numpy(self.logits).softmax(1).numpy()

    def mean_so_far(self, digit: int, *, unscaled: bool = False) -> npt.NDArray[np.float64]:
        """float64 (passes,): the mean logit of one digit over the first 1, 2, 3, ... passes."""
        values = (self.unscaled if unscaled else self.logits)[:, digit].astype(np.float64)
        return np.cumsum(values) / np.arange(1, len(values) + 1)


def dropout_passes(
    model: nn.Module, image: Images, *, p: float, passes: int, seed: int = 0
) -> Iterator[Progress | DropoutPasses]:
    """Many passes of one image.

    Args:
        image: (1, 1, 28, 28), normalised. p: set on every Dropout layer of a copy, in [0, 1).
    """
    with unchanged(model):
        one = torch.from_numpy(image)
        in_eval = forward(copy_in_mode(model, EVAL), one)[0].numpy()
        scaled, unscaled = copy_in_mode(model, DROPOUT_ONLY), copy_in_mode(model, DROPOUT_ONLY)
        for copied in (scaled, unscaled):
            for module in _dropouts(copied):
                module.p = p
        # A hook takes the layer's own division by 1 - p out again, with the very same masks.
        for module in _dropouts(unscaled):
            module.register_forward_hook(_without_scaling)
        found: dict[nn.Module, list[Tensor]] = {scaled: [], unscaled: []}
        for start in range(0, passes, _BATCH):
            count = min(_BATCH, passes - start)
            for copied, logits in found.items():
                # In eval mode BatchNorm treats each row by itself, so a batch of copies is so many passes.
                reseed_dropout(copied, seed, start)
                logits.append(forward(copied, one.expand(count, 1, 28, 28)))
            yield Progress(start + count, passes, "Passes with dropout", "passes")
    yield DropoutPasses(p, in_eval, *(torch.cat(logits).numpy() for logits in found.values()))


def _dropouts(model: nn.Module) -> list[nn.Dropout]:
    return [module for module in model.modules() if isinstance(module, nn.Dropout)]


def _without_scaling(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    assert isinstance(module, nn.Dropout)
    return output * (1 - module.p)
