"""Weights that leave: as a state_dict, a whole model or safetensors, with lines that load them."""

import functools
import hashlib
import io
from enum import StrEnum

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from core.config.train_config import TrainConfig
from core.model.networks import Dropout, build_model
from core.model.source import has_own_classes, network_source


class WeightFormat(StrEnum):
    """The ways to take weights along."""

    STATE_DICT = "state_dict"
    WHOLE_MODEL = "whole_model"
    SAFETENSORS = "safetensors"
    TUTORIAL = "tutorial"


FILE_NAMES = {
    WeightFormat.STATE_DICT: "weights.pt",
    WeightFormat.WHOLE_MODEL: "model.pt",
    WeightFormat.SAFETENSORS: "weights.safetensors",
    WeightFormat.TUTORIAL: "model_weights.pth",
}
# The network of many PyTorch guides, written as they write it: the same layers as simple_cnn under other names. (Pooling after
# ReLU there and before it here give the same values.)
TUTORIAL_NAMES = {
    "conv1.weight": "features.0.weight",
    "conv1.bias": "features.0.bias",
    "conv2.weight": "features.3.weight",
    "conv2.bias": "features.3.bias",
    "output.weight": "classifier.weight",
    "output.bias": "classifier.bias",
}
_TUTORIAL_SOURCE = """class SimpleCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, kernel_size=3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, kernel_size=3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(64 * 7 * 7, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))
"""


def formats_of(config: TrainConfig) -> list[WeightFormat]:
    """The ways in which a network's weights can leave: the guides' names fit one network only, and a whole model with classes
    of its own could not be loaded without them."""
    refused = {WeightFormat.TUTORIAL} if config.model != "simple_cnn" else set()
    if has_own_classes(config):
        refused.add(WeightFormat.WHOLE_MODEL)
    return [kind for kind in WeightFormat if kind not in refused]


def packed(kind: WeightFormat, weights: dict[str, Tensor], config: TrainConfig) -> bytes:
    """The bytes of a file: weights with buffers, on the CPU."""
    weights = {name: value.contiguous() for name, value in weights.items()}
    if kind == WeightFormat.SAFETENSORS:
        # The format has no checksum of its own: without one a flipped byte would go unnoticed.
        metadata = {"format": "pt", "model": config.model, "sha256": tensors_digest(weights)}
        return safetensors.torch.save(weights, metadata)
    if kind == WeightFormat.TUTORIAL:
        weights = {other: weights[name] for name, other in TUTORIAL_NAMES.items()}
    target = io.BytesIO()
    torch.save(plain_model(config, weights) if kind == WeightFormat.WHOLE_MODEL else weights, target)
    return target.getvalue()


def plain_model(config: TrainConfig, weights: dict[str, Tensor]) -> nn.Module:
    """The network in eval mode, of PyTorch's own classes only, so that no file of this project is needed to load it."""
    model = build_model(config)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, Dropout):
                setattr(module, name, nn.Dropout(child.p))
    model.load_state_dict(weights)
    return model.eval()


@functools.lru_cache(maxsize=32)
def loading_lines(kind: WeightFormat, config: TrainConfig) -> str:
    """A plain script that loads such a file and answers for one image; torch alone (and safetensors) is needed."""
    name = FILE_NAMES[kind]
    if kind == WeightFormat.WHOLE_MODEL:
        head = "import torch\n"
        load = (
            "# weights_only=False runs whatever the file holds: only for files you trust.\n"
            f'model = torch.load("{name}", weights_only=False)\n'
        )
    else:
        head = "import torch\nfrom torch import nn\n"
        load = f"{_with_plain_dropout(config)}\n"
        if kind == WeightFormat.TUTORIAL:
            head, load = "import torch\nfrom torch import nn\n", f"\n{_TUTORIAL_SOURCE}\n\nmodel = SimpleCNN()\n"
        if kind == WeightFormat.SAFETENSORS:
            head = head.replace("import torch\n", "import torch\nfrom safetensors.torch import load_file\n", 1)
            load += f'model.load_state_dict(load_file("{name}"))\n'
        else:
            load += f'model.load_state_dict(torch.load("{name}", weights_only=True))\n'
    return (
        head
        + f"""
{load}model.eval()

image = torch.zeros(1, 1, 28, 28)  # pixels from 0 to 1; here a black image
with torch.no_grad():
    print(model((image - 0.1307) / 0.3081).softmax(1))
"""
    )


def _with_plain_dropout(config: TrainConfig) -> str:
    source = network_source(config)
    return f"Dropout = nn.Dropout\n{source}" if "Dropout(" in source else source


def tensors_digest(weights: dict[str, Tensor]) -> str:
    """SHA-256 over names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256()
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
