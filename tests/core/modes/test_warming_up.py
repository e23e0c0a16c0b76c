import dataclasses

import numpy as np
import pytest
import torch

from core.data.batches import make_batches
from core.data.sources import load_splits
from core.errors import ConfigError
from core.events import StepsEnded, Validated
from core.modes.warming_up import warm_up_config, warming_up
from core.modes.with_and_without import twin_configs
from core.status import Progress
from core.training.loop import train
from core.training.side_by_side import twin_trainings
from core.training.state import new_state


def last_of(steps):
    return [given for given in steps if not isinstance(given, Progress)][-1]


def warm(momentum, tmp_path, steps=12, model="fast_cnn"):
    config = warm_up_config(model, "mnist_sample", momentum, steps)
    return last_of(warming_up(config, tmp_path))


@pytest.mark.parametrize("momentum", [0.0, 0.01, 0.1, 1.0, None])
def test_running_statistics_follow_the_batches_by_the_known_formula(momentum, tmp_path):
    steps = warm(momentum, tmp_path)
    assert [one.step for one in steps] == list(range(1, 13))
    mean, variance = np.zeros(16), np.ones(16)
    for number, one in enumerate(steps, 1):
        share = 1 / number if momentum is None else momentum
        mean = (1 - share) * mean + share * one.batch_mean
        variance = (1 - share) * variance + share * one.batch_variance
        assert one.running_mean == pytest.approx(mean, abs=1e-4)
        assert one.running_variance == pytest.approx(variance, rel=1e-3, abs=1e-5)


def test_momentum_changes_eval_mode_only(tmp_path):
    slow, quick = warm(0.01, tmp_path), warm(1.0, tmp_path)
    assert [one.train for one in slow] == [one.train for one in quick]
    assert [one.eval for one in slow] != [one.eval for one in quick]
    assert slow[-1].eval < quick[-1].eval


def test_the_batch_statistics_are_those_of_the_first_batch(tmp_path):
    config = warm_up_config("fast_cnn", "mnist_sample", 0.1, 12)
    state = new_state(config)
    images, _ = next(iter(make_batches(config, load_splits(config, tmp_path).train, state.device).epoch(0)))
    with torch.no_grad():
        x = state.model.conv1(images).double()
    n = x.numel() // 16
    mean = x.sum((0, 2, 3)) / n
    variance = ((x - mean[:, None, None]) ** 2).sum((0, 2, 3)) / (n - 1)
    first = warm(0.1, tmp_path)[0]
    assert first.batch_mean == pytest.approx(mean.numpy(), abs=1e-5)
    assert first.batch_variance == pytest.approx(variance.numpy(), rel=1e-3)


def test_a_model_without_batchnorm_is_replaced_by_one_with_it():
    assert warm_up_config("mlp", "mnist_sample", 0.1, 5).model == "lab_cnn"


def test_twins_train_as_they_would_alone(tmp_path):
    twins = twin_configs("mnist_sample", "adam", 1e-3, 0.5, 8)
    together = last_of(twin_trainings(twins, tmp_path))
    for name, config in twins.items():
        splits, state = load_splits(config, tmp_path), new_state(config, beside_pages=True)
        alone = list(train(state, make_batches(config, splits.train, state.device), splits.validation, splits.validation))
        losses = np.concatenate([one.steps["loss"] for one in alone if isinstance(one, StepsEnded)])
        found = np.concatenate([one.losses for one in together.losses if one.name == name])
        assert found == pytest.approx(losses, rel=1e-5)
        scores = [one.evaluation.accuracy for one in alone if isinstance(one, Validated)]
        assert [one.accuracy for one in together.scores if one.name == name] == pytest.approx(scores, abs=0.005)
    assert {one.name: one.reason for one in together.ended} == dict.fromkeys(twins, "")


def test_a_twin_that_diverges_ends_with_its_reason_and_the_others_go_on(tmp_path):
    twins = twin_configs("mnist_sample", "sgd", 1e-3, 0.5, 12)
    twins["plain"] = dataclasses.replace(twins["plain"], learning_rate=1e6)
    together = last_of(twin_trainings(twins, tmp_path))
    ended = {one.name: one for one in together.ended}
    assert "became" in ended["plain"].reason
    assert ended["BatchNorm"].reason == ""
    assert ended["BatchNorm"].step == 12
    last = [one for one in together.losses if one.name == "plain"][-1]
    assert not np.isfinite(last.losses[-1]) or last.losses[-1] > 100  # the step that failed is shown


def test_budgets_fit_the_data_set():
    for steps in (1, 62, 63, 200, 1000):
        for config in twin_configs("mnist_sample", "adam", 1e-3, 0.5, steps).values():
            assert steps <= config.total_steps() <= steps + config.epochs
    with pytest.raises(ConfigError):
        twin_configs("mnist_sample", "adam", -1.0, 0.5, 10)
