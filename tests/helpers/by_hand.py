"""What layers compute, written out."""

import torch
from torch import Tensor, nn


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
