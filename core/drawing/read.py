"""Any source, strokes, a picture or a test digit -> the digits in it. The one way in."""

import numpy as np

from core.drawing.digit_image import ALL_STEPS, SIDE, DigitImage, Preprocessing, Reading, TestDigit, to_model_input
from core.drawing.from_picture import read_picture_digits
from core.drawing.from_strokes import read_drawing
from core.drawing.picture import Picture
from core.drawing.strokes import Drawing


def read(source: "Drawing | Picture | TestDigit", steps: Preprocessing = ALL_STEPS) -> Reading:
    """Find the digits in a source and bring each into MNIST's form. A millisecond or two for a drawn digit."""
    if isinstance(source, TestDigit):
        return Reading((_stored(source, steps),))
    return read_drawing(source, steps) if isinstance(source, Drawing) else read_picture_digits(source, steps)


def _stored(source: TestDigit, steps: Preprocessing) -> DigitImage:
    image = source.image.astype(np.float32) / np.float32(255)
    return DigitImage(
        (0, 0, SIDE, SIDE), image, lambda: image, image, image, image, to_model_input(image, steps.normalise), False
    )
