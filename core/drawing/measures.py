"""A 28x28 image measured against MNIST's: pen width, place, size, ink, pieces."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from core.drawing.strokes import Grey


@dataclass(frozen=True)
class Measures:
    """An image against MNIST's, in pixels of 28x28.

    Attributes:
        pen: mean stroke width. offset: (x, y) of the centre of mass from MNIST's place. longest: long side of the ink's box.
        ink: sum of all pixels, each from 0 to 1. wide: width of the ink's box over its height.
    """

    pen: float
    offset: tuple[float, float]
    longest: float
    ink: float
    wide: float = 1.0


def measure(image: Grey) -> Measures:
    """Measure a (28, 28) image of 0 black to 1 white against MNIST's."""
    total = float(image.sum())
    mask = image > 0.5 * max(float(image.max()), 1e-6)
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if total < 1e-3:
        return Measures(0.0, (0.0, 0.0), 0.0, 0.0)
    down, right = np.indices(image.shape)
    offset = (float((image * right).sum() / total) - 14.0, float((image * down).sum() / total) - 14.0)
    part = np.pad(image, 1)[rows[0] : rows[-1] + 3, columns[0] : columns[-1] + 3]  # with the soft edge around it
    large = np.asarray(Image.fromarray(part).resize((part.shape[1] * 4, part.shape[0] * 4), Image.Resampling.BICUBIC))
    pen = stroke_width(large > 0.5 * large.max()) / 4
    height, width = (side - 2 for side in part.shape)
    return Measures(pen, offset, float(max(height, width)), total, width / height)


def stroke_width(mask: npt.NDArray[np.bool_]) -> float:
    """Mean width of the strokes in pixels: across a bar of width w the distance to the edge averages w / 4."""
    if not mask.any():
        return 0.0
    # Half a pixel less: a pixel at the edge counts as 1 away, its middle is 1/2 away.
    return 4 * max(float(ndimage.distance_transform_edt(np.pad(mask, 1))[np.pad(mask, 1)].mean()) - 0.5, 0.0)


def count_blobs(image: Grey) -> int:
    """Separate pieces of ink, of four pixels or more."""
    labels, count = ndimage.label(image > 0.3, np.ones((3, 3)))
    return int((np.bincount(labels.ravel(), minlength=1)[1:] >= 4).sum()) if count else 0
