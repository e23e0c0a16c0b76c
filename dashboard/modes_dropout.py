"""The experiment on Dropout: many passes of one image."""

from collections.abc import Iterator
from typing import Any

import streamlit as st
import torch

from core.answers import NO_ANSWER, answers_of
from core.batches import normalise
from core.dropout_passes import DropoutPasses, dropout_passes
from dashboard import modes_charts, modes_code, pictures
from dashboard.live_chart import plot
from dashboard.modes_lab import Experiment, Lab, Params, choose_digit, of_kind, say


def _controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = choose_digit(lab)
        own = lab.predictor.config.dropout or 0.5
        p = st.slider("p, the share that is dropped", 0.0, 0.9, own, 0.05, key="m_p", bind="query-params", width=220)
        passes = st.select_slider("Passes", (10, 20, 50, 100, 200, 500, 1000, 2000), 200, key="m_passes", bind="query-params",
                                  width=200)  # fmt: skip
    return {"place": place, "p": p, "passes": passes}


def _steps(lab: Lab, params: Params) -> Iterator[object]:
    place = params["place"]
    image = normalise(torch.from_numpy(lab.test.images[place : place + 1])).numpy()
    return dropout_passes(lab.predictor.model, image, p=params["p"], passes=params["passes"])


def _show(lab: Lab, params: Params, results: tuple[Any, ...]) -> None:
    found: DropoutPasses | None = next(iter(of_kind(results, DropoutPasses)), None)
    if found is None:
        return
    digit, place, p = int(answers_of(found.in_eval[None])[0]), params["place"], found.p
    if digit == NO_ANSWER:
        st.warning(
            "In eval mode this model gives NaN or infinity for the image, so there is no answer that passes could spread about."
        )
        return
    picture, left, right = st.columns([1, 4, 4])
    with picture:
        st.html(pictures.figure(lab.test.images[place, 0], f"a {lab.test.labels[place]}", "The digit looked at", 96))
    with left:
        st.markdown("**Every pass has another mask, and another answer**")
        plot(modes_charts.passes_figure(found), key="m_drop", alt="The probabilities of ten digits in each pass")
    with right:
        st.markdown("**The mean of many passes comes back to eval mode**")
        plot(modes_charts.mean_figure(found, digit), key="m_mean", alt="The mean logit over more and more passes")
    other = float((answers_of(found.logits) != digit).mean())
    scaled, unscaled = float(found.logits[:, digit].mean()), float(found.unscaled[:, digit].mean())
    spread = float(found.logits[:, digit].std())
    trained = lab.predictor.config.dropout
    if p == 0:
        say(f"With p = 0 nothing is dropped: all {len(found.logits)} passes are the same, and the same as eval mode's {digit}.")
        return
    say(f"With p = {p:g}, {other:.0%} of {len(found.logits)} passes give another answer than eval mode's {digit}. Its logit is "
        f"{found.in_eval[digit]:.3f} in eval mode; the passes spread by ±{spread:.2f} about {scaled:.3f}. Dropping leaves a "
        f"share 1 - p = {1 - p:.2g} of the activations, so what is left is multiplied by 1 / (1 - p) = {1 / (1 - p):.2f}: that "
        f"keeps the mean where eval mode, which drops nothing, expects it. Without the scaling the mean would be "
        f"{unscaled:.3f}. The mean of the probabilities (dashes on the left) need not meet eval mode's: softmax is no "
        "straight line.")  # fmt: skip
    if trained == 0:
        st.caption("This model was trained without dropout; here its dropout layer is switched on for the experiment.")
    elif abs(trained - p) > 1e-9:
        st.caption(f"This model was trained with p = {trained:g}.")


DROPOUT_PASSES = Experiment("Dropout", "How can a layer that drops at random give a steady answer?", "", _controls, _steps, _show,
                          modes_code.dropout)  # fmt: skip
