"""What do BatchNorm and Dropout change in training?"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import streamlit as st

from core.data.sources import data_root
from core.modes.with_and_without import twin_configs
from core.status import Progress
from core.training.side_by_side import TwinLosses, Twins, TwinScore, twin_trainings
from dashboard import theme, wording
from dashboard.charts.figures import Figure, figure_layout, in_percent, line_trace
from dashboard.charts.live_chart import plot
from dashboard.modes.code import head_lines
from dashboard.modes.lab import FRESH_WEIGHTS, Experiment, Lab, Params, percent, points


def _controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        rate = st.selectbox("Optimizer and learning rate", list(RATES), key="m_rate", bind="query-params", width=380)
        dropout = st.slider("Dropout of two of them", 0.1, 0.8, 0.5, 0.1, key="m_twin_p", bind="query-params", width=180)
        steps = st.select_slider("Steps", (50, 100, 200, 400, 800), 100, key="m_steps", bind="query-params", width=180)
        seed = st.number_input("Seed", 0, 999, 1, key="m_twin_seed", bind="query-params", width=130)
    return {"rate": rate, "dropout": dropout, "steps": steps, "seed": int(seed)}


def _work(lab: Lab, params: Params) -> Iterator[Progress | Twins]:
    optimizer, rate = RATES[params["rate"]]
    twins = twin_configs(lab.predictor.config.dataset, optimizer, rate, params["dropout"], params["steps"], params["seed"])
    return twin_trainings(twins, data_root())


def _show(lab: Lab, params: Params, result: Twins) -> str:
    losses, scores = defaultdict(list), defaultdict(list)
    for loss in result.losses:
        losses[loss.name].append(loss)
    for score in result.scores:
        scores[score.name].append(score)
    if not losses:
        return ""
    left, right = st.columns(2)
    with left:
        st.markdown("**Train loss**, mean of 10 steps; with Dropout it is that of the thinned network")
        plot(twin_loss_figure(losses), key="m_twin_loss", alt="Train loss of the twins")
    with right:
        st.markdown("**Validation accuracy**, eval mode, 500 digits")
        plot(twin_accuracy_figure(scores), key="m_twin_accuracy", alt="Validation accuracy of the twins")
    for one in result.ended:
        if one.reason:
            st.warning(f"{one.name}: {wording.plain(one.reason)}")
    last = {name: parts[-1] for name, parts in scores.items()}
    if not last:
        return ""
    told = ", ".join(f"{name} {percent(one.accuracy, 500)}" for name, one in last.items())
    words = f"Same seed, same digits in the same order, same two convolutions: {told}. "
    plain, normed = last.get("plain"), last.get("BatchNorm")
    if plain and normed and normed.accuracy - plain.accuracy > 0.3:
        words += (
            "At this learning rate the plain network did not learn, and the one with BatchNorm did: whatever size the "
            "weights are thrown to, it brings each channel back to mean 0 and variance 1 before the next layer sees it. "
            "Near the limit luck decides: try other seeds."
        )
    elif plain and normed:
        words += f"BatchNorm against plain: {points(normed.accuracy - plain.accuracy)} after so few steps."
    return words


def twin_loss_figure(losses: Mapping[str, Sequence[TwinLosses]], window: int = 10) -> Figure:
    """Train loss of each twin, mean of some steps."""
    data = []
    for name, parts in losses.items():
        steps = np.concatenate([part.steps for part in parts])
        values = np.concatenate([part.losses for part in parts]).astype(float)
        finite = np.where(np.isfinite(values), values, np.nan)
        smooth = np.array(
            [
                np.nanmean(finite[max(0, row + 1 - window) : row + 1]) if np.isfinite(finite[row]) else np.nan
                for row in range(len(finite))
            ]
        )
        color, dash = theme.TWINS[name]
        data.append(line_trace(name, steps, np.minimum(smooth, 20), color, dash, mode="lines", hovertemplate="%{y:.3f}"))
    layout = figure_layout(
        340, "step", "train loss (nats)", yaxis={"rangemode": "tozero", "autorangeoptions": {"maxallowed": 5}}
    )
    return {"data": data, "layout": layout}


def twin_accuracy_figure(scores: Mapping[str, Sequence[TwinScore]]) -> Figure:
    """Validation accuracy of each twin, eval mode."""
    data = []
    for name, parts in scores.items():
        color, dash = theme.TWINS[name]
        data.append(
            line_trace(
                name,
                [part.step for part in parts],
                in_percent([part.accuracy for part in parts]),
                color,
                dash,
                hovertemplate="%{y:.1f} %",
            )
        )
    return {"data": data, "layout": figure_layout(340, "step", "validation (%)", yaxis={"range": [0, 101]})}


RATES: dict[str, tuple[str, float]] = {
    "Adam, 0.05: far too high for most": ("adam", 0.05),
    "Adam, 0.001": ("adam", 0.001),
    "SGD with momentum 0.9, 0.05": ("sgd_momentum", 0.05),
}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """Four networks that differ in BatchNorm and Dropout alone."""
    name, rate = RATES[params["rate"]]
    optimizer = f"torch.optim.Adam(net.parameters(), lr={rate}, fused=True)"
    if name == "sgd_momentum":
        optimizer = f"torch.optim.SGD(net.parameters(), lr={rate}, momentum=0.9, fused=True)"
    dataset = lab.predictor.config.dataset
    return (
        head_lines(lab)
        + f"""
from core.data.batches import make_batches
from core.data.sources import load_splits
from core.model.networks import build_model  # the same first weights for the same seed
from core.modes.with_and_without import twin_configs

twins = twin_configs({dataset!r}, {name!r}, {rate}, {params["dropout"]}, {params["steps"]}, {params["seed"]})

def train(name, config):
    splits = load_splits(config, Path({str(data_root())!r}))
    net = build_model(config).to(memory_format=torch.channels_last)
    optimizer = {optimizer}
    batches, step = make_batches(config, splits.train, torch.device("cpu")), 0
    for epoch in range(config.epochs):
        for inputs, targets in batches.epoch(epoch):
            reseed_dropout(net, config.seed, step)
            loss = F.cross_entropy(net.train()(inputs), targets)
            if not loss.isfinite():
                return print(f"{{name}}: the loss is {{loss.item()}} at step {{step + 1}}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
    seen, meant = normalise(torch.from_numpy(splits.validation.images)), torch.from_numpy(splits.validation.labels)
    with torch.no_grad():
        right = (net.eval()(seen).argmax(1) == meant).float().mean()
    print(f"{{name}}: loss", loss.item(), "validation accuracy", right.item())

for name, config in twins.items():
    train(name, config)
"""
    )


WITH_AND_WITHOUT = Experiment(
    "With and without",
    "What do BatchNorm and Dropout change in training?",
    "",
    _controls,
    _work,
    _show,
    pytorch_lines,
    begins=("Train the twins", "Trains four fresh networks beside each other; it takes a while and can be stopped."),
    measured=FRESH_WEIGHTS,
)
