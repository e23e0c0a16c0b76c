"""How much of the gap between train and validation is the mode's?"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import streamlit as st

from core.data.sources import data_root
from core.execution.process import get_trainer
from core.modes.during_training import GapPoint, mode_gap
from core.runs.folder import RunFolder
from core.status import Progress
from dashboard import theme
from dashboard.charts.figures import LEGEND, Figure, figure_layout, line_trace
from dashboard.charts.live_chart import plot
from dashboard.modes import session as modes_session
from dashboard.modes.code import head_lines
from dashboard.modes.lab import Experiment, Lab, Params, layer_words, percent


def _controls(lab: Lab) -> Params:
    what = st.segmented_control(
        "Curves of", ("loss", "accuracy"), default="loss", required=True, key="m_what", bind="query-params"
    )
    run_id = lab.chosen.info.run_id
    # Points stay known, so that a run in training has only its new ones worked out.
    known = modes_session.memory(f"gap-{run_id}")
    return {"snapshots": len(RunFolder.of(run_id).snapshots()), "_what": what, "_known": known}


def _work(lab: Lab, params: Params) -> Iterator[Progress | tuple[GapPoint, ...]]:
    for given in mode_gap(RunFolder.of(lab.chosen.info.run_id).path, data_root(), dict(params["_known"])):
        if not isinstance(given, Progress):
            params["_known"].update({point.step: point for point in given})
        yield given


def _show(lab: Lab, params: Params, found: tuple[GapPoint, ...]) -> str:
    if not found:
        return ""
    plot(
        gap_figure(found, params["_what"]),
        key="m_gap",
        alt="One run seen as the optimizer saw it, again in train mode, in eval mode, and on validation digits",
    )
    live = " More points come while it trains." if lab.chosen.info.run_id in get_trainer().active() else ""
    return sentence(found[-1], params["_what"], lab) + live


_SIDES = {
    "optimizer": "what the optimizer saw",
    "again": "the same batches again",
    "train": "eval mode on the same batches",
    "clean": "the same digits without augmentation",
    "validation": "validation digits",
}


def _signed_points(share: float) -> str:
    return f"{100 * share:+.1f} points".replace("-", "−")


def sentence(point: GapPoint, what: str, lab: Lab) -> str:
    """The gap in its parts, each with the figure that was measured for it."""
    config = lab.predictor.config
    if what == "accuracy":
        values = {name: getattr(point, f"{name}_accuracy") for name in ("optimizer", "again", "train", "clean", "validation")}
        shown, part, none = lambda one: percent(one, point.digits), _signed_points, 0.0005
    else:
        values = {name: getattr(point, f"{name}_loss") for name in ("optimizer", "again", "train", "clean", "validation")}
        shown, part, none = "{:.4f}".format, lambda one: f"{one:+.4f}".replace("-", "−"), 0.00005
    if broken := [_SIDES[name] for name, value in values.items() if not math.isfinite(value)]:
        return (
            f"At step {point.step:,} there is no number for {', '.join(broken)}: the loss of these weights is NaN or "
            "infinite, so there is no gap to take apart."
        )
    words = (
        f"At step {point.step:,} the optimizer saw {shown(values['optimizer'])} on {point.digits:,} digits, and "
        f"validation digits have {shown(values['validation'])}. In between, one thing changed at a time: "
    )
    steps = [
        f"{part(values['optimizer'] - values['again'])} is what it **learned meanwhile** (the same batches in "
        "train mode, by the weights after them)"
    ]
    if lab.layers.any:
        steps.append(f"{part(values['again'] - values['train'])} is **the mode's**: in train mode {layer_words(lab.layers)}")
    else:
        steps.append("nothing is **the mode's**: this model has no layer that behaves differently")
    if config.augments() or abs(values["train"] - values["clean"]) > none:
        steps.append(f"{part(values['train'] - values['clean'])} is **the augmentation's**")
    over = values["validation"] - values["clean"]
    worse = over > none if what == "loss" else over < -none
    verdict = "**what it memorised**; overfitting if it grows" if worse else "no worse: **no overfitting**"
    steps.append(f"and validation digits are {part(over)} from digits it has trained on, which is {verdict}")
    smoothing = (
        f" All losses are with label smoothing {config.label_smoothing:g}, as trained."
        if config.label_smoothing and what == "loss"
        else ""
    )
    return words + "; ".join(steps) + f".{smoothing}"


def gap_figure(points: Sequence[GapPoint], what: str) -> Figure:
    """The views of one run; `what` is "loss" or "accuracy"."""
    x, scale = [point.step for point in points], 100 if what == "accuracy" else 1
    augmented = any(abs(point.clean_loss - point.train_loss) > 0 for point in points)  # NaN is no difference
    hover = "%{y:.2f} %" if what == "accuracy" else "%{y:.4f}"
    data = [
        line_trace(
            name,
            x,
            np.array([scale * getattr(point, f"{field}_{what}") for point in points]),
            color,
            dash,
            hovertemplate=hover,
            marker={"symbol": symbol, "size": 7, "color": color},
        )
        for name, field, color, dash, symbol in (
            ("train mode: as the optimizer saw it", "optimizer", theme.TRAIN_MODE, "dash", "circle"),
            ("train mode again, a few steps later", "again", theme.TRAIN_MODE, "dot", "circle-open"),
            ("the same images in eval mode", "train", theme.TRAIN, "solid", "square"),
            *([("the same digits, not augmented", "clean", theme.TRAIN, "dashdot", "square-open")] if augmented else []),
            ("validation digits in eval mode", "validation", theme.VALIDATION, "dot", "diamond"),
        )
    ]
    title = "correct (%)" if what == "accuracy" else "loss (nats)"
    return {"data": data, "layout": figure_layout(380, "step", title, xaxis={"type": "log", "dtick": 1}, legend=LEGEND)}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """The batches of a run's last steps before each snapshot, asked in both modes, and validation digits."""
    folder = RunFolder.of(lab.chosen.info.run_id).path
    return (
        head_lines(lab)
        + f"""
from core.data.run_batches import groups_of_steps, replayed_batches  # a run's batches, made again bit for bit
from core.data.sources import load_splits
from core.model.networks import enter_train_mode
from core.runs.drawings import load_drawings
from core.runs.folder import RunFolder
from core.runs.reader import RunReader

folder = Path({str(folder)!r})
run = RunReader(folder).read()
config, first = run.config, run.info.first_step
splits = load_splits(config, Path({str(data_root())!r}))
batches = replayed_batches(config, splits.train, load_drawings(folder))
plain = replayed_batches(config, splits.train, load_drawings(folder), augmented=False)
unseen = some_digits(splits.validation, 1000)

def loss_of(logits, labels):
    return F.cross_entropy(logits, labels, label_smoothing=config.label_smoothing).item()

for step, path in RunFolder(folder).snapshots().items():
    last = max(1, min(25, step // 8))  # so many steps back: few at first, since the weights change quickly then
    if not 0 < step <= run.step or step - last < first:
        continue
    rows = slice(step - last - first, step - first)
    digits_a_step = run.steps.column("images")[rows]
    recorded = (run.steps.column("loss")[rows] * digits_a_step).sum() / digits_a_step.sum()
    net = load_predictor(path).model
    groups = list(groups_of_steps(config, batches, step - last, step))
    seen, labels = (torch.cat([pair[place] for group in groups for pair in group]) for place in (0, 1))
    clean = torch.cat([images for group in groups_of_steps(config, plain, step - last, step) for images, _ in group])
    in_train = copy.deepcopy(net)
    enter_train_mode(in_train, config)
    again = []
    with torch.no_grad():
        for number, group in enumerate(groups, step - last):
            reseed_dropout(in_train, config.seed, number)  # the masks that this update had
            again += [in_train(images) for images, _ in group]
        print(
            "step", step, "optimizer:", float(recorded), "again:", loss_of(torch.cat(again), labels),
            "eval:", loss_of(net(seen), labels), "clean:", loss_of(net(clean), labels),
            "validation:", loss_of(net(normalise(torch.from_numpy(unseen.images))), torch.from_numpy(unseen.labels)),
        )
"""
    )


DURING_TRAINING = Experiment(
    "During training",
    "How much of the gap between train and validation is the mode's?",
    "",
    _controls,
    _work,
    _show,
    pytorch_lines,
    measured="From the weights that the run keeps on its way.",
)
