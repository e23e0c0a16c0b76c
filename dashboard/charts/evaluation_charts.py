"""Figures of one evaluation: the confusion matrix, and the accuracy of each digit."""

import functools

import numpy as np
import plotly.graph_objects as go

from dashboard import theme
from dashboard.charts.run_charts import Drawn, as_drawn

Confusion = tuple[tuple[int, ...], ...]


# A figure takes plotly some 30 ms, and every viewer of a run asks for the same one every second.
@functools.lru_cache(maxsize=64)
def confusion_drawn(confusion: Confusion) -> Drawn:
    """`confusion_figure`, kept."""
    return as_drawn(confusion_figure(confusion))


@functools.lru_cache(maxsize=64)
def per_digit_drawn(confusion: Confusion, unanswered: tuple[int, ...]) -> Drawn:
    """`per_digit_figure`, kept."""
    return as_drawn(per_digit_figure(confusion, unanswered))


def confusion_figure(confusion: Confusion) -> go.Figure:
    """Ten rows (what it is) by ten columns (what the model said); the diagonal is right and left uncoloured."""
    counts = np.array(confusion)
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    digits = [str(digit) for digit in range(10)]
    drawn = go.Figure(
        go.Heatmap(
            z=wrong,
            x=digits,
            y=digits,
            text=counts,
            texttemplate="%{text}",
            meta="page-text",
            showscale=False,
            xgap=1,
            ygap=1,
            colorscale=[[0, "rgba(224,138,0,0)"], [1, "rgba(224,138,0,0.8)"]],
            hovertemplate="%{text} times a %{y} was called %{x}<extra></extra>",
        )
    )
    drawn.update_layout(height=380, margin={"l": 40, "r": 10, "t": 10, "b": 40}, font={"size": 11})
    drawn.update_xaxes(title_text="the model said", type="category", showgrid=False)
    drawn.update_yaxes(title_text="it is", type="category", autorange="reversed", showgrid=False)
    return drawn


def per_digit_figure(confusion: Confusion, unanswered: tuple[int, ...]) -> go.Figure:
    """Accuracy of each digit; those without an answer, counted by label, are wrong."""
    counts = np.array(confusion)
    totals = np.maximum(counts.sum(1) + unanswered, 1)
    accuracy = 100 * counts.diagonal() / totals
    labels = [f"{one:.1f}" for one in accuracy]
    drawn = go.Figure(
        go.Bar(
            x=[str(digit) for digit in range(10)],
            y=accuracy,
            marker_color=theme.VALIDATION,
            text=labels,
            customdata=totals,
            hovertemplate="%{x}: %{y:.2f} % of %{customdata} right<extra></extra>",
        )
    )
    lowest = max(0.0, float(accuracy.min()) - 5) if accuracy.min() > 50 else 0.0
    drawn.update_layout(height=380, margin={"l": 50, "r": 10, "t": 10, "b": 40})
    drawn.update_xaxes(title_text="digit", type="category")
    drawn.update_yaxes(title_text="correct (%)", range=[lowest, 100.5])
    return drawn
