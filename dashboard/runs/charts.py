"""Many runs -> plotly figures in JSON form. No Streamlit here."""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from core.config.text import format_value
from core.config.train_config import field_kind, settings
from core.runs.index import RESULTS, RunRow
from core.runs.reader import RunView
from core.runs.thinning import thin
from dashboard import theme
from dashboard.charts.figures import Figure, figure_layout, plain_numbers

MAX_OVERLAID = 12
# Okabe and Ito's eight and four more; the dash differs too, so that colour is not the only sign.
_COLORS = (
    "#3a8fd0",
    "#e08a00",
    "#12a07a",
    "#b565c2",
    "#d1495b",
    "#7d8590",
    "#a9762f",
    "#1f9aa8",
    "#5b5fc7",
    "#8aa329",
    "#c75f9b",
    "#4f6d7a",
)
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up")
_SCALE = "Viridis"
_PERCENT = ("best_accuracy", "test_accuracy")
_MAX_AXES = 8


def _layout(height: int, x_title: str, y_title: str, **more: Any) -> Figure:
    """Many runs have no room for a legend: the table beside the chart is one."""
    margin = {"l": 58, "r": 14, "t": 10, "b": 44}
    return figure_layout(height, x_title, y_title, **{"margin": margin, "hovermode": "closest", "showlegend": False, **more})


def style(place: int) -> tuple[str, str]:
    """(colour, dash) of the run at this place of an overlay."""
    return _COLORS[place % len(_COLORS)], _DASHES[place // 4 % len(_DASHES)]


def overlay_figures(
    snapshots: Sequence[RunView], titles: Sequence[str], axis: str, window: int, log: bool
) -> list[tuple[str, Figure]]:
    """(title, figure) of the curves of several runs, one line each, in the order given.

    Args:
        axis: "step", "epoch" or "time" (training seconds). window: train loss is the mean of so many steps.
    """
    x_title = {"step": "step", "epoch": "epoch", "time": "training time (s)"}[axis]
    charts = []
    for title, name, y_title in (
        (f"Train loss, mean of {window} steps", "train_loss", "cross-entropy (nats)"),
        ("Validation loss", "loss", "cross-entropy (nats)"),
        ("Validation accuracy", "accuracy", "correct (%)"),
        ("Learning rate", "learning_rate", "learning rate"),
    ):
        traces = []
        for place, (snapshot, words) in enumerate(zip(snapshots, titles, strict=True)):
            color, dash = style(place)
            x, y = _curve(snapshot, name, axis, window)
            traces.append(
                {
                    "type": "scatter",
                    "name": escape(words, quote=False),
                    "x": plain_numbers(x),
                    "y": plain_numbers(y),
                    "line": {"color": color, "dash": dash},
                    "mode": "lines+markers" if name in ("loss", "accuracy") else "lines",
                    "marker": {"color": color, "size": 5},
                    "hovertemplate": "%{y:.5g}",
                }
            )
        y_axis = {
            "type": "log" if log and "loss" in name else "linear",
            "tickformat": ".1~e" if name == "learning_rate" else "",
        }
        if name == "learning_rate":  # a constant 0.01 is else drawn on an axis from -1 to 1
            y_axis |= {"rangemode": "tozero", "autorangeoptions": {"include": 0}}
        layout = _layout(270, x_title, y_title, hovermode="x unified", uirevision=f"{name}/{axis}", yaxis=y_axis)
        charts.append((title, {"data": traces, "layout": layout}))
    return charts


def _curve(snapshot: RunView, name: str, axis: str, window: int) -> tuple[Any, Any]:
    steps = snapshot.steps
    if name in ("loss", "accuracy"):
        at = np.array([validation.step for validation in snapshot.validations], np.int64)
        y = np.array([getattr(validation.evaluation, name) for validation in snapshot.validations], np.float64)
        return _places(snapshot, at, axis), y * 100 if name == "accuracy" else y
    column = steps.column("loss" if name == "train_loss" else name)
    rows = thin(column).rows
    y = steps.smoothed("loss", rows, window) if name == "train_loss" else column[rows]
    return _places(snapshot, steps.column("step")[rows], axis), y


def _places(snapshot: RunView, at: Any, axis: str) -> Any:
    if axis == "epoch":
        return at / snapshot.config.steps_per_epoch()
    return snapshot.seconds_at(at.astype(np.int64)) if axis == "time" else at


def varied_settings(rows: Sequence[RunRow]) -> list[str]:
    """Settings in which these runs differ, in the order of the form."""
    configs = [row.config for row in rows if row.config is not None]
    return [name for name in settings() if len({getattr(config, name) for config in configs}) > 1]


def label(name: str) -> str:
    """A setting's or a result's name for an axis."""
    return RESULTS.get(name) or settings()[name].label


def value_of(row: RunRow, name: str) -> Any:
    """A result (accuracies in percent) or a setting of a run; None when unknown."""
    if name in RESULTS:
        value = row.result(name)
        return 100 * value if value is not None and name in _PERCENT else value
    return getattr(row.config, name) if row.config is not None else None


def _is_number(name: str) -> bool:
    return name in RESULTS or field_kind(name) in (int, float)


def _is_logarithmic(values: Sequence[Any]) -> bool:
    """Values that are spread over more than a factor of 20 are told apart better on a logarithmic axis."""
    numbers = [float(value) for value in values if value is not None]
    return bool(numbers) and min(numbers) > 0 and max(numbers) / min(numbers) > 20


def scatter_figure(rows: Sequence[RunRow], x: str, y: str, color: str | None, chosen: Sequence[str]) -> Figure:
    """One point a run: a setting or result against a result; chosen runs are ringed. Runs without the values are left out."""
    known = [row for row in rows if value_of(row, y) is not None and (x in RESULTS) <= (value_of(row, x) is not None)]
    xs = [value_of(row, x) for row in known]
    numeric = _is_number(x) and None not in xs
    ring = {"width": [3 if row.run_id in chosen else 0.5 for row in known], "color": theme.PARENT_RUN}
    marker: Figure = {"size": 9, "opacity": 0.8, "color": _COLORS[0], "line": ring}
    if color is not None:
        marker |= _colored([value_of(row, color) for row in known], color)
    trace = {
        "type": "scatter",
        "mode": "markers",
        "ids": [row.run_id for row in known],
        "marker": marker,
        "x": xs if numeric else [format_value(one) or "none" for one in xs],
        "y": [value_of(row, y) for row in known],
        "text": [_hover(row) for row in known],
        "hovertemplate": "%{text}<extra></extra>",
    }
    axis: Figure = {"type": "category"}
    if numeric:
        axis = {"type": "log", "tickformat": "~g", "dtick": 1} if _is_logarithmic(xs) else {"type": "linear"}
    return {"data": [trace], "layout": _layout(360, label(x), _with_unit(y), xaxis=axis, uirevision=f"{x}/{y}")}


def _with_unit(name: str) -> str:
    return f"{label(name)} (%)" if name in _PERCENT else label(name)


def _colored(values: list[Any], name: str) -> Figure:
    if _is_number(name) and None not in values and len(set(values)) > 1:
        numbers = [math.log10(value) for value in values] if _is_logarithmic(values) else [float(value) for value in values]
        ticks = _ticks(values, _is_logarithmic(values))
        return {
            "color": numbers,
            "colorscale": _SCALE,
            "showscale": True,
            "colorbar": {"title": {"text": label(name), "side": "right"}, "thickness": 12, **ticks},
        }
    kinds = {one: place for place, one in enumerate(dict.fromkeys(values))}
    return {"color": [style(kinds[value])[0] for value in values], "symbol": [_SYMBOLS[kinds[value] % 6] for value in values]}


def _ticks(values: Sequence[Any], logarithmic: bool) -> Figure:
    if not logarithmic:
        return {}
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    powers = list(range(low, high + 1))
    return {"tickvals": powers, "ticktext": [f"{10.0**power:g}" for power in powers]}


def _hover(row: RunRow) -> str:
    # Plotly reads a few tags in hover texts: a person's words are shown as they are.
    parts = [escape(row.title, quote=False)]
    parts += [f"{label(name)}: {text}" for name in RESULTS if (text := result_words(row, name))]
    return "<br>".join([*parts, escape(row.changed, quote=False)[:160]])


def result_words(row: RunRow, name: str) -> str:
    """A result with its unit; "" when it is not known."""
    value = row.result(name)
    if value is None:
        return ""
    return f"{value:.2%}" if name in _PERCENT else f"{value:,.0f}" if name == "images_per_second" else f"{value:,.1f} s"


def parallel_figure(rows: Sequence[RunRow], result: str) -> Figure | None:
    """Parallel coordinates: an axis a setting in which the runs differ, the last one the result, which also gives the colour.
    None when nothing differs or no run has the result."""
    known = [row for row in rows if row.config is not None and value_of(row, result) is not None]
    names = [name for name in varied_settings(known) if name != "seed"][:_MAX_AXES]
    if not names or len(known) < 2:
        return None
    scores = [float(value_of(row, result)) for row in known]
    dimensions = [_dimension(name, [value_of(row, name) for row in known]) for name in names]
    dimensions.append({"label": _with_unit(result), "values": plain_numbers(scores)})
    line = {"color": scores, "colorscale": _SCALE, "showscale": False}
    layout = {"height": 380, "margin": {"l": 110, "r": 60, "t": 64, "b": 24}}
    return {"data": [{"type": "parcoords", "line": line, "dimensions": dimensions, "labelangle": -12}], "layout": layout}


def _dimension(name: str, values: list[Any]) -> Figure:
    if _is_number(name) and None not in values:
        if _is_logarithmic(values):
            ticks = _ticks(values, True)
            powers = [math.log10(value) for value in values]
            return {"label": label(name), "values": powers, "range": [ticks["tickvals"][0], ticks["tickvals"][-1]], **ticks}
        return {"label": label(name), "values": [float(value) for value in values]}
    kinds = sorted({format_value(value) or "none" for value in values})
    return {
        "label": label(name),
        "values": [kinds.index(format_value(value) or "none") for value in values],
        "tickvals": list(range(len(kinds))),
        "ticktext": kinds,
    }


def default_axis(rows: Sequence[RunRow]) -> str:
    """The setting that a scatter begins with: the learning rate where it differs, else the first that does."""
    varied = varied_settings(rows)
    return "learning_rate" if "learning_rate" in varied or not varied else varied[0]


def known_result(rows: Sequence[RunRow]) -> str:
    """The result that most of these runs have."""
    return max(("test_accuracy", "best_accuracy"), key=lambda name: sum(row.result(name) is not None for row in rows))
