"""What the network gets wrong, at its last scoring or after any step whose weights were kept."""

import streamlit as st

from core.runs.reader import RunView
from dashboard import theme
from dashboard.train.looking_back import moment_section, step_slider
from dashboard.train.wrong import wrong_answers


def evaluation_section(snapshot: RunView) -> None:
    """What the last scoring got wrong, or the weights of the step that the slider names."""
    if (step := step_slider(snapshot)) is not None:
        moment_section(snapshot, step)
        return
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
    wrong_answers(evaluation, color)
