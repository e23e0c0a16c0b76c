import dataclasses

import numpy as np
import pytest
import torch

from core.config.train_config import TrainConfig
from core.training.schedule import schedule_factor, schedule_preview
from tests.helpers.trainings import SAMPLE


@pytest.mark.parametrize("schedule", ["constant", "step", "cosine", "one_cycle", "plateau"])
def test_factors_stay_in_range_to_the_end_and_beyond(schedule):
    config = dataclasses.replace(SAMPLE, schedule=schedule, warmup_steps=5, epochs=7)
    total = config.total_steps()
    factors = [schedule_factor(config, step) for step in range(total + 10)]
    assert all(0 <= factor <= 1 for factor in factors)
    assert factors[0] < factors[4] <= 1
    assert set(factors[total:]) == {factors[total]}


def test_cosine_is_pytorchs_cosine():
    config = dataclasses.replace(SAMPLE, schedule="cosine", epochs=5)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    reference = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=config.total_steps())
    for step in range(config.total_steps()):
        assert schedule_factor(config, step) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-9)
        optimizer.step()
        reference.step()


def test_one_cycle_rises_to_its_peak_and_falls_to_nothing():
    config = dataclasses.replace(SAMPLE, schedule="one_cycle", epochs=10)
    factors = np.array([schedule_factor(config, step) for step in range(config.total_steps())])
    peak = int(factors.argmax())
    assert factors[peak] == 1
    assert (np.diff(factors[: peak + 1]) > 0).all()
    assert (np.diff(factors[peak:]) < 0).all()
    assert factors[-1] < 0.02


def test_step_drops_after_the_epochs_that_were_asked_for():
    config = dataclasses.replace(SAMPLE, schedule="step", schedule_epochs=2, schedule_factor=0.5, epochs=5)
    starts = [schedule_factor(config, epoch * config.steps_per_epoch()) for epoch in range(5)]
    assert starts == [1, 1, 0.5, 0.5, 0.25]


def test_the_preview_shows_the_rates_that_are_used():
    steps, rates = schedule_preview(TrainConfig(schedule="cosine", learning_rate=0.1), points=50)
    assert len(steps) == len(rates) == 50
    assert rates[0] == 0.1
    assert rates[-1] < 1e-6
