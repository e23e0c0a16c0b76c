import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.sources import load_sample
from core.drawing.digit_image import NAIVE, PEN, Preprocessing, TestDigit
from core.drawing.measures import measure
from core.drawing.picture import Picture
from core.drawing.read import read
from core.drawing.strokes import Drawing, Stroke
from tests.helpers.shapes import DIGITS, alike, arc, drawing, line, only


@pytest.mark.parametrize("digit", DIGITS)
def test_a_drawing_becomes_an_image_as_mnists_are(digit):
    image = only(read(drawing(digit)))
    assert image.model_input.shape == (1, 28, 28)
    assert image.model_input.dtype == np.float32
    assert image.fitted.shape == (20, 20)
    assert image.centred.shape == (28, 28)
    rows, columns = np.flatnonzero(image.centred.max(1) > 0.1), np.flatnonzero(image.centred.max(0) > 0.1)
    assert max(rows[-1] - rows[0], columns[-1] - columns[0]) + 1 in (19, 20)
    assert image.centred.max() == 1
    # The centre of mass of every MNIST image lies within half a pixel of index 14, both ways.
    assert all(-0.51 <= offset <= 0.51 for offset in image.as_seen.offset)
    assert image.as_seen.pen == pytest.approx(2.2, abs=0.45)
    assert image.model_input[0] == pytest.approx((image.centred - 0.1307) / 0.3081, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    digit=st.sampled_from(sorted(DIGITS)),
    scale=st.floats(0.15, 1.2),
    x=st.floats(-30, 30),
    y=st.floats(-30, 30),
    pen=st.floats(1.5, 30),
)
def test_place_size_and_pen_do_not_matter(digit, scale, x, y, pen):
    reference = only(read(drawing(digit)))
    image = only(read(drawing(digit, scale, x, y, pen)))
    assert alike(reference.centred, image.centred) > 0.97


def test_the_naive_way_keeps_place_size_and_pen():
    small = only(read(drawing(3, scale=0.3, x=80, y=-80, pen=3), NAIVE))
    assert small.as_seen.longest < 8
    assert small.as_seen.offset[0] > 5
    assert small.as_seen.pen < 1.4
    assert only(read(drawing(3, scale=0.3, x=80, y=-80, pen=3))).as_drawn.longest == small.as_seen.longest


def test_each_step_switched_off_shows_in_the_image():
    drawn = drawing(7, scale=0.5, x=60, y=40, pen=5)
    whole = only(read(drawn))
    assert only(read(drawn, Preprocessing(ink=False))).as_seen.pen < whole.as_seen.pen * 0.75
    assert only(read(drawn, Preprocessing(crop=False))).as_seen.longest < 12
    assert only(read(drawn, Preprocessing(fit=False))).as_seen.longest >= 26
    uncentred = only(read(drawn, Preprocessing(centre=False)))
    rows = np.flatnonzero(uncentred.centred.max(1) > 0.1)
    assert (rows[0], rows[-1]) == (4, 23)
    assert max(map(abs, uncentred.as_seen.offset)) > 1.5
    plain = only(read(drawn, Preprocessing(normalise=False)))
    assert np.array_equal(plain.model_input[0], plain.centred)


def test_what_is_no_digit_is_said_and_not_guessed():
    random = np.random.default_rng(0)
    refused = {
        "Nothing": Drawing((), 280, 280),
        "dot": Drawing((Stroke(np.array([[100.0, 100.0], [100.4, 100.2]]), 20),), 280, 280),
        "scribble": Drawing((Stroke(random.uniform(20, 260, (60, 2)), 8),), 280, 280),
        "filled": Drawing((Stroke(line((20, 140), (260, 140)), 250),), 280, 280),
        "one above the other": Drawing((Stroke(arc(140, 60, 30, 40), 8), Stroke(arc(140, 200, 30, 40), 8)), 280, 280),
        "at most 10": Drawing(tuple(Stroke(line((x, 20), (x, 200)), 2) for x in range(10, 270, 20)), 280, 280),
    }
    for word, drawn in refused.items():
        reading = read(drawn)
        assert reading.digits == ()
        assert word in reading.refusal


def test_several_digits_are_read_one_by_one_from_left_to_right():
    strokes = []
    for place, digit in enumerate((2, 0, 2, 6)):
        strokes += drawing(digit, scale=0.35, x=-100 + 66 * place, y=5 * place, pen=6).strokes
    reading = read(Drawing(tuple(strokes[::-1]), 280, 280))
    assert len(reading.digits) == 4
    lefts = [digit.box[0] for digit in reading.digits]
    assert lefts == sorted(lefts)
    for digit, image in zip((2, 0, 2, 6), reading.digits, strict=True):
        assert alike(only(read(drawing(digit))).centred, image.centred) > 0.97


def test_digits_of_mnist_come_out_of_the_picture_way_nearly_as_they_went_in():
    _, test = load_sample()
    likeness = []
    for image in test.images[::5, 0].astype(np.float32) / 255:
        reading = read(Picture(image))
        likeness.append(alike(image, reading.digits[0].centred) if reading.digits else 0.0)
    assert np.median(likeness) > 0.98
    assert np.mean(np.array(likeness) > 0.9) > 0.9


def test_a_test_digit_is_taken_as_it_is():
    _, test = load_sample()
    image = only(read(TestDigit(test.images[3, 0], int(test.labels[3]), 3)))
    assert np.array_equal(image.pixels, test.images[3, 0])


def test_measures_are_those_of_mnist():
    _, test = load_sample()
    measures = [measure(image.astype(np.float32) / 255) for image in test.images[::3, 0]]
    assert np.median([one.pen for one in measures]) == pytest.approx(2.2, abs=0.25)
    assert max(abs(offset) for one in measures for offset in one.offset) < 0.6
    assert np.median([one.longest for one in measures]) == 20
    assert np.median([one.ink for one in measures]) == pytest.approx(100, abs=15)


def test_the_measured_pen_is_the_drawn_one():
    for width in (1.5, 2.3, 4.0):
        side = 280 / 28
        image = read(Drawing((Stroke(arc(140, 140, 80, 80), width * side),), 280, 280), NAIVE).digits[0]
        assert image.as_seen.pen == pytest.approx(width, rel=0.2)
    assert pytest.approx(2.3) == PEN
