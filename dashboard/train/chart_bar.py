"""One line between the numbers and the curves: how the charts are drawn, and what else goes on here."""

import streamlit as st

from core.execution.process import get_trainer
from core.runs.info import RunInfo
from dashboard import wording
from dashboard.charts import run_charts
from dashboard.charts import session as charts_session
from dashboard.charts.session import CHART_KEY
from dashboard.shell import run_session
from dashboard.shell.policy_session import may_control
from dashboard.train import session as train_session

WINDOWS = (1, 5, 10, 25, 50, 100, 250, 500)


def chart_bar(labels: dict[str, str], unfinished: list[RunInfo]) -> None:
    """The line.

    Args:
        labels: what runs are called. unfinished: runs that a crash of the server, say, cut short.
    """
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chart_bar"):
        st.segmented_control(
            "X axis",
            run_charts.AXES,
            default="step",
            key="view_axis",
            required=True,
            persist_state="session",
            label_visibility="collapsed",
        )
        st.selectbox(
            "Smoothing",
            WINDOWS,
            WINDOWS.index(25),
            key="view_window",
            format_func=lambda steps: f"mean of {steps}" if steps > 1 else "each step",
            width=150,
            persist_state="session",
            label_visibility="collapsed",
        )
        st.toggle(
            "Logarithmic",
            key="view_log",
            persist_state="session",
            help="The loss on a logarithmic axis, and the share of wrong answers in place of the accuracy: 98 and 99 % right "
            "look alike, 2 and 1 % wrong do not.",
        )
        st.toggle(
            "Code",
            key="view_code",
            persist_state="session",
            # The charts move into a column of the page, or out of it: the browser makes them anew.
            on_change=charts_session.page_was_drawn_anew,
            args=(CHART_KEY,),
            help="The training loop of this run beside its curves: each line with its share of the time, its last values and "
            "the chart that it feeds.",
        )
        _queue(labels)
        _unfinished(labels, unfinished)


def _queue(labels: dict[str, str]) -> None:
    """What trains and what waits, when there is more than one; a click shows that run."""
    active = list(get_trainer().active())
    if len(active) < 2:
        return
    shown = run_session.shown_run()
    with st.popover(f"Queue: {len(active) - 1} wait{'s' if len(active) == 2 else ''}", icon=":material/queue:", key="queue"):
        st.caption("One run trains at a time; the others wait for their turn.")
        for number, run_id in enumerate(active):
            st.button(
                f"{f'{number}.' if number else 'Now:'} {wording.plain(labels.get(run_id, run_id))}",
                key=f"queue_{run_id}",
                type="tertiary",
                on_click=run_session.show_run,
                args=(run_id,),
                disabled=run_id == shown,
            )


def _unfinished(labels: dict[str, str], unfinished: list[RunInfo]) -> None:
    if not unfinished:
        return
    with st.popover(f"{len(unfinished)} interrupted", icon=":material/power_off:", key="unfinished"):
        for info in unfinished:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.caption(
                    f"{wording.plain(labels.get(info.run_id, info.run_id))}: step {info.step:,} of {info.total_steps:,}",
                    width="stretch",
                )
                st.button(
                    "Resume it",
                    icon=":material/resume:",
                    key=f"take_up_{info.run_id}",
                    type="tertiary",
                    on_click=train_session.resume_run,
                    args=(info.run_id,),
                    disabled=not may_control(),
                )
        with st.container(horizontal=True):
            if len(unfinished) > 1:
                st.button(
                    "Resume all",
                    key="take_up_all",
                    on_click=train_session.resume_all,
                    args=([info.run_id for info in reversed(unfinished)],),
                    disabled=not may_control(),
                )
            st.button(
                "Not now",
                key="put_aside",
                type="tertiary",
                on_click=train_session.put_aside,
                args=([info.run_id for info in unfinished],),
                help="Says no more about it until you reload.",
            )
