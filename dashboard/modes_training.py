"""Experiments that train: warming up, twins with and without a layer, and a run seen in both modes."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import streamlit as st

from core.batches import augments
from core.data import data_root
from core.mode_gap import GapPoint, mode_gap
from core.run_store import run_folder, runs_root
from core.snapshots import kept_snapshots
from core.trainer import get_trainer
from core.twin_trainings import (
    TwinEnded,
    TwinLosses,
    TwinScore,
    WarmUpStep,
    twin_configs,
    twin_trainings,
    warm_up_config,
    warming_up,
)
from dashboard import modes_charts, modes_code, modes_session, theme
from dashboard.live_chart import plot
from dashboard.modes_lab import Experiment, Lab, Params, layer_words, of_kind, percent, points, say

WARM_UP_STEPS = 50
_FRESH = "Trained from fresh weights, which are thrown away."
_MOMENTA: dict[str, float | None] = {"0": 0.0, "0.01": 0.01, "0.1": 0.1, "1": 1.0, "None": None}


# --- warming up --------------------------------------------------------------------------------------------------------


def _warm_controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        momentum = st.segmented_control("BatchNorm momentum", list(_MOMENTA), default="0.1", required=True, key="m_momentum",
                                        bind="query-params")  # fmt: skip
        seed = st.number_input("Seed", 0, 999, 0, key="m_seed", bind="query-params", width=130)
    return {"momentum": momentum, "seed": int(seed)}


def _warm_config(lab: Lab, params: Params) -> Any:
    config = lab.predictor.config
    return warm_up_config(config.model, config.dataset, _MOMENTA[params["momentum"]], WARM_UP_STEPS, params["seed"])


def _warm_steps(lab: Lab, params: Params) -> Iterator[object]:
    return warming_up(_warm_config(lab, params), data_root())


def _warm_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    steps: list[WarmUpStep] = of_kind(results, WarmUpStep)
    if not steps:
        return
    left, right = st.columns(2)
    with left:
        st.markdown("**Accuracy of a fresh model, both modes**")
        plot(modes_charts.warm_up_figure(steps), key="m_warm", alt="Accuracy of both modes over the first training steps")
    with right:
        st.markdown("**First BatchNorm layer, channel 0: batch and running statistics**")
        plot(modes_charts.warm_up_statistics_figure(steps, 0), key="m_warm_statistics",
             alt="Running mean and variance approaching those of the batches")  # fmt: skip
    early = next((one for one in reversed(steps) if one.step <= 5 and one.eval is not None), steps[0])
    last = next((one for one in reversed(steps) if one.eval is not None), early)
    if early.eval is None or early.train is None or last.eval is None or last.train is None:
        return
    model = theme.MODEL_WORDS[_warm_config(lab, params).model]
    behind = early.train - early.eval
    story = "The running statistics begin at mean 0 and variance 1 and have yet to find out what the activations look like. "
    if abs(behind) < 0.01:
        story = "Here they are as good as each other from the first steps on: the running statistics have caught up already. "
    elif behind < 0:
        story = "Here eval mode is ahead: its running statistics average over more digits than the 64 of a batch. "
    say(f"A new {model}, Adam at 1e-3, batches of 64, scored on 500 digits. After {early.step} "
        f"step{'s' if early.step != 1 else ''}: "
        f"**{percent(early.eval, 500)} in eval mode, {percent(early.train, 500)} in train mode**; after {last.step}: "
        f"{percent(last.eval, 500)} and {percent(last.train, 500)}. {story}The weights, and so train mode, are the "
        "same whatever the "
        f"momentum. {_momentum_words(params['momentum'])}")  # fmt: skip


def _momentum_words(momentum: str) -> str:
    value = _MOMENTA[momentum]
    if value is None:
        return ("With momentum None each batch counts the same: running = the plain average of all batches so far, the early "
                "ones of an untrained network included.")  # fmt: skip
    other = f"Keras and TensorFlow call that momentum {1 - value:g}: there it is the weight of the old value."
    meaning = f"In PyTorch running = {1 - value:g} x running + {value:g} x batch. {other}"
    if value == 0:
        return f"{meaning} With 0 the statistics never move: eval mode stays with mean 0 and variance 1 for good."
    return meaning + (" With 1 only the very last batch counts." if value == 1 else "")


# --- with and without --------------------------------------------------------------------------------------------------


def _twin_controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        rate = st.selectbox("Optimizer and learning rate", list(modes_code.RATES), key="m_rate", bind="query-params", width=380)
        dropout = st.slider("Dropout of two of them", 0.1, 0.8, 0.5, 0.1, key="m_twin_p", bind="query-params", width=180)
        steps = st.select_slider("Steps", (50, 100, 200, 400, 800), 100, key="m_steps", bind="query-params", width=180)
        seed = st.number_input("Seed", 0, 999, 1, key="m_twin_seed", bind="query-params", width=130)
    return {"rate": rate, "dropout": dropout, "steps": steps, "seed": int(seed)}


def _twin_steps(lab: Lab, params: Params) -> Iterator[object]:
    optimizer, rate = modes_code.RATES[params["rate"]]
    twins = twin_configs(lab.predictor.config.dataset, optimizer, rate, params["dropout"], params["steps"], params["seed"])
    return twin_trainings(twins, data_root())


def _twin_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    losses, scores = defaultdict(list), defaultdict(list)
    for one in of_kind(results, TwinLosses):
        losses[one.name].append(one)
    for one in of_kind(results, TwinScore):
        scores[one.name].append(one)
    if not losses:
        return
    left, right = st.columns(2)
    with left:
        st.markdown("**Train loss**, mean of 10 steps; with Dropout it is that of the thinned network")
        plot(modes_charts.twin_loss_figure(losses), key="m_twin_loss", alt="Train loss of the twins")
    with right:
        st.markdown("**Validation accuracy**, eval mode, 500 digits")
        plot(modes_charts.twin_accuracy_figure(scores), key="m_twin_accuracy", alt="Validation accuracy of the twins")
    died = [one for one in of_kind(results, TwinEnded) if one.reason]
    for one in died:
        st.warning(f"{one.name}: {theme.plain(one.reason)}")
    last = {name: parts[-1] for name, parts in scores.items()}
    if not last:
        return
    told = ", ".join(f"{name} {percent(one.accuracy, 500)}" for name, one in last.items())
    words = f"Same seed, same digits in the same order, same two convolutions: {told}. "
    plain, normed = last.get("plain"), last.get("BatchNorm")
    if plain and normed and normed.accuracy - plain.accuracy > 0.3:
        words += ("At this learning rate the plain network did not learn, and the one with BatchNorm did: whatever size the "
                  "weights are thrown to, it brings each channel back to mean 0 and variance 1 before the next layer sees it. "
                  "Near the limit luck decides: try other seeds.")  # fmt: skip
    elif plain and normed:
        words += f"BatchNorm against plain: {points(normed.accuracy - plain.accuracy)} after so few steps."
    say(words)


# --- during training ---------------------------------------------------------------------------------------------------


def _gap_controls(lab: Lab) -> Params:
    what = st.segmented_control(
        "Curves of", ("loss", "accuracy"), default="loss", required=True, key="m_what", bind="query-params"
    )
    run_id = lab.chosen.info.run_id
    # Points stay known, so that a run in training has only its new ones worked out.
    known = modes_session.memory(f"gap-{run_id}")
    return {"snapshots": len(kept_snapshots(run_folder(runs_root(), run_id))), "_what": what, "_known": known}


def _gap_steps(lab: Lab, params: Params) -> Iterator[object]:
    for one in mode_gap(run_folder(runs_root(), lab.chosen.info.run_id), data_root(), dict(params["_known"])):
        if isinstance(one, GapPoint):
            params["_known"][one.step] = one
        yield one


def _gap_show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    found: list[GapPoint] = of_kind(results, GapPoint)
    if not found:
        return
    plot(modes_charts.gap_figure(found, params["_what"]), key="m_gap",
         alt="One run seen as the optimizer saw it, again in train mode, in eval mode, and on validation digits")  # fmt: skip
    live = " More points come while it trains." if lab.chosen.info.run_id in get_trainer().active() else ""
    say(gap_words(found[-1], params["_what"], lab) + live)


_SIDES = {"optimizer": "what the optimizer saw", "again": "the same batches again", "train": "eval mode on the same batches",
          "clean": "the same digits without augmentation", "validation": "validation digits"}  # fmt: skip


def _signed_points(share: float) -> str:
    return f"{100 * share:+.1f} points".replace("-", "−")


def gap_words(point: GapPoint, what: str, lab: Lab) -> str:
    """The gap in its parts, each with the figure that was measured for it."""
    config = lab.predictor.config
    if what == "accuracy":
        values = {name: getattr(point, f"{name}_accuracy") for name in ("optimizer", "again", "train", "clean", "validation")}
        shown, part, none = lambda one: percent(one, point.digits), _signed_points, 0.0005
    else:
        values = {name: getattr(point, f"{name}_loss") for name in ("optimizer", "again", "train", "clean", "validation")}
        shown, part, none = "{:.4f}".format, lambda one: f"{one:+.4f}".replace("-", "−"), 0.00005
    if broken := [_SIDES[name] for name, value in values.items() if not math.isfinite(value)]:
        return (f"At step {point.step:,} there is no number for {', '.join(broken)}: the loss of these weights is NaN or "
                "infinite, so there is no gap to take apart.")  # fmt: skip
    words = (f"At step {point.step:,} the optimizer saw {shown(values['optimizer'])} on {point.digits:,} digits, and "
             f"validation digits have {shown(values['validation'])}. In between, one thing changed at a time: ")  # fmt: skip
    steps = [f"{part(values['optimizer'] - values['again'])} is what it **learned meanwhile** (the same batches in "
        "train mode, by the weights after them)"]  # fmt: skip
    if lab.layers.any:
        steps.append(f"{part(values['again'] - values['train'])} is **the mode's**: in train mode {layer_words(lab.layers)}")
    else:
        steps.append("nothing is **the mode's**: this model has no layer that behaves differently")
    if augments(config) or abs(values["train"] - values["clean"]) > none:
        steps.append(f"{part(values['train'] - values['clean'])} is **the augmentation's**")
    over = values["validation"] - values["clean"]
    worse = over > none if what == "loss" else over < -none
    verdict = "**what it memorised**; overfitting if it grows" if worse else "no worse: **no overfitting**"
    steps.append(f"and validation digits are {part(over)} from digits it has trained on, which is {verdict}")
    smoothing = (f" All losses are with label smoothing {config.label_smoothing:g}, as trained."
                 if config.label_smoothing and what == "loss" else "")  # fmt: skip
    return words + "; ".join(steps) + f".{smoothing}"


WARMING_UP = Experiment("Warming up", "How do the running statistics find their values?", "", _warm_controls, _warm_steps,
                          _warm_show, modes_code.warming_up, measured=_FRESH)  # fmt: skip

WITH_AND_WITHOUT = Experiment("With and without", "What do BatchNorm and Dropout change in training?", "", _twin_controls,
                        _twin_steps, _twin_show, modes_code.twins, begins_by_itself=False, measured=_FRESH)  # fmt: skip

DURING_TRAINING = Experiment("During training", "How much of the gap between train and validation is the mode's?", "", _gap_controls,
                      _gap_steps, _gap_show, modes_code.gap,
                      measured="From the weights that the run keeps on its way.")  # fmt: skip
