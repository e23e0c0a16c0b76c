"""Turn a drawing or a picture into the 28x28 image the model sees, as MNIST's own were made, with every stage kept.

    drawn -> ink -> cropped -> 20x20 -> centred in 28x28 -> normalised

MNIST's recipe (LeCun et al. 1998; Yadav and Bottou 2019 reconstructed it as QMNIST): the ink's bounding box, padded to a
square, area-resampled to 20 pixels and stretched to full white, then moved by whole pixels so that the centre of mass
comes to the middle. The pen's width is MNIST's, too: strokes are drawn again with it, pictures are thickened or thinned.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from core.data import MEAN, STD
from core.drawing import Drawing, Grey, Stroke, extent, render
from core.drawing_limits import too_many_marks
from core.measures import Measures, count_blobs, measure, stroke_width
from core.paper_lines import LINES_OUT
from core.picture import Ink, Picture, closer, find_ink, is_dark_on_light
from core.segments import Box, group_marks, mark_of_points, marks_of_labels
from core.sheet import find_sheet, on_sheet
from core.touching import cuts, is_two

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
NOTHING_DRAWN = "Nothing is drawn yet."
_NOTHING_FOUND = "Nothing stands out in this picture: it is empty, or ink and paper are too alike."
# Of the canvas's long side: less is a dot.
_DOT = 0.04
# In pixels of 20x20: what pens leave in pictures, fat and thin ones; a sheet of paper or a tile is far thicker.
_PEN_LIKELY = (0.25, 4.6)
# Height in pixels of WORKING_SIDE below which it pays to look closer.
_SMALL_DIGIT = 110


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
        return Reading((), NOTHING_DRAWN)
    least = _DOT * max(drawing.width, drawing.height)
    left, top, right, bottom = extent(drawing.strokes)
    if max(right - left, bottom - top) < least:
        return Reading((), "That is a dot. Draw a digit, as large as you like.")
    if refusal := too_many_marks(len(drawing.strokes)):
        return Reading((), refusal)
    drawn = render(drawing.strokes, _whole(drawing), (drawing.height, drawing.width))
    if drawn.mean() > 0.6:
        return Reading((), "The canvas is filled: no digit stands out. Clear it and draw with a thinner pen.")
    marks = group_marks([mark_of_points(stroke.points, stroke.width / 2) for stroke in drawing.strokes])
    groups = [[drawing.strokes[index] for index in group] for group in marks.groups]
    kept = [group for group in groups if _span(group) >= least]
    notes = (*marks.notes, *(["dots left out"] if len(kept) < len(groups) else []))
    if refusal := _marks_refusal(len(kept), marks.stacked):
        return Reading((), refusal)
    digits: list[DigitImage] = []
    for group in kept:
        digits += _apart(drawing, group, drawn, steps)
    return _checked(tuple(digits), notes, drawn)


def _whole(drawing: Drawing) -> Box:
    return 0.0, 0.0, float(drawing.width), float(drawing.height)


def _span(strokes: Sequence[Stroke]) -> float:
    left, top, right, bottom = extent(strokes)
    return max(right - left, bottom - top)


def _apart(drawing: Drawing, strokes: list[Stroke], drawn: Grey, steps: Steps) -> list[DigitImage]:
    """One digit; two when its strokes make two that touch."""
    ordered = sorted(strokes, key=lambda stroke: float(stroke.points[:, 0].mean()))
    halves = ((ordered[:cut], ordered[cut:]) for cut in range(1, len(ordered)))
    return _parted(_drawn_digit(drawing, strokes, drawn, steps), (
        [_drawn_digit(drawing, part, drawn, steps) for part in parts]
        for parts in halves if min(map(_span, parts)) >= 0.5 * _span(strokes)
    ))  # fmt: skip


def _parted(whole: DigitImage, halves: Iterable[list[DigitImage]]) -> list[DigitImage]:
    """One digit; where it looks like two that touch, the first halves of which neither does, or else a word on it.

    Args:
        halves: ways to take it apart, the likeliest first; each is worked out when it is asked for.
    """
    if not is_two(whole.centred):
        return [whole]
    for found in halves:
        if not any(is_two(one.centred) for one in found):
            return [replace(one, parted=True) for one in found]
    return [replace(whole, touching=True)]


def _drawn_digit(drawing: Drawing, strokes: list[Stroke], drawn: Grey, steps: Steps) -> DigitImage:
    whole = _whole(drawing)
    left, top, right, bottom = extent(strokes)
    widest = max(stroke.width for stroke in strokes)
    box = _inside(_padded((left, top, right, bottom), widest / 2), whole)
    target = FIT_SIDE if steps.fit else SIDE
    if steps.crop:
        # With MNIST's pen the box's long side is the middle line's plus one pen: then the ink fills the target exactly.
        span = max(right - left, bottom - top, 1.0)
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
    """By the polarity that the border suggests; by the other one where that gives no digit with a pen, only a shape."""
    if not steps.ink:
        found = find_ink(picture.grey, turned=steps.invert)
        if not found.mask.any():
            return Reading((), _NOTHING_FOUND)
        return _checked((_picture_digit(picture.grey, None, found.inverted, steps),), found.notes, picture.grey)
    readings: list[Reading] = []
    for reading in _ways(picture, steps):
        readings.append(reading)
        if not steps.invert and not _is_doubtful(reading):
            return reading  # the ways behind it are not gone
    # Nothing that a pen could have written: what the border suggests.
    chosen = next((one for one in readings if not _is_doubtful(one)), readings[-2])
    if not steps.invert:
        return chosen
    # The switch asks for the other polarity than that of the answer.
    return next((one for one in readings if one.digits and one.digits[0].inverted != _is_inverted(chosen)), readings[-1])


def _is_inverted(reading: Reading) -> bool:
    return bool(reading.digits) and reading.digits[0].inverted


def _ways(picture: Picture, steps: Steps) -> Iterator[Reading]:
    """Readings of a picture, the likeliest first: on a sheet that lies in it, by the polarity that its border suggests, and by
    the other one. Each is worked out when it is asked for."""
    if (sheet := find_sheet(picture.grey)) is not None:
        part, (left, top) = on_sheet(picture.grey, sheet)
        reading = _on_part(picture, _read_polarity(_on_sheet(picture, sheet, part), steps, turned=False), (left, top), 1.0)
        yield replace(reading, notes=("read on the sheet that lies in the picture", *reading.notes))
    yield _read_polarity(picture, steps, turned=False)
    other = _read_polarity(picture, steps, turned=True)
    yield replace(other, notes=("light and dark taken the other way round than the border suggests", *other.notes))


def _on_sheet(picture: Picture, sheet: npt.NDArray[np.bool_], part: Grey) -> Picture:
    """The sheet as a picture of its own, with the file's pixels where there are more."""
    if picture.large is None:
        return Picture(part)
    height, width = picture.large.shape
    large = np.asarray(Image.fromarray(sheet).resize((width, height), Image.Resampling.NEAREST))
    fine, _ = on_sheet(picture.large, large)
    return Picture(part, fine)


def _on_part(picture: Picture, reading: Reading, offset: tuple[float, float], scale: float) -> Reading:
    """A reading of a part of a picture, in the picture's own places."""
    moved = [replace(one, box=_moved(one.box, offset, scale), drawn=picture.grey) for one in reading.digits]
    return replace(reading, digits=tuple(moved), whole=picture.grey if reading.digits else None)


def _is_doubtful(reading: Reading) -> bool:
    """Nothing that a pen could have written: no digit at all, or shapes far too thick for their size, as paper is."""
    if reading.certain:
        return False
    return not reading.digits or any(not _PEN_LIKELY[0] <= digit.source_pen <= _PEN_LIKELY[1] for digit in reading.digits)


def _looks_written(mask: npt.NDArray[np.bool_]) -> bool:
    """Strokes as a pen leaves them: thin for the size of what they make."""
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    heights = [rows.stop - rows.start for rows, _ in ndimage.find_objects(labels)] if count else [1]
    return _PEN_LIKELY[0] <= 20 * stroke_width(mask) / max(heights) <= _PEN_LIKELY[1]


def _read_polarity(picture: Picture, steps: Steps, *, turned: bool, looked: bool = False) -> Reading:
    found = find_ink(picture.grey, turned=turned)
    if not found.mask.any():
        return Reading((), _NOTHING_FOUND)
    if found.mask.mean() > 0.6:
        return Reading((), "The picture is filled: no digit stands out.")
    labels, count = ndimage.label(found.mask, np.ones((3, 3)))
    if refusal := too_many_marks(count):
        return Reading((), refusal)
    marks = group_marks(marks_of_labels(labels, count))
    if refusal := _marks_refusal(len(marks.groups), marks.stacked):
        return Reading((), refusal, certain=_looks_written(found.mask))
    masks = [np.isin(labels, [index + 1 for index in group]) if count > 1 else found.mask for group in marks.groups]
    if not looked and (near := _closer(picture, masks)) is not None:
        part, offset, scale = near
        reading = _read_polarity(part, steps, turned=turned ^ _turns_round(picture, part), looked=True)
        if reading.digits:
            return _on_part(picture, reading, offset, scale)
    digits: list[DigitImage] = []
    for mask in masks:
        digits += _cut_apart(picture, found, mask, steps)
    return _checked(tuple(digits), (*found.notes, *marks.notes), picture.grey)


def _closer(picture: Picture, masks: list[npt.NDArray[np.bool_]]) -> tuple[Picture, tuple[float, float], float] | None:
    """The part of a picture in which the digits lie, with more of its pixels, where they are small: (part, its left and top,
    size of its pixels), both in pixels of `picture.grey`."""
    together = _box_of(np.logical_or.reduce(masks))
    boxes = [box for mask in masks if (box := _box_of(mask))]
    if together is None or max(box[3] - box[1] for box in boxes) >= _SMALL_DIGIT:
        return None
    margin = 0.8 * max(max(box[2] - box[0], box[3] - box[1]) for box in boxes)
    left, top, right, bottom = _inside(_padded(together, margin), (0, 0, picture.grey.shape[1], picture.grey.shape[0]))
    part = closer(picture, (left, top, right, bottom))
    return (part, (left, top), (right - left) / part.grey.shape[1]) if part is not None else None


def _turns_round(picture: Picture, part: Picture) -> bool:
    """The border of the part suggests another polarity than that of the whole."""
    return is_dark_on_light(picture.grey) != is_dark_on_light(part.grey)


def _moved(box: Box, offset: tuple[float, float], scale: float) -> Box:
    return (offset[0] + box[0] * scale, offset[1] + box[1] * scale, offset[0] + box[2] * scale, offset[1] + box[3] * scale)


def _cut_apart(picture: Picture, found: Ink, mask: npt.NDArray[np.bool_], steps: Steps) -> list[DigitImage]:
    """One digit; two when a cut through its ink makes two."""
    return _parted(_masked_digit(picture, found, mask, steps), (
        [_masked_digit(picture, found, one, steps) for one in (mask & part, mask & ~part)] for part in cuts(mask)
    ))  # fmt: skip


def _masked_digit(picture: Picture, found: Ink, mask: npt.NDArray[np.bool_], steps: Steps) -> DigitImage:
    others = found.mask & ~mask
    near = ndimage.binary_dilation(mask, iterations=2) & ~others
    return _picture_digit(np.where(near, found.amount, 0).astype(np.float32), mask, found.inverted, steps, picture.grey)


def masked_picture_digit(ink: Grey, mask: npt.NDArray[np.bool_], steps: Steps) -> DigitImage:
    """One digit of a picture, given its ink: float32 (height, width) of 0 to 1, and where it is."""
    return _picture_digit(ink, mask, False, steps)


def _picture_digit(ink: Grey, mask: npt.NDArray[np.bool_] | None, inverted: bool, steps: Steps,
                   drawn: Grey | None = None) -> DigitImage:  # fmt: skip
    height, width = ink.shape
    box: Box = (0, 0, width, height)
    box = _box_of(ink > 0.1 if mask is None else mask) or box
    frame = box if steps.crop else (0, 0, width, height)
    target = FIT_SIDE if steps.fit else SIDE
    cropped = _square_pixels(ink, frame, target * _FINE)
    pen = stroke_width(cropped > 0.5) / _FINE
    if steps.ink and mask is not None:
        evened = _even_pen(cropped)
        cropped = _tightened(evened, target * _FINE) if steps.crop else _cut(evened, target * _FINE)
    return replace(
        _finished(box, ink if drawn is None else drawn, lambda: ink, cropped, steps, inverted and steps.ink), source_pen=pen
    )


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
    if any(digit.parted for digit in digits):
        notes = (*notes, "digits that touch taken apart, by guess: leave a gap between them")
    return Reading(digits, "", notes, whole)


def _marks_refusal(count: int, stacked: bool) -> str:
    if not count:
        return "There are dots only. Draw a digit, as large as you like."
    if count > MAX_DIGITS:
        return f"There are {count} separate marks; at most {MAX_DIGITS} digits are read, side by side."
    if stacked:
        return "There are marks one above the other. Draw one digit, or several side by side in one row."
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
