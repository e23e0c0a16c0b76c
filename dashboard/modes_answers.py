"""Experiments on answers: one switch, batch size, company, shift."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from core.answers import NO_ANSWER
from core.batches import augments
from core.mode_scores import (
    SIZES,
    CompanyRow,
    LayerOfOne,
    OneSwitch,
    SizeScore,
    batch_sizes,
    companies,
    layers_with_one,
    one_switch,
)
from core.modes import MAKE_UPS, some_digits
from core.pins import as_digits, load_pins
from core.predictor import Prediction
from core.shift import SHIFTS, Shift, ShiftScore, shift_scores, shifted
from dashboard import modes_charts, modes_code, pictures, theme
from dashboard.live_chart import plot
from dashboard.modes_lab import Experiment, Lab, Params, choose_digit, layer_words, of_kind, percent, points, say, table
from dashboard.policy_session import pins_root

_MAKE_UP_WORDS = {"shuffled": "shuffled", "by_class": "sorted by class", "stored": "as stored"}
_SHOWN_CHANGES = 12
_COMPANY_DIGITS = 100


def _make_up(key: str = "m_make") -> str:
    return st.segmented_control("Order of the digits", MAKE_UPS, default="shuffled", required=True, key=key,
                                format_func=_MAKE_UP_WORDS.__getitem__, bind="query-params")  # fmt: skip


# --- one switch --------------------------------------------------------------------------------------------------------


def _switch_controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        size = st.select_slider("Batch size in train mode", SIZES, 4, key="m_size", bind="query-params", width=260)
        return {"size": size, "make_up": _make_up()}


def _switch_steps(lab: Lab, params: Params) -> Iterator[object]:
    return one_switch(lab.predictor.model, lab.test, **params)


def _switch_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    found: OneSwitch | None = next(iter(of_kind(results, OneSwitch)), None)
    if found is None:
        return
    both = bool(lab.layers.batchnorm and lab.layers.dropout)
    plot(modes_charts.one_switch_figure(found, both), key="m_switch",
         alt=f"Accuracy: eval mode {percent(found.eval.accuracy)}, train mode {percent(found.train.accuracy)}")  # fmt: skip
    say(switch_words(lab, params, found, both))
    changed = found.changed
    st.markdown(
        f"**{len(changed):,} of {len(lab.test):,} digits changed their answer**"
        + (" (eval mode → train mode); the first of them" if len(changed) else "")
    )
    if not len(changed):
        return
    sides = (found.eval.digits, found.train.digits)
    in_eval, in_train = ([str(one) if one != NO_ANSWER else "none" for one in digits] for digits in sides)
    st.html("".join(
        pictures.figure(lab.test.images[place, 0], f"{in_eval[place]} → {in_train[place]}",
                        f"A {lab.test.labels[place]}: eval mode {in_eval[place]}, train mode {in_train[place]}", 72)
        for place in changed[:_SHOWN_CHANGES]
    ))  # fmt: skip


def switch_words(lab: Lab, params: Params, found: OneSwitch, both: bool) -> str:
    """What forgetting eval() cost, by the figures and the layers that this model has."""
    lost = found.train.accuracy - found.eval.accuracy
    parts = []
    if both:
        parts = [f"BatchNorm alone {points(found.batchnorm.accuracy - found.eval.accuracy)}",
                 f"Dropout alone {points(found.dropout.accuracy - found.eval.accuracy)}"]  # fmt: skip
    make_up = {"shuffled": "of digits in random order", "by_class": "of digits sorted by class", "stored": "in file order"}
    words = (f"The same weights, the same {len(lab.test):,} test digits. Without `model.eval()`, in batches of "
             f"{params['size']} {make_up[params['make_up']]}, **{percent(found.eval.accuracy)} becomes "
             f"{percent(found.train.accuracy)}** ({points(lost)}{': ' + ', '.join(parts) if parts else ''}). Nothing was "
             "trained in between. ")  # fmt: skip
    if unanswered := int((found.eval.digits == NO_ANSWER).sum()):
        return words + (f"In eval mode {unanswered:,} digits get no answer at all (NaN): the running statistics or weights are "
                        "broken, and train mode, which measures each batch anew, does not use the statistics.")  # fmt: skip
    if abs(lost) < _NO_EFFECT:
        why = ("each batch's mean and variance are close to those of the whole training" if lab.layers.batchnorm
               else "what Dropout leaves suffices")  # fmt: skip
        return words + (f"For this model and these batches forgetting `eval()` costs hardly anything: {why}. Each answer still "
                        "depends on what else is in the batch, or on chance.")  # fmt: skip
    if lost > 0 and not lab.layers.batchnorm:
        return words + (f"Here train mode is better, by chance: {layer_words(lab.layers)}, others in each run. Measure again, "
                        "or on more digits, before you believe it.")  # fmt: skip
    if lost > 0:
        return words + (f"Here train mode is better: {layer_words(lab.layers)}. That is a sign that the running statistics do "
                        "not fit these digits; recalibrate them (see Poisoning) rather than leave train mode on.")  # fmt: skip
    return words + (f"In train mode {layer_words(lab.layers)}. Whoever forgets `eval()` sees good losses in training and these "
                    "answers afterwards.")  # fmt: skip


# Differences in accuracy that are not worth a story.
_NO_EFFECT = 0.005


# --- batch size --------------------------------------------------------------------------------------------------------


def _size_controls(lab: Lab) -> Params:
    return {"make_up": _make_up()}


def _size_steps(lab: Lab, params: Params) -> Iterator[object]:
    yield layers_with_one(lab.predictor.model, _inputs(lab, slice(0, 1)))
    yield from batch_sizes(lab.predictor.model, lab.test, **params)


def _inputs(lab: Lab, places: slice) -> Any:
    import torch

    from core.batches import normalise

    return normalise(torch.from_numpy(lab.test.images[places].copy())).numpy()


def _size_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    in_eval: float | None = next(iter(of_kind(results, float)), None)
    scores: list[SizeScore] = of_kind(results, SizeScore)
    if in_eval is None:
        return
    plot(modes_charts.batch_size_figure(in_eval, scores, bool(lab.layers.dropout)), key="m_sizes",
         alt="Accuracy of train mode over batch sizes from 1 to 512, and eval mode's as a line")  # fmt: skip
    by_size = {one.size: one.train for one in scores if one.train is not None}
    told = [f"{percent(by_size[size])} at {size}" for size in (1, 2, 8, 64, 512) if size in by_size]
    if told:
        say(f"On {len(lab.test):,} digits: in eval mode **{percent(in_eval)}** whatever the batch. In train mode "
            + ", ".join(told) + f". {_size_words(in_eval, by_size, params, lab)}")  # fmt: skip
    if reason := next((one.reason for one in scores if one.reason), ""):
        st.warning(theme.plain(reason))
    lines: list[LayerOfOne] = next(iter(of_kind(results, list)), [])
    if lines:
        with st.expander("A batch of one, layer by layer", key="m_layers", on_change="rerun") as box:
            if box.open:
                table([{"layer": line.name, "kind": line.kind, "in train mode, with one image": theme.plain(line.words)}
                       for line in lines])  # fmt: skip


def _size_words(in_eval: float, by_size: dict[int, float], params: Params, lab: Lab) -> str:
    """What the figures say, whatever they are; nothing before the small batches are measured, which come last."""
    smallest, largest = min(by_size), max(by_size)
    if smallest > 2:
        return ""
    if not lab.layers.batchnorm:
        return "No layer of this model looks at the batch: what differs is the chance of its Dropout, whatever the size."
    if max(abs(one - in_eval) for one in by_size.values()) < _NO_EFFECT:
        return "The batch size makes no difference worth the name for this model: what it averages over is enough in any batch."
    words = "The fewer digits share a batch, the worse its mean and variance stand for all digits. "
    if by_size[smallest] >= by_size[largest]:
        words = "Here small batches are no worse than large ones. "
    if abs(by_size[largest] - in_eval) < 2 * _NO_EFFECT:
        return words + f"A batch of {largest} comes close, and is still not the same: an answer depends on the other digits."
    why = " since a sorted batch holds one class or two" if params["make_up"] == "by_class" else ""
    return words + f"Even a batch of {largest} stays {points(by_size[largest] - in_eval)} away from eval mode{why}."


# --- company -----------------------------------------------------------------------------------------------------------


def _company_controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = choose_digit(lab)
        size = st.select_slider("Batch size", SIZES[1:8], 16, key="m_company_size", bind="query-params", width=220)
        other = st.selectbox("“One class” is", range(10), 1, key="m_class", bind="query-params", width=120)
    drawings = as_digits(load_pins(pins_root())).images[:, 0]
    return {"place": place, "size": size, "other": other, "_drawings": drawings}


def _company_steps(lab: Lab, params: Params) -> Iterator[object]:
    place, drawings = params["place"], params["_drawings"]
    return companies(lab.predictor.model, some_digits(lab.test, _COMPANY_DIGITS), lab.test.take(np.array([place])),
                     size=params["size"], other=params["other"], drawings=drawings)  # fmt: skip


def _company_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    rows: list[CompanyRow] = of_kind(results, CompanyRow)
    if not rows:
        return
    place = params["place"]
    left, right = st.columns([1, 6])
    with left:
        st.html(
            pictures.figure(
                lab.test.images[place, 0], f"a {lab.test.labels[place]}", f"The digit looked at, a {lab.test.labels[place]}", 96
            )
        )
    with right:
        plot(modes_charts.company_figure(rows, params["other"]), key="m_company",
             alt="The ten probabilities of one image in different company, and the accuracy over many digits")  # fmt: skip
    say(_company_words(params, rows))
    if all(row.kind != "drawings" for row in rows):
        st.caption("Pin a drawing on the Draw page, and your drawings appear here as company, too.")


def _company_words(params: Params, rows: list[CompanyRow]) -> str:
    if len(rows) < 2:
        return ""  # only eval mode, which has no company, is measured yet
    called = sorted({str(one.digit) if one.is_answer else "nothing" for one in (Prediction(row.probabilities, row.probabilities)
                                                                                for row in rows)})  # fmt: skip
    least, count = min(rows[1:], key=lambda row: row.accuracy), params["size"] - 1
    companions = f"{count} such companion{'s' if count != 1 else ''}"
    words = (f"One image, one model, {len(rows)} kinds of company: it is called {' or '.join(called)}. On the right, each of "
             f"{_COMPANY_DIGITS} digits in turn with {companions}: **{percent(rows[0].accuracy, _COMPANY_DIGITS)}** "
             "in eval mode, "
             f"**{percent(least.accuracy, _COMPANY_DIGITS)}** beside {modes_charts.COMPANION_WORDS[least.kind]}. ")  # fmt: skip
    if rows[0].accuracy - least.accuracy < 0.03:  # of a hundred digits
        return words + "This model hardly minds its company."
    return words + ("In train mode BatchNorm subtracts what a batch has in common. Where all are alike, that is the "
                    "very shape that tells the class; one image not divided by 255 leaves the others nothing.")  # fmt: skip


# --- shift -------------------------------------------------------------------------------------------------------------

_SHIFT_BATCH, _SHIFT_DIGITS = 32, 1000
_SHIFT_RANGES = {"brightness": (0.05, 3.0, 0.3, 0.05), "contrast": (0.05, 3.0, 1.0, 0.05), "noise": (0.0, 1.0, 0.0, 0.05)}


def _shift_controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        values = {
            name: st.slider(name.capitalize(), low, high, start, step, key=f"m_{name}", bind="query-params", width=180)
            for name, (low, high, start, step) in _SHIFT_RANGES.items()
        }
        kind = st.selectbox("Curve over", list(SHIFTS), key="m_over", bind="query-params", width=140)
    return {"shift": Shift(**values), "kind": kind}


def _shift_steps(lab: Lab, params: Params) -> Iterator[object]:
    chosen, kind = params["shift"], params["kind"]
    others = [replace(chosen, **{kind: value}) for value in SHIFTS[kind] if value != getattr(chosen, kind)]
    return shift_scores(lab.predictor.model, some_digits(lab.test, _SHIFT_DIGITS), [chosen, *others], size=_SHIFT_BATCH)


def _shift_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    scores: list[ShiftScore] = of_kind(results, ShiftScore)
    images = lab.test.images[:8]
    st.html("".join(
        pictures.figure(image[0], str(label), f"A shifted {label}", 64)
        for image, label in zip(shifted(images, params["shift"]), lab.test.labels[:8].tolist(), strict=True)
    ))  # fmt: skip
    if not scores:
        return
    plot(modes_charts.shift_scores_figure(scores, params["kind"]), key="m_shift",
         alt="Accuracy of both modes over " + params["kind"])  # fmt: skip
    say(_shift_words(scores[0], augments(lab.predictor.config)))


def _shift_words(one: ShiftScore, augmented: bool) -> str:
    words = (f"As the pictures above: **{percent(one.eval)} in eval mode, {percent(one.train)} in train mode** "
             f"({_SHIFT_DIGITS:,} digits in shuffled batches of {_SHIFT_BATCH}, Dropout off). ")  # fmt: skip
    gained = one.train - one.eval
    if one.shift == Shift():
        words += "These images are not shifted at all. "
        if gained > _NO_EFFECT and augmented:
            return words + ("Train mode is better all the same: the running statistics are those of augmented digits, and "
                            "these are not. Recalibrate them on digits as they are (see Poisoning).")  # fmt: skip
        return words + "Move a slider and see which mode minds."
    if gained > _NO_EFFECT:
        words += ("Train mode suffers less: BatchNorm measures the shifted images and so takes out again what they all share. "
                  "That does not make it right: ")  # fmt: skip
    elif gained < -_NO_EFFECT:
        words += (
            "Train mode suffers more: small batches measure badly, and what was shifted is not what BatchNorm "
            "takes out. Besides, "
        )
    else:
        words += "Both modes take it alike. In train mode, though, "
    if one.eval - one.train_sorted > _NO_EFFECT:
        words += f"the same images sorted by class get **{percent(one.train_sorted)}**, "
    return words + ("a single image has no company to measure, and each answer depends on the others. The remedy is to "
                    "train on such images, or to recalibrate the statistics on them (see Poisoning) in eval mode.")  # fmt: skip


ONE_SWITCH = Experiment("One switch", "What does forgetting model.eval() cost?", "either", _switch_controls, _switch_steps,
                         _switch_show, modes_code.one_switch)  # fmt: skip

BATCH_SIZE = Experiment("Batch size", "How many digits must share a batch?", "either", _size_controls, _size_steps, _size_show,
                       modes_code.batch_size)  # fmt: skip

COMPANY = Experiment("Company", "Does it matter who else is in the batch?", "batchnorm", _company_controls,
                          _company_steps, _company_show, modes_code.company)  # fmt: skip

DISTRIBUTION_SHIFT = Experiment("Shift", "Which mode minds darker, paler or noisier images?", "batchnorm", _shift_controls,
                        _shift_steps, _shift_show, modes_code.shift)  # fmt: skip
