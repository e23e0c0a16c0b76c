"""Are two training states the same, bit for bit?"""

import torch
from torch import Tensor

from core.preflight.repeatability import flat
from core.training.state import TrainState

PLAIN = (
    "step",
    "epoch",
    "batch",
    "skipped_updates",
    "lowest_loss",
    "validated_step",
    "stale_validations",
    "best_step",
    "best_score",
)


def same_bits(first: TrainState, second: TrainState) -> str:
    """The first part in which two states differ, by name; "" when every bit is the same."""
    for part in ("model", "optimizer"):
        left = flat(getattr(first, part).state_dict())
        right = flat(getattr(second, part).state_dict())
        for name in {**left, **right}:
            one, other = left.get(name), right.get(name)
            equal = torch.equal(one, other) if isinstance(one, Tensor) and isinstance(other, Tensor) else one == other
            if not equal:
                return f"{part}.{name}"
    return next((name for name in PLAIN if getattr(first, name) != getattr(second, name)), "")
