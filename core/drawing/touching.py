"""Is this one digit, or two that touch? A small network that saw both, and the places where two could be cut apart.

It was trained on MNIST training digits and as many pairs of them pushed into each other, and never saw a test digit
(`tests/benchmarks/touching.py` makes the weights anew and prints how many pairs of test digits are found, and false alarms).
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
WEIGHTS = Path(__file__).with_name("touching.npz")
# Logits above it mean two: one test digit in two hundred has more.
THRESHOLD = 1.0
# How far the cut may lean: x + lean * y is compared.
_LEANS = (0.0, -0.25, 0.25, -0.5, 0.5)
_CUTS = 6


def is_two(image: npt.NDArray[np.float32]) -> bool:
    """Whether a centred image, float32 (28, 28) of 0 to 1, shows two digits that touch rather than one."""
    return score(image) > THRESHOLD


def score(image: npt.NDArray[np.float32]) -> float:
    """The network's logit: above 0 for two digits."""
    weights = _weights()
    x = image[None]
    for name in ("0", "3", "6"):
        x = np.maximum(_convolved(x, weights[f"{name}.weight"], weights[f"{name}.bias"]), 0)
        if name != "6":
            channels, height, width = x.shape
            x = x.reshape(channels, height // 2, 2, width // 2, 2).max((2, 4))
    return float(x.reshape(-1) @ weights["last.weight"] + weights["last.bias"][0])


def _convolved(
    x: npt.NDArray[np.float32], weight: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """(c, h, w) with (o, c, k, k) -> (o, h, w), zeros around. One matrix product: this is asked for every digit drawn."""
    out, channels, side, _ = weight.shape
    padded = np.pad(x, ((0, 0), (side // 2, side // 2), (side // 2, side // 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (side, side), (1, 2))
    height, width = windows.shape[1:3]
    columns = windows.transpose(1, 2, 0, 3, 4).reshape(height * width, channels * side * side)
    return (columns @ weight.reshape(out, -1).T + bias).T.reshape(out, height, width)


@functools.cache
def _weights() -> dict[str, npt.NDArray[np.float32]]:
    with np.load(WEIGHTS, allow_pickle=False) as content:
        return {name: content[name].astype(np.float32) for name in content.files}


def cuts(mask: Mask) -> Iterator[Mask]:
    """Ways to cut a piece of ink into a left and a right part, the likeliest first: along slanted lines that cross little ink.

    Args:
        mask: bool (height, width), where the ink is.

    Returns:
        Masks of the same shape: True on the left of the cut. Each side holds at least a fifth of the ink.
    """
    y, x = np.nonzero(mask)
    if not len(x):
        return
    found: list[tuple[float, float, int]] = []
    for lean in _LEANS:
        place = np.round(x + lean * y).astype(np.int64)
        low = int(place.min())
        crossed = np.bincount(place - low).astype(np.float64)
        share = np.cumsum(crossed) / len(x)
        allowed = (share > 0.2) & (share < 0.8)
        # The best place of each stretch: two places side by side are one cut.
        stretch = max(1, len(crossed) // 12)
        for start in range(0, len(crossed), stretch):
            part = slice(start, start + stretch)
            if allowed[part].any():
                best = start + int(np.where(allowed[part], crossed[part], np.inf).argmin())
                found.append((crossed[best] * (1 + 0.3 * abs(lean)), lean, low + best))
    rows, columns = np.indices(mask.shape)
    for _, lean, edge in sorted(found)[:_CUTS]:
        yield np.asarray(np.round(columns + lean * rows) <= edge)
