"""The sentences of the Train/eval page follow figures and layers, whatever they are; no page, no training."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from core.modes.copies import Answers, ModeLayers
from core.modes.during_training import GapPoint
from core.modes.one_switch import OneSwitch
from dashboard.modes.experiments import during_training, one_switch
from dashboard.modes.lab import point_first
from tests.helpers.trainings import SAMPLE

PARAMS = {"size": 4, "order": "shuffled"}


def lab(batchnorm, dropout):
    return SimpleNamespace(layers=ModeLayers(batchnorm, dropout), test=range(100), predictor=SimpleNamespace(config=SAMPLE))


def answers(share):
    """A hundred zeros, of which this share is taken for zeros, the rest for ones."""
    logits = np.zeros((100, 10), np.float32)
    logits[np.arange(100), (np.arange(100) >= 100 * share).astype(int)] = 1
    return Answers(logits, np.zeros(100, np.int64))


def switch(in_eval, in_train):
    return OneSwitch(answers(in_eval), *[answers(in_train)] * 3)


@pytest.mark.parametrize("layers", [(0, 1), (1, 0), (2, 1)])
@pytest.mark.parametrize(("in_eval", "in_train"), [(0.9, 0.9), (0.9, 0.95), (0.9, 0.5)])
def test_the_switch_speaks_of_layers_that_are_there(layers, in_eval, in_train):
    words = one_switch.sentence(lab(*layers), PARAMS, switch(in_eval, in_train), all(layers))
    batchnorm, dropout = layers
    if not batchnorm:
        assert "statistics" not in words
        assert "recalibrate" not in words
        assert "mean and variance" not in words
    if not dropout:
        assert "Dropout" not in words
    assert ("costs hardly anything" in words) == (in_train == in_eval)
    assert ("train mode is better" in words) == (in_train > in_eval)
    assert ("Whoever forgets" in words) == (in_train < in_eval)


@pytest.mark.parametrize("what", ["loss", "accuracy"])
@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_gap_without_numbers_is_not_taken_apart(what, broken):
    point = GapPoint(10, 64, *[0.5] * 10)
    assert "In between" in during_training.sentence(point, what, lab(1, 1))
    lost = dataclasses.replace(point, **{f"validation_{what}": broken})
    words = during_training.sentence(lost, what, lab(1, 1))
    assert "no number for validation digits" in words
    assert "overfitting" not in words


@pytest.mark.parametrize(
    ("words", "lead", "rest"),
    [
        ("", "", ""),
        ("One sentence.", "**One sentence.**", ""),
        (
            "On 500 digits. In eval mode **98.0 %** is right. That is so.",
            "On 500 digits. In eval mode **98.0 %** is right.",
            "That is so.",
        ),
        ("First 1.5 points. Then more.", "**First 1.5 points.**", "Then more."),
        ("**Bold 3.2 %** here. `eval()` helps.", "**Bold 3.2 %** here.", "`eval()` helps."),
    ],
)
def test_an_answer_begins_with_its_point_and_loses_nothing(words, lead, rest):
    assert point_first(words) == (lead, rest)
