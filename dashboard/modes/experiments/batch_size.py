"""How many digits must share a batch?"""

from collections.abc import Iterator, Sequence
from typing import Any

import streamlit as st

from core.modes.batch_size import BatchSizes, SizeScore, batch_sizes
from core.status import Progress
from dashboard import theme, wording
from dashboard.charts.figures import Figure, figure_layout, in_percent, line_trace
from dashboard.charts.live_chart import plot
from dashboard.modes.code import ACCURACY, head_lines
from dashboard.modes.lab import NO_EFFECT, Experiment, Lab, Params, choose_order, percent, points, table


def _controls(lab: Lab) -> Params:
    return {"order": choose_order()}


def _work(lab: Lab, params: Params) -> Iterator[Progress | BatchSizes]:
    return batch_sizes(lab.predictor.model, lab.test, **params)


def _show(lab: Lab, params: Params, result: BatchSizes) -> str:
    in_eval, scores = result.eval, result.scores
    plot(
        batch_size_figure(in_eval, scores, bool(lab.layers.dropout)),
        key="m_sizes",
        alt="Accuracy of train mode over batch sizes from 1 to 512, and eval mode's as a line",
    )
    by_size = {score.size: score.train for score in scores if score.train is not None}
    told = [f"{percent(by_size[size])} at {size}" for size in (1, 2, 8, 64, 512) if size in by_size]
    if reason := next((score.reason for score in scores if score.reason), ""):
        st.warning(wording.plain(reason))
    with st.expander("A batch of one, layer by layer", key="m_layers", on_change="rerun") as box:
        if box.open:
            table(
                [
                    {"layer": layer.name, "kind": layer.kind, "in train mode, with one image": wording.plain(layer.words)}
                    for layer in result.layers
                ]
            )
    if not told:
        return ""
    return (
        f"On {len(lab.test):,} digits: in eval mode **{percent(in_eval)}** whatever the batch. In train mode "
        + ", ".join(told)
        + f". {sentence(in_eval, by_size, params, lab)}"
    )


def sentence(in_eval: float, by_size: dict[int, float], params: Params, lab: Lab) -> str:
    """What the figures say, whatever they are; nothing before the small batches are measured, which come last."""
    smallest, largest = min(by_size), max(by_size)
    if smallest > 2:
        return ""
    if not lab.layers.batchnorm:
        return "No layer of this model looks at the batch: what differs is the chance of its Dropout, whatever the size."
    if max(abs(one - in_eval) for one in by_size.values()) < NO_EFFECT:
        return "The batch size makes no difference worth the name for this model: what it averages over is enough in any batch."
    words = "The fewer digits share a batch, the worse its mean and variance stand for all digits. "
    if by_size[smallest] >= by_size[largest]:
        words = "Here small batches are no worse than large ones. "
    if abs(by_size[largest] - in_eval) < 2 * NO_EFFECT:
        return words + f"A batch of {largest} comes close, and is still not the same: an answer depends on the other digits."
    why = " since a sorted batch holds one class or two" if params["order"] == "by_class" else ""
    return words + f"Even a batch of {largest} stays {points(by_size[largest] - in_eval)} away from eval mode{why}."


def batch_size_figure(in_eval: float, scores: Sequence[SizeScore], with_dropout: bool) -> Figure:
    """Accuracy over batch sizes, on a logarithmic axis."""
    scores = sorted(scores, key=lambda one: one.size)
    sizes = [score.size for score in scores]
    ends = [1, 512]
    data = [
        line_trace(
            "eval mode", ends, in_percent([in_eval] * 2), theme.EVAL_MODE, "dash", mode="lines", hovertemplate="%{y:.2f} %"
        ),
        line_trace(
            "train mode", sizes, in_percent([score.train for score in scores]), theme.TRAIN_MODE, hovertemplate="%{y:.2f} %"
        ),
    ]
    if with_dropout:
        only = in_percent([score.batchnorm for score in scores])
        data.append(
            line_trace(
                "only BatchNorm in train mode",
                sizes,
                only,
                theme.TRAIN_MODE,
                "dot",
                hovertemplate="%{y:.2f} %",
                marker={"symbol": "diamond-open", "size": 8, "color": theme.TRAIN_MODE},
            )
        )
    axis = {"type": "log", "tickvals": [2**power for power in range(10)], "range": [-0.1, 2.8]}
    return {"data": data, "layout": figure_layout(340, "batch size", "correct (%)", xaxis=axis)}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """Train mode's accuracy over batch sizes."""
    return (
        head_lines(lab)
        + ACCURACY
        + f"""
print("eval mode:", accuracy(model, images, batches_of("stored", digits.labels, 250)))
copied = copy.deepcopy(model).train()
for size in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
    try:
        batches = batches_of({params["order"]!r}, digits.labels, size)
        print("train mode, batches of", size, "have", accuracy(copied, images, batches))
    except ValueError as error:  # BatchNorm1d has one value a channel then: nothing to take a deviation of
        print("train mode, a batch of one:", error)
"""
    )


BATCH_SIZE = Experiment("Batch size", "How many digits must share a batch?", "either", _controls, _work, _show, pytorch_lines)
