import numpy as np

from core.drawing.diagnosis import confidence_words, findings
from core.drawing.digit_image import NAIVE, Preprocessing
from core.drawing.read import read
from core.finding import Verdict
from core.model.predictor import Prediction
from tests.helpers.shapes import drawing


def answer(**shares):
    probabilities = np.full(10, 0.0, np.float32)
    for digit, share in shares.items():
        probabilities[int(digit[1:])] = share
    probabilities += (1 - probabilities.sum()) / 10
    return Prediction(probabilities, np.log(probabilities + 1e-9))


SURE = answer(_7=0.99)


def verdicts(found):
    return {one.verdict for one in found}


def words(found, verdict):
    return " ".join(one.evidence for one in found if one.verdict == verdict)


def test_a_good_drawing_with_a_sure_answer_has_no_findings():
    (image,) = read(drawing(7, pen=20)).digits
    assert findings(image, Preprocessing(), SURE) == ()


def test_what_the_steps_mended_is_told_with_numbers():
    (image,) = read(drawing(7, scale=0.4, x=70, y=70, pen=4)).digits
    found = findings(image, Preprocessing(), SURE)
    assert verdicts(found) == {Verdict.MENDED}
    told = words(found, Verdict.MENDED)
    assert f"{np.hypot(*image.as_drawn.offset):.1f} px off the middle" in told
    assert f"{image.as_drawn.pen:.1f} px wide where MNIST has 2.2" in told
    assert f"{image.as_drawn.longest:.0f} px large" in told


def test_the_naive_way_names_each_problem_and_what_mends_it():
    drawn = drawing(7, scale=0.4, x=70, y=70, pen=4)
    (image,) = read(drawn, NAIVE).digits
    found = [one for one in findings(image, NAIVE, SURE) if one.verdict == Verdict.FAIL]
    assert len(found) == 3
    mended = {name for one in found for name in one.remedy}
    assert mended == {"centre", "crop", "ink", "fit"}
    steps = Preprocessing(**dict.fromkeys(mended, True))
    (better,) = read(drawn, steps).digits
    assert Verdict.FAIL not in verdicts(findings(better, steps, SURE))


def test_pixels_that_are_not_normalised_are_a_problem():
    steps = Preprocessing(normalise=False)
    (image,) = read(drawing(7, pen=20), steps).digits
    assert [one.remedy for one in findings(image, steps, SURE) if one.verdict == Verdict.FAIL] == [{"normalise": True}]


def test_doubt_is_told():
    (image,) = read(drawing(9, pen=20)).digits
    assert "4 with 41%" in words(findings(image, Preprocessing(), answer(_9=0.45, _4=0.4)), Verdict.NOTE)
    assert "no digit has more than" in words(findings(image, Preprocessing(), answer(_9=0.4)), Verdict.NOTE)


def test_pieces_are_counted():
    (image,) = read(drawing(5, pen=4)).digits
    broken = read(drawing(4, pen=4)).digits[0]
    assert image.blobs >= 1
    assert broken.blobs == 1


def test_confidence_in_plain_words():
    assert [confidence_words(value) for value in (0.999, 0.95, 0.7, 0.3)] == ["sure", "fairly sure", "in doubt", "guessing"]
