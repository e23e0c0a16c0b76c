"""Experiments that train: warming up, twins with and without a layer, and a run seen in both modes."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import streamlit as st

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
from dashboard.modes_lab import Experiment, Lab, Params, of_kind, percent, points, say

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
    say(f"A new {model}, Adam at 1e-3, batches of 64. After {early.step} steps: **{percent(early.eval)} in eval mode, "
        f"{percent(early.train)} in train mode**; after {last.step}: {percent(last.eval)} and {percent(last.train)}. The "
        "running statistics begin at mean 0 and variance 1 and have yet to find out what the activations look like. The "
        f"weights, and so train mode, are the same whatever the momentum. {_momentum_words(params['momentum'])}")  # fmt: skip


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
    told = ", ".join(f"{name} {percent(one.accuracy)}" for name, one in last.items())
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
         alt="Train loss in train mode, the same digits in eval mode, and validation digits in eval mode")  # fmt: skip
    last = found[-1]
    mode, over = last.optimizer_loss - last.train_loss, last.validation_loss - last.train_loss
    live = " More points come while it trains." if lab.chosen.info.run_id in get_trainer().active() else ""
    verdict = (f"**{over:+.4f} is what it knows better about digits it has trained on**, which is overfitting when it grows"
               if over > 0 else "**no worse than digits it has trained on, so there is no overfitting to see**")  # fmt: skip
    say(f"At step {last.step:,} the optimizer saw a loss of {last.optimizer_loss:.4f} on {last.digits:,} digits; the very same "
        f"images in eval mode have {last.train_loss:.4f}: **{mode:+.4f} is made by the mode**, by Dropout and BatchNorm (and "
        f"by the updates in between). Validation digits have {last.validation_loss:.4f}: {verdict}. Comparing the first with "
        f"the third, as many dashboards do, mixes both.{live}")  # fmt: skip


TRAINING: dict[str, Experiment] = {
    "warm_up": Experiment("Warming up", "Why is eval mode worse in the first steps?", "", _warm_controls, _warm_steps,
                          _warm_show, modes_code.warming_up, measured=_FRESH),
    "twins": Experiment("With and without", "What do BatchNorm and Dropout change in training?", "", _twin_controls,
                        _twin_steps, _twin_show, modes_code.twins, begins_by_itself=False, measured=_FRESH),
    "gap": Experiment("During training", "How much of the gap between train and validation is the mode's?", "", _gap_controls,
                      _gap_steps, _gap_show, modes_code.gap,
                      measured="From the weights that the run keeps on its way."),
}  # fmt: skip
