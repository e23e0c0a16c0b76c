"""What does BatchNorm compute in each mode?"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
import torch

from core.data.batches import normalise
from core.modes.batch_size import SIZES
from core.modes.copies import BATCH_ORDERS, batches_of
from core.modes.inside_layer import LayerInside, inside_layer
from core.modes.norm_layers import norm_layers
from core.status import Progress
from dashboard import theme
from dashboard.charts.figures import Figure, figure_layout, line_trace, plain_numbers
from dashboard.charts.live_chart import plot
from dashboard.modes import session as modes_session
from dashboard.modes.code import BATCHNORM_IN_TRAIN_MODE, head_lines
from dashboard.modes.lab import Experiment, Lab, Params


def _controls(lab: Lab) -> Params:
    layers = {
        name: len(norm.running_mean) for name, norm in norm_layers(lab.predictor.model).items() if norm.running_mean is not None
    }
    with st.container(horizontal=True, vertical_alignment="bottom"):
        layer = st.selectbox("Layer", list(layers), len(layers) - 1, key="m_layer", bind="query-params", width=140)
        modes_session.keep_in_range("m_channel", layers[layer] - 1)
        channel = st.number_input("Channel", 0, layers[layer] - 1, 0, key="m_channel", bind="query-params", width=130)
        size = st.select_slider("Batch size", SIZES[1:], 64, key="m_inside_size", bind="query-params", width=220)
        order = st.segmented_control(
            "Batch",
            BATCH_ORDERS[:2],
            default="shuffled",
            required=True,
            key="m_inside_make",
            format_func={"shuffled": "mixed digits", "by_class": "one class"}.__getitem__,
            bind="query-params",
        )
    return {"layer": layer, "channel": int(channel), "size": size, "order": order}


def _work(lab: Lab, params: Params) -> Iterator[Progress | LayerInside]:
    yield Progress(0, 1, "One batch goes through")
    batch = batches_of(params["order"], lab.test.labels, params["size"])[0]
    images = normalise(torch.from_numpy(lab.test.images[batch])).numpy()
    yield inside_layer(lab.predictor.model, images, params["layer"], params["channel"])


def _show(lab: Lab, params: Params, found: LayerInside) -> str:
    channel = found.channel
    left, right = st.columns([3, 2])
    with left:
        plot(
            channels_figure(found),
            key="m_channels",
            alt=f"Mean and variance of each of {len(found.batch_mean)} channels: this batch's and the running ones",
            on_click=partial(modes_session.take_click, "m_channels", "m_channel"),
        )
    with right:
        st.markdown(f"**Channel {channel}: what comes in** (lines: batch mean, running mean)")
        plot(before_figure(found), key="m_before", alt="Histogram of the values that come in")
        st.markdown("**What goes out**")
        plot(after_figure(found), key="m_after", alt="Histograms of the values that go out in both modes")
    gamma, beta = found.weight[channel], found.bias[channel]
    sides = (
        ("eval", found.running_mean[channel], found.running_variance[channel]),
        ("train", found.batch_mean[channel], found.batch_variance[channel]),
    )
    eps = _power(found.eps)
    lines = r" \\ ".join(
        rf"\text{{{mode}:}}\quad y &= {_tex(gamma)}\cdot\frac{{x - ({_tex(mean)})}}{{\sqrt{{{_tex(variance)} + {eps}}}}}"
        rf" + ({_tex(beta)})"
        for mode, mean, variance in sides
    )
    st.latex(
        rf"\begin{{aligned}} y &= \gamma\,\frac{{x-\mu}}{{\sqrt{{\sigma^2+\varepsilon}}}}+\beta \\ {lines} \end{{aligned}}"
    )
    return sentence(params, found)


def sentence(params: Params, found: LayerInside) -> str:
    """The formula with this channel's own numbers."""
    channel, size = found.channel, params["size"]
    each = found.values // size
    images = "one of each image" if each == 1 else f"{size} images of {each} pixels"
    numbers = f"{found.values:,} numbers: {images}"
    words = (
        f"In train mode the mean and variance of channel {channel} come from this batch alone ({numbers}); in eval mode "
        "from the running statistics. Gamma and beta are learned and the same in both. Train mode divides by n, the "
        f"running variance is fed with the one divided by n − 1, which is {found.values / max(found.values - 1, 1):.3g} "
        "times as large here. "
    )
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.batch_mean - found.running_mean) / np.sqrt(found.running_variance + found.eps)
    known = apart[np.isfinite(apart)]
    if len(known):
        words += (
            f"Over the {len(apart)} channels the batch's mean is {np.median(known):.2f} running standard deviations off "
            f"(median), {known.max():.2f} at most. "
        )
    if broken := len(apart) - len(known):
        words += (
            f"In {broken} channel{'s' if broken > 1 else ''} the running statistics are no numbers that eval mode could use. "
        )
    if found.batch_variance[channel] < found.eps:
        return words + ("This channel is all but constant in the batch: what it is divided by is the square root of ε alone.")
    return words + "Make the batch smaller or take one class, and watch the dots leave their dashes."


def _tex(value: float) -> str:
    """Three significant digits; a word for what is no number."""
    if not np.isfinite(value):
        return r"\text{NaN}"
    mantissa, mark, exponent = f"{value:.3g}".partition("e")
    return rf"{mantissa}\cdot 10^{{{int(exponent)}}}" if mark else mantissa


def _power(value: float) -> str:
    """0.00001 as TeX: 10^{-5}."""
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    return (rf"{mantissa}\cdot " if mantissa != "1" else "") + rf"10^{{{int(exponent)}}}"


def channels_figure(found: LayerInside) -> Figure:
    """Batch statistics against running ones, channel by channel; mean above, variance below."""
    channels = list(range(len(found.batch_mean)))
    data = []
    for axis, what, batch, running in (
        ("", "mean", found.batch_mean, found.running_mean),
        ("2", "variance", found.batch_variance, found.running_variance),
    ):
        shown = {"mode": "markers", "xaxis": "x", "yaxis": f"y{axis}", "showlegend": not axis}
        dash = {"symbol": "line-ew-open", "size": 13, "color": theme.EVAL_MODE, "line": {"width": 3}}
        data.append(
            line_trace(
                "running (eval mode)",
                channels,
                running,
                theme.EVAL_MODE,
                marker=dash,
                hovertemplate=f"running {what} %{{y:.4g}}",
                **shown,
            )
        )
        data.append(
            line_trace(
                "batch (train mode)",
                channels,
                batch,
                theme.TRAIN_MODE,
                hovertemplate=f"batch {what} %{{y:.4g}}",
                marker={"symbol": "circle", "size": 7, "color": theme.TRAIN_MODE},
                **shown,
            )
        )
    layout = figure_layout(
        430,
        "channel (click one to look into it)",
        "mean",
        hoversubplots="axis",
        xaxis={"range": [-0.7, len(channels) - 0.3], "anchor": "y2"},
        yaxis={"domain": [0.54, 1]},
    )
    layout["yaxis2"] = {"domain": [0, 0.46], "title": {"text": "variance", "standoff": 6}, "rangemode": "tozero"}
    edge = {"color": theme.PARENT_RUN, "dash": "dot", "width": 1}
    layout["shapes"] = [
        {
            "type": "line",
            "x0": found.channel,
            "x1": found.channel,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": edge,
            "layer": "below",
        }
    ]
    return {"data": data, "layout": layout}


def before_figure(found: LayerInside) -> Figure:
    """What comes into one channel."""
    centres = (found.edges[:-1] + found.edges[1:]) / 2
    bars = {
        "type": "bar",
        "x": plain_numbers(centres),
        "y": found.before.tolist(),
        "marker": {"color": theme.PARENT_RUN},
        "hovertemplate": "%{y:,} values about %{x:.3g}<extra></extra>",
    }
    lines = [
        (found.batch_mean[found.channel], theme.TRAIN_MODE, "solid", "batch mean"),
        (found.running_mean[found.channel], theme.EVAL_MODE, "dash", "running mean"),
    ]
    layout = figure_layout(
        230,
        f"value that comes into channel {found.channel}",
        "count",
        bargap=0,
        showlegend=False,
        hovermode="closest",
        yaxis={"type": "log" if found.before.max() > 100 else "linear"},
    )
    layout["shapes"] = [
        {
            "type": "line",
            "x0": float(x),
            "x1": float(x),
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": color, "dash": dash, "width": 2},
        }
        for x, color, dash, _ in lines
    ]
    layout["margin"]["t"] = 12
    return {"data": [bars], "layout": layout}


def after_figure(found: LayerInside) -> Figure:
    """What goes out of one channel in each mode."""
    centres = (found.after_edges[:-1] + found.after_edges[1:]) / 2
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "line": {"shape": "hvh", "color": color, "dash": dash},
            "name": name,
            "fill": "tozeroy",
            "x": plain_numbers(centres),
            "y": counts.tolist(),
            "hovertemplate": "%{y:,} values",
        }
        for name, counts, color, dash in (
            ("eval mode", found.after_eval, theme.EVAL_MODE, "solid"),
            ("train mode", found.after_train, theme.TRAIN_MODE, "dash"),
        )
    ]
    return {"data": data, "layout": figure_layout(230, "value that goes out", "count")}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """One BatchNorm layer's formula in both modes."""
    layer, channel = params["layer"], params["channel"]
    return (
        head_lines(lab)
        + f"""
batch = images[batches_of({params["order"]!r}, digits.labels, {params["size"]})[0]]
{BATCHNORM_IN_TRAIN_MODE}
norm, seen = copied.get_submodule({layer!r}), {{}}
running_mean, running_var = norm.running_mean.clone(), norm.running_var.clone()
norm.register_forward_hook(lambda _, inputs, output: seen.update(x=inputs[0], y=output))
with torch.no_grad():
    copied(batch)

x = seen["x"][:, {channel}]
mean, variance = x.mean(), x.var(correction=0)  # train mode divides by n ...
by_hand = (x - mean) / torch.sqrt(variance + norm.eps) * norm.weight[{channel}] + norm.bias[{channel}]
print("train mode as written by hand:", torch.allclose(by_hand, seen["y"][:, {channel}], atol=1e-4))
print("batch mean:", mean.item())
print("batch variance:", variance.item())
print("running mean:", running_mean[{channel}].item())
print("running variance:", running_var[{channel}].item())
share = norm.momentum if norm.momentum is not None else 1 / norm.num_batches_tracked.item()
moved = (1 - share) * running_var[{channel}] + share * x.var(correction=1)  # ... and stores the one with n - 1
print("running variance after this batch:", norm.running_var[{channel}].item(), "by hand:", moved.item())
"""
    )


INSIDE_LAYER = Experiment(
    "Inside a layer", "What does BatchNorm compute in each mode?", "batchnorm", _controls, _work, _show, pytorch_lines
)
