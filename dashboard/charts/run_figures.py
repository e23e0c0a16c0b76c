"""Charts as complete plotly figures: for downloads, and where the live component cannot draw. Never imports streamlit."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from core.config.train_config import TrainConfig
from core.training.schedule import schedule_preview
from dashboard import theme
from dashboard.charts.run_charts import Chart, Line

HEIGHT = 260
# Plotly 7 offers to upload charts to a cloud: nothing leaves this machine here.
PLOT_CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
}
AT_THE_EDGE = "0, at the lower edge"


def on_log_axis(lines: list[Line]) -> list[Line]:
    """Lines whose zeros lie at the lower edge of a logarithmic axis, which has no place for them, each with a mark. The live
    chart does the same (live_chart.js)."""
    positive = np.concatenate([line.y[line.y > 0] for line in lines]) if lines else np.empty(0)
    edge = float(positive.min()) / 2 if len(positive) else 1e-6
    placed = [replace(line, y=np.where(line.y <= 0, edge, line.y)) for line in lines]
    x = np.concatenate([line.x[line.y <= 0] for line in lines]) if lines else np.empty(0)
    if not len(x):
        return placed
    mark = Line(AT_THE_EDGE, theme.PROBLEM, 0, x, np.full(len(x), edge), mode="markers", symbol="triangle-down", hover="0")
    return [*placed, mark]


def figure(chart: Chart) -> go.Figure:
    """A complete plotly figure of a chart whose lines are complete."""
    drawn = go.Figure()
    for line in on_log_axis(chart.lines) if chart.log else chart.lines:
        drawn.add_trace(
            go.Scatter(
                x=line.x,
                y=line.y,
                name=line.name,
                mode=line.mode,
                hovertemplate=line.hover,
                line={"color": line.color, "dash": line.dash, "width": line.width},
                marker={"color": line.color, "symbol": line.symbol, "size": 9 if line.mode == "markers" else 6},
            )
        )
    if chart.mark:
        height, words = chart.mark
        drawn.add_hline(y=height, line={"dash": "dash", "width": 1, "color": theme.PARENT_RUN}, annotation_text=words)
    title = chart.title + (f"<br><sup>{chart.note}</sup>" if chart.note else "")
    drawn.update_layout(
        title={"text": title},
        height=HEIGHT + 80,
        hovermode="x unified",
        margin={"l": 60, "r": 20, "t": 60, "b": 50},
        legend={"orientation": "h", "y": -0.25},
        uirevision=chart.id,
    )
    drawn.update_xaxes(title_text=chart.x_title)
    drawn.update_yaxes(
        title_text=chart.y_title,
        type="log" if chart.log else "linear",
        rangemode="tozero" if chart.from_zero else "normal",
        autorangeoptions={"include": 0} if chart.from_zero else None,
        tickformat=chart.y_format or None,
    )
    return drawn


class Drawn(NamedTuple):
    """A figure as the browser gets it: plotly's JSON, and its height in pixels."""

    text: str
    height: int


def as_drawn(figure: go.Figure) -> Drawn:
    """A figure in JSON form, without plotly's template: the page gives the colours."""
    figure.layout.template = None
    return Drawn(str(figure.to_json()), int(figure.to_dict()["layout"]["height"]))


def schedule_figure(config: TrainConfig) -> go.Figure:
    """The learning rate of each step of the run to come."""
    steps, rates = schedule_preview(config)
    drawn = go.Figure(
        go.Scatter(
            x=steps + 1,
            y=rates,
            mode="lines",
            line={"color": theme.TRAIN, "width": 2},
            hovertemplate="step %{x}: %{y:.3g}<extra></extra>",
        )
    )
    drawn.update_layout(height=150, margin={"l": 10, "r": 10, "t": 10, "b": 30})
    drawn.update_xaxes(title_text="step")
    drawn.update_yaxes(rangemode="tozero", tickformat=".1~e", automargin=True)
    return drawn
