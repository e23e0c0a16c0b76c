"""A small trained network for the train/eval experiments, and the plain way to compute one forward in train mode."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from core.batches import make_batches
from core.config import TrainConfig
from core.data import Digits, load_splits
from core.hardware import choose_threads
from core.train_loop import new_state, train

LAB = TrainConfig(dataset="mnist_sample", model="lab_cnn", dropout=0.5, train_size=3200, validation_size=500, epochs=2,
                  learning_rate=3e-3, threads=1, device="cpu")  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def _one_core_for_others():
    """As in the dashboard: with two threads and a busy neighbour small tensors take ten times as long."""
    torch.set_num_threads(choose_threads(None, shared=True))


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
    from core.models import build_model

    model = build_model(replace(LAB, dropout=0.0))
    model.load_state_dict(lab[0].state_dict())
    return model.eval().requires_grad_(False)


def plain(images) -> Tensor:
    """uint8 (n, 1, 28, 28) -> float32 as torchvision's ToTensor and Normalize would."""
    return (torch.as_tensor(images).float() / 255 - 0.1307) / 0.3081


def norm_by_hand(x: Tensor, norm: nn.Module) -> Tensor:
    """Train mode's formula for maps (n, c, h, w) and vectors (n, c): this batch's mean and its variance divided by n."""
    axes, shape = ((0, 2, 3), (1, -1, 1, 1)) if x.dim() == 4 else ((0,), (1, -1))
    n = x.numel() // x.shape[1]
    mean = x.sum(axes, keepdim=True) / n
    variance = ((x - mean) ** 2).sum(axes, keepdim=True) / n
    return (x - mean) / torch.sqrt(variance + norm.eps) * norm.weight.reshape(shape) + norm.bias.reshape(shape)


def by_hand(model: nn.Sequential, x: Tensor, until: str = "") -> Tensor:
    """A forward with BatchNorm in train mode and no Dropout, layer by layer, up to but not into the layer `until`."""
    with torch.no_grad():
        for name, module in model.named_children():
            if name == until:
                return x
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                x = norm_by_hand(x, module)
            elif not isinstance(module, nn.Dropout):
                x = module(x)
    return x
