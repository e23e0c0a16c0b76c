"""Invariant 3: stop at any point, restart, resume: bit-identical to the uninterrupted run."""

import dataclasses
import random

import numpy as np
import pytest
import torch

from core.data.sources import load_splits
from core.errors import CheckpointError
from core.events import StepsEnded, Validated
from core.execution.kept_states import newest_state, thin_out
from core.preflight.repeatability import flat
from core.runs.folder import RunFolder
from core.training.saved_state import load_state, restored, save_state
from core.training.state import new_state
from tests.helpers.bits import same_bits
from tests.helpers.trainings import CONFIGS, SMALL, followed, losses, scores


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_run_in_two_parts_is_the_run_in_one(name, tmp_path):
    config = CONFIGS[name]
    splits = load_splits(config, tmp_path)
    whole = new_state(config)
    expected, _ = followed(whole, splits)
    generator = random.Random(name)
    # Inside an epoch, at its very end, and anywhere, at any kind of event.
    cuts = [config.steps_per_epoch() // 2, config.steps_per_epoch(), generator.randrange(1, whole.step + 1)]
    for number, cut in enumerate(cuts):
        state = new_state(config)
        first, ended = followed(state, splits, (min(cut, whole.step), number == 2))
        assert not ended
        save_state(tmp_path / f"{number}.pt", state)
        again = restored(load_state(tmp_path / f"{number}.pt"))
        assert same_bits(state, again) == ""
        second, ended = followed(again, splits)
        assert ended
        assert same_bits(whole, again) == "", f"after step {cut}"
        parts = [losses(part) for part in (first, second) if any(isinstance(one, StepsEnded) for one in part)]
        assert np.array_equal(np.concatenate(parts), losses(expected))
        # Stopping early is told again when the run is taken up after it was told.
        assert scores([*first, *second])[-1] == scores(expected)[-1]
        told = [one for one in scores([*first, *second]) if isinstance(one, Validated)]
        assert told == [one for one in scores(expected) if isinstance(one, Validated)]


def test_a_difference_of_one_bit_is_named(tmp_path):
    first, second = new_state(SMALL), new_state(SMALL)
    assert same_bits(first, second) == ""
    with torch.no_grad():
        second.model.conv1.weight.view(torch.int32)[0, 0, 0, 0] ^= 1
    assert same_bits(first, second) == "model.conv1.weight"
    other = new_state(SMALL)
    other.optimizer.param_groups[0]["lr"] = 0.5
    assert same_bits(first, other) == "optimizer.param_groups.0.lr"
    assert flat({"a": [1, {"b": 2}]}) == {"a.0": 1, "a.1.b": 2}


def test_a_state_holds_plain_values_only_and_any_flipped_byte_is_noticed(tmp_path):
    state = new_state(SMALL)
    followed(state, load_splits(SMALL, tmp_path), (3, False))
    path = tmp_path / "state.pt"
    save_state(path, state)
    torch.load(path, weights_only=True)
    whole = path.read_bytes()
    moment = state.optimizer.state_dict()["state"][0]["exp_avg"].contiguous().numpy().tobytes()[:40]
    place = whole.index(moment)
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(CheckpointError, match="checksum"):
        load_state(path)


def test_the_newest_whole_state_is_taken_and_old_ones_are_thinned_out(tmp_path):
    state = new_state(SMALL)
    for step in (3, 7, 9, 12):
        state.step = step
        save_state(RunFolder(tmp_path).state(step, kept=step == 3), state)
    assert list(RunFolder(tmp_path).states()) == [3, 7, 9, 12]
    assert newest_state(tmp_path).step == 12
    assert newest_state(tmp_path, up_to=11).step == 9
    RunFolder(tmp_path).state(12).write_bytes(b"torn")
    assert newest_state(tmp_path).step == 9
    thin_out(tmp_path, 1)
    assert list(RunFolder(tmp_path).states()) == [3, 12]
    assert newest_state(tmp_path).step == 3
    RunFolder(tmp_path).state(3, kept=True).write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"step-00000012\.pt is damaged.*step-00000003-kept\.pt is damaged"):
        newest_state(tmp_path)


def test_a_state_of_other_settings_is_refused(tmp_path):
    state = new_state(SMALL)
    save_state(tmp_path / "state.pt", state)
    saved = load_state(tmp_path / "state.pt")
    other = dataclasses.replace(saved, config=dataclasses.replace(SMALL, model="mlp"))
    with pytest.raises(CheckpointError, match="does not fit its settings"):
        restored(other)
