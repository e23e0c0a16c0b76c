"""The live charts of a run: a small component around plotly.js that keeps zoom and receives new points only.

`st.plotly_chart` of Streamlit 1.67 mounts a new chart whenever its data change, and zoom is lost. This component stays
mounted; what each browser session has already received is remembered in its session (`Sent`).
"""

import json
import math
import shutil
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import plotly
import plotly.graph_objects as go
import plotly.io
import streamlit as st
from streamlit.components.v2 import component

from core.runs.reader import RunView
from dashboard import wording
from dashboard.charts import session as charts_session
from dashboard.charts.run_charts import Chart, Line, Sent, View, place_of, run_charts
from dashboard.charts.run_figures import PLOT_CONFIG, Drawn, as_drawn, figure
from dashboard.shell import refresh

_HERE = Path(__file__).parent
_SCRIPT = f"plotly-{plotly.__version__}.min.js"
# Two charts in the first row, three in the second; one below the other where there is no room.
_STYLE = """
.digit-lab-frame { container-type: inline-size; }
.digit-lab-charts { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: 4px 24px;
  color: var(--st-text-color, inherit); font-family: var(--st-font, sans-serif); }
.digit-lab-charts figure { margin: 0; min-width: 0; grid-column: span 2; }
.digit-lab-charts figure:nth-child(-n+2) { grid-column: span 3; }
.digit-lab-charts .title { font-weight: 600; font-size: 1rem; }
.digit-lab-charts .plot { height: 160px; }
.digit-lab-charts figure:nth-child(-n+2) .plot { height: 260px; }
.digit-lab-charts figcaption { display: flex; justify-content: space-between; align-items: center; }
.digit-lab-charts button { border: 0; background: none; color: inherit; opacity: 0.6; cursor: pointer; padding: 0 0.25rem;
  font-size: 1.1rem; line-height: 1; }
.digit-lab-charts button.icon { font-family: "Material Symbols Rounded"; font-feature-settings: "liga"; }
.digit-lab-charts button:hover, .digit-lab-charts button:focus-visible { opacity: 1; }
.digit-lab-charts figure.large { grid-column: 1 / -1; }
.digit-lab-charts figure.large .plot { height: 70vh; }
.digit-lab-silence { color: #d1495b; font-size: 0.875rem; }
.digit-lab-charts small { display: block; min-height: 1.2em; opacity: 0.7; font-size: 0.8rem; }
@container (max-width: 640px) {
  .digit-lab-charts figure, .digit-lab-charts figure:nth-child(-n+2) { grid-column: span 6; }
  .digit-lab-charts .plot { height: 220px; }
}
"""
_message_ids = count(1)


@cache
def _component(kind: str) -> Callable[..., Any]:
    return component(
        f"digit_lab_{kind}",
        html=f'<div class="digit-lab-frame"><div class="digit-lab-{kind}"></div></div>',
        css=_STYLE,
        js=(_HERE / "live_chart.js").read_text(encoding="utf-8"),
        isolate_styles=False,
    )


@cache
def plotly_address() -> str | None:
    """Where the browser gets plotly.js: a copy of the plotly package's, served by this server, so no network is needed.
    None when the copy cannot be made."""
    static = _HERE.parent / "static"  # Streamlit serves the one beside app.py
    target = static / _SCRIPT
    try:
        if not target.exists():
            static.mkdir(exist_ok=True)
            part = target.with_suffix(".part")
            shutil.copyfile(Path(plotly.__file__).parent / "package_data" / "plotly.min.js", part)
            part.replace(target)
    except OSError:
        return None
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}/app/static/{_SCRIPT}".replace("//", "/")


def live_charts(snapshot: RunView, view: View, *, key: str, parent: RunView | None = None, at: int | None = None) -> None:
    """Draw a run's charts, its parent's behind, with a line at step `at`. Called at each refresh; sends only what this
    session's browser does not have yet."""
    address = plotly_address()
    if address is None or charts_session.charts_failed(key):
        _fallback(snapshot, view, key, parent)
        return
    charts, sent, complete = run_charts(snapshot, view, charts_session.charts_sent(key), parent)
    result = _component("charts")(
        key=key,
        data={
            **message(charts, sent, complete, address, f"{snapshot.info.run_id}/{view.axis}"),
            "expects": _expected_seconds(snapshot),
            "told": _told_outside(snapshot),
            "at": None if at is None else {"x": place_of(snapshot, view, at), "words": f"step {at:,}"},
        },
        on_resend_change=lambda: charts_session.remember_charts_sent(key, None),
        on_failed_change=lambda: None,
    )
    charts_session.remember_charts_sent(key, sent)
    if getattr(result, "failed", None):
        charts_session.remember_charts_failed(key)


def _told_outside(snapshot: RunView) -> dict[str, Any]:
    """What the browser's tab is called, and the words of a notice when the run ends."""
    info = snapshot.info
    word = wording.STATUS_WORDS[info.status][0]
    score = info.test_accuracy
    if score is None and snapshot.validations:
        score = snapshot.validations[-1].evaluation.accuracy
    result = f"{100 * score:.1f} %" if score is not None else ""
    where = f"epoch {snapshot.epoch}/{snapshot.config.epochs}" if info.status.is_active else word
    title = " · ".join(part for part in (result, where) if part)
    words = f"{wording.MODEL_WORDS[snapshot.config.model]}: {word.lower()} after {snapshot.step:,} steps."
    return {"run": info.run_id, "active": info.status.is_active, "title": f"{title} - Digit Lab", "words": words}


def _expected_seconds(snapshot: RunView) -> int:
    """After how many seconds without news a viewer of a run that changes should be told so; 0 when nothing is expected."""
    return 10 + 2 * round(refresh.refresh_seconds()) if snapshot.info.status.is_active else 0


def plot(drawn: go.Figure | dict[str, Any] | Drawn, *, key: str, alt: str, on_click: Callable[[], None] | None = None) -> None:
    """Draw one complete figure, an object or plotly's JSON form, with the plotly.js of the live charts; a changed one is
    redrawn in place. `on_click`: a callback; the x of the point that was clicked is then `.clicked` of the state at `key`."""
    address = plotly_address()
    if address is None or charts_session.charts_failed(key):
        whole = plotly.io.from_json(drawn.text) if isinstance(drawn, Drawn) else drawn
        st.plotly_chart(whole, key=f"{key}-plain", alt=alt, config={"displayModeBar": False})
        return
    if isinstance(drawn, dict):
        text, height = json.dumps(without_nan(drawn), allow_nan=False), drawn["layout"]["height"]
    else:
        text, height = as_drawn(drawn) if isinstance(drawn, go.Figure) else drawn
    data = {"figure": text, "plotly": address, "alt": alt, "clicks": on_click is not None}
    result = _component("figure")(
        key=key, data=data, height=height, on_failed_change=lambda: None, on_clicked_change=on_click or (lambda: None)
    )
    if getattr(result, "failed", None):
        charts_session.remember_charts_failed(key)


def without_nan(value: Any) -> Any:
    """A figure in JSON form with null for every number that is not finite: with one NaN a browser reads none of it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: without_nan(one) for key, one in value.items()}
    return [without_nan(one) for one in value] if isinstance(value, list | tuple) else value


def message(charts: list[Chart], sent: Sent, complete: bool, address: str, uirevision: str) -> dict[str, Any]:
    """What the browser receives: plain JSON with six significant digits; NaN as null."""
    return {
        "id": next(_message_ids),
        "token": sent.token,
        "complete": complete,
        "uirevision": uirevision,
        "plotly": address,
        "config": PLOT_CONFIG,
        "charts": [
            {
                "id": chart.id,
                "title": chart.title,
                "y_title": chart.y_title,
                "x_title": chart.x_title,
                "log": chart.log,
                "from_zero": chart.from_zero,
                "note": chart.note,
                "alt": chart.alt,
                "y_format": chart.y_format,
                "mark": chart.mark,
                "lines": [_plain(line) for line in chart.lines],
            }
            for chart in charts
        ],
    }


def _plain(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "color": line.color,
        "first": line.first,
        "x": _numbers(line.x),
        "y": _numbers(line.y),
        "dash": line.dash,
        "width": line.width,
        "mode": line.mode,
        "symbol": line.symbol,
        "hover": line.hover,
    }


def _numbers(values: np.ndarray) -> list[float | int | None]:
    """Six significant digits, as few characters as they need."""
    return [_short(value) for value in values.tolist()]


def _short(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    if value == int(value) and abs(value) < 1e15:
        return int(value)
    return float(f"{value:.6g}")


def _fallback(snapshot: RunView, view: View, key: str, parent: RunView | None) -> None:
    st.caption(
        "The live charts could not load plotly.js from this server, so these are drawn anew at each refresh: zoom is not kept."
    )
    for chart in run_charts(snapshot, view, parent=parent)[0]:
        st.plotly_chart(figure(chart), key=f"{key}-{chart.id}", alt=chart.alt, config=PLOT_CONFIG)
