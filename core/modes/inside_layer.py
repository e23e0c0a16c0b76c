"""What one BatchNorm layer computes in each mode, channel by channel."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from core.model.predictor import Images
from core.modes.copies import BATCHNORM_ONLY, copy_in_mode, forward, unchanged
from core.modes.norm_layers import Floats, norm_layers

BINS = 48


@dataclass(frozen=True, eq=False)
class LayerInside:
    """A BatchNorm layer while a batch goes through in train mode, one value a channel, (c,).

    Attributes:
        batch_mean, batch_variance: of the values that come in; the variance divided by n, as train mode normalises.
        running_mean, running_variance: what eval mode uses. weight, bias: gamma and beta. eps: added to the variance.
        values: n, how many numbers a channel's statistics are made of.
        edges: (BINS + 1,) of the histograms of one channel. before: counts of what comes in, (BINS,).
        after_edges: likewise for what goes out. after_eval, after_train: counts by the running and by the batch statistics.
        channel: which one the histograms show.
    """

    name: str
    batch_mean: Floats
    batch_variance: Floats
    running_mean: Floats
    running_variance: Floats
    weight: Floats
    bias: Floats
    eps: float
    values: int
    channel: int
    edges: Floats
    before: npt.NDArray[np.int64]
    after_edges: Floats
    after_eval: npt.NDArray[np.int64]
    after_train: npt.NDArray[np.int64]


def inside_layer(model: nn.Module, images: Images, layer: str, channel: int) -> LayerInside:
    """Look at one BatchNorm layer of a copy in train mode, Dropout off, while images (n, 1, 28, 28) go through.

    Raises:
        KeyError: no BatchNorm layer of that name. IndexError: no such channel. BatchOfOneError: see `copies.forward`.
    """
    with unchanged(model):
        copied = copy_in_mode(model, BATCHNORM_ONLY)
        norm, seen = norm_layers(copied)[layer], {}
        running = doubles(norm.running_mean), doubles(norm.running_var)  # before this batch moves the copy's
        norm.register_forward_pre_hook(lambda _, inputs: seen.update(x=inputs[0].double()))
        forward(copied, torch.from_numpy(images))
    x: Tensor = seen["x"]
    others = [axis for axis in range(x.dim()) if axis != 1]
    # Without Bessel's correction: a batch is normalised by this variance. The running one takes n / (n - 1) of it, as
    # torch.nn.BatchNorm2d says.
    mean, variance = x.mean(others).numpy(), x.var(others, correction=0).numpy()
    weight, bias = doubles(norm.weight), doubles(norm.bias)
    values = x.select(1, channel).reshape(-1).numpy()
    in_eval, in_train = (
        (values - m[channel]) / _root(v[channel] + norm.eps) * weight[channel] + bias[channel]
        for m, v in (running, (mean, variance))
    )
    edges, (before,) = _histograms(values)
    after_edges, (after_eval, after_train) = _histograms(in_eval, in_train)
    return LayerInside(
        layer,
        mean,
        variance,
        *running,
        weight,
        bias,
        norm.eps,
        len(values),
        channel,
        edges,
        before,
        after_edges,
        after_eval,
        after_train,
    )


def _histograms(*groups: Floats) -> tuple[Floats, list[npt.NDArray[np.int64]]]:
    """(edges over all groups, counts of each). Values that are not finite, or nearly so, lie in no bin: a broken model is
    looked at, too."""
    finite = [values[np.abs(values) < 1e150] for values in groups]
    together = np.concatenate(finite)
    together = together if len(together) else np.zeros(1)
    low, high = float(together.min()), float(together.max())
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # no room for bins between such large numbers
        low, high = low - 0.5 - 1e-6 * abs(low), high + 0.5 + 1e-6 * abs(high)
    edges = np.histogram_bin_edges(together, BINS, (low, high))
    return edges, [np.histogram(values, edges)[0] for values in finite]


def _root(value: float) -> float:
    """A square root; NaN below 0, without a warning: a damaged variance is shown, not hidden."""
    return float(np.sqrt(value)) if value >= 0 else float("nan")


def doubles(values: Tensor | None) -> Floats:
    """A copy of a tensor as float64, for arithmetic that is shown."""
    assert values is not None
    return values.detach().double().cpu().numpy().copy()
