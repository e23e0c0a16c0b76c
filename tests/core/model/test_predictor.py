import dataclasses

import numpy as np
import pytest
import torch

from core.config.train_config import TrainConfig
from core.data.batches import normalise
from core.data.sources import load_sample
from core.errors import CheckpointError
from core.model.networks import build_model
from core.model.predictor import Predictor, fingerprint, load_predictor
from core.model.weights import copy_weights, save_weights

CONFIG = TrainConfig(dataset="mnist_sample", model="cnn_batchnorm", dropout=0.5)


@pytest.fixture(scope="module")
def images():
    return normalise(torch.from_numpy(load_sample()[1].images[:40].copy())).numpy()


def test_answers_are_those_of_the_network_in_eval_mode(images):
    model = build_model(CONFIG)
    predictor = Predictor(copy_weights(model), CONFIG, 3)
    model.eval()
    with torch.no_grad():
        expected = torch.softmax(model(torch.from_numpy(images)), 1).numpy()
    for one, row in zip(predictor.predict(images), expected, strict=True):
        assert one.probabilities == pytest.approx(row, abs=1e-6)
        assert one.digit == row.argmax()
        assert one.confidence == pytest.approx(row.max())
        assert one.second == np.argsort(row)[-2]


def test_an_answer_does_not_depend_on_the_others_asked_with_it(images):
    predictor = Predictor(copy_weights(build_model(CONFIG)), CONFIG, 0)
    together = predictor.predict(images)
    for place in (0, 7, 39):
        (alone,) = predictor.predict(images[place : place + 1])
        assert alone.probabilities == pytest.approx(together[place].probabilities, abs=1e-5)
    assert predictor.predict(images[:0]) == []


def test_asking_changes_nothing_and_the_weights_are_a_copy(images):
    model = build_model(CONFIG)
    predictor = Predictor(model.state_dict(), CONFIG, 0)
    before = fingerprint(predictor.model)
    predictor.predict(images)
    assert fingerprint(predictor.model) == before
    with torch.no_grad():
        next(model.parameters()).add_(1)
    assert fingerprint(predictor.model) == before
    assert fingerprint(model) != before


def test_the_fingerprint_sees_buffers(images):
    model = build_model(CONFIG)
    before = fingerprint(model)
    model.train()(torch.from_numpy(images))
    assert fingerprint(model) != before


def test_weights_of_another_architecture_are_named(images):
    weights = copy_weights(build_model(CONFIG))
    with pytest.raises(CheckpointError, match=r"do not fit mlp.*hidden.weight is missing"):
        Predictor(weights, dataclasses.replace(CONFIG, model="mlp"), 0)
    with pytest.raises(CheckpointError, match=r"conv1.weight is \(16, 1, 5, 5\) instead of \(32, 1, 3, 3\)"):
        Predictor(copy_weights(build_model(dataclasses.replace(CONFIG, model="fast_cnn"))), CONFIG, 0)


def test_a_replaced_file_is_read_anew(tmp_path, images):
    path = tmp_path / "best.pt"
    for seed in (1, 2):
        config = dataclasses.replace(CONFIG, seed=seed)
        save_weights(path, copy_weights(build_model(config)), config, seed, None)
        predictor = load_predictor(path)
        assert (predictor.step, predictor.config.seed) == (seed, seed)
        assert load_predictor(path) is predictor
    with pytest.raises(CheckpointError, match=r"gone.pt of run"):
        load_predictor(tmp_path / "gone.pt")
