"""How do the running statistics find their values?"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import streamlit as st

from core.data.sources import data_root
from core.modes.warming_up import WarmUpStep, warm_up_config, warming_up
from core.status import Progress
from dashboard import theme, wording
from dashboard.charts.figures import Figure, figure_layout, in_percent, line_trace
from dashboard.charts.live_chart import plot
from dashboard.modes.code import head_lines
from dashboard.modes.lab import FRESH_WEIGHTS, Experiment, Lab, Params, percent

WARM_UP_STEPS = 50
_MOMENTA: dict[str, float | None] = {"0": 0.0, "0.01": 0.01, "0.1": 0.1, "1": 1.0, "None": None}


def _controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        momentum = st.segmented_control(
            "BatchNorm momentum", list(_MOMENTA), default="0.1", required=True, key="m_momentum", bind="query-params"
        )
        seed = st.number_input("Seed", 0, 999, 0, key="m_seed", bind="query-params", width=130)
    return {"momentum": momentum, "seed": int(seed)}


def _warm_config(lab: Lab, params: Params) -> Any:
    config = lab.predictor.config
    return warm_up_config(config.model, config.dataset, _MOMENTA[params["momentum"]], WARM_UP_STEPS, params["seed"])


def _work(lab: Lab, params: Params) -> Iterator[Progress | tuple[WarmUpStep, ...]]:
    return warming_up(_warm_config(lab, params), data_root())


def _show(lab: Lab, params: Params, steps: tuple[WarmUpStep, ...]) -> str:
    left, right = st.columns(2)
    with left:
        st.markdown("**Accuracy of a fresh model, both modes**")
        plot(warm_up_figure(steps), key="m_warm", alt="Accuracy of both modes over the first training steps")
    with right:
        st.markdown("**First BatchNorm layer, channel 0: batch and running statistics**")
        plot(
            warm_up_statistics_figure(steps, 0),
            key="m_warm_statistics",
            alt="Running mean and variance approaching those of the batches",
        )
    early = next((step for step in reversed(steps) if step.step <= 5 and step.eval is not None), steps[0])
    last = next((step for step in reversed(steps) if step.eval is not None), early)
    if early.eval is None or early.train is None or last.eval is None or last.train is None:
        return ""
    model = wording.MODEL_WORDS[_warm_config(lab, params).model]
    behind = early.train - early.eval
    story = "The running statistics begin at mean 0 and variance 1 and have yet to find out what the activations look like. "
    if abs(behind) < 0.01:
        story = "Here they are as good as each other from the first steps on: the running statistics have caught up already. "
    elif behind < 0:
        story = "Here eval mode is ahead: its running statistics average over more digits than the 64 of a batch. "
    return (
        f"A new {model}, Adam at 1e-3, batches of 64, scored on 500 digits. After {early.step} "
        f"step{'s' if early.step != 1 else ''}: "
        f"**{percent(early.eval, 500)} in eval mode, {percent(early.train, 500)} in train mode**; after {last.step}: "
        f"{percent(last.eval, 500)} and {percent(last.train, 500)}. {story}The weights, and so train mode, are the "
        "same whatever the "
        f"momentum. {_momentum_words(params['momentum'])}"
    )


def _momentum_words(momentum: str) -> str:
    value = _MOMENTA[momentum]
    if value is None:
        return (
            "With momentum None each batch counts the same: running = the plain average of all batches so far, the early "
            "ones of an untrained network included."
        )
    other = f"Keras and TensorFlow call that momentum {1 - value:g}: there it is the weight of the old value."
    meaning = f"In PyTorch running = {1 - value:g} x running + {value:g} x batch. {other}"
    if value == 0:
        return f"{meaning} With 0 the statistics never move: eval mode stays with mean 0 and variance 1 for good."
    return meaning + (" With 1 only the very last batch counts." if value == 1 else "")


def warm_up_figure(steps: Sequence[WarmUpStep]) -> Figure:
    """Accuracy of both modes over the first steps."""
    scored = [step for step in steps if step.eval is not None]
    x = [one.step for one in scored]
    data = [
        line_trace("eval mode", x, in_percent([one.eval for one in scored]), theme.EVAL_MODE, hovertemplate="%{y:.1f} %"),
        line_trace(
            "train mode", x, in_percent([one.train for one in scored]), theme.TRAIN_MODE, "dash", hovertemplate="%{y:.1f} %"
        ),
    ]
    return {"data": data, "layout": figure_layout(320, "training step", "correct (%)", yaxis={"range": [0, 101]})}


def warm_up_statistics_figure(steps: Sequence[WarmUpStep], channel: int) -> Figure:
    """One channel's running mean and variance approaching those of the batches."""
    x, data = [step.step for step in steps], []
    for axis, what in (("", "mean"), ("2", "variance")):
        batch = np.array([getattr(step, f"batch_{what}")[channel] for step in steps])
        running = np.array([getattr(step, f"running_{what}")[channel] for step in steps])
        shown = {"xaxis": "x", "yaxis": f"y{axis}", "showlegend": not axis}
        data.append(
            line_trace("batch", x, batch, theme.TRAIN_MODE, mode="markers", hovertemplate=f"batch {what} %{{y:.4g}}", **shown)
        )
        data.append(
            line_trace(
                "running", x, running, theme.EVAL_MODE, mode="lines", hovertemplate=f"running {what} %{{y:.4g}}", **shown
            )
        )
    layout = figure_layout(
        320, "training step", "mean", hoversubplots="axis", yaxis={"domain": [0.54, 1]}, xaxis={"anchor": "y2"}
    )
    layout["yaxis2"] = {"domain": [0, 0.46], "title": {"text": "variance", "standoff": 6}}
    return {"data": data, "layout": layout}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """A fresh model's running statistics find out what activations look like."""
    config = lab.predictor.config
    momentum = _MOMENTA[params["momentum"]]
    return (
        head_lines(lab)
        + f"""
from core.data.batches import make_batches
from core.data.sources import load_splits
from core.model.networks import build_model  # fresh weights, drawn from the seed
from core.modes.norm_layers import norm_layers
from core.modes.warming_up import warm_up_config

config = warm_up_config({config.model!r}, {config.dataset!r}, {momentum}, {WARM_UP_STEPS}, {params["seed"]})
splits = load_splits(config, Path({str(data_root())!r}))
digits = some_digits(splits.validation, 500)
images, labels = normalise(torch.from_numpy(digits.images.copy())), torch.from_numpy(digits.labels.copy())
batches = batches_of("stored", digits.labels, 64)

fresh = build_model(config).to(memory_format=torch.channels_last)
first = next(iter(norm_layers(fresh).values()))
optimizer = torch.optim.Adam(fresh.parameters(), lr=config.learning_rate, fused=True)
for step, (inputs, targets) in enumerate(make_batches(config, splits.train, torch.device("cpu")).epoch(0)):
    reseed_dropout(fresh, config.seed, step)
    optimizer.zero_grad()
    F.cross_entropy(fresh.train()(inputs), targets).backward()
    optimizer.step()
    if step < 10 or step % 5 == 4:
        right = []
        for train_mode in (False, True):  # BatchNorm in both modes, on copies: this forward would move them, too
            copied = copy.deepcopy(fresh).eval()
            for layer in norm_layers(copied).values():
                layer.train(train_mode)
            with torch.no_grad():
                right.append(sum((copied(images[batch]).argmax(1) == labels[batch]).sum().item() for batch in batches))
        mean, variance = first.running_mean[0].item(), first.running_var[0].item()
        print("step", step + 1, "eval:", right[0] / 500, "train:", right[1] / 500, "mean:", mean, "variance:", variance)
"""
    )


WARMING_UP = Experiment(
    "Warming up",
    "How do the running statistics find their values?",
    "",
    _controls,
    _work,
    _show,
    pytorch_lines,
    measured=FRESH_WEIGHTS,
)
