"""Test digits that a model gets wrong, found at random."""

from random import Random

import numpy as np
import pytest
import torch
from torch import nn

from core.config.train_config import TrainConfig
from core.data.sources import load_sample
from core.insight.hard_digits import DIFFICULTIES, find_digit
from core.model.networks import build_model
from core.model.predictor import Predictor
from core.model.weights import copy_weights

CONFIG = TrainConfig(dataset="mnist_sample")
TEST = load_sample()[1]


class Always(nn.Module):
    """Says the same digit of every image, with a logit so much above the others."""

    def __init__(self, digit: int, above: float) -> None:
        super().__init__()
        self.logits = torch.zeros(10)
        self.logits[digit] = above

    def forward(self, images):
        return self.logits.expand(len(images), 10)


def predictor(digit=4, above=20.0):
    made = Predictor(copy_weights(build_model(CONFIG)), CONFIG, 0)
    made.model = Always(digit, above)
    return made


def test_wrong_ones_are_wrong_each_as_likely_as_any_other():
    random = Random(0)
    found = [find_digit(predictor(), TEST, "wrong", random=random) for _ in range(60)]
    assert not any(TEST.labels[place] == 4 for place in found)
    assert len(set(found)) > 30
    assert TEST.labels[find_digit(predictor(), TEST, "wrong", 7, random)] == 7


def test_where_there_is_none_nothing_is_found():
    assert find_digit(predictor(), TEST, "wrong", 4) is None
    assert find_digit(predictor(), TEST, "doubt") is None
    fours = TEST.take(np.flatnonzero(TEST.labels == 4))
    for difficulty in DIFFICULTIES:
        assert find_digit(predictor(), fours, difficulty, 5) is None


def test_doubt_is_what_the_page_calls_doubt():
    assert find_digit(predictor(above=0.5), TEST, "doubt") is not None


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_broken_network_gets_everything_wrong(broken):
    assert find_digit(predictor(above=broken), TEST, "wrong", 4) is not None
    assert find_digit(predictor(above=broken), TEST, "doubt", 4) is not None
