"""Experiments on BatchNorm's statistics: inside a layer, poisoning, and eval() against no_grad()."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
import torch

from core.batch_statistics import POISONS, LayerInside, PoisonScore, inside_layer, norm_layers, poisoning
from core.batches import normalise
from core.events import Progress
from core.mode_costs import Quadrant, two_by_two
from core.mode_scores import SIZES
from core.modes import MAKE_UPS, batches_of, some_digits
from dashboard import modes_charts, modes_code, modes_session
from dashboard.live_chart import plot
from dashboard.modes_lab import Experiment, Lab, Params, of_kind, percent, points, say, table

_COST_DIGITS = 256
_RECALIBRATION, _SCORED = 20, 1000


# --- inside a layer ----------------------------------------------------------------------------------------------------


def _inside_controls(lab: Lab) -> Params:
    layers = {
        name: len(norm.running_mean) for name, norm in norm_layers(lab.predictor.model).items() if norm.running_mean is not None
    }
    with st.container(horizontal=True, vertical_alignment="bottom"):
        layer = st.selectbox("Layer", list(layers), len(layers) - 1, key="m_layer", bind="query-params", width=140)
        modes_session.keep_in_range("m_channel", layers[layer] - 1)
        channel = st.number_input("Channel", 0, layers[layer] - 1, 0, key="m_channel", bind="query-params", width=130)
        size = st.select_slider("Batch size", SIZES[1:], 64, key="m_inside_size", bind="query-params", width=220)
        make_up = st.segmented_control("Batch", MAKE_UPS[:2], default="shuffled", required=True, key="m_inside_make",
                                       format_func={"shuffled": "mixed digits", "by_class": "one class"}.__getitem__,
                                       bind="query-params")  # fmt: skip
    return {"layer": layer, "channel": int(channel), "size": size, "make_up": make_up}


def _inside_steps(lab: Lab, params: Params) -> Iterator[object]:
    yield Progress(0, 1, "One batch goes through")
    batch = batches_of(params["make_up"], lab.test.labels, params["size"])[0]
    images = normalise(torch.from_numpy(lab.test.images[batch])).numpy()
    yield inside_layer(lab.predictor.model, images, params["layer"], params["channel"])


def _inside_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    found: LayerInside | None = next(iter(of_kind(results, LayerInside)), None)
    if found is None:
        return
    channel = found.channel
    left, right = st.columns([3, 2])
    with left:
        plot(modes_charts.channels_figure(found), key="m_channels",
             alt=f"Mean and variance of each of {len(found.batch_mean)} channels: this batch's and the running ones",
             on_click=partial(modes_session.take_click, "m_channels", "m_channel"))  # fmt: skip
    with right:
        st.markdown(f"**Channel {channel}: what comes in** (lines: batch mean, running mean)")
        plot(modes_charts.before_figure(found), key="m_before", alt="Histogram of the values that come in")
        st.markdown("**What goes out**")
        plot(modes_charts.after_figure(found), key="m_after", alt="Histograms of the values that go out in both modes")
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
    say(_inside_words(params, found))


def _inside_words(params: Params, found: LayerInside) -> str:
    channel, size = found.channel, params["size"]
    each = found.values // size
    images = "one of each image" if each == 1 else f"{size} images of {each} pixels"
    numbers = f"{found.values:,} numbers: {images}"
    words = (f"In train mode the mean and variance of channel {channel} come from this batch alone ({numbers}); in eval mode "
             "from the running statistics. Gamma and beta are learned and the same in both. Train mode divides by n, the "
             f"running variance is fed with the one divided by n − 1, which is {found.values / max(found.values - 1, 1):.3g} "
             "times as large here. ")  # fmt: skip
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.batch_mean - found.running_mean) / np.sqrt(found.running_variance + found.eps)
    known = apart[np.isfinite(apart)]
    if len(known):
        words += (f"Over the {len(apart)} channels the batch's mean is {np.median(known):.2f} running standard deviations off "
                  f"(median), {known.max():.2f} at most. ")  # fmt: skip
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


# --- poisoning ---------------------------------------------------------------------------------------------------------

_POISON_WORDS = {
    "noise": "images of noise", "blank": "blank images", "one_class": "images of one class",
    "inf": "images with an infinite pixel",
}  # fmt: skip


def _poison_controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        poison = st.selectbox("What goes through", POISONS, key="m_poison", format_func=_POISON_WORDS.__getitem__,
                              bind="query-params", width=260)  # fmt: skip
        forwards = st.select_slider("Forwards in train mode", (1, 5, 10, 20, 50, 100, 200), 50, key="m_forwards",
                                    bind="query-params", width=220)  # fmt: skip
        label = 1
        if poison == "one_class":
            label = st.selectbox("Class", range(10), 1, key="m_poison_class", bind="query-params", width=100)
    return {"poison": poison, "forwards": forwards, "label": label}


def _poison_steps(lab: Lab, params: Params) -> Iterator[object]:
    return poisoning(lab.predictor.model, some_digits(lab.test, _SCORED), lab.train, recalibration=_RECALIBRATION, **params)


def _poison_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    scores: list[PoisonScore] = of_kind(results, PoisonScore)
    if not scores:
        return
    forwards = params["forwards"]
    plot(modes_charts.poison_figure(scores, forwards), key="m_poisoned",
         alt="Accuracy in eval mode while bad batches go through in train mode, and after recalibration")  # fmt: skip
    say(_poison_words(params, scores, lab.predictor.config.batchnorm_momentum))


def _poison_words(params: Params, scores: list[PoisonScore], momentum: float | None) -> str:
    bad = [one for one in scores if one.phase == "poison"][-1]
    count, lost = f"forward{'s' if bad.forwards != 1 else ''}", scores[0].accuracy - bad.accuracy
    what = f"images of the digit {params['label']}" if params["poison"] == "one_class" else _POISON_WORDS[params["poison"]]
    words = (f"“I only looked at it in train mode.” After {bad.forwards} {count} of 64 {what} in train mode, under "
             f"`torch.no_grad()`, eval mode's accuracy on {_SCORED:,} digits went from {percent(scores[0].accuracy)} to "
             f"**{percent(bad.accuracy)}**. ")  # fmt: skip
    if not bad.forwards:
        return words
    if momentum == 0 and abs(lost) < 0.005:
        words += "With momentum 0 the running statistics do not move. "
    elif abs(lost) < 0.005:
        words += "These statistics withstand such batches: they move, but the answers hardly do. "
    else:
        words += (f"No weight changed: the running mean of the first layer went from {scores[0].running_mean:.3f} to "
                  f"{bad.running_mean:.3f}, its variance from {scores[0].running_variance:.3f} to "
                  f"{bad.running_variance:.3f}. `no_grad` "
                  "stops gradients, not BatchNorm. ")  # fmt: skip
    if bad.unanswered:
        words += f"{bad.unanswered:,} answers are not finite: NaN is no answer and counts as wrong. "
    healed = [one for one in scores if one.phase == "recalibrate"]
    if len(healed) > 1:
        back = "it is back at" if healed[-1].accuracy >= scores[0].accuracy - 0.01 else "it comes to"
        words += (f"**Recalibrated**: the statistics reset and {healed[-1].forwards} clean batches sent through, averaged "
                  f"(momentum None), {back} **{percent(healed[-1].accuracy)}**.")  # fmt: skip
    return words


# --- eval() and no_grad() ----------------------------------------------------------------------------------------------


def _cost_controls(lab: Lab) -> Params:
    return {}


def _cost_steps(lab: Lab, params: Params) -> Iterator[object]:
    return two_by_two(lab.predictor.model, some_digits(lab.test, _COST_DIGITS))


def _cost_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    found: list[Quadrant] = of_kind(results, Quadrant)
    if not found:
        return
    table([
        {
            "": f"**{'train()' if one.train_mode else 'eval()'}** {'' if one.gradients else 'no_grad()'}",
            "correct": f"{100 * one.accuracy:.1f} %",
            "logits off by": f"{one.largest_difference:.2f}" if np.isfinite(one.largest_difference) else "no number",
            "statistics": f"moved {one.statistics_moved:.2g}" if one.statistics_moved else "still",
            "kept, MiB": f"{one.saved_bytes / 2**20:.1f}",
            "ms": f"{1000 * one.seconds:.0f}",
        }
        for one in found
    ])  # fmt: skip
    by_place = {(one.train_mode, one.gradients): one for one in found}
    if len(by_place) < 4:
        return
    kept, train = by_place[False, True], by_place[True, False]
    st.caption("Columns: digits answered right; the largest change of a logit against eval mode; how far running means or "
               "variances moved; activations kept for backward; time of one forward, the quickest of several.")  # fmt: skip
    say(f"Two switches for two things, measured just now on one batch of {_COST_DIGITS} digits. `eval()` changes what layers "
        f"compute: the answers ({points(train.accuracy - kept.accuracy)} in train mode) and whether BatchNorm's statistics "
        f"move. `no_grad()` changes what autograd remembers: {kept.saved_bytes / 2**20:.2f} MiB of activations or nothing. "
        "Neither does the other's work; for answers use both.")  # fmt: skip


INSIDE_LAYER = Experiment("Inside a layer", "What does BatchNorm compute in each mode?", "batchnorm", _inside_controls,
                         _inside_steps, _inside_show, modes_code.inside)  # fmt: skip

POISONING = Experiment("Poisoning", "Can merely looking at a model spoil it?", "batchnorm", _poison_controls, _poison_steps,
                         _poison_show, modes_code.poisoning)  # fmt: skip

EVAL_OR_NO_GRAD = Experiment("eval or no_grad", "Is model.eval() the same as torch.no_grad()?", "", _cost_controls, _cost_steps,
                          _cost_show, modes_code.two_by_two)  # fmt: skip
