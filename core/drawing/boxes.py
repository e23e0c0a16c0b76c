"""Boxes around ink: cutting out, padding, squaring."""

import numpy as np
import numpy.typing as npt
from PIL import Image

from core.drawing.strokes import Grey

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def square_pixels(image: Grey, box: Box, side: int) -> Grey:
    """Cut a box out of an image, pad it to a square with black and resample it to side x side."""
    left, top, right, bottom = (int(edge) for edge in box)
    part = image[top:bottom, left:right]
    longest = max(part.shape)
    square = np.zeros((longest, longest), np.float32)
    y, x = (longest - part.shape[0]) // 2, (longest - part.shape[1]) // 2
    square[y : y + part.shape[0], x : x + part.shape[1]] = part
    filter = Image.Resampling.BOX if longest >= side else Image.Resampling.BICUBIC
    return np.clip(np.asarray(Image.fromarray(square).resize((side, side), filter)), 0, 1)


def cut(image: Grey, side: int) -> Grey:
    """The middle `side` x `side` pixels of a larger square image."""
    margin = (image.shape[0] - side) // 2
    return image[margin : margin + side, margin : margin + side]


def tightened(image: Grey, side: int) -> Grey:
    """Crop once more: a thicker pen has moved the edge outwards, a thinner one inwards."""
    box = box_of(image > 0.1)
    return square_pixels(image, box, side) if box else cut(image, side)


def box_of(mask: npt.NDArray[np.bool_]) -> Box | None:
    """The smallest box around what is true; None when nothing is."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1) if len(rows) else None


def padded(box: Box, by: float) -> Box:
    """The box, larger by so much on each side."""
    return box[0] - by, box[1] - by, box[2] + by, box[3] + by


def inside(box: Box, limits: Box) -> Box:
    """The part of a box that lies within limits."""
    return max(box[0], limits[0]), max(box[1], limits[1]), min(box[2], limits[2]), min(box[3], limits[3])


def squared(box: Box) -> Box:
    """The square around a box, as long as its longer side."""
    left, top, right, bottom = box
    side = max(right - left, bottom - top)
    x, y = (left + right - side) / 2, (top + bottom - side) / 2
    return x, y, x + side, y + side


def squared_image(image: Grey) -> Grey:
    """An image as a square, padded with 0 to its longer side."""
    longest = max(image.shape)
    return image if image.shape[0] == image.shape[1] else square_pixels(image, (0, 0, image.shape[1], image.shape[0]), longest)
