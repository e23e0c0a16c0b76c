"""Where a run's time goes, as bars from zero. No Streamlit here."""

from core.runs.speed import PART_WORDS, PARTS, TimeSpent
from dashboard import theme
from dashboard.charts.figures import Figure


def time_figure(spent: TimeSpent) -> Figure:
    """A bar for each part of the time, with its share and what a digit took of it."""
    shares = {part: 100 * spent.share(part) for part in PARTS}
    each = {part: 1e6 * spent.parts[part] / max(1, spent.images) for part in PARTS}
    colors = {"data": theme.PROBLEM, "validation": theme.VALIDATION}
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "x": [round(shares[part], 2) for part in PARTS],
                "y": [PART_WORDS[part] for part in PARTS],
                "text": [f"{shares[part]:.1f} % · {each[part]:,.0f} µs a digit" for part in PARTS],
                "textposition": "outside",
                "cliponaxis": False,
                "meta": "page-text",
                "marker": {"color": [colors.get(part, theme.TRAIN) for part in PARTS]},
                "hovertemplate": "%{y}: %{text}<extra></extra>",
            }
        ],
        "layout": {
            "height": 30 * len(PARTS) + 50,
            "margin": {"l": 10, "r": 150, "t": 6, "b": 36},
            "showlegend": False,
            "xaxis": {"title": {"text": "share of the time (%)", "standoff": 4}, "rangemode": "tozero"},
            "yaxis": {"autorange": "reversed", "automargin": True},
        },
    }
