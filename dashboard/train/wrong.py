"""One evaluation as pictures: confusion, accuracy of each digit, the worst mistakes."""

import streamlit as st

from core.events import Evaluation
from dashboard.charts import evaluation_charts
from dashboard.charts.live_chart import plot
from dashboard.shell import pictures


def wrong_answers(evaluation: Evaluation, color: str) -> None:
    """What was answered wrong. `color`: of the split that was scored."""
    left, right = st.columns(2)
    with left:
        st.markdown("**Confusion matrix**: rows are the digits, columns the answers")
        plot(
            evaluation_charts.confusion_figure(evaluation.confusion), key="confusion", alt="Confusion matrix of the ten digits"
        )
    with right:
        st.markdown("**Accuracy of each digit**")
        plot(
            evaluation_charts.per_digit_figure(evaluation.confusion, evaluation.unanswered_by_label, color),
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
        st.html("".join(pictures.mistake(mistake) for mistake in evaluation.mistakes))
        st.caption("it is → the model said (how sure it was)")
