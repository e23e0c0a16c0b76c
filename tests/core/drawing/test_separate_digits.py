"""Several digits in one drawing: slants, rows and touching ones; and what lies outside the canvas."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.sources import load_sample
from core.drawing.picture import Picture
from core.drawing.read import read
from core.drawing.strokes import Drawing, Stroke, drawing_from_canvas, render
from tests.helpers.pictures import pushed_together
from tests.helpers.shapes import as_canvas, drawing


def slanted(given_drawing: Drawing, slant: float, x: float = 0.0) -> list[Stroke]:
    """Leaning to the right by `slant` pixels a pixel of height, moved by x."""
    return [
        dataclasses.replace(one, points=one.points + np.stack([x - slant * (one.points[:, 1] - 140), 0 * one.points[:, 1]], 1))
        for one in given_drawing.strokes
    ]


@settings(deadline=None, max_examples=40)
@given(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.floats(-0.5, 0.5))
def test_slanted_digits_side_by_side_stay_two(pair, slant):
    strokes = [*slanted(drawing(pair[0], 0.5, pen=6), slant, -45), *slanted(drawing(pair[1], 0.5, pen=6), slant, 45)]
    reading = read(Drawing(tuple(strokes), 280, 280))
    assert len(reading.digits) == 2
    assert not any(one.touching or one.parted for one in reading.digits)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=2), st.lists(st.integers(0, 9), min_size=2, max_size=2))
def test_two_rows_are_refused_in_words(above, below):
    strokes = [
        stroke
        for row, digits in enumerate((above, below))
        for place, digit in enumerate(digits)
        for stroke in drawing(digit, 0.4, x=-60 + 120 * place, y=-70 + 140 * row, pen=6).strokes
    ]
    reading = read(Drawing(tuple(strokes), 280, 280))
    assert not reading.digits
    assert "line" in reading.refusal or "row" in reading.refusal or "above" in reading.refusal


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 9), st.floats(0.4, 1.2), st.floats(4, 24))
def test_one_digit_alone_is_never_called_two(digit, scale, pen):
    (image,) = read(drawing(digit, scale, pen=pen)).digits
    assert not image.touching


def test_touching_pairs_are_parted_or_said_to_touch_and_single_digits_are_not():
    _, test = load_sample()
    random, verdicts = np.random.default_rng(0), []
    while len(verdicts) < 60:
        one, other = (test.images[place, 0] for place in random.integers(0, len(test), 2))
        if (pair := pushed_together(one, other, random)) is None:
            continue
        digits = read(Picture(pair.astype(np.float32) / 255)).digits
        verdicts.append(len(digits) != 1 or digits[0].touching or digits[0].parted)
    assert sum(verdicts) >= 0.9 * len(verdicts)
    alone = [read(Picture(image[0].astype(np.float32) / 255)).digits for image in test.images]
    assert sum(len(one) != 1 or one[0].touching or one[0].parted for one in alone) <= 0.02 * len(alone)


def test_what_lies_outside_the_canvas_does_not_count():
    seen = drawing(7)
    outside = Stroke(np.array([[300.0, 20.0], [700.0, 400.0]]), 14.0)
    across = Stroke(np.array([[-400.0, 140.0], [700.0, 140.0]]), 14.0)
    alone = drawing_from_canvas(as_canvas(seen), 280, 280)
    with_outside = drawing_from_canvas(as_canvas(Drawing((*seen.strokes, outside), 280, 280)), 280, 280)
    assert len(with_outside.strokes) == len(alone.strokes)
    (line,) = drawing_from_canvas(as_canvas(Drawing((across,), 280, 280)), 280, 280).strokes
    assert line.points[:, 0].min() >= -14
    assert line.points[:, 0].max() <= 294
    drawn = render((line,), (0, 0, 280, 280), (280, 280))
    assert drawn[140].min() > 0.9


@pytest.mark.parametrize("width", [float("nan"), -1.0, 0.0, 1e9, float("inf")])
def test_a_pen_that_is_none_is_refused(width):
    from core.errors import DrawingError

    with pytest.raises(DrawingError, match="Clear it and draw again"):
        drawing_from_canvas(as_canvas(Drawing((Stroke(np.array([[10.0, 10.0], [90.0, 90.0]]), width),), 280, 280)), 280, 280)
