"""A sheet of paper on a desk, or a dark tile on a light page: the part of a picture on which digits stand."""

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from core.drawing.limits import MIN_SIDE
from core.drawing.strokes import Grey

Mask = npt.NDArray[np.bool_]
# Of the whole picture. A smaller thing is ink; what fills everything needs no looking for.
_LEAST, _MOST = 0.08, 0.97
# Of the sheet with what is written on it: the bare sheet.
_BARE = 0.7
_LEAST_CONTRAST = 0.18
# The edge of a sheet is sharp, that of a shadow is not: the steepest change within a pixel or two, as a share of the contrast.
_SHARP = 0.1


def find_sheet(grey: Grey) -> Mask | None:
    """Where a sheet lies that is clearly lighter or darker than what is around it, what is written on it included.

    Args:
        grey: float32 (height, width), 0 black to 1 white.

    Returns:
        bool, the same shape, a little within its edges; None when there is none.
    """
    smooth = ndimage.gaussian_filter(grey, max(grey.shape) / 160)
    low, high = np.percentile(smooth, (2, 98))
    if high - low < _LEAST_CONTRAST:
        return None
    light = smooth > (low + high) / 2
    border = np.concatenate([light[0], light[-1], light[:, 0], light[:, -1]])
    other = ~light if border.mean() > 0.5 else light
    labels, count = ndimage.label(other)
    if not count:
        return None
    areas = np.bincount(labels.ravel())
    areas[0] = 0
    piece = labels == int(areas.argmax())
    # Ink that runs off the sheet's edge leaves a notch: it is closed before what lies within is filled.
    reach = max(2, max(grey.shape) // 60)
    closed = ndimage.binary_closing(np.pad(piece, reach), np.ones((3, 3), np.int64), iterations=reach)
    filled = np.asarray(ndimage.binary_fill_holes(piece | closed[reach:-reach, reach:-reach]))
    share = filled.mean()
    if not _LEAST <= share <= _MOST or piece.sum() < _BARE * filled.sum() or not _is_block(filled):
        return None
    if abs(float(np.median(grey[piece])) - float(np.median(grey[~filled]))) < _LEAST_CONTRAST or not _is_sharp(grey, filled):
        return None
    sheet = ndimage.binary_erosion(filled, iterations=max(2, round(0.012 * max(grey.shape))), border_value=1)
    return sheet if min(sheet.any(0).sum(), sheet.any(1).sum()) >= MIN_SIDE else None


def _is_block(mask: Mask) -> bool:
    """Shaped like a sheet, turned or cut off perhaps: it fills most of the box around it, once that is turned along with it."""
    y, x = np.nonzero(mask)
    best = 0.0
    for degrees in range(0, 90, 5):
        angle = np.radians(degrees)
        along, across = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
        best = max(best, len(x) / float((np.ptp(along) + 1) * (np.ptp(across) + 1)))
    return best > 0.8


def _is_sharp(grey: Grey, mask: Mask) -> bool:
    edge = mask & ~ndimage.binary_erosion(mask, border_value=1)
    if edge.sum() < 8:
        return False
    band = ndimage.binary_dilation(edge, iterations=3)
    contrast = abs(float(np.median(grey[mask])) - float(np.median(grey[~mask])))
    steepest = ndimage.maximum_filter(ndimage.gaussian_gradient_magnitude(grey, 1.5) * band, 7)
    return float(np.median(steepest[edge])) > _SHARP * contrast


def on_sheet(grey: Grey, sheet: Mask) -> tuple[Grey, tuple[int, int]]:
    """(the sheet alone, with nothing around it, its left and top in the picture)."""
    rows, columns = np.flatnonzero(sheet.any(1)), np.flatnonzero(sheet.any(0))
    part = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    inside, values = sheet[part], grey[part]
    # What is not sheet becomes the nearest sheet, so that no edge is left to be taken for ink.
    nearest = ndimage.distance_transform_edt(~inside, return_distances=False, return_indices=True)
    calm = ndimage.median_filter(values, 5)
    return np.where(inside, values, calm[tuple(nearest)]).astype(np.float32), (int(columns[0]), int(rows[0]))
