"""Answers -> plotly figures for the Draw page. No Streamlit here."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.answers import NO_ANSWER
from core.insight.attribution import SHIFT_REACH, ShiftMap
from core.insight.time_travel import Travel
from core.model.predictor import Prediction
from core.runs.reader import RunView
from dashboard import theme
from dashboard.charts.figures import HEAT, LEGEND, TEN_DIGITS


def probability_figure(
    in_eval: Prediction, in_train: Sequence[Prediction] = (), second: tuple[str, Prediction] | None = None
) -> dict[str, Any]:
    """Ten bars of the eval mode's answer; beside them those of train mode, with the range of several passes, and those of a
    second model in eval mode, with its name.

    A plain figure in plotly's JSON form: a go.Figure takes 20 ms to build, at every stroke.
    """
    traces = [_bars("this model" if second else "eval mode", in_eval.probabilities, theme.EVAL_MODE)]
    if in_train:
        traces.append(_train_bars(in_train))
    if second:
        traces.append(_bars(second[0], second[1].probabilities, theme.SECOND_MODEL, pattern="x"))
    for place, bars in enumerate(traces[1:], 1):
        # Two equal labels would stand on top of each other on a narrow screen.
        labels = [traces[one]["text"] for one in range(place)]
        if bars["text"]:
            bars["text"] = [
                label if all(not known or known[digit] != label for known in labels) else ""
                for digit, label in enumerate(bars["text"])
            ]
    layout = {
        "height": 200,
        "margin": {"l": 44, "r": 8, "t": 26, "b": 30},
        "barmode": "group",
        "bargap": 0.25,
        "showlegend": len(traces) > 1,
        "legend": LEGEND,
        "xaxis": {"type": "category", "showgrid": False, "fixedrange": True},
        "yaxis": {"range": [0, 115], "tickvals": [0, 50, 100], "title": {"text": "probability (%)"}, "fixedrange": True},
    }
    return {"data": traces, "layout": layout}


def _train_bars(in_train: Sequence[Prediction]) -> dict[str, Any]:
    passes = 100 * np.stack([one.probabilities for one in in_train]).astype(np.float64)
    mean = passes.mean(0)
    bars = _bars("train mode", mean / 100, theme.TRAIN_MODE, pattern="/")
    if len(passes) > 1:
        bars["text"] = None  # a number over a bar would stand in the middle of its range
        bars["error_y"] = {
            "type": "data",
            "array": (passes.max(0) - mean).round(3).tolist(),
            "arrayminus": (mean - passes.min(0)).round(3).tolist(),
            "symmetric": False,
            "thickness": 1,
            "width": 3,
        }
    return bars


def _bars(name: str, probabilities: npt.NDArray[np.floating[Any]], color: str, pattern: str = "") -> dict[str, Any]:
    percent = 100 * probabilities.astype(np.float64)
    # 99.97 is not 100: nothing is rounded up to certainty.
    labels = [
        ("" if not value >= 0.5 else f"{value:.0f}" if not 99.5 <= value < 100 else f"{math.floor(10 * value) / 10:.1f}")
        for value in percent.tolist()
    ]
    return {
        "type": "bar",
        "x": TEN_DIGITS,
        "y": percent.round(3).tolist(),
        "name": name,
        "text": labels,
        "marker": {"color": color, "pattern": {"shape": pattern}},
        "textposition": "outside",
        "cliponaxis": False,
        "textfont": {"size": 11},
        "meta": "page-text",
        "hovertemplate": "%{x}: %{y:.2f} %<extra>" + name + "</extra>",
    }


def shift_figure(shifts: ShiftMap, digit: int) -> go.Figure:
    """11 x 11 answers, each where the image was moved to; its colour is the probability of the answer in the middle."""
    places = list(range(-SHIFT_REACH, SHIFT_REACH + 1))
    drawn = go.Figure(
        go.Heatmap(
            z=100 * shifts.probability,
            x=places,
            y=places,
            text=shifts.digits,
            texttemplate="%{text}",
            meta="page-text",
            colorscale=HEAT,
            zmin=0,
            zmax=100,
            showscale=False,
            xgap=1,
            ygap=1,
            hovertemplate=f"moved by %{{x}} px right, %{{y}} px down: answer %{{text}}, {digit} has "
            "%{z:.1f} %<extra></extra>",
        )
    )
    drawn.update_layout(height=330, margin={"l": 44, "r": 8, "t": 8, "b": 40}, font={"size": 11})
    drawn.update_xaxes(title_text="moved right (px)", showgrid=False, zeroline=False, dtick=1, fixedrange=True)
    drawn.update_yaxes(
        title_text="moved down (px)", autorange="reversed", showgrid=False, zeroline=False, dtick=1, fixedrange=True
    )
    return drawn


def travel_figure(travel: Travel, image: int = 0) -> go.Figure:
    """A drawing through training: above, ten digits by snapshots; below, the bars of one of them, with slider and play."""
    steps = [f"{step:,}" for step in travel.steps]
    percent = 100 * travel.probabilities[:, image].astype(np.float64)
    drawn = make_subplots(rows=2, cols=1, row_heights=[0.58, 0.42], vertical_spacing=0.17)
    drawn.add_trace(
        go.Heatmap(
            z=percent.T,
            x=steps,
            y=TEN_DIGITS,
            colorscale=HEAT,
            zmin=0,
            zmax=100,
            showscale=False,
            xgap=1,
            ygap=1,
            hovertemplate="after step %{x}: %{y} has %{z:.1f} %<extra></extra>",
        ),
        1,
        1,
    )
    answers = travel.answers[:, image]
    drawn.add_trace(
        go.Scatter(
            x=steps,
            y=[str(answer) if answer != NO_ANSWER else None for answer in answers],
            mode="markers+lines",
            line={"color": theme.PARENT_RUN, "width": 1, "shape": "hv"},
            marker={"symbol": "circle-open", "size": 7, "color": theme.PARENT_RUN},
            hoverinfo="skip",
        ),
        1,
        1,
    )
    last = len(steps) - 1
    drawn.add_trace(_marker(steps[last]), 1, 1)
    drawn.add_trace(_bars("", percent[last] / 100, theme.EVAL_MODE), 2, 1)
    drawn.frames = [
        go.Frame(name=step, data=[_marker(step), _bars("", shares / 100, theme.EVAL_MODE)], traces=[2, 3])
        for step, shares in zip(steps, percent, strict=True)
    ]
    still = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    play = {"fromcurrent": True, "frame": {"duration": 350, "redraw": True}, "transition": {"duration": 0}}
    drawn.update_layout(
        height=560,
        margin={"l": 44, "r": 12, "t": 10, "b": 150},
        showlegend=False,
        sliders=[
            {
                "active": last,
                "x": 0,
                "len": 1,
                "y": -0.06,
                "currentvalue": {"prefix": "after step "},
                "steps": [{"label": step, "method": "animate", "args": [[step], still]} for step in steps],
            }
        ],
        updatemenus=[
            {
                "type": "buttons",
                "direction": "left",
                "x": 0,
                "xanchor": "left",
                "y": -0.36,
                "yanchor": "top",
                "showactive": False,
                "pad": {"t": 0},
                "buttons": [
                    {"label": "Play", "method": "animate", "args": [None, play]},
                    {"label": "Pause", "method": "animate", "args": [[None], still]},
                ],
            }
        ],
    )
    drawn.update_xaxes(type="category", showgrid=False, row=1, col=1, nticks=12, title_text="after step", title_standoff=2)
    drawn.update_xaxes(type="category", showgrid=False, row=2, col=1)
    drawn.update_yaxes(type="category", categoryorder="array", categoryarray=TEN_DIGITS[::-1], showgrid=False, row=1, col=1)
    drawn.update_yaxes(range=[0, 115], tickvals=[0, 50, 100], title_text="%", row=2, col=1)
    return drawn


def _marker(step: str) -> go.Scatter:
    return go.Scatter(
        x=[step, step], y=["0", "9"], mode="lines", line={"color": theme.TRAIN_MODE, "width": 2}, hoverinfo="skip"
    )


def own_test_figure(snapshot: RunView, travel: Travel, labels: Sequence[int]) -> go.Figure:
    """The accuracy on a person's own drawings over a run, beside validation and train accuracy."""
    right = (travel.answers == np.array(labels)).mean(1)
    drawn = go.Figure()
    count = len(snapshot.steps)
    if count:
        rows = np.unique(np.linspace(0, count - 1, 200).astype(np.int64))
        drawn.add_trace(
            go.Scatter(
                x=rows + 1,
                y=100 * snapshot.steps.smoothed("accuracy", rows, 50),
                name="train, 50 steps",
                mode="lines",
                line={"color": theme.TRAIN, "width": 1.5},
            )
        )
    validations = snapshot.validations
    drawn.add_trace(
        go.Scatter(
            x=[validation.step for validation in validations],
            y=[100 * validation.evaluation.accuracy for validation in validations],
            name="validation",
            mode="lines+markers",
            line={"color": theme.VALIDATION, "dash": "dash"},
            marker={"symbol": "diamond"},
        )
    )
    drawn.add_trace(
        go.Scatter(
            x=travel.steps,
            y=100 * right,
            name="my drawings",
            mode="lines+markers",
            line={"color": theme.TEST, "width": 2, "shape": "hv"},
            marker={"symbol": "square"},
            hovertemplate="%{y:.0f} % right",
        )
    )
    drawn.update_layout(height=260, margin={"l": 50, "r": 10, "t": 30, "b": 40}, hovermode="x unified", legend=LEGEND)
    drawn.update_xaxes(title_text="step")
    drawn.update_yaxes(title_text="correct (%)", range=[-2, 102])
    return drawn
