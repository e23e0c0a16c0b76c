"""What limits a run's speed, where its time goes, and what would lift it."""

import math

import streamlit as st

from core.runs.reader import RunView
from core.runs.speed import TimeSpent, speed_finding, time_spent
from dashboard import wording
from dashboard.charts.live_chart import plot
from dashboard.charts.speed_charts import time_figure
from dashboard.train.remedy import start_button


def speed_tab(view: RunView) -> None:
    """The sentence, its button, and the shares that it is made from."""
    spent, found = time_spent(view), speed_finding(view)
    if spent is None or found is None:
        st.caption(
            "After two seconds of training you see here where the time goes, what limits the speed, and what would lift it."
            if view.info.status.is_active
            else "This run was too short for a word about its speed, or was trained by a version that did not measure."
        )
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{found.name}.** {wording.plain(found.evidence)} {wording.plain(found.advice)}", width="stretch")
        if found.remedy:
            start_button(view, found, key="mend_speed")
    plot(time_figure(spent), key="time_spent", alt=f"Where the time goes. {found.evidence}")
    st.caption(_measured(view, spent))


def _measured(view: RunView, spent: TimeSpent) -> str:
    """How the shares were measured, and who had the cores."""
    device = view.started.device if view.started else "cpu"
    every = "every tenth" if device == "cpu" else "every hundredth"
    words = f"The last minute of training, validations beside it; parts of an update measured on {every} step."
    if not math.isnan(spent.in_line):
        words += (
            f" Of the cores: training threads stood in line {100 * spent.in_line:.1f} % of their time, the pages of this "
            f"process kept {spent.pages:.1f} busy, other programs {spent.elsewhere:.1f}."
        )
    return words
