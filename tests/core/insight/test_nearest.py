"""The training digits most like an image: against all distances worked out one by one."""

import numpy as np
import pytest
from scipy import ndimage

from core.data.sources import load_sample
from core.finding import Verdict
from core.insight.nearest import Likeness, nearest_findings, usual_distances
from core.model.predictor import Prediction

TRAIN, TEST = load_sample()


def grey(digits, place):
    return digits.images[place, 0].astype(np.float32) / 255


def says(digit):
    shares = np.full(10, 0.01, np.float32)
    shares[digit] = 0.91
    return Prediction(shares, np.log(shares))


def by_hand(image, pool):
    def blurred(one):
        return ndimage.uniform_filter(one, 3, mode="constant")

    own = blurred(image.astype(np.float64))
    return np.array([np.sqrt(np.mean((blurred(other[0] / 255) - own) ** 2)) for other in pool.images])


@pytest.mark.parametrize("place", [0, 17, 400])
def test_the_nearest_are_those_of_all_distances_one_by_one(place):
    image, expected = grey(TEST, place), by_hand(grey(TEST, place), TRAIN)
    likeness = Likeness(image, TRAIN)
    for label in (None, 3):
        among = np.flatnonzero(TRAIN.labels == label) if label is not None else np.arange(len(TRAIN))
        near = likeness.nearest(label, 5)
        assert [one.distance for one in near] == pytest.approx(np.sort(expected[among])[:5].tolist(), abs=1e-5)
        assert label is None or {one.label for one in near} == {label}


def test_a_training_digit_is_nearest_to_itself():
    place = int(np.flatnonzero(TRAIN.labels == 6)[5])
    (near,) = Likeness(grey(TRAIN, place), TRAIN).nearest(count=1)
    assert np.array_equal(near.image, TRAIN.images[place, 0])
    assert near.distance == pytest.approx(0, abs=1e-6)


def test_of_a_class_that_is_not_there_nothing_is_near():
    only = TRAIN.take(np.flatnonzero(TRAIN.labels == 1))
    likeness = Likeness(grey(TEST, 0), only)
    assert likeness.nearest(8) == ()
    (told,) = [one for one in nearest_findings(likeness, only, TEST, says(8)) if one.name == "nearest"]
    assert "is not among them" in told.evidence


def test_what_is_like_no_digit_is_told_and_what_is_like_one_is_not():
    half, most = usual_distances(TRAIN, TEST)
    assert 0 < half < most < 0.3
    noise = np.random.default_rng(0).random((28, 28)).astype(np.float32)
    names = [one.name for one in nearest_findings(Likeness(noise, TRAIN), TRAIN, TEST, says(8))]
    assert "distance" in names
    place = int(np.flatnonzero(TRAIN.labels == 7)[0])
    assert nearest_findings(Likeness(grey(TRAIN, place), TRAIN), TRAIN, TEST, says(7)) == ()
    (other,) = nearest_findings(Likeness(grey(TRAIN, place), TRAIN), TRAIN, TEST, says(1))
    assert (other.name, other.verdict) == ("nearest", Verdict.NOTE)
    assert "is a 7, not a 1" in other.evidence


def test_most_test_digits_are_nothing_to_speak_of():
    told = [
        nearest_findings(Likeness(grey(TEST, place), TRAIN), TRAIN, TEST, says(int(TEST.labels[place]))) for place in range(150)
    ]
    assert sum(map(bool, told)) <= 0.15 * len(told)
