"""What do many passes with different masks say together?"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import streamlit as st
import torch
from scipy.special import softmax

from core.answers import NO_ANSWER, answers_of
from core.data.batches import normalise
from core.modes.dropout_passes import DropoutPasses, dropout_passes
from core.status import Progress
from dashboard import theme
from dashboard.charts.figures import Figure, figure_layout, line_trace, plain_numbers
from dashboard.charts.live_chart import plot
from dashboard.modes.code import head_lines
from dashboard.modes.lab import Experiment, Lab, Params, choose_digit
from dashboard.shell import pictures


def _controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = choose_digit(lab)
        own = lab.predictor.config.dropout or 0.5
        p = st.slider("p, the share that is dropped", 0.0, 0.9, own, 0.05, key="m_p", bind="query-params", width=220)
        passes = st.select_slider(
            "Passes", (10, 20, 50, 100, 200, 500, 1000, 2000), 200, key="m_passes", bind="query-params", width=200
        )
    return {"place": place, "p": p, "passes": passes}


def _work(lab: Lab, params: Params) -> Iterator[Progress | DropoutPasses]:
    place = params["place"]
    image = normalise(torch.from_numpy(lab.test.images[place : place + 1])).numpy()
    return dropout_passes(lab.predictor.model, image, p=params["p"], passes=params["passes"])


def _show(lab: Lab, params: Params, found: DropoutPasses) -> str:
    digit, place, p = int(answers_of(found.in_eval[None])[0]), params["place"], found.p
    if digit == NO_ANSWER:
        st.warning(
            "In eval mode this model gives NaN or infinity for the image, so there is no answer that passes could spread about."
        )
        return ""
    picture, left, right = st.columns([1, 4, 4])
    with picture:
        st.html(pictures.figure(lab.test.images[place, 0], f"a {lab.test.labels[place]}", "The digit looked at", 96))
    with left:
        st.markdown("**Every pass has another mask, and another answer**")
        plot(passes_figure(found), key="m_drop", alt="The probabilities of ten digits in each pass")
    with right:
        st.markdown("**The mean of many passes comes back to eval mode**")
        plot(mean_figure(found, digit), key="m_mean", alt="The mean logit over more and more passes")
    other = float((answers_of(found.logits) != digit).mean())
    scaled, unscaled = float(found.logits[:, digit].mean()), float(found.unscaled[:, digit].mean())
    spread = float(found.logits[:, digit].std())
    trained = lab.predictor.config.dropout
    if p == 0:
        return (
            f"With p = 0 nothing is dropped: all {len(found.logits)} passes are the same, and the same as eval mode's {digit}."
        )
    if trained == 0:
        st.caption("This model was trained without dropout; here its dropout layer is switched on for the experiment.")
    elif abs(trained - p) > 1e-9:
        st.caption(f"This model was trained with p = {trained:g}.")
    return (
        f"With p = {p:g}, {other:.0%} of {len(found.logits)} passes give another answer than eval mode's {digit}. Its logit is "
        f"{found.in_eval[digit]:.3f} in eval mode; the passes spread by ±{spread:.2f} about {scaled:.3f}. Dropping leaves a "
        f"share 1 - p = {1 - p:.2g} of the activations, so what is left is multiplied by 1 / (1 - p) = {1 / (1 - p):.2f}: that "
        f"keeps the mean where eval mode, which drops nothing, expects it. Without the scaling the mean would be "
        f"{unscaled:.3f}. The mean of the probabilities (dashes on the left) need not meet eval mode's: softmax is no "
        "straight line."
    )


def passes_figure(found: DropoutPasses) -> Figure:
    """Ten digits: each pass a point, the mean of the passes, and eval mode's answer."""
    shares = 100 * found.probabilities().astype(float)
    shown = shares[:200]
    spread = np.random.default_rng(0).uniform(-0.28, 0.28, shown.shape)
    eval_shares = 100 * softmax(found.in_eval)
    places = list(range(10))
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "one pass",
            "x": plain_numbers((np.arange(10) + spread).ravel().round(3)),
            "y": plain_numbers(shown.ravel().round(2)),
            "marker": {"color": theme.TRAIN_MODE, "size": 4, "opacity": 0.35},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": f"mean of {len(shares)} passes",
            "x": places,
            "y": plain_numbers(shares.mean(0).round(3)),
            "hovertemplate": "mean %{y:.2f} %",
            "marker": {"color": theme.TRAIN_MODE, "size": 11, "symbol": "line-ew-open", "line": {"width": 3}},
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "eval mode",
            "x": places,
            "y": plain_numbers(eval_shares.round(3)),
            "marker": {"color": theme.EVAL_MODE, "size": 10, "symbol": "diamond-open", "line": {"width": 2}},
            "hovertemplate": "eval mode %{y:.2f} %",
        },
    ]
    axis = {"tickvals": places, "showgrid": False}
    return {"data": data, "layout": figure_layout(340, "digit", "probability (%)", xaxis=axis, yaxis={"range": [-2, 102]})}


def mean_figure(found: DropoutPasses, digit: int) -> Figure:
    """The mean logit of one digit over more and more passes, with and without the scaling."""
    rows = np.unique(np.geomspace(1, len(found.logits), 80).round().astype(int)) - 1
    x = (rows + 1).tolist()
    value = float(found.in_eval[digit])
    data = [
        line_trace(
            "eval mode", [1, len(found.logits)], [value, value], theme.EVAL_MODE, "dash", mode="lines", hovertemplate="%{y:.3f}"
        ),
        line_trace(
            "mean, scaled by 1 / (1 - p)",
            x,
            found.mean_so_far(digit)[rows],
            theme.TRAIN_MODE,
            mode="lines",
            hovertemplate="%{y:.3f}",
        ),
        line_trace(
            "mean, not scaled",
            x,
            found.mean_so_far(digit, unscaled=True)[rows],
            theme.PARENT_RUN,
            "dot",
            mode="lines",
            hovertemplate="%{y:.3f}",
        ),
    ]
    return {"data": data, "layout": figure_layout(340, "passes", f"logit of {digit}", xaxis={"type": "log", "dtick": 1})}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """Many passes of one image, with and without the scaling."""
    p, passes = params["p"], params["passes"]
    return (
        head_lines(lab)
        + f"""
def passes_of(image, hook=None):
    copied = copy.deepcopy(model).eval()  # BatchNorm stays in eval mode
    for layer in copied.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = {p}
            layer.train()
            if hook:
                layer.register_forward_hook(hook)
    logits = []
    for start in range(0, {passes}, 100):  # a hundred copies of the image are a hundred passes: each row has its own mask
        reseed_dropout(copied, 0, start)
        logits.append(copied(image.expand(min(100, {passes} - start), 1, 28, 28)))
    return torch.cat(logits)

image = images[{params["place"]} : {params["place"]} + 1]
with torch.no_grad():
    print("eval mode:", model(image)[0].tolist())
    logits = passes_of(image)
    print("mean of the passes:", logits.mean(0).tolist())
    print("their spread:", logits.std(0, correction=0).tolist())
    # A layer keeps a share 1 - p and divides by it, so that the mean stays. Take that division out again:
    unscaled = passes_of(image, lambda layer, inputs, output: output * (1 - {p}))
    print("mean without the scaling:", unscaled.mean(0).tolist())
"""
    )


DROPOUT_PASSES = Experiment(
    "Dropout", "How can a layer that drops at random give a steady answer?", "", _controls, _work, _show, pytorch_lines
)
