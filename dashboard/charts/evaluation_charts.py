"""Figures of one evaluation: the confusion matrix, and the accuracy of each digit."""

import functools

import numpy as np
import plotly.graph_objects as go

from dashboard.charts.run_figures import Drawn, as_drawn

Confusion = tuple[tuple[int, ...], ...]


# A figure takes plotly some 30 ms, and every viewer of a run asks for the same one every second.
@functools.lru_cache(maxsize=64)
def confusion_drawn(confusion: Confusion) -> Drawn:
    """`confusion_figure`, kept."""
    return as_drawn(confusion_figure(confusion))


@functools.lru_cache(maxsize=64)
def per_digit_drawn(confusion: Confusion, unanswered: tuple[int, ...], color: str) -> Drawn:
    """`per_digit_figure`, kept."""
    return as_drawn(per_digit_figure(confusion, unanswered, color))


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
            colorscale=[[0, "rgba(209,73,91,0)"], [1, "rgba(209,73,91,0.8)"]],
            hovertemplate="%{text} times a %{y} was called %{x}<extra></extra>",
        )
    )
    drawn.update_layout(height=380, margin={"l": 40, "r": 10, "t": 10, "b": 40}, font={"size": 11})
    drawn.update_xaxes(title_text="the model said", type="category", showgrid=False)
    drawn.update_yaxes(title_text="it is", type="category", autorange="reversed", showgrid=False)
    return drawn


def per_digit_figure(confusion: Confusion, unanswered: tuple[int, ...], color: str) -> go.Figure:
    """Accuracy of each digit; those without an answer, counted by label, are wrong. `color`: of the split that was scored.

    Dots, not bars: a bar that does not begin at 0 lies about its size, and from 0 to 100 nothing would be seen.
    """
    counts = np.array(confusion)
    totals = np.maximum(counts.sum(1) + unanswered, 1)
    accuracy = 100 * counts.diagonal() / totals
    labels = [f"{one:.1f}" for one in accuracy]
    drawn = go.Figure(
        go.Scatter(
            x=[str(digit) for digit in range(10)],
            y=accuracy,
            mode="markers+text",
            marker={"color": color, "size": 11},
            text=labels,
            textposition="top center",
            meta="page-text",
            customdata=totals,
            hovertemplate="%{x}: %{y:.2f} % of %{customdata} right<extra></extra>",
        )
    )
    lowest = max(0.0, float(accuracy.min()) - 5) if accuracy.min() > 50 else 0.0
    drawn.update_layout(height=380, margin={"l": 50, "r": 10, "t": 10, "b": 40})
    drawn.update_xaxes(title_text="digit", type="category")
    drawn.update_yaxes(title_text="correct (%)", range=[lowest, 101])
    return drawn
