"""What this browser has of the live charts, and how it wants to see them."""

import streamlit as st

from dashboard.charts.run_charts import Sent, View

CHART_KEY = "live_charts"  # of those of the Train page


def charts_view() -> View:
    """How this session wants to see runs."""
    return View(
        axis=st.session_state.get("view_axis") or "step",
        window=st.session_state.get("view_window", 25),
        log=st.session_state.get("view_log", False),
    )


def wants_code() -> bool:
    """Whether the training loop is shown beside the charts."""
    return st.session_state.get("view_code", False)


def charts_sent(key: str) -> Sent | None:
    """What this session's browser has of the charts; None when everything must be sent."""
    return st.session_state.get(f"sent_{key}")


def remember_charts_sent(key: str, sent: Sent | None) -> None:
    """Note what the browser has after this refresh."""
    st.session_state[f"sent_{key}"] = sent


def charts_failed(key: str) -> bool:
    """True when this browser could not load plotly.js."""
    return st.session_state.get(f"failed_{key}", False)


def remember_charts_failed(key: str) -> None:
    """Draw plain charts from now on."""
    st.session_state[f"failed_{key}"] = True


def page_was_drawn_anew(key: str) -> None:
    """A whole page run: the browser may have lost the charts (another page, a reload), so they are sent whole once."""
    remember_charts_sent(key, None)
