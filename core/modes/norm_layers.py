"""BatchNorm layers of a network, and what is wrong with their statistics."""

import numpy as np
import numpy.typing as npt
from torch import nn

from core.model.fit import weights_problems
from core.modes.copies import BatchNorm

Floats = npt.NDArray[np.float64]


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
