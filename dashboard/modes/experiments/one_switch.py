"""What does forgetting model.eval() cost?"""

from collections.abc import Iterator
from typing import Any

import streamlit as st

from core.answers import NO_ANSWER
from core.modes.batch_size import SIZES
from core.modes.one_switch import OneSwitch, one_switch
from core.status import Progress
from dashboard import theme
from dashboard.charts.figures import Figure, figure_layout, in_percent
from dashboard.charts.live_chart import plot
from dashboard.modes.code import ACCURACY, head_lines
from dashboard.modes.lab import NO_EFFECT, Experiment, Lab, Params, choose_order, layer_words, percent, points
from dashboard.shell import pictures

_SHOWN_CHANGES = 12


def _controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        size = st.select_slider("Batch size in train mode", SIZES, 4, key="m_size", bind="query-params", width=260)
        return {"size": size, "order": choose_order()}


def _work(lab: Lab, params: Params) -> Iterator[Progress | OneSwitch]:
    return one_switch(lab.predictor.model, lab.test, **params)


def _show(lab: Lab, params: Params, found: OneSwitch) -> str:
    both = bool(lab.layers.batchnorm and lab.layers.dropout)
    plot(
        one_switch_figure(found, both),
        key="m_switch",
        alt=f"Accuracy: eval mode {percent(found.eval.accuracy)}, train mode {percent(found.train.accuracy)}",
    )
    words = sentence(lab, params, found, both)
    changed = found.changed
    st.markdown(
        f"**{len(changed):,} of {len(lab.test):,} digits changed their answer**"
        + (" (eval mode → train mode); the first of them" if len(changed) else "")
    )
    if not len(changed):
        return words
    sides = (found.eval.digits, found.train.digits)
    in_eval, in_train = ([str(digit) if digit != NO_ANSWER else "none" for digit in digits] for digits in sides)
    st.html(
        "".join(
            pictures.figure(
                lab.test.images[place, 0],
                f"{in_eval[place]} → {in_train[place]}",
                f"A {lab.test.labels[place]}: eval mode {in_eval[place]}, train mode {in_train[place]}",
                72,
            )
            for place in changed[:_SHOWN_CHANGES]
        )
    )
    return words


def sentence(lab: Lab, params: Params, found: OneSwitch, both: bool) -> str:
    """What forgetting eval() cost, by the figures and the layers that this model has."""
    lost = found.train.accuracy - found.eval.accuracy
    parts = []
    if both:
        parts = [
            f"BatchNorm alone {points(found.batchnorm.accuracy - found.eval.accuracy)}",
            f"Dropout alone {points(found.dropout.accuracy - found.eval.accuracy)}",
        ]
    order = {"shuffled": "of digits in random order", "by_class": "of digits sorted by class", "stored": "in file order"}
    words = (
        f"The same weights, the same {len(lab.test):,} test digits. Without `model.eval()`, in batches of "
        f"{params['size']} {order[params['order']]}, **{percent(found.eval.accuracy)} becomes "
        f"{percent(found.train.accuracy)}** ({points(lost)}{': ' + ', '.join(parts) if parts else ''}). Nothing was "
        "trained in between. "
    )
    if unanswered := int((found.eval.digits == NO_ANSWER).sum()):
        return words + (
            f"In eval mode {unanswered:,} digits get no answer at all (NaN): the running statistics or weights are "
            "broken, and train mode, which measures each batch anew, does not use the statistics."
        )
    if abs(lost) < NO_EFFECT:
        why = (
            "each batch's mean and variance are close to those of the whole training"
            if lab.layers.batchnorm
            else "what Dropout leaves suffices"
        )
        return words + (
            f"For this model and these batches forgetting `eval()` costs hardly anything: {why}. Each answer still "
            "depends on what else is in the batch, or on chance."
        )
    if lost > 0 and not lab.layers.batchnorm:
        return words + (
            f"Here train mode is better, by chance: {layer_words(lab.layers)}, others in each run. Measure again, "
            "or on more digits, before you believe it."
        )
    if lost > 0:
        return words + (
            f"Here train mode is better: {layer_words(lab.layers)}. That is a sign that the running statistics do "
            "not fit these digits; recalibrate them (see Poisoning) rather than leave train mode on."
        )
    return words + (
        f"In train mode {layer_words(lab.layers)}. Whoever forgets `eval()` sees good losses in training and these "
        "answers afterwards."
    )


def one_switch_figure(found: OneSwitch, has_both: bool) -> Figure:
    """Accuracy in eval mode, in train mode, and with one kind of layer switched."""
    rows = [("eval mode", found.eval, theme.EVAL_MODE, ""), ("train mode", found.train, theme.TRAIN_MODE, "")]
    if has_both:
        rows += [
            ("only BatchNorm in train mode", found.batchnorm, theme.TRAIN_MODE, "/"),
            ("only Dropout in train mode", found.dropout, theme.TRAIN_MODE, "."),
        ]
    rows.reverse()
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [row[0] for row in rows],
        "x": in_percent([row[1].accuracy for row in rows]),
        "text": [f"{row[1].accuracy:.2%} · loss {row[1].loss:.3f}" for row in rows],
        "textposition": "auto",
        "insidetextanchor": "start",
        "textfont": {"color": "#ffffff", "size": 13},
        "cliponaxis": False,
        "marker": {
            "color": [row[2] for row in rows],
            "pattern": {"shape": [row[3] for row in rows], "fillmode": "overlay", "solidity": 0.15},
        },
        "hovertemplate": "%{y}: %{x:.2f} % correct<extra></extra>",
    }
    layout = figure_layout(
        56 + 44 * len(rows),
        "correct (%)",
        "",
        xaxis={"range": [0, 100.5], "fixedrange": True},
        yaxis={"automargin": True, "fixedrange": True},
        hovermode="closest",
        showlegend=False,
    )
    layout["margin"] |= {"t": 6, "l": 8}
    return {"data": [bars], "layout": layout}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """Accuracy in both modes, and of each kind of layer alone."""
    return (
        head_lines(lab)
        + ACCURACY
        + f"""
batches = batches_of({params["order"]!r}, digits.labels, {params["size"]})
print("eval mode:", accuracy(model.eval(), images, batches))

copied = copy.deepcopy(model).train()  # a copy: train mode moves BatchNorm's running statistics
print("train mode:", accuracy(copied, images, batches))

for kind in (nn.modules.batchnorm._BatchNorm, nn.Dropout):  # each switched alone
    copied = copy.deepcopy(model).eval()
    for layer in copied.modules():
        if isinstance(layer, kind):
            layer.train()
    print("only", kind.__name__, "in train mode:", accuracy(copied, images, batches))
"""
    )


ONE_SWITCH = Experiment(
    "One switch", "What does forgetting model.eval() cost?", "either", _controls, _work, _show, pytorch_lines
)
