"""What the network gets wrong: confusion, accuracy of each digit, the worst mistakes."""

from functools import lru_cache

import numpy as np
import streamlit as st

from core.events import Mistake
from core.runs.reader import RunView
from dashboard import theme
from dashboard.charts import evaluation_charts
from dashboard.charts.live_chart import plot
from dashboard.shell import pictures


def evaluation_section(snapshot: RunView) -> None:
    """What the last scoring got wrong. Redrawn only when there is a new one."""
    if snapshot.tested:
        evaluation, of, color = snapshot.tested.evaluation, "the test digits", theme.TEST
    elif snapshot.validations:
        evaluation, of, color = (
            snapshot.validations[-1].evaluation,
            f"the validation digits, after step {snapshot.validations[-1].step:,}",
            theme.VALIDATION,
        )
    else:
        st.caption(
            "After the first validation you will see here which digits the model confuses, and the worst mistakes as pictures."
        )
        return
    st.caption(f"Scored on {of}.")
    left, right = st.columns(2)
    with left:
        st.markdown("**Confusion matrix**: rows are the digits, columns the answers")
        plot(evaluation_charts.confusion_drawn(evaluation.confusion), key="confusion", alt="Confusion matrix of the ten digits")
    with right:
        st.markdown("**Accuracy of each digit**")
        plot(
            evaluation_charts.per_digit_drawn(evaluation.confusion, evaluation.unanswered_by_label, color),
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
        st.html("".join(_mistake(mistake) for mistake in evaluation.mistakes))
        st.caption("it is → the model said (how sure it was)")


@lru_cache(maxsize=256)
def _mistake(one: Mistake) -> str:
    image = np.frombuffer(one.image, np.uint8).reshape(28, 28)
    words = f"{one.label} → {one.predicted} ({one.probability:.0%})"
    return pictures.figure(image, words, f"A {one.label} taken for a {one.predicted}")
