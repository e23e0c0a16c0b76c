"""What each layer of a network makes of one digit: shape, parameters, arithmetic, memory, and how much of the image it sees."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from core.config.train_config import TrainConfig
from core.model.networks import BUILDERS, outline

_SIDE = 28


@dataclass(frozen=True)
class LayerRow:
    """One layer, in the order of its first call.

    Attributes:
        name: its name in the state_dict. kind: its class.
        shape: of its output for one digit. parameters: numbers of its own that are trained.
        flops: of one digit's forward pass; a multiplication and an addition are two. Convolutions and linear layers count, what
            the others add is next to nothing.
        output_bytes: of its output for one digit in float32.
        sees: side in pixels of the square of the image that one of its numbers depends on; None behind a layer for which that
            is not known.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    flops: int
    output_bytes: int
    sees: int | None


def layer_rows(config: TrainConfig) -> tuple[LayerRow, ...]:
    """The layers of a network; nothing is computed, only shapes go through it.

    The receptive field follows Araujo, Norris and Sim, "Computing Receptive Fields of Convolutional Neural Networks" (2019): a
    kernel of k widens it by (k - 1) times the strides before it.
    """
    return _rows(config, BUILDERS[config.model])


# A page asks at each refresh.
@functools.lru_cache(maxsize=32)
def _rows(config: TrainConfig, builder: object) -> tuple[LayerRow, ...]:
    model, look = outline(config).eval(), _Look()
    for name, layer in model.named_modules():
        if not any(True for _ in layer.children()):
            layer.register_forward_hook(functools.partial(look.ended, name))
    image = torch.empty(1, 1, _SIDE, _SIDE, device="meta")
    look.fields[image] = (1, 1)
    with torch.no_grad():
        model(image)
    return tuple(look.rows.values())


class _Look:
    """Notes what goes through each layer."""

    def __init__(self) -> None:
        self.rows: dict[str, LayerRow] = {}
        # Tensor, by identity -> (side of what one of its numbers sees, distance of its neighbours in pixels).
        self.fields = WeakIdKeyDictionary()

    def ended(self, name: str, layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        field = _field_behind(layer, self.fields.get(given[0]))
        if field is not None:
            self.fields[output] = field
        if name not in self.rows:  # a layer that is called twice has its first call here
            self.rows[name] = LayerRow(
                name,
                type(layer).__name__,
                tuple(output.shape[1:]),
                sum(weight.numel() for weight in layer.parameters() if weight.requires_grad),
                _flops(layer, output),
                4 * output[0].numel(),
                min(_SIDE, field[0]) if field else None,
            )


def _flops(layer: nn.Module, output: Tensor) -> int:
    """Of one digit. Not by torch's FlopCounterMode: its hooks are those of the whole process, a training among them."""
    if isinstance(layer, nn.Conv2d):
        return 2 * output[0].numel() * layer.weight[0].numel()
    return 2 * output[0].numel() * layer.in_features if isinstance(layer, nn.Linear) else 0


def _field_behind(layer: nn.Module, before: tuple[int, int] | None) -> tuple[int, int] | None:
    """What one number behind a layer sees, and how far its neighbour's lies from it; None where that is not known."""
    if before is None:
        return None
    side, jump = before
    if isinstance(layer, nn.Linear):
        return _SIDE, _SIDE
    if isinstance(layer, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d):
        kernel, stride, dilation = (_one(getattr(layer, name, 1)) for name in ("kernel_size", "stride", "dilation"))
        return side + (kernel - 1) * dilation * jump, jump * stride
    pointwise = (nn.BatchNorm1d, nn.BatchNorm2d, nn.Dropout, nn.Flatten, nn.Identity)
    if isinstance(layer, pointwise) or type(layer).__module__ == nn.ReLU.__module__:
        return before
    return None


def _one(value: int | tuple[int, ...]) -> int:
    return max(value) if isinstance(value, tuple) else value
