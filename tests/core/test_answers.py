import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from core.answers import NO_ANSWER, answers_of
from core.config.train_config import TrainConfig
from core.data.sources import Digits
from core.model.fit import weights_problems
from core.model.networks import build_model
from core.model.predictor import Predictor
from core.training.evaluation import evaluate

numbers = st.one_of(st.floats(-50, 50, width=32), st.sampled_from([np.nan, np.inf, -np.inf]))
scores = hnp.arrays(np.float32, (7, 10), elements=numbers)


@given(scores)
def test_an_answer_is_the_largest_of_ten_finite_scores_and_nothing_else(values):
    found, same = answers_of(values), answers_of(torch.from_numpy(values))
    assert found.tolist() == same.tolist()
    for row, answer in zip(values, found, strict=True):
        assert answer == (int(row.argmax()) if np.isfinite(row).all() else NO_ANSWER)


def test_a_network_of_nan_answers_nothing_and_is_right_about_nothing():
    model = build_model(TrainConfig(model="lab_cnn"))
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    random = np.random.default_rng(0)
    digits = Digits(random.integers(0, 255, (50, 1, 28, 28), dtype=np.uint8), np.zeros(50, np.int64))
    found = evaluate(model, digits, torch.device("cpu"))
    assert (found.accuracy, found.unanswered) == (0.0, 50)
    assert found.unanswered_by_label == (50, *[0] * 9)
    assert sum(map(sum, found.confusion)) == 0
    predictor = Predictor(model.state_dict(), TrainConfig(model="lab_cnn"), 0)
    one = predictor.predict(np.zeros((1, 1, 28, 28), np.float32))[0]
    assert not one.is_answer
    assert one.digit == NO_ANSWER


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("norm2.running_mean", lambda one: one.__setitem__(3, torch.nan), "channel 3"),
        ("norm2.running_var", lambda one: one.fill_(-1.0), "all 32 channels"),
        ("norm2.running_var", lambda one: one.__setitem__(slice(0, 2), 0.0), "channels 0"),
        ("conv1.weight", lambda one: one.__setitem__(0, torch.inf), "conv1.weight"),
    ],
)
def test_broken_weights_are_named_with_their_channels(name, change, words):
    weights = {key: value.clone() for key, value in build_model(TrainConfig(model="lab_cnn")).state_dict().items()}
    assert weights_problems(weights) == []
    change(weights[name])
    (problem,) = weights_problems(weights)
    assert name in problem
    assert words in problem
