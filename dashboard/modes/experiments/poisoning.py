"""Can merely looking at a model spoil it?"""

from collections.abc import Iterator, Sequence
from typing import Any

import streamlit as st

from core.modes.copies import some_digits
from core.modes.poisoning import POISONS, PoisonScore, poisoning
from core.status import Progress
from dashboard import theme
from dashboard.charts.figures import Figure, figure_layout, in_percent, line_trace
from dashboard.charts.live_chart import plot
from dashboard.modes.code import ACCURACY, head_lines
from dashboard.modes.lab import Experiment, Lab, Params, percent

_RECALIBRATION, _SCORED = 20, 1000

_POISON_WORDS = {
    "noise": "images of noise",
    "blank": "blank images",
    "one_class": "images of one class",
    "inf": "images with an infinite pixel",
}


def _controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        poison = st.selectbox(
            "What goes through", POISONS, key="m_poison", format_func=_POISON_WORDS.__getitem__, bind="query-params", width=260
        )
        forwards = st.select_slider(
            "Forwards in train mode", (1, 5, 10, 20, 50, 100, 200), 50, key="m_forwards", bind="query-params", width=220
        )
        label = 1
        if poison == "one_class":
            label = st.selectbox("Class", range(10), 1, key="m_poison_class", bind="query-params", width=100)
    return {"poison": poison, "forwards": forwards, "label": label}


def _work(lab: Lab, params: Params) -> Iterator[Progress | tuple[PoisonScore, ...]]:
    return poisoning(lab.predictor.model, some_digits(lab.test, _SCORED), lab.train, recalibration=_RECALIBRATION, **params)


def _show(lab: Lab, params: Params, scores: tuple[PoisonScore, ...]) -> str:
    forwards = params["forwards"]
    plot(
        poison_figure(scores, forwards),
        key="m_poisoned",
        alt="Accuracy in eval mode while bad batches go through in train mode, and after recalibration",
    )
    return sentence(params, scores, lab.predictor.config.batchnorm_momentum)


def sentence(params: Params, scores: Sequence[PoisonScore], momentum: float | None) -> str:
    """What the forwards did to the statistics, and whether recalibration healed them."""
    bad = [score for score in scores if score.phase == "poison"][-1]
    count, lost = f"forward{'s' if bad.forwards != 1 else ''}", scores[0].accuracy - bad.accuracy
    what = f"images of the digit {params['label']}" if params["poison"] == "one_class" else _POISON_WORDS[params["poison"]]
    words = (
        f"“I only looked at it in train mode.” After {bad.forwards} {count} of 64 {what} in train mode, under "
        f"`torch.no_grad()`, eval mode's accuracy on {_SCORED:,} digits went from {percent(scores[0].accuracy)} to "
        f"**{percent(bad.accuracy)}**. "
    )
    if not bad.forwards:
        return words
    if momentum == 0 and abs(lost) < 0.005:
        words += "With momentum 0 the running statistics do not move. "
    elif abs(lost) < 0.005:
        words += "These statistics withstand such batches: they move, but the answers hardly do. "
    else:
        words += (
            f"No weight changed: the running mean of the first layer went from {scores[0].running_mean:.3f} to "
            f"{bad.running_mean:.3f}, its variance from {scores[0].running_variance:.3f} to "
            f"{bad.running_variance:.3f}. `no_grad` "
            "stops gradients, not BatchNorm. "
        )
    if bad.unanswered:
        words += f"{bad.unanswered:,} answers are not finite: NaN is no answer and counts as wrong. "
    healed = [score for score in scores if score.phase == "recalibrate"]
    if len(healed) > 1:
        back = "it is back at" if healed[-1].accuracy >= scores[0].accuracy - 0.01 else "it comes to"
        words += (
            f"**Recalibrated**: the statistics reset and {healed[-1].forwards} clean batches sent through, averaged "
            f"(momentum None), {back} **{percent(healed[-1].accuracy)}**."
        )
    return words


def poison_figure(scores: Sequence[PoisonScore], forwards: int) -> Figure:
    """Eval mode's accuracy while bad batches go through in train mode, and while clean ones do after a reset."""
    data = []
    for phase, name, color, dash in (
        ("poison", "bad batches in train mode", theme.TRAIN_MODE, "solid"),
        ("recalibrate", "clean batches after a reset", theme.EVAL_MODE, "dash"),
    ):
        part = [score for score in scores if score.phase == phase]
        x = [one.forwards + (forwards if phase == "recalibrate" else 0) for one in part]
        data.append(
            line_trace(
                name, x, in_percent([one.accuracy for one in part]), color, dash, hovertemplate="%{y:.1f} % in eval mode"
            )
        )
    layout = figure_layout(340, "forwards", "correct in eval mode (%)", yaxis={"range": [0, 101]})
    layout["shapes"] = [
        {
            "type": "line",
            "x0": forwards,
            "x1": forwards,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"color": theme.PARENT_RUN, "dash": "dot", "width": 1},
        }
    ]
    return {"data": data, "layout": layout}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """Spoil the running statistics, then recalibrate them."""
    return (
        head_lines(lab, _SCORED)
        + ACCURACY
        + f"""
from core.modes.poisoning import bad_batch  # the page's bad batches, already normalised

clean = some_digits(train_digits, 3000)
copied = copy.deepcopy(model)
norms = [layer for layer in copied.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
in_order = batches_of("stored", digits.labels, 250)
print("before:", accuracy(copied, images, in_order))

def look(batch):  # "only looking": no gradients, but in train mode BatchNorm's statistics move all the same
    for norm in norms:
        norm.train()
    with torch.no_grad():
        copied(batch)
    copied.eval()

for number in range(1, {params["forwards"]} + 1):
    look(bad_batch({params["poison"]!r}, 64, clean, {params["label"]}, number))
print("after {params["forwards"]} forwards in train mode:", accuracy(copied, images, in_order))

for norm in norms:  # recalibrate: reset, then average over clean batches
    norm.reset_running_stats()
    norm.momentum = None
for batch in batches_of("shuffled", clean.labels, 64)[:{_RECALIBRATION}]:
    look(normalise(torch.from_numpy(clean.images[batch])))
print("recalibrated:", accuracy(copied, images, in_order))
"""
    )


POISONING = Experiment(
    "Poisoning", "Can merely looking at a model spoil it?", "batchnorm", _controls, _work, _show, pytorch_lines
)
