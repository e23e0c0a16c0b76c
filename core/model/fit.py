"""Do weights belong to a network, and are they fit for use? One answer for files of ours and from elsewhere."""

from collections.abc import Mapping
from itertools import zip_longest

import torch
from torch import Tensor, nn

COUNTER = "num_batches_tracked"
BatchNorm = nn.modules.batchnorm._BatchNorm
# A channel whose variance is below this share of its layer's median is multiplied by far more than the others in eval mode.
_TINY_SHARE = 1e-6


def with_counters(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """(the weights with BatchNorm's counters filled in as 0 where they are missing, the names of those)."""
    missing = [name for name in expected if name.endswith(COUNTER) and name not in weights]
    return {**weights, **{name: torch.zeros((), dtype=torch.int64) for name in missing}}, missing


def counters_note(missing: list[str]) -> tuple[str, ...]:
    """A word on counters that were filled in; () when there were none."""
    if not missing:
        return ()
    return (
        f"{', '.join(missing)} missing: how many batches BatchNorm has averaged is unknown, taken as 0. Only momentum None "
        "needs that number.",
    )


def differences(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> list[str]:
    """Names and shapes in which weights differ from what a network expects, in words; empty when they fit."""
    shapes = [
        f"{name} is {tuple(found[name].shape)} instead of {tuple(value.shape)}"
        for name, value in expected.items()
        if name in found and found[name].shape != value.shape
    ]
    missing = [f"{name} is missing" for name in expected if name not in found]
    unknown = [f"{name[:60]!r} is not known" for name in found if name not in expected]
    # In turn, so that the first few show both sides.
    return shapes + [words for pair in zip_longest(missing, unknown) for words in pair if words]


def weights_problems(weights: Mapping[str, Tensor]) -> list[str]:
    """What makes eval mode's answers wrong or no answers at all, in words that name tensor and channels: values that are not
    finite, running variances below 0, or so small that a channel is blown up. Empty when all is well."""
    found = []
    for name, value in weights.items():
        if not value.is_floating_point():
            continue
        if bad := _channels(~torch.isfinite(value)):
            found.append(f"{name} is NaN or infinite in {bad}.")
        elif name.endswith("running_var"):
            if bad := _channels(value < 0):
                found.append(f"{name} is below 0 in {bad}: eval mode takes its square root, which gives NaN.")
            elif bad := _channels(_is_tiny(value)):
                found.append(
                    f"{name} is 0, or next to it, in {bad}: eval mode divides by its square root and blows that "
                    "channel up unless it is silent."
                )
    return found


def _is_tiny(variance: Tensor) -> Tensor:
    """A channel that never fires has variance 0 by right, in any layer; it is harmless as long as it stays silent, and nobody
    can see from the file whether it does."""
    return variance < _TINY_SHARE * variance.median()


def _channels(mask: Tensor) -> str:
    """Which entries along the first axis are meant: "channel 3", "channels 0, 4, 5 and 7 more", "all 32 channels"."""
    rows = mask.reshape(len(mask), -1).any(1) if mask.dim() else mask[None]
    places = rows.nonzero().flatten().tolist()
    if not places:
        return ""
    if len(places) == len(rows) > 1:
        return f"all {len(rows)} channels"
    more = f" and {len(places) - 4} more" if len(places) > 4 else ""
    return f"channel{'s' if len(places) > 1 else ''} {', '.join(map(str, places[:4]))}{more}"
