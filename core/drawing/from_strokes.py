"""Strokes of a pen -> digits in MNIST's form."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from core.drawing.boxes import Box, inside, padded, squared
from core.drawing.digit_image import (
    FINE,
    FIT_SIDE,
    NOTHING_DRAWN,
    PEN,
    SIDE,
    DigitImage,
    Preprocessing,
    Reading,
    checked_reading,
    finished_digit,
    marks_refusal,
)
from core.drawing.limits import too_many_marks
from core.drawing.marks import group_marks, mark_of_points
from core.drawing.strokes import Drawing, Grey, Stroke, extent, render
from core.drawing.touching import is_two

# Of the canvas's long side: less is a dot.
_DOT = 0.04


def read_drawing(drawing: Drawing, steps: Preprocessing) -> Reading:
    """The digits of a drawing: strokes grouped into digits, each drawn again with MNIST's pen."""
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
    if refusal := marks_refusal(len(kept), marks.stacked):
        return Reading((), refusal)
    digits: list[DigitImage] = []
    for group in kept:
        digits += _apart(drawing, group, drawn, steps)
    return checked_reading(tuple(digits), notes, drawn)


def _whole(drawing: Drawing) -> Box:
    return 0.0, 0.0, float(drawing.width), float(drawing.height)


def _span(strokes: Sequence[Stroke]) -> float:
    left, top, right, bottom = extent(strokes)
    return max(right - left, bottom - top)


def _apart(drawing: Drawing, strokes: list[Stroke], drawn: Grey, steps: Preprocessing) -> list[DigitImage]:
    """One digit; two when its strokes make two that touch."""
    ordered = sorted(strokes, key=lambda stroke: float(stroke.points[:, 0].mean()))
    halves = ((ordered[:cut], ordered[cut:]) for cut in range(1, len(ordered)))
    return parted_strokes(
        _drawn_digit(drawing, strokes, drawn, steps),
        (
            [_drawn_digit(drawing, part, drawn, steps) for part in parts]
            for parts in halves
            if min(map(_span, parts)) >= 0.5 * _span(strokes)
        ),
    )


def parted_strokes(whole: DigitImage, halves: Iterable[list[DigitImage]]) -> list[DigitImage]:
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


def _drawn_digit(drawing: Drawing, strokes: list[Stroke], drawn: Grey, steps: Preprocessing) -> DigitImage:
    whole = _whole(drawing)
    left, top, right, bottom = extent(strokes)
    widest = max(stroke.width for stroke in strokes)
    box = inside(padded((left, top, right, bottom), widest / 2), whole)
    target = FIT_SIDE if steps.fit else SIDE
    if steps.crop:
        # With MNIST's pen the box's long side is the middle line's plus one pen: then the ink fills the target exactly.
        span = max(right - left, bottom - top, 1.0)
        unit = span / (target - PEN) if steps.ink else max(box[2] - box[0], box[3] - box[1]) / target
        frame = padded((left, top, right, bottom), unit * PEN / 2) if steps.ink else box
    else:
        frame, unit = whole, max(drawing.width, drawing.height) / target
    square = squared(frame)
    fine = target * FINE
    cropped = render(strokes, square, (fine, fine), PEN * FINE if steps.ink else None)

    def ink() -> Grey:
        return render(strokes, whole, drawn.shape, PEN * unit) if steps.ink else drawn

    own = drawn if len(strokes) == len(drawing.strokes) else render(strokes, whole, drawn.shape)
    return finished_digit(box, own, ink, cropped, steps, False)
