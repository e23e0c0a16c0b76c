"""What the network gets wrong: confusion, accuracy of each digit, the worst mistakes; and what its first loss says."""

import math
from functools import lru_cache

import numpy as np
import streamlit as st

from core.events import Mistake
from core.runs.reader import RunView
from dashboard.charts import evaluation_charts
from dashboard.charts.live_chart import plot
from dashboard.shell import pictures

LN10 = math.log(10)


def first_loss_note(snapshot: RunView) -> None:
    """The first loss against that of guessing, for a run that starts anew."""
    if not len(snapshot.steps) or snapshot.info.parent or snapshot.info.first_step:
        return
    first = float(snapshot.steps.column("loss")[0])
    verdict = first_loss_words(first)
    st.caption(f":material/start: **First loss {first:.3f}**; guessing among ten digits costs ln 10 = {LN10:.3f}. {verdict}")


def first_loss_words(first: float) -> str:
    """What the loss before any update says about a network for ten classes."""
    if not math.isfinite(first):
        return "It is not finite before any update: the images or the first weights hold NaN or overflow."
    if abs(first - LN10) < 0.35:
        return "As it should be: nothing is known yet, and nothing is wrong yet."
    if first > LN10:
        return (
            "Higher: the untrained network is sure of wrong answers. Likely causes: first weights too large, or images "
            "that are not normalised."
        )
    return "Lower: it knows something already. Likely causes: few classes in the first batch (digits in order), or old weights."


def evaluation_section(snapshot: RunView) -> None:
    """What the last scoring got wrong. Redrawn only when there is a new one."""
    if snapshot.tested:
        evaluation, of = snapshot.tested.evaluation, "the test digits"
    elif snapshot.validations:
        evaluation, of = (
            snapshot.validations[-1].evaluation,
            f"the validation digits, after step {snapshot.validations[-1].step:,}",
        )
    else:
        st.caption(
            "After the first validation you will see here which digits the model confuses, and the worst mistakes as pictures."
        )
        return
    st.subheader(f"What it gets wrong, on {of}", anchor=False)
    left, right = st.columns(2)
    with left:
        st.markdown("**Confusion matrix**: rows are the digits, columns the answers")
        plot(evaluation_charts.confusion_drawn(evaluation.confusion), key="confusion", alt="Confusion matrix of the ten digits")
    with right:
        st.markdown("**Accuracy of each digit**")
        plot(
            evaluation_charts.per_digit_drawn(evaluation.confusion, evaluation.unanswered_by_label),
            key="per_digit",
            alt="Accuracy of each of the ten digits",
        )
    if evaluation.unanswered:
        st.warning(
            f"{evaluation.unanswered:,} digits got no answer at all: the network gave NaN or infinity for them. They "
            "count as wrong and stand in no column of the confusion matrix.",
            icon=":material/error:",
        )
    if evaluation.mistakes:
        st.markdown("**Most confidently wrong**")
        st.html("".join(_mistake(one) for one in evaluation.mistakes))
        st.caption("it is → the model said (how sure it was)")


@lru_cache(maxsize=256)
def _mistake(one: Mistake) -> str:
    image = np.frombuffer(one.image, np.uint8).reshape(28, 28)
    words = f"{one.label} → {one.predicted} ({one.probability:.0%})"
    return pictures.figure(image, words, f"A {one.label} taken for a {one.predicted}")
