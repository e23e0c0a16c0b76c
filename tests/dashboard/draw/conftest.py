"""A trained model behind the Draw page."""

import dataclasses
import shutil

import pytest

from core.execution.trainer import Trainer
from core.status import RunStatus
from tests.helpers.draw_page import opened
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for_status


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A runs folder with one run of a network with BatchNorm and Dropout."""
    runs, trainer = tmp_path_factory.mktemp("trained"), Trainer()
    config = dataclasses.replace(SAMPLE, model="cnn_batchnorm", dropout=0.3, train_size=2000, learning_rate=3e-3)
    run_id = trainer.start(config, runs, runs)
    wait_for_status(trainer, runs, run_id, RunStatus.FINISHED)
    trainer.shutdown()
    return runs, run_id


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def page(app, trained, runs):
    """Opens the page with the trained model."""
    shutil.copytree(trained[0], runs)
    return lambda drawn=None: opened(app, drawn)
