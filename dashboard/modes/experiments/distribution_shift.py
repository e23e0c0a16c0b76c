"""Which mode minds darker, paler or noisier images?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from core.modes.copies import some_digits
from core.modes.distribution_shift import SHIFTS, Shift, ShiftScore, shift_scores, shifted
from core.status import Progress
from dashboard import theme
from dashboard.charts.figures import Figure, figure_layout, in_percent, line_trace
from dashboard.charts.live_chart import plot
from dashboard.modes.code import ACCURACY, BATCHNORM_IN_TRAIN_MODE, head_lines
from dashboard.modes.lab import NO_EFFECT, Experiment, Lab, Params, percent
from dashboard.shell import pictures

_SHIFT_BATCH, _SHIFT_DIGITS = 32, 1000
_SHIFT_RANGES = {"brightness": (0.05, 3.0, 0.3, 0.05), "contrast": (0.05, 3.0, 1.0, 0.05), "noise": (0.0, 1.0, 0.0, 0.05)}


def _controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        values = {
            name: st.slider(name.capitalize(), low, high, start, step, key=f"m_{name}", bind="query-params", width=180)
            for name, (low, high, start, step) in _SHIFT_RANGES.items()
        }
        kind = st.selectbox("Curve over", list(SHIFTS), key="m_over", bind="query-params", width=140)
    return {"shift": Shift(**values), "kind": kind}


def _work(lab: Lab, params: Params) -> Iterator[Progress | tuple[ShiftScore, ...]]:
    chosen, kind = params["shift"], params["kind"]
    others = [replace(chosen, **{kind: value}) for value in SHIFTS[kind] if value != getattr(chosen, kind)]
    return shift_scores(lab.predictor.model, some_digits(lab.test, _SHIFT_DIGITS), [chosen, *others], size=_SHIFT_BATCH)


def _show(lab: Lab, params: Params, scores: tuple[ShiftScore, ...]) -> str:
    images = lab.test.images[:8]
    st.html(
        "".join(
            pictures.figure(image[0], str(label), f"A shifted {label}", 64)
            for image, label in zip(shifted(images, params["shift"]), lab.test.labels[:8].tolist(), strict=True)
        )
    )
    if not scores:
        return ""
    plot(shift_scores_figure(scores, params["kind"]), key="m_shift", alt="Accuracy of both modes over " + params["kind"])
    return sentence(scores[0], lab.predictor.config.augments())


def sentence(one: ShiftScore, augmented: bool) -> str:
    """What the scores say, whatever they are."""
    words = (
        f"As the pictures above: **{percent(one.eval)} in eval mode, {percent(one.train)} in train mode** "
        f"({_SHIFT_DIGITS:,} digits in shuffled batches of {_SHIFT_BATCH}, Dropout off). "
    )
    gained = one.train - one.eval
    if one.shift == Shift():
        words += "These images are not shifted at all. "
        if gained > NO_EFFECT and augmented:
            return words + (
                "Train mode is better all the same: the running statistics are those of augmented digits, and "
                "these are not. Recalibrate them on digits as they are (see Poisoning)."
            )
        return words + "Move a slider and see which mode minds."
    if gained > NO_EFFECT:
        words += (
            "Train mode suffers less: BatchNorm measures the shifted images and so takes out again what they all share. "
            "That does not make it right: "
        )
    elif gained < -NO_EFFECT:
        words += (
            "Train mode suffers more: small batches measure badly, and what was shifted is not what BatchNorm "
            "takes out. Besides, "
        )
    else:
        words += "Both modes take it alike. In train mode, though, "
    if one.eval - one.train_sorted > NO_EFFECT:
        words += f"the same images sorted by class get **{percent(one.train_sorted)}**, "
    return words + (
        "a single image has no company to measure, and each answer depends on the others. The remedy is to "
        "train on such images, or to recalibrate the statistics on them (see Poisoning) in eval mode."
    )


def shift_scores_figure(scores: Sequence[ShiftScore], kind: str) -> Figure:
    """Accuracy over one kind of shift: eval mode, and train mode in shuffled and in sorted batches."""
    scores = sorted(scores, key=lambda one: getattr(one.shift, kind))
    x = [getattr(score.shift, kind) for score in scores]
    data = [
        line_trace("eval mode", x, in_percent([score.eval for score in scores]), theme.EVAL_MODE, hovertemplate="%{y:.1f} %"),
        line_trace(
            "train mode, shuffled batches",
            x,
            in_percent([score.train for score in scores]),
            theme.TRAIN_MODE,
            "dash",
            hovertemplate="%{y:.1f} %",
        ),
        line_trace(
            "train mode, sorted by class",
            x,
            in_percent([score.train_sorted for score in scores]),
            theme.TRAIN_MODE,
            "dot",
            hovertemplate="%{y:.1f} %",
        ),
    ]
    title = {
        "brightness": "brightness (1: as in training)",
        "contrast": "contrast (1: as in training)",
        "noise": "noise (standard deviation; white is 1)",
    }[kind]
    axis = {} if kind == "noise" else {"type": "log", "tickvals": x, "ticktext": [f"{one:g}" for one in x]}
    return {"data": data, "layout": figure_layout(340, title, "correct (%)", xaxis=axis, yaxis={"range": [0, 101]})}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """Shifted images in both modes."""
    chosen, kind = params["shift"], params["kind"]
    values = sorted({*SHIFTS[kind], getattr(chosen, kind)})
    names = ", ".join(name if name == kind else repr(getattr(chosen, name)) for name in SHIFTS)
    return (
        head_lines(lab, _SHIFT_DIGITS)
        + ACCURACY
        + f"""
from torchvision.transforms.v2 import functional as VF

from core.randomness import generator_for  # the page's noise

pixels = torch.from_numpy(digits.images.copy()).float() / 255
{BATCHNORM_IN_TRAIN_MODE}
for {kind} in {values}:
    brightness, contrast, noise = {names}
    moved = VF.adjust_contrast(VF.adjust_brightness(pixels, brightness), contrast)
    if noise:
        moved = moved + noise * torch.randn(moved.shape, generator=generator_for(0, "noise"))
    moved = normalise((moved.clamp(0, 1) * 255).round().to(torch.uint8))
    print(
        {kind!r}, {kind},
        "eval:", accuracy(model, moved, batches_of("stored", digits.labels, 250)),
        "train:", accuracy(copied, moved, batches_of("shuffled", digits.labels, {_SHIFT_BATCH})),
        "sorted:", accuracy(copied, moved, batches_of("by_class", digits.labels, {_SHIFT_BATCH})),
    )
"""
    )


DISTRIBUTION_SHIFT = Experiment(
    "Shift", "Which mode minds darker, paler or noisier images?", "batchnorm", _controls, _work, _show, pytorch_lines
)
