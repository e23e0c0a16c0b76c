"""A runs folder that the tests of the train/eval page share."""

import dataclasses

import pytest

from core.execution.trainer import Trainer
from core.status import RunStatus
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for_status


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A runs folder with a network that has BatchNorm and Dropout, then one that has neither."""
    runs, trainer = tmp_path_factory.mktemp("trained"), Trainer()
    config = dataclasses.replace(SAMPLE, model="lab_cnn", dropout=0.5, train_size=2000, learning_rate=3e-3)
    ids = []
    for one in (config, dataclasses.replace(SAMPLE, model="mlp", epochs=1)):
        ids.append(trainer.start(one, runs, runs))
        wait_for_status(trainer, runs, ids[-1], RunStatus.FINISHED)
    trainer.shutdown()
    return runs, *ids
