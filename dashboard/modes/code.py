"""What the shown PyTorch lines share: loading the model and digits, and accuracy. No Streamlit here."""

from typing import TYPE_CHECKING

from core.data.sources import data_root
from core.runs.folder import RunFolder

if TYPE_CHECKING:
    from dashboard.modes.lab import Lab

HEAD = """# Run this in the project's folder: .venv/bin/python this_file.py
import copy
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from core.data.sources import load_pool  # reads the digits: uint8 (n, 1, 28, 28) and labels
from core.modes.copies import some_digits  # the same digits as on the page
from core.model.predictor import load_predictor  # a run's weights in its network

model = load_predictor(Path({path!r})).model  # in eval mode
train_digits, test_digits = load_pool({dataset!r}, Path({data!r}))
digits = some_digits(test_digits, {count})
images = (torch.from_numpy(digits.images.copy()).float() / 255 - 0.1307) / 0.3081
labels = torch.from_numpy(digits.labels.copy())

"""

ACCURACY = """
@torch.no_grad()
def accuracy(net, images, order, size):
    right = sum((net(images[batch]).argmax(1) == labels[batch]).sum().item() for batch in order.split(size))
    return right / len(order)

"""

BATCHNORM_IN_TRAIN_MODE = """twin = copy.deepcopy(model).eval()
for layer in twin.modules():
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        layer.train()
"""

ORDERS = {
    "shuffled": "torch.randperm(len(labels))",
    "by_class": "labels.argsort(stable=True)",
    "stored": "torch.arange(len(labels))",
}


def head_lines(lab: "Lab", count: int = 2000) -> str:
    """The lines that load the model and `count` digits."""
    kind = "last" if lab.chosen.is_live else lab.chosen.kind  # a run in training has saved no weights yet
    path = RunFolder.of(lab.chosen.info.run_id).weights(kind)
    return HEAD.format(path=str(path), dataset=lab.predictor.config.dataset, data=str(data_root()), count=count)
