"""Where the time of an update goes: measured on a sample, and nothing of the training changes by it."""

import dataclasses

import numpy as np
import pytest

from core.data.sources import load_splits
from core.events import StepsEnded
from core.training.state import new_state
from core.training.step_clock import StepClock
from tests.helpers.bits import same_bits
from tests.helpers.trainings import CONFIGS, followed


@pytest.mark.parametrize("name", ["plain", "accumulated", "clipped and smoothed"])
def test_the_parts_of_every_tenth_update_are_reported(name, tmp_path):
    config = dataclasses.replace(CONFIGS[name], epochs=6)
    state = new_state(config)
    events, _ = followed(state, load_splits(config, tmp_path))
    reports = np.concatenate([one.report for one in events if isinstance(one, StepsEnded)])
    assert reports["sampled_steps"].sum() == len(range(0, state.step, 10))
    parts = sum(reports[f"{part}_seconds"].sum() for part in ("forward", "backward", "optimizer"))
    assert all(reports[f"{part}_seconds"].sum() > 0 for part in ("forward", "backward", "optimizer"))
    assert parts <= reports["sampled_seconds"].sum() <= reports["duration"].sum()


def test_measuring_changes_no_bit(tmp_path, monkeypatch):
    config = CONFIGS["augmented"]
    splits = load_splits(config, tmp_path)
    measured, plain = new_state(config), new_state(config)
    followed(measured, splits)
    monkeypatch.setattr(StepClock, "begin", lambda *_: None)
    followed(plain, splits)
    assert same_bits(measured, plain) == ""


def test_an_update_that_failed_is_not_counted():
    import torch

    clock, device = StepClock(), torch.device("cpu")
    clock.begin(0, device)
    clock.lap("forward")
    clock.begin(10, device)  # the one before ended in an error
    clock.lap("forward")
    clock.end()
    assert clock.take()[0] == 1
    assert clock.take() == (0, 0.0, {"forward": 0.0, "backward": 0.0, "optimizer": 0.0})
