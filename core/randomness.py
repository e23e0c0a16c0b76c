"""Every random number of a run follows from (seed, what it is for, where in the run): nothing is drawn from shared state.

So pausing, evaluating, drawing or a second training cannot shift anybody's numbers, and a run can be taken up at any step.
"""

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def seed_for(seed: int, purpose: str, *place: int) -> int:
    """A 63-bit seed for one purpose at one place of a run; different arguments give unrelated seeds."""
    text = f"{seed}/{purpose}/{'/'.join(map(str, place))}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator_for(seed: int, purpose: str, *place: int, device: str = "cpu") -> "torch.Generator":
    """A fresh torch generator seeded by `seed_for`."""
    import torch

    return torch.Generator(device).manual_seed(seed_for(seed, purpose, *place))
