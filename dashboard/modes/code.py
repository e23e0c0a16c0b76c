"""What the shown PyTorch lines share: loading the model and digits, and accuracy. No Streamlit here.

The lines give the figures of the page: they ask the same digits, in the same batches, with the same dropout masks. What makes
them the same comes from core; what an experiment is about is written out.
"""

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

from core.data.batches import normalise  # (pixel / 255 - 0.1307) / 0.3081
from core.data.sources import load_pool  # reads the digits: uint8 (n, 1, 28, 28) and labels
from core.model.networks import reseed_dropout  # the page's dropout masks; without it there are others each time
from core.model.predictor import load_predictor  # a run's weights in its network
from core.modes.copies import batches_of, some_digits  # the page's digits, in the page's batches

model = load_predictor(Path({path!r})).model  # in eval mode
train_digits, test_digits = load_pool({dataset!r}, Path({data!r}))
digits = {digits}
images = normalise(torch.from_numpy(digits.images.copy()))
labels = torch.from_numpy(digits.labels.copy())

"""

ACCURACY = """
@torch.no_grad()
def accuracy(net, images, batches):
    right = 0
    for number, batch in enumerate(batches):
        reseed_dropout(net, 0, number)
        right += (net(images[batch]).argmax(1) == labels[batch]).sum().item()
    return right / len(labels)

"""

BATCHNORM_IN_TRAIN_MODE = """copied = copy.deepcopy(model).eval()  # a copy: train mode moves BatchNorm's running statistics
for layer in copied.modules():
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        layer.train()
"""


def head_lines(lab: "Lab", count: int = 0) -> str:
    """The lines that load the model and the page's digits; `count`: so many of them only."""
    which = "last" if lab.chosen.is_live else lab.chosen.kind  # a run in training has saved no weights yet
    digits = "some_digits(test_digits, 2000)"
    return HEAD.format(
        path=str(RunFolder.of(lab.chosen.info.run_id).weights(which)),
        dataset=lab.predictor.config.dataset,
        data=str(data_root()),
        digits=f"some_digits({digits}, {count})" if count else digits,
    )
