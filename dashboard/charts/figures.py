"""What all figures share: ten digits, heat, legend, layout, and numbers as JSON can carry them. No Streamlit here."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Figure = dict[str, Any]
TEN_DIGITS = [str(digit) for digit in range(10)]
LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
HEAT = [[0, "rgba(18,160,122,0)"], [1, "rgba(18,160,122,1)"]]


def figure_layout(height: int, x_title: str, y_title: str, **more: Any) -> Figure:
    """A layout with axis titles, margins and a legend above."""
    return {
        "height": height,
        "margin": {"l": 54, "r": 12, "t": 34, "b": 42},
        "legend": LEGEND,
        "hovermode": "x unified",
        "xaxis": {"title": {"text": x_title, "standoff": 6}, **more.pop("xaxis", {})},
        "yaxis": {"title": {"text": y_title, "standoff": 6}, **more.pop("yaxis", {})},
        **more,
    }


def line_trace(
    name: str,
    x: Sequence[Any] | npt.NDArray[Any],
    y: Sequence[Any] | npt.NDArray[Any],
    color: str,
    dash: str = "solid",
    **more: Any,
) -> Figure:
    """A line with markers."""
    style = {"mode": "lines+markers", "line": {"color": color, "dash": dash, "width": 2}, "marker": {"color": color, "size": 6}}
    return {"type": "scatter", "name": name, "x": plain_numbers(x), "y": plain_numbers(y), **style, **more}


def plain_numbers(values: Sequence[Any] | npt.NDArray[Any]) -> list[Any]:
    """Numbers for JSON: six significant digits, null for what is not finite."""
    given = values.tolist() if isinstance(values, np.ndarray) else values
    return [(float(f"{one:.6g}") if np.isfinite(one) else None) if isinstance(one, float) else one for one in given]


def in_percent(values: Sequence[float | None]) -> list[float | None]:
    """Shares in [0, 1] as per cent; None stays None."""
    return [None if value is None else round(100 * value, 3) for value in values]
