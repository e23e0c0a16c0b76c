"""Pictures as people bring them; `tests/benchmarks/pictures.py` reads hundreds of each kind."""

import dataclasses

import numpy as np
import pytest
import torch

from core.data.batches import make_batches
from core.data.sources import load_sample, load_splits
from core.drawing.picture import read_picture
from core.drawing.read import read
from core.errors import DrawingError
from core.model.predictor import Predictor
from core.model.weights import copy_weights
from core.training.loop import train
from core.training.state import new_state
from tests.benchmarks.pictures import judged
from tests.helpers.pictures import KINDS
from tests.helpers.trainings import SAMPLE


@pytest.fixture(scope="module")
def predictor():
    """Trained for some seconds on the embedded digits: right about nine in ten."""
    config = dataclasses.replace(
        SAMPLE, model="fast_cnn", epochs=3, train_size=4000, validation_size=100, learning_rate=2e-3, batch_size=64
    )
    splits, state = load_splits(config, "none"), new_state(config)
    for _ in train(state, make_batches(config, splits.train, torch.device("cpu")), splits.validation, splits.test):
        pass
    return Predictor(copy_weights(state.model), config, state.step)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_read_or_told_and_never_wrong_and_sure(kind, predictor):
    _, test = load_sample()
    random = np.random.default_rng(3)
    count = 3 if kind.startswith("small") else 6  # those are large files
    verdicts = [judged(KINDS[kind][1](test, random), predictor) for _ in range(count)]
    assert verdicts.count("right") + verdicts.count("told") >= count - 1 - count // 6
    assert verdicts.count("sure_wrong") <= 1
    assert kind == "rows" or verdicts.count("told") < count


@pytest.mark.parametrize("kind", ["desk", "margin", "ruled_30", "squared_60", "exif", "several", "pale", "mpo"])
def test_the_digits_are_found_as_many_as_there_are(kind):
    _, test = load_sample()
    random, right = np.random.default_rng(4), 0
    for _ in range(5):
        sample = KINDS[kind][1](test, random)
        try:
            found = len(read(read_picture(sample.content)).digits)
        except DrawingError:
            continue
        right += found == len(sample.digits)
    assert right >= 4
