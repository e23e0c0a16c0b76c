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
from scipy import ndimage

from core.data import MEAN, STD
from core.drawing import Drawing, Grey, Stroke, extent, render
from core.measures import Measures, count_blobs, measure, stroke_width
from core.picture import Picture, find_ink
from core.segments import Box, group_marks

SIDE, FIT_SIDE = 28, 20
# Pixels of the 28x28 image. MNIST's median stroke is 2.2 wide; drawn lines are right at a little more, since an area
# average softens their ends.
PEN = 2.3
_PEN_ALLOWED = (1.7, 3.2)
# The stages before 20x20 are kept at eight times its size.
_FINE = 8
# Sum of all pixels / 255: between 51 and 163 for nine tenths of MNIST; no digit of it has more than 320.
INK_USUAL = (51.0, 163.0)
_INK_SCRIBBLE = 300.0
MAX_DIGITS = 10


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
class Steps:
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


NAIVE = Steps(ink=False, crop=False, fit=False, centre=False)
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
    """

    box: Box
    drawn: Grey
    make_ink: Callable[[], Grey]
    cropped: Grey
    fitted: Grey
    centred: Grey
    model_input: npt.NDArray[np.float32]
    inverted: bool

    @cached_property
    def ink(self) -> Grey:
        """The source with its ink alone, at MNIST's pen width."""
        return self.make_ink()

    @cached_property
    def as_drawn(self) -> Measures:
        """Measures of the source merely shrunk to 28x28."""
        shrunk = np.asarray(Image.fromarray(_squared_image(self.drawn)).resize((SIDE, SIDE), Image.Resampling.BOX))
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
    """

    digits: tuple[DigitImage, ...]
    refusal: str = ""
    notes: tuple[str, ...] = ()
    whole: Grey | None = None


def read(source: "Drawing | Picture | TestDigit", steps: Steps = Steps()) -> Reading:
    """Find the digits in a source and bring each into MNIST's form. A millisecond or two for a drawn digit."""
    if isinstance(source, TestDigit):
        return Reading((_stored(source, steps),))
    return _read_drawing(source, steps) if isinstance(source, Drawing) else _read_picture(source, steps)


def finish(centred: Grey, normalise: bool = True) -> npt.NDArray[np.float32]:
    """The last step: float32 (1, 28, 28) for the network, from a (28, 28) image of 0 to 1."""
    return (((centred - MEAN) / STD) if normalise else centred).astype(np.float32)[None]


def _stored(source: TestDigit, steps: Steps) -> DigitImage:
    image = source.image.astype(np.float32) / np.float32(255)
    return DigitImage((0, 0, SIDE, SIDE), image, lambda: image, image, image, image, finish(image, steps.normalise), False)


# --- drawings ----------------------------------------------------------------------------------------------------------


def _read_drawing(drawing: Drawing, steps: Steps) -> Reading:
    if not drawing.strokes:
        return Reading((), "Nothing is drawn yet.")
    whole: Box = (0.0, 0.0, float(drawing.width), float(drawing.height))
    boxes = [_padded(extent([stroke]), stroke.width / 2) for stroke in drawing.strokes]
    left, top, right, bottom = extent(drawing.strokes)
    if max(right - left, bottom - top) < 0.04 * max(drawing.width, drawing.height):
        return Reading((), "That is a dot. Draw a digit, as large as you like.")
    drawn = render(drawing.strokes, whole, (drawing.height, drawing.width))
    if drawn.mean() > 0.6:
        return Reading((), "The canvas is filled: no digit stands out. Clear it and draw with a thinner pen.")
    marks = group_marks(boxes)
    if refusal := _marks_refusal(marks.groups, marks.stacked):
        return Reading((), refusal)
    digits = tuple(
        _drawn_digit(drawing, [drawing.strokes[index] for index in group], drawn, whole, steps) for group in marks.groups
    )
    return _checked(digits, marks.notes, drawn)


def _drawn_digit(drawing: Drawing, strokes: list[Stroke], drawn: Grey, whole: Box, steps: Steps) -> DigitImage:
    left, top, right, bottom = extent(strokes)
    widest = max(stroke.width for stroke in strokes)
    box = _inside(_padded((left, top, right, bottom), widest / 2), whole)
    target = FIT_SIDE if steps.fit else SIDE
    if steps.crop:
        # With MNIST's pen the box's long side is the middle line's plus one pen: then the ink fills the target exactly.
        span = max(right - left, bottom - top)
        unit = span / (target - PEN) if steps.ink else max(box[2] - box[0], box[3] - box[1]) / target
        frame = _padded((left, top, right, bottom), unit * PEN / 2) if steps.ink else box
    else:
        frame, unit = whole, max(drawing.width, drawing.height) / target
    square = _squared(frame)
    fine = target * _FINE
    cropped = render(strokes, square, (fine, fine), PEN * _FINE if steps.ink else None)

    def ink() -> Grey:
        return render(strokes, whole, drawn.shape, PEN * unit) if steps.ink else drawn

    own = drawn if len(strokes) == len(drawing.strokes) else render(strokes, whole, drawn.shape)
    return _finished(box, own, ink, cropped, steps, False)


# --- pictures ----------------------------------------------------------------------------------------------------------


def _read_picture(picture: Picture, steps: Steps) -> Reading:
    found = find_ink(picture.grey, turned=steps.invert)
    if not found.mask.any():
        return Reading((), "Nothing stands out in this picture: it is empty, or ink and paper are too alike.")
    if found.mask.mean() > 0.6:
        return Reading((), "The picture is filled: no digit stands out.")
    if not steps.ink:
        return _checked((_picture_digit(picture.grey, None, found.inverted, steps),), found.notes, picture.grey)
    labels, count = ndimage.label(found.mask, np.ones((3, 3)))
    boxes: list[Box] = [
        (columns.start, rows.start, columns.stop, rows.stop) for rows, columns in ndimage.find_objects(labels)
    ]  # fmt: skip
    marks = group_marks(boxes)
    if refusal := _marks_refusal(marks.groups, marks.stacked):
        return Reading((), refusal)
    digits = []
    for group in marks.groups:
        mine = np.isin(labels, [index + 1 for index in group]) if count > 1 else found.mask
        near = ndimage.binary_dilation(mine, iterations=2)
        digits.append(_picture_digit(np.where(near, found.amount, 0).astype(np.float32), mine, found.inverted, steps,
                                     picture.grey))  # fmt: skip
    return _checked(tuple(digits), (*found.notes, *marks.notes), picture.grey)


def _picture_digit(ink: Grey, mask: npt.NDArray[np.bool_] | None, inverted: bool, steps: Steps,
                   drawn: Grey | None = None) -> DigitImage:  # fmt: skip
    height, width = ink.shape
    box: Box = (0, 0, width, height)
    box = _box_of(ink > 0.1 if mask is None else mask) or box
    frame = box if steps.crop else (0, 0, width, height)
    target = FIT_SIDE if steps.fit else SIDE
    cropped = _square_pixels(ink, frame, target * _FINE)
    if steps.ink and mask is not None:
        evened = _even_pen(cropped)
        cropped = _tightened(evened, target * _FINE) if steps.crop else _cut(evened, target * _FINE)
    return _finished(box, ink if drawn is None else drawn, lambda: ink, cropped, steps, inverted and steps.ink)


def _square_pixels(image: Grey, box: Box, side: int) -> Grey:
    """Cut a box out of an image, pad it to a square with black and resample it to side x side."""
    left, top, right, bottom = (int(edge) for edge in box)
    part = image[top:bottom, left:right]
    longest = max(part.shape)
    square = np.zeros((longest, longest), np.float32)
    y, x = (longest - part.shape[0]) // 2, (longest - part.shape[1]) // 2
    square[y : y + part.shape[0], x : x + part.shape[1]] = part
    filter = Image.Resampling.BOX if longest >= side else Image.Resampling.BICUBIC
    return np.clip(np.asarray(Image.fromarray(square).resize((side, side), filter)), 0, 1)


def _even_pen(image: Grey) -> Grey:
    """Thicken or thin strokes that are far from MNIST's; others are left as they are, with their grey edges."""
    pen = stroke_width(image > 0.5) / _FINE
    if not pen or _PEN_ALLOWED[0] <= pen <= _PEN_ALLOWED[1]:
        return image
    change = (PEN - pen) * _FINE / 2
    mask = image > 0.5
    if change > 0:
        mask = np.pad(mask, math.ceil(change))  # room to grow; what is not needed is cropped again
        return (ndimage.distance_transform_edt(~mask) <= change).astype(np.float32)
    thin = ndimage.distance_transform_edt(mask) > -change
    same = ndimage.label(thin, np.ones((3, 3)))[1] == ndimage.label(mask, np.ones((3, 3)))[1]
    return thin.astype(np.float32) if same else image


def _cut(image: Grey, side: int) -> Grey:
    margin = (image.shape[0] - side) // 2
    return image[margin : margin + side, margin : margin + side]


def _tightened(image: Grey, side: int) -> Grey:
    """Crop once more: a thicker pen has moved the edge outwards, a thinner one inwards."""
    box = _box_of(image > 0.1)
    return _square_pixels(image, box, side) if box else _cut(image, side)


def _box_of(mask: npt.NDArray[np.bool_]) -> Box | None:
    """The smallest box around what is true; None when nothing is."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1) if len(rows) else None


# --- the common end ----------------------------------------------------------------------------------------------------


def _finished(box: Box, drawn: Grey, make_ink: Callable[[], Grey], cropped: Grey, steps: Steps, inverted: bool) -> DigitImage:
    fitted = np.asarray(Image.fromarray(cropped).reduce(_FINE), np.float32)
    if steps.ink and fitted.max() > 0:
        fitted = fitted / fitted.max()
    centred = _placed(fitted, steps.centre)
    return DigitImage(box, drawn, make_ink, cropped, fitted, centred, finish(centred, steps.normalise), inverted)


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


def _checked(digits: tuple[DigitImage, ...], notes: tuple[str, ...], whole: Grey) -> Reading:
    if any(digit.centred.sum() > _INK_SCRIBBLE for digit in digits):
        return Reading((), "That is a scribble: far more ink than any digit has. Clear it and draw one digit.")
    return Reading(digits, "", notes, whole)


def _marks_refusal(groups: tuple[tuple[int, ...], ...], stacked: bool) -> str:
    if len(groups) > MAX_DIGITS:
        return f"There are {len(groups)} separate marks; at most {MAX_DIGITS} digits are read, side by side."
    if stacked:
        return "There are marks one above the other. Draw one digit, or several side by side."
    return ""


def _padded(box: Box, by: float) -> Box:
    return box[0] - by, box[1] - by, box[2] + by, box[3] + by


def _inside(box: Box, limits: Box) -> Box:
    return max(box[0], limits[0]), max(box[1], limits[1]), min(box[2], limits[2]), min(box[3], limits[3])


def _squared(box: Box) -> Box:
    left, top, right, bottom = box
    side = max(right - left, bottom - top)
    x, y = (left + right - side) / 2, (top + bottom - side) / 2
    return x, y, x + side, y + side


def _squared_image(image: Grey) -> Grey:
    longest = max(image.shape)
    return image if image.shape[0] == image.shape[1] else _square_pixels(image, (0, 0, image.shape[1], image.shape[0]), longest)
