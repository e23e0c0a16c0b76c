"""Groups of seeds as figures: the mean of their curves, each run as a thin line, results as dots. No Streamlit here."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from core.runs.groups import Group
from core.runs.noise import mean_interval, spread_of_test
from core.runs.reader import RunView
from dashboard import theme
from dashboard.charts.figures import Figure, figure_layout, plain_numbers

_STYLES = ((theme.VALIDATION, "solid", "circle"), ("#5b5fc7", "dash", "diamond"))
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NamedGroup:
    """A group with its words, and the recorded runs of it that can be read."""

    name: str
    group: Group
    views: Sequence[RunView]


def curves_figure(groups: Sequence[NamedGroup]) -> Figure:
    """Validation accuracy over steps: of each group the mean, a band of one standard deviation around it, and every run."""
    traces = []
    for named, (color, dash, _) in zip(groups, _STYLES, strict=False):
        curves = [curve_of(view) for view in named.views]
        name = escape(named.name, quote=False)
        for steps, accuracy in curves:
            traces.append(
                {
                    "type": "scatter",
                    "x": plain_numbers(steps),
                    "y": plain_numbers(100 * accuracy),
                    "mode": "lines" if len(steps) > 1 else "markers",
                    "line": {"color": color, "width": 1, "dash": dash},
                    "marker": {"color": color, "size": 4},
                    "opacity": 0.45,
                    "showlegend": False,
                    "hoverinfo": "skip",
                }
            )
        steps, mean, spread = mean_curve(curves)
        if len(curves) > 1 and len(steps):
            around = np.concatenate([mean - spread, (mean + spread)[::-1]])
            traces.append(
                {
                    "type": "scatter",
                    "x": plain_numbers(np.concatenate([steps, steps[::-1]])),
                    "y": plain_numbers(100 * around),
                    "mode": "lines",
                    "fill": "toself",
                    "fillcolor": color,
                    "opacity": 0.18,
                    "line": {"width": 0},
                    "showlegend": False,
                    "hoverinfo": "skip",
                }
            )
        words = f"{name}: mean of {len(curves)}" if len(curves) > 1 else f"{name}: one run"
        traces.append(
            {
                "type": "scatter",
                "name": words,
                "x": plain_numbers(steps),
                "y": plain_numbers(100 * mean),
                "mode": "lines+markers",
                "line": {"color": color, "width": 2.5, "dash": dash},
                "marker": {"color": color, "size": 5},
                "customdata": plain_numbers(100 * spread),
                "hovertemplate": "%{y:.2f} % ± %{customdata:.2f}",
            }
        )
    return {"data": traces, "layout": figure_layout(300, "step", "validation digits right (%)", showlegend=True)}


def curve_of(view: RunView) -> tuple[Floats, Floats]:
    """(steps, validation accuracies in [0, 1]) of a run."""
    return (
        np.array([validated.step for validated in view.validations], np.float64),
        np.array([validated.evaluation.accuracy for validated in view.validations], np.float64),
    )


def mean_curve(curves: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats, Floats]:
    """(steps, mean, standard deviation) of the runs that were scored at a step: one that stopped early leaves the mean."""
    at: dict[float, list[float]] = {}
    for steps, accuracy in curves:
        for step, value in zip(steps.tolist(), accuracy.tolist(), strict=True):
            at.setdefault(step, []).append(value)
    # Where a single run of several was scored, the mean would jump to it.
    least = min(2, len(curves))
    kept = sorted(step for step, values in at.items() if len(values) >= least)
    mean = np.array([np.mean(at[step]) for step in kept], np.float64)
    spread = np.array([np.std(at[step], ddof=1) if len(at[step]) > 1 else 0.0 for step in kept], np.float64)
    return np.array(kept, np.float64), mean, spread


def scores_figure(groups: Sequence[NamedGroup]) -> Figure:
    """The test accuracy of each run as a dot, and the interval of each group: of its mean, or of one run by its digits."""
    traces = []
    for place, (named, (color, _, symbol)) in enumerate(zip(groups, _STYLES, strict=False)):
        scores = named.group.scores
        if not scores:
            continue
        low, high = mean_interval(scores, named.group.test_size)
        middle = float(np.mean(scores))
        traces.append(
            {
                "type": "scatter",
                "x": plain_numbers([100 * middle]),
                "y": [place],
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": plain_numbers([100 * (high - middle)]),
                    "arrayminus": plain_numbers([100 * (middle - low)]),
                    "color": color,
                    "thickness": 2,
                    "width": 8,
                },
                "mode": "markers",
                "marker": {"symbol": "line-ns", "size": 18, "color": color, "line": {"width": 3, "color": color}},
                "hovertemplate": f"mean %{{x:.3f}} %, {100 * low:.2f} to {100 * high:.2f} %<extra></extra>",
            }
        )
        lift = [place - 0.22 - 0.09 * (number % 3) for number in range(len(scores))]
        traces.append(
            {
                "type": "scatter",
                "x": plain_numbers([100 * score for score in scores]),
                "y": lift,
                "mode": "markers",
                "marker": {"symbol": symbol, "size": 9, "color": color, "opacity": 0.75},
                "text": [escape(row.title, quote=False) for row in named.group.runs if row.info.test_accuracy is not None],
                "hovertemplate": "%{text}: %{x:.2f} %<extra></extra>",
            }
        )
    labels = [escape(named.name, quote=False)[:40] for named in groups]
    axis = {"tickvals": list(range(len(groups))), "ticktext": labels, "range": [len(groups) - 0.6, -0.6], "automargin": True}
    layout = figure_layout(
        90 + 80 * len(groups), "test digits right (%)", "", yaxis=axis, showlegend=False, hovermode="closest"
    )
    layout["margin"] |= {"t": 10, "l": 10}
    return {"data": traces, "layout": layout}


def spread_words(group: Group) -> str:
    """What the results of a group are, and how far a single one could lie off, in words."""
    scores, size = group.scores, group.test_size
    if not scores:
        return "No run of these settings has been scored on the test digits yet."
    if len(scores) == 1:
        low, high = spread_of_test(scores[0], size)
        return (
            f"One run: {100 * scores[0]:.2f} % of {size:,} test digits. So few digits tell an accuracy from {100 * low:.2f} to "
            f"{100 * high:.2f} % only; what another seed would give, a second run tells."
        )
    low, high = mean_interval(scores, size)
    return (
        f"{len(scores)} seeds: {100 * float(np.mean(scores)):.2f} % on average (from {100 * min(scores):.2f} to "
        f"{100 * max(scores):.2f} %, standard deviation {100 * float(np.std(scores, ddof=1)):.2f}); the mean of all seeds lies "
        f"between {100 * low:.2f} and {100 * high:.2f} %."
    )
