"""Turn a drawing or a picture into the 28x28 image the model sees, as MNIST's own were made, with every stage kept.

    drawn -> ink -> cropped -> 20x20 -> centred in 28x28 -> normalised

MNIST's recipe (LeCun et al. 1998; Yadav and Bottou 2019 reconstructed it as QMNIST): the ink's bounding box, padded to a
square, area-resampled to 20 pixels and stretched to full white, then moved by whole pixels so that the centre of mass
comes to the middle. The pen's width is MNIST's, too: strokes are drawn again with it, pictures are thickened or thinned.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from PIL import Image

from core.data.sources import MEAN, STD
from core.drawing.boxes import Box, squared_image
from core.drawing.measures import Measures, count_blobs, measure
from core.drawing.paper_lines import LINES_OUT
from core.drawing.strokes import Grey

SIDE, FIT_SIDE = 28, 20
# Pixels of the 28x28 image. MNIST's median stroke is 2.2 wide; drawn lines are right at a little more, since an area
# average softens their ends.
PEN = 2.3
PEN_ALLOWED = (1.7, 3.2)
# The stages before 20x20 are kept at eight times its size.
FINE = 8
# Sum of all pixels / 255: between 51 and 163 for nine tenths of MNIST; no digit of it has more than 320.
INK_USUAL = (51.0, 163.0)
_INK_SCRIBBLE = 300.0
MAX_DIGITS = 10
TURNED = "light and dark taken the other way round than the border suggests"
NOTHING_DRAWN = "Nothing is drawn yet."
NOTHING_FOUND = "Nothing stands out in this picture: it is empty, or ink and paper are too alike."
# In pixels of 20x20: what pens leave in pictures, fat and thin ones; a sheet of paper or a tile is far thicker.
PEN_LIKELY = (0.25, 4.6)


@dataclass(frozen=True, eq=False)
class TestDigit:
    """A digit of a data set: its image is what a model sees, as it is.

    Attributes:
        image: uint8 (28, 28). label: 0 to 9. index: its place in the test split.
    """

    __test__ = False  # not a test, whatever pytest makes of the name

    image: npt.NDArray[np.uint8]
    label: int
    index: int


@dataclass(frozen=True)
class Preprocessing:
    """Which steps of the way are taken; all of them make MNIST's images. Switch one off to see the answer break.

    Attributes:
        ink: strokes drawn again at MNIST's pen width; in pictures, paper, shadow and polarity taken out.
        crop: cut to the ink's bounding box. fit: 20x20 with a margin, instead of filling all 28x28.
        centre: centre of mass in the middle, instead of the box. normalise: (pixel / 255 - mean) / standard deviation.
        invert: read dark on light where light on dark was found, and the other way round (pictures).
    """

    ink: bool = True
    crop: bool = True
    fit: bool = True
    centre: bool = True
    normalise: bool = True
    invert: bool = False


ALL_STEPS = Preprocessing()
NAIVE = Preprocessing(ink=False, crop=False, fit=False, centre=False)
"""What most demos do: the whole canvas shrunk to 28x28."""


@dataclass(frozen=True, eq=False)
class DigitImage:
    """One digit with its way from the source to the model.

    Attributes:
        box: where it lies in the source, in the source's pixels.
        drawn, ink, cropped, fitted, centred: float32 images, 0 black to 1 white; fitted is 20x20 (28x28 without fit),
            centred 28x28. What only explanations need is worked out when it is asked for.
        model_input: float32 (1, 28, 28), what the network gets.
        inverted: True when dark on light was turned round.
        touching: it looks like two digits that touch, and could not be taken apart.
        parted: it touched its neighbour, and was taken apart from it.
        source_pen: width of the strokes as they came, in pixels of 20x20.
    """

    box: Box
    drawn: Grey
    make_ink: Callable[[], Grey]
    cropped: Grey
    fitted: Grey
    centred: Grey
    model_input: npt.NDArray[np.float32]
    inverted: bool
    touching: bool = False
    parted: bool = False
    source_pen: float = PEN

    @cached_property
    def ink(self) -> Grey:
        """The source with its ink alone, at MNIST's pen width."""
        return self.make_ink()

    @cached_property
    def as_drawn(self) -> Measures:
        """Measures of the source merely shrunk to 28x28."""
        shrunk = np.asarray(Image.fromarray(squared_image(self.drawn)).resize((SIDE, SIDE), Image.Resampling.BOX))
        return measure(1 - shrunk if self.inverted else shrunk)

    @cached_property
    def as_seen(self) -> Measures:
        """Measures of the centred image."""
        return measure(self.centred)

    @cached_property
    def blobs(self) -> int:
        """Separate pieces of ink in the centred image."""
        return count_blobs(self.centred)

    @property
    def pixels(self) -> npt.NDArray[np.uint8]:
        """The 28x28 image as MNIST stores them: uint8, 0 black to 255 white."""
        return np.clip(self.centred * 255 + 0.5, 0, 255).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class Reading:
    """What was found in a source.

    Attributes:
        digits: left to right; empty when `refusal` says why nothing should be guessed.
        notes: what was left out on the way, in words.
        whole: float32, the source with all its digits; None for a test digit and when nothing was read.
        certain: a refusal about what a pen has clearly written, such as two lines of digits.
    """

    digits: tuple[DigitImage, ...]
    refusal: str = ""
    notes: tuple[str, ...] = ()
    whole: Grey | None = None
    certain: bool = False

    @property
    def lined(self) -> bool:
        """Whether lines of the paper were taken out: where one crosses a digit, ink may be missing, so nothing read is sure."""
        return LINES_OUT in self.notes

    @property
    def turned(self) -> bool:
        """Whether light and dark were taken the other way round than the picture's border suggests: a guess."""
        return TURNED in self.notes


def to_model_input(centred: Grey, normalise: bool = True) -> npt.NDArray[np.float32]:
    """The last step: float32 (1, 28, 28) for the network, from a (28, 28) image of 0 to 1."""
    return (((centred - MEAN) / STD) if normalise else centred).astype(np.float32)[None]


def finished_digit(
    box: Box, drawn: Grey, make_ink: Callable[[], Grey], cropped: Grey, steps: Preprocessing, inverted: bool
) -> DigitImage:
    """The last stages of a digit: 20x20, centred, normalised, each as the steps say."""
    fitted = np.asarray(Image.fromarray(cropped).reduce(FINE), np.float32)
    if steps.ink and fitted.max() > 0:
        fitted = fitted / fitted.max()
    centred = _placed(fitted, steps.centre)
    return DigitImage(box, drawn, make_ink, cropped, fitted, centred, to_model_input(centred, steps.normalise), inverted)


def _placed(fitted: Grey, centre: bool) -> Grey:
    """Put the image into 28x28: centre of mass at MNIST's place as far as no ink is lost, or the box in the middle."""
    side = fitted.shape[0]
    y = x = (SIDE - side) // 2
    total = float(fitted.sum())
    if centre and total > 0:
        y, x = (_offset(fitted, axis, total) for axis in (0, 1))
    sheet = np.zeros((SIDE + 2 * side, SIDE + 2 * side), np.float32)
    sheet[side + y : 2 * side + y, side + x : 2 * side + x] = fitted
    return sheet[side : side + SIDE, side : side + SIDE]


def _offset(fitted: Grey, axis: int, total: float) -> int:
    profile = fitted.sum(1 - axis)
    inked = np.flatnonzero(profile > 0)
    wanted = math.floor(14.5 - float(profile @ np.arange(len(profile))) / total)
    return int(min(max(wanted, -inked[0]), SIDE - 1 - inked[-1]))


def checked_reading(digits: tuple[DigitImage, ...], notes: tuple[str, ...], whole: Grey) -> Reading:
    """A reading of these digits, or a refusal when one is a scribble."""
    if any(digit.centred.sum() > _INK_SCRIBBLE for digit in digits):
        return Reading((), "That is a scribble: far more ink than any digit has. Clear it and draw one digit.")
    if any(digit.parted for digit in digits):
        notes = (*notes, "digits that touch taken apart, by guess: leave a gap between them")
    return Reading(digits, "", notes, whole)


def marks_refusal(count: int, stacked: bool) -> str:
    """Why so many marks are no digits, in words; "" when they may be."""
    if not count:
        return "There are dots only. Draw a digit, as large as you like."
    if count > MAX_DIGITS:
        return f"There are {count} separate marks; at most {MAX_DIGITS} digits are read, side by side."
    if stacked:
        return "There are marks one above the other. Draw one digit, or several side by side in one row."
    return ""
