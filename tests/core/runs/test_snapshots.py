import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.config.train_config import TrainConfig
from core.data.batches import make_batches, normalise
from core.data.sources import load_sample, load_splits
from core.errors import RunError
from core.insight.time_travel import travel
from core.model.predictor import load_predictor
from core.runs.folder import RunFolder
from core.runs.snapshots import snapshot_steps
from core.status import RunStatus
from core.training.loop import train
from core.training.state import new_state
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for_status


@given(st.integers(1, 1000), st.integers(1, 4096), st.integers(10, 55_000))
def test_few_snapshots_cover_the_whole_run(epochs, batch_size, train_size):
    config = TrainConfig(epochs=epochs, batch_size=min(batch_size, train_size), train_size=train_size)
    steps, total = snapshot_steps(config), config.total_steps()
    assert {0, 1, total} <= steps
    assert max(steps) == total
    assert len(steps) <= 2 + total.bit_length() + 20
    if epochs <= 20:
        assert {epoch * config.steps_per_epoch() for epoch in range(1, epochs + 1)} <= steps


def test_a_run_keeps_the_weights_of_its_steps(trainer, runs, tmp_path):
    config = dataclasses.replace(SAMPLE, model="cnn_batchnorm", dropout=0.3)
    run_id = trainer.start(config, tmp_path, runs)
    wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    kept = RunFolder(runs / run_id).snapshots()
    assert list(kept) == sorted(snapshot_steps(config)) == [0, 1, 2, 4, 8, 10, 16, 20]
    assert 8 * 200_000 < RunFolder(runs / run_id).disk_bytes()["snapshots"] < 8 * 300_000

    # The same training once more, by hand: its weights at each of these steps.
    torch.set_num_threads(1)
    splits = load_splits(config, tmp_path)
    state = new_state(config)
    batches = make_batches(config, splits.train, torch.device("cpu"))
    seen = set()
    for _ in train(state, batches, splits.validation, splits.test):
        if state.step in kept and state.step not in seen:
            seen.add(state.step)
            stored = load_predictor(kept[state.step])
            assert stored.step == state.step
            for name, value in state.model.state_dict().items():
                assert torch.equal(stored.model.state_dict()[name], value), (state.step, name)
    assert seen == set(kept)


def test_travel_asks_every_snapshot_and_finds_the_flips(trainer, runs, tmp_path):
    run_id = trainer.start(SAMPLE, tmp_path, runs)
    wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    images = normalise(torch.from_numpy(load_sample()[1].images[[5, 120]].copy())).numpy()
    found = travel(runs / run_id, images)
    assert found.steps.tolist() == [0, 1, 2, 4, 8, 10, 16, 20]
    assert found.probabilities.shape == (8, 2, 10)
    assert found.probabilities.sum(2) == pytest.approx(np.ones((8, 2)), abs=1e-5)
    for image in (0, 1):
        digits = found.probabilities[:, image].argmax(1)
        flips = found.flips(image)
        assert len(flips) == (np.diff(digits) != 0).sum()
        for step, before, after in flips:
            place = found.steps.tolist().index(step)
            assert (digits[place - 1], digits[place]) == (before, after)
    assert found.damaged == ()


def test_a_damaged_snapshot_is_left_out_and_told(trainer, runs, tmp_path):
    run_id = trainer.start(SAMPLE, tmp_path, runs)
    wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    path = RunFolder(runs / run_id).snapshots()[4]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    found = travel(runs / run_id, np.zeros((1, 1, 28, 28), np.float32))
    assert 4 not in found.steps
    assert "step-00000004.pt" in found.damaged[0]


def test_a_run_without_snapshots_says_so(tmp_path):
    with pytest.raises(RunError, match="keeps no snapshots"):
        travel(tmp_path, np.zeros((1, 1, 28, 28), np.float32))
