"""A small trained network for the train/eval experiments, and the plain way to compute one forward in train mode."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from core.config.train_config import TrainConfig
from core.data.batches import make_batches
from core.data.sources import Digits, load_splits
from core.machine.hardware import choose_threads
from core.training.loop import train
from core.training.state import new_state

LAB = TrainConfig(
    dataset="mnist_sample",
    model="lab_cnn",
    dropout=0.5,
    train_size=3200,
    validation_size=500,
    epochs=2,
    learning_rate=3e-3,
    threads=1,
    device="cpu",
)


@pytest.fixture(scope="session", autouse=True)
def _one_core_for_others():
    """As in the dashboard: with two threads and a busy neighbour small tensors take ten times as long."""
    torch.set_num_threads(choose_threads(None, beside_pages=True))


@pytest.fixture(scope="session")
def lab(tmp_path_factory) -> tuple[nn.Module, Digits, Digits]:
    """(a trained model with BatchNorm and Dropout in eval mode, test digits, training digits)."""
    splits = load_splits(LAB, tmp_path_factory.mktemp("none"))
    state = new_state(LAB)
    for _ in train(state, make_batches(LAB, splits.train, state.device), splits.validation, splits.test):
        pass
    return state.model.eval().requires_grad_(False), splits.test, splits.train


@pytest.fixture(scope="session")
def without_dropout(lab) -> nn.Module:
    """The same weights without Dropout."""
    from core.model.networks import build_model

    model = build_model(replace(LAB, dropout=0.0))
    model.load_state_dict(lab[0].state_dict())
    return model.eval().requires_grad_(False)
