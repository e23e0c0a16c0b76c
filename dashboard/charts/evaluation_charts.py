"""Figures of one evaluation: the confusion matrix, and the accuracy of each digit. Plain JSON, which takes no time to make."""

import numpy as np

from dashboard.charts.figures import TEN_DIGITS, Figure

Confusion = tuple[tuple[int, ...], ...]


def confusion_figure(confusion: Confusion) -> Figure:
    """Ten rows (what it is) by ten columns (what the model said); the diagonal is right and left uncoloured."""
    counts = np.array(confusion)
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    heat = {
        "type": "heatmap",
        "z": wrong.tolist(),
        "x": TEN_DIGITS,
        "y": TEN_DIGITS,
        "text": counts.tolist(),
        "texttemplate": "%{text}",
        "meta": "page-text",
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "colorscale": [[0, "rgba(209,73,91,0)"], [1, "rgba(209,73,91,0.8)"]],
        "hovertemplate": "%{text} times a %{y} was called %{x}<extra></extra>",
    }
    axis = {"type": "category", "showgrid": False}
    return {
        "data": [heat],
        "layout": {
            "height": 380,
            "margin": {"l": 40, "r": 10, "t": 10, "b": 40},
            "font": {"size": 11},
            "xaxis": {"title": {"text": "the model said"}, **axis},
            "yaxis": {"title": {"text": "it is"}, "autorange": "reversed", **axis},
        },
    }


def per_digit_figure(confusion: Confusion, unanswered: tuple[int, ...], color: str) -> Figure:
    """Accuracy of each digit; those without an answer, counted by label, are wrong. `color`: of the split that was scored.

    Dots, not bars: a bar that does not begin at 0 lies about its size, and from 0 to 100 nothing would be seen.
    """
    counts = np.array(confusion)
    totals = np.maximum(counts.sum(1) + unanswered, 1)
    accuracy = 100 * counts.diagonal() / totals
    dots = {
        "type": "scatter",
        "x": TEN_DIGITS,
        "y": accuracy.tolist(),
        "mode": "markers+text",
        "marker": {"color": color, "size": 11},
        "text": [f"{one:.1f}" for one in accuracy],
        "textposition": "top center",
        "meta": "page-text",
        "customdata": totals.tolist(),
        "hovertemplate": "%{x}: %{y:.2f} % of %{customdata} right<extra></extra>",
    }
    lowest = max(0.0, float(accuracy.min()) - 5) if accuracy.min() > 50 else 0.0
    return {
        "data": [dots],
        "layout": {
            "height": 380,
            "margin": {"l": 50, "r": 10, "t": 10, "b": 40},
            "xaxis": {"title": {"text": "digit"}, "type": "category"},
            "yaxis": {"title": {"text": "correct (%)"}, "range": [lowest, 101]},
        },
    }
