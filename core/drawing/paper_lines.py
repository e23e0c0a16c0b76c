"""The lines of ruled and squared paper, taken out from under the ink."""

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from core.drawing.strokes import Grey

Mask = npt.NDArray[np.bool_]
# A line is straight for this share of the picture's long side at a stretch (a tilt of two degrees still allows it), and as a
# whole reaches over this share of the side it runs along, from one of its ends. The bar of a 7 is one but not the other.
_STRETCH, _REACH, _END = 0.035, 0.55, 0.05
_THICKEST = 0.02

LINES_OUT = "lines of the paper taken out"


def without_lines(flat: Grey, mask: Mask) -> tuple[Grey, Mask, tuple[str, ...]]:
    """(ink without lines, its mask, what was taken out in words).

    Args:
        flat: float32 (height, width), 0 paper to 1 ink. mask: where the ink is.
    """
    across, down = _lines(mask), _lines(mask.T).T
    lines = across | down
    if not lines.any():
        return flat, mask, ()
    lines &= ~_strokes(mask, max(_thickness(across), _thickness(down.T)))
    near = ndimage.binary_dilation(lines, iterations=1)
    elsewhere = flat[mask & ~near]
    if not elsewhere.size:
        return flat, mask, ()
    line, ink = float(np.median(flat[lines])), float(np.percentile(elsewhere, 90))
    if ink > 1.25 * line:
        # The pen is darker than the lines: what is clearly darker is ink, and so is what hangs on it away from the lines.
        sure = flat > (line + ink) / 2
        kept = ndimage.binary_propagation(sure, mask=mask & ~near | sure)
    else:
        kept = mask & ~near | _crossed(mask & ~near, near)
    return np.where(kept | ~(near | mask), flat, 0).astype(np.float32), kept, (LINES_OUT,)


def _lines(mask: Mask) -> Mask:
    """Long thin lines that run from left to right, a little aslant at most."""
    height, width = mask.shape
    stretch = max(9, round(_STRETCH * max(mask.shape)))
    straight = ndimage.binary_opening(mask, np.ones((1, stretch), np.int64))
    if not straight.any():
        return straight
    # Ink on a line interrupts it, and a tilt breaks it into steps: both are bridged before its reach is measured.
    joined = ndimage.binary_dilation(straight, np.ones((3, 2 * stretch + 1), np.int64))
    labels, _ = ndimage.label(joined, np.ones((3, 3), np.int64))
    wanted, across = np.zeros(labels.max() + 1, bool), False
    for number, place in enumerate(ndimage.find_objects(labels), 1):
        own = straight[place] & (labels[place] == number)
        columns = np.flatnonzero(own.any(0))
        thick = own.sum(0)[columns]
        first, last = columns[0] + place[1].start, columns[-1] + place[1].start
        ends = (first <= _END * width, last >= (1 - _END) * width)
        is_thin = np.median(thick) <= max(3, _THICKEST * min(height, width))
        wanted[number] = last - first >= _REACH * width and any(ends) and is_thin
        across |= bool(wanted[number] and all(ends))
    # One alone that does not run across is the straight stroke of a digit that fills the picture.
    return straight & wanted[labels] if across or wanted.sum() > 1 else np.zeros_like(mask)


def _thickness(lines: Mask) -> int:
    """Of lines that run from left to right, in pixels; 1 where there are none."""
    runs = np.diff(np.pad(lines, ((1, 1), (0, 0))).astype(np.int8), axis=0).T.reshape(-1)
    thick = np.flatnonzero(runs < 0) - np.flatnonzero(runs > 0)
    return round(float(np.median(thick))) if len(thick) else 1


def _strokes(mask: Mask, thickness: int) -> Mask:
    """Ink that is thicker than the lines, both ways: a pen's stroke that lies along a line is straight for a while, too."""
    side = 2 * thickness + 3
    # One way after the other: the time does not grow with the square of a thick line.
    thin = ndimage.minimum_filter1d(ndimage.minimum_filter1d(mask.view(np.uint8), side, 0), side, 1)
    thick = ndimage.maximum_filter1d(ndimage.maximum_filter1d(thin, side, 0), side, 1)
    return ndimage.binary_dilation(thick.astype(bool), iterations=1)


def _crossed(ink: Mask, lines: Mask) -> Mask:
    """Where a stroke crosses a line: ink on both sides of it, above and below or left and right."""
    thick = 2 + int(np.median(lines.sum(0)[lines.any(0)])) if lines.any() else 2
    reach = min(thick, 12)
    found = np.zeros_like(ink)
    for axis in (0, 1):
        shape = (2 * reach + 1, 1) if axis == 0 else (1, 2 * reach + 1)
        first, last = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        flat_first, flat_last = first.reshape(-1), last.reshape(-1)
        flat_first[: reach + 1], flat_last[reach:] = 1, 1
        found |= ndimage.binary_dilation(ink, first) & ndimage.binary_dilation(ink, last)
    return found & lines
