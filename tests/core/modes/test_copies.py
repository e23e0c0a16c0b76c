import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from core.config.train_config import TrainConfig
from core.data.batches import normalise
from core.data.sources import load_sample
from core.errors import BatchOfOneError
from core.model.networks import build_model
from core.model.predictor import fingerprint
from core.modes.batch_mates import batch_mates
from core.modes.copies import answer_in_train_mode, mode_layers

CONFIG = TrainConfig(dataset="mnist_sample", model="cnn_batchnorm", dropout=0.5)


@pytest.fixture(scope="module")
def digits():
    return load_sample()[1]


@pytest.fixture(scope="module")
def image(digits):
    return normalise(torch.from_numpy(digits.images[:1].copy())).numpy()


def test_train_mode_is_what_pytorch_computes_for_the_whole_batch(digits, image):
    """Without dropout: batch mean, biased variance, then the affine part, written down by hand for the first BatchNorm."""
    config = dataclasses.replace(CONFIG, dropout=0.0)
    model = build_model(config)
    company = batch_mates("mixed", 31, digits)
    (answer,) = answer_in_train_mode(model, image, company)
    batch = torch.from_numpy(np.concatenate([image, company]))
    with torch.no_grad():
        x = batch
        for name, module in model.named_children():
            if name.startswith("norm"):
                mean = x.mean((0, 2, 3), keepdim=True)
                variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
                x = (x - mean) / torch.sqrt(variance + module.eps)
                x = x * module.weight[:, None, None] + module.bias[:, None, None]
            elif name != "dropout":
                x = module(x)
        expected = torch.softmax(x, 1)[0].numpy()
    assert answer.probabilities == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ["mixed", "one_class", "blank", "drawings"])
def test_the_model_is_the_same_before_and_after(digits, image, kind):
    model = build_model(CONFIG).eval()
    before, mode = fingerprint(model), model.training
    state = torch.get_rng_state()
    company = batch_mates(kind, 15, digits, label=3, drawings=digits.images[:2, 0])
    assert company.shape == (15, 1, 28, 28)
    answer_in_train_mode(model, image, company, passes=3)
    assert fingerprint(model) == before
    assert model.training == mode
    assert torch.equal(torch.get_rng_state(), state)  # invariant 1: nothing of the process's random state is used


def test_company_changes_the_answer_with_batchnorm_only(digits, image):
    other = {}
    for name in ("cnn_batchnorm", "simple_cnn"):
        model = build_model(dataclasses.replace(CONFIG, model=name, dropout=0.0))
        answers = [answer_in_train_mode(model, image, batch_mates(kind, 31, digits))[0].logits for kind in ("mixed", "blank")]
        other[name] = float(np.abs(answers[0] - answers[1]).max())
    assert other["cnn_batchnorm"] > 0.01
    assert other["simple_cnn"] < 1e-5


def test_dropout_spreads_the_passes_and_repeats_with_the_seed(digits, image):
    model = build_model(dataclasses.replace(CONFIG, model="simple_cnn"))
    company = batch_mates("blank", 1, digits)
    passes = [one.logits for one in answer_in_train_mode(model, image, company, passes=20, seed=4)]
    assert np.std(passes, axis=0).max() > 0.01
    again = [one.logits for one in answer_in_train_mode(model, image, company, passes=20, seed=4)]
    assert np.array_equal(passes, again)


def test_one_image_alone_gets_an_answer_or_the_reason(digits, image):
    # On 28x28 maps a channel of one image still has many values; on a vector it has one.
    answer_in_train_mode(build_model(CONFIG), image, batch_mates("mixed", 0, digits))
    flat = nn.Sequential(nn.Flatten(), nn.Linear(784, 10), nn.BatchNorm1d(10))
    with pytest.raises(BatchOfOneError, match="no deviation to divide by"):
        answer_in_train_mode(flat, image, batch_mates("mixed", 0, digits))


def test_layers_that_mind_the_mode_are_counted():
    assert mode_layers(build_model(CONFIG)).batchnorm == 2
    assert mode_layers(build_model(CONFIG)).dropout == 1
    assert not mode_layers(build_model(dataclasses.replace(CONFIG, model="mlp", dropout=0.0))).any


def test_one_class_is_one_class(digits):
    chosen = batch_mates("one_class", 30, digits, label=7)
    sevens = normalise(torch.from_numpy(digits.images[digits.labels == 7].copy())).numpy()
    assert all(any(np.array_equal(one, seven) for seven in sevens) for one in chosen)
    large = batch_mates("mixed", 2000, digits)  # more than there are: some come twice
    assert len(large) == 2000
