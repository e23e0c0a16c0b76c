"""A run at the steps whose weights it kept."""

import dataclasses

import numpy as np
import pytest
import torch

from core.config.models import MODELS
from core.data.batches import normalise
from core.data.sources import load_splits
from core.errors import RunError
from core.insight.looking_back import SCORED, first_filters, look_back
from core.model.networks import build_model
from core.model.predictor import load_predictor
from core.runs.folder import RunFolder
from core.status import Progress, RunStatus
from core.training.evaluation import evaluate
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for_status

NO_DRAWINGS = np.zeros((0, 1, 28, 28), np.float32)


@pytest.fixture
def run(trainer, runs, tmp_path):
    run_id = trainer.start(SAMPLE, tmp_path, runs)
    wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    return runs / run_id, load_splits(SAMPLE, tmp_path).validation


def moments_of(folder, digits, drawings=NO_DRAWINGS):
    return [one for one in look_back(folder, digits, drawings) if not isinstance(one, Progress)]


def test_every_snapshot_is_asked_and_what_is_there_can_be_seen_meanwhile(run):
    folder, digits = run
    drawings = normalise(torch.from_numpy(digits.images[:3].copy())).numpy()
    growing = moments_of(folder, digits, drawings)
    snapshots = RunFolder(folder).snapshots()
    assert [len(one) for one in growing] == list(range(1, len(snapshots) + 1))
    moments = growing[-1]
    assert [one.step for one in moments] == list(snapshots)
    for moment in moments:
        predictor = load_predictor(snapshots[moment.step])
        expected = evaluate(predictor.model, digits, torch.device("cpu"))
        assert dataclasses.replace(moment.evaluation, seconds=0) == dataclasses.replace(expected, seconds=0)
        assert moment.answers.tolist() == [one.digit for one in predictor.predict(drawings)]
        assert moment.filters.shape == (32, 3, 3)
    assert moments[-1].evaluation.accuracy > moments[0].evaluation.accuracy
    assert len(digits) <= SCORED


def test_a_damaged_snapshot_is_left_out_and_none_is_said(run):
    folder, digits = run
    first, *others = RunFolder(folder).snapshots().values()
    first.write_bytes(b"nothing")
    assert len(moments_of(folder, digits)[-1]) == len(others)
    for path in others:
        path.unlink()
    with pytest.raises(RunError, match="keeps no snapshots"):
        moments_of(folder, digits)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_first_layers_weights_are_pictures(name):
    filters = first_filters(build_model(dataclasses.replace(SAMPLE, model=name)))
    assert filters.ndim == 3
    assert filters.shape[1] in (3, 5, 28)
    assert filters.dtype == np.float32


def test_a_network_without_such_a_layer_has_no_pictures():
    assert len(first_filters(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(100, 10)))) == 0
    assert len(first_filters(torch.nn.Sequential(torch.nn.Flatten()))) == 0
