"""A picture -> digits in MNIST's form."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from core.drawing.boxes import Box, box_of, cut, inside, padded, square_pixels, tightened
from core.drawing.digit_image import (
    FINE,
    FIT_SIDE,
    NOTHING_FOUND,
    PEN,
    PEN_ALLOWED,
    PEN_LIKELY,
    SIDE,
    TURNED,
    DigitImage,
    Preprocessing,
    Reading,
    checked_reading,
    finished_digit,
    marks_refusal,
)
from core.drawing.from_strokes import parted_strokes
from core.drawing.limits import too_many_marks
from core.drawing.marks import group_marks, marks_of_labels
from core.drawing.measures import stroke_width
from core.drawing.picture import Ink, Picture, closer, find_ink, is_dark_on_light
from core.drawing.sheet import find_sheet, on_sheet
from core.drawing.strokes import Grey
from core.drawing.touching import cuts

# Height in pixels of WORKING_SIDE below which it pays to look closer.
_SMALL_DIGIT = 110


def read_picture_digits(picture: Picture, steps: Preprocessing) -> Reading:
    """By the polarity that the border suggests; by the other one where that gives no digit with a pen, only a shape."""
    if not steps.ink:
        found = find_ink(picture.grey, turned=steps.invert)
        if not found.mask.any():
            return Reading((), NOTHING_FOUND)
        return checked_reading((_picture_digit(picture.grey, None, found.inverted, steps),), found.notes, picture.grey)
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


def _ways(picture: Picture, steps: Preprocessing) -> Iterator[Reading]:
    """Readings of a picture, the likeliest first: on a sheet that lies in it, by the polarity that its border suggests, and by
    the other one. Each is worked out when it is asked for."""
    if (sheet := find_sheet(picture.grey)) is not None:
        part, (left, top) = on_sheet(picture.grey, sheet)
        reading = _on_part(picture, _read_polarity(_on_sheet(picture, sheet, part), steps, turned=False), (left, top), 1.0)
        yield replace(reading, notes=("read on the sheet that lies in the picture", *reading.notes))
    yield _read_polarity(picture, steps, turned=False)
    other = _read_polarity(picture, steps, turned=True)
    yield replace(other, notes=(TURNED, *other.notes))


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
    moved = [replace(digit, box=_moved(digit.box, offset, scale), drawn=picture.grey) for digit in reading.digits]
    return replace(reading, digits=tuple(moved), whole=picture.grey if reading.digits else None)


def _is_doubtful(reading: Reading) -> bool:
    """Nothing that a pen could have written: no digit at all, or shapes far too thick for their size, as paper is."""
    if reading.certain:
        return False
    return not reading.digits or any(not PEN_LIKELY[0] <= digit.source_pen <= PEN_LIKELY[1] for digit in reading.digits)


def _looks_written(mask: npt.NDArray[np.bool_]) -> bool:
    """Strokes as a pen leaves them: thin for the size of what they make."""
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    heights = [rows.stop - rows.start for rows, _ in ndimage.find_objects(labels)] if count else [1]
    return PEN_LIKELY[0] <= 20 * stroke_width(mask) / max(heights) <= PEN_LIKELY[1]


def _read_polarity(picture: Picture, steps: Preprocessing, *, turned: bool, looked: bool = False) -> Reading:
    found = find_ink(picture.grey, turned=turned)
    if not found.mask.any():
        return Reading((), NOTHING_FOUND)
    if found.mask.mean() > 0.6:
        return Reading((), "The picture is filled: no digit stands out.")
    labels, count = ndimage.label(found.mask, np.ones((3, 3)))
    if refusal := too_many_marks(count):
        return Reading((), refusal)
    marks = group_marks(marks_of_labels(labels, count))
    if refusal := marks_refusal(len(marks.groups), marks.stacked):
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
    return checked_reading(tuple(digits), (*found.notes, *marks.notes), picture.grey)


def _closer(picture: Picture, masks: list[npt.NDArray[np.bool_]]) -> tuple[Picture, tuple[float, float], float] | None:
    """The part of a picture in which the digits lie, with more of its pixels, where they are small: (part, its left and top,
    size of its pixels), both in pixels of `picture.grey`."""
    together = box_of(np.logical_or.reduce(masks))
    boxes = [box for mask in masks if (box := box_of(mask))]
    if together is None or max(box[3] - box[1] for box in boxes) >= _SMALL_DIGIT:
        return None
    margin = 0.8 * max(max(box[2] - box[0], box[3] - box[1]) for box in boxes)
    left, top, right, bottom = inside(padded(together, margin), (0, 0, picture.grey.shape[1], picture.grey.shape[0]))
    part = closer(picture, (left, top, right, bottom))
    return (part, (left, top), (right - left) / part.grey.shape[1]) if part is not None else None


def _turns_round(picture: Picture, part: Picture) -> bool:
    """The border of the part suggests another polarity than that of the whole."""
    return is_dark_on_light(picture.grey) != is_dark_on_light(part.grey)


def _moved(box: Box, offset: tuple[float, float], scale: float) -> Box:
    return (offset[0] + box[0] * scale, offset[1] + box[1] * scale, offset[0] + box[2] * scale, offset[1] + box[3] * scale)


def _cut_apart(picture: Picture, found: Ink, mask: npt.NDArray[np.bool_], steps: Preprocessing) -> list[DigitImage]:
    """One digit; two when a cut through its ink makes two."""
    return parted_strokes(
        _masked_digit(picture, found, mask, steps),
        ([_masked_digit(picture, found, one, steps) for one in (mask & part, mask & ~part)] for part in cuts(mask)),
    )


def _masked_digit(picture: Picture, found: Ink, mask: npt.NDArray[np.bool_], steps: Preprocessing) -> DigitImage:
    others = found.mask & ~mask
    near = ndimage.binary_dilation(mask, iterations=2) & ~others
    return _picture_digit(np.where(near, found.amount, 0).astype(np.float32), mask, found.inverted, steps, picture.grey)


def masked_picture_digit(ink: Grey, mask: npt.NDArray[np.bool_], steps: Preprocessing) -> DigitImage:
    """One digit of a picture, given its ink: float32 (height, width) of 0 to 1, and where it is."""
    return _picture_digit(ink, mask, False, steps)


def _picture_digit(
    ink: Grey, mask: npt.NDArray[np.bool_] | None, inverted: bool, steps: Preprocessing, drawn: Grey | None = None
) -> DigitImage:
    height, width = ink.shape
    box: Box = (0, 0, width, height)
    box = box_of(ink > 0.1 if mask is None else mask) or box
    frame = box if steps.crop else (0, 0, width, height)
    target = FIT_SIDE if steps.fit else SIDE
    cropped = square_pixels(ink, frame, target * FINE)
    pen = stroke_width(cropped > 0.5) / FINE
    if steps.ink and mask is not None:
        evened = _even_pen(cropped)
        cropped = tightened(evened, target * FINE) if steps.crop else cut(evened, target * FINE)
    return replace(
        finished_digit(box, ink if drawn is None else drawn, lambda: ink, cropped, steps, inverted and steps.ink),
        source_pen=pen,
    )


def _even_pen(image: Grey) -> Grey:
    """Thicken or thin strokes that are far from MNIST's; others are left as they are, with their grey edges."""
    pen = stroke_width(image > 0.5) / FINE
    if not pen or PEN_ALLOWED[0] <= pen <= PEN_ALLOWED[1]:
        return image
    change = (PEN - pen) * FINE / 2
    mask = image > 0.5
    if change > 0:
        mask = np.pad(mask, math.ceil(change))  # room to grow; what is not needed is cropped again
        return (ndimage.distance_transform_edt(~mask) <= change).astype(np.float32)
    thin = ndimage.distance_transform_edt(mask) > -change
    same = ndimage.label(thin, np.ones((3, 3)))[1] == ndimage.label(mask, np.ones((3, 3)))[1]
    return thin.astype(np.float32) if same else image
