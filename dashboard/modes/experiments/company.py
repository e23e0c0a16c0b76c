"""Does it matter who else is in the batch?"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import streamlit as st

from core.drawing.pins import as_digits, load_pins
from core.model.predictor import Prediction
from core.modes.batch_size import SIZES
from core.modes.company import MatesRow, beside_mates
from core.modes.copies import some_digits
from core.status import Progress
from dashboard import theme
from dashboard.charts.figures import HEAT, TEN_DIGITS, Figure, in_percent
from dashboard.charts.live_chart import plot
from dashboard.modes.code import BATCHNORM_IN_TRAIN_MODE, head_lines
from dashboard.modes.lab import Experiment, Lab, Params, choose_digit, percent
from dashboard.shell import pictures
from dashboard.shell.policy_session import pins_root

_COMPANY_DIGITS = 100


def _controls(lab: Lab) -> Params:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = choose_digit(lab)
        size = st.select_slider("Batch size", SIZES[1:8], 16, key="m_company_size", bind="query-params", width=220)
        other = st.selectbox("“One class” is", range(10), 1, key="m_class", bind="query-params", width=120)
    drawings = as_digits(load_pins(pins_root())).images[:, 0]
    return {"place": place, "size": size, "other": other, "_drawings": drawings}


def _work(lab: Lab, params: Params) -> Iterator[Progress | tuple[MatesRow, ...]]:
    place, drawings = params["place"], params["_drawings"]
    return beside_mates(
        lab.predictor.model,
        some_digits(lab.test, _COMPANY_DIGITS),
        lab.test.take(np.array([place])),
        size=params["size"],
        other=params["other"],
        drawings=drawings,
    )


def _show(lab: Lab, params: Params, rows: tuple[MatesRow, ...]) -> str:
    place = params["place"]
    left, right = st.columns([1, 6])
    with left:
        st.html(
            pictures.figure(
                lab.test.images[place, 0], f"a {lab.test.labels[place]}", f"The digit looked at, a {lab.test.labels[place]}", 96
            )
        )
    with right:
        plot(
            company_figure(rows, params["other"]),
            key="m_company",
            alt="The ten probabilities of one image in different company, and the accuracy over many digits",
        )
    if all(row.mates != "drawings" for row in rows):
        st.caption("Pin a drawing on the Draw page, and your drawings appear here as company, too.")
    return sentence(params, rows)


def sentence(params: Params, rows: Sequence[MatesRow]) -> str:
    """What the rows say, whatever they are."""
    if len(rows) < 2:
        return ""  # only eval mode, which has no company, is measured yet
    called = sorted(
        {
            str(one.digit) if one.is_answer else "nothing"
            for one in (Prediction(row.probabilities, row.probabilities) for row in rows)
        }
    )
    least, count = min(rows[1:], key=lambda row: row.accuracy), params["size"] - 1
    companions = f"{count} such companion{'s' if count != 1 else ''}"
    words = (
        f"One image, one model, {len(rows)} kinds of company: it is called {' or '.join(called)}. On the right, each of "
        f"{_COMPANY_DIGITS} digits in turn with {companions}: **{percent(rows[0].accuracy, _COMPANY_DIGITS)}** "
        "in eval mode, "
        f"**{percent(least.accuracy, _COMPANY_DIGITS)}** beside {MATES_WORDS[least.mates]}. "
    )
    if rows[0].accuracy - least.accuracy < 0.03:  # of a hundred digits
        return words + "This model hardly minds its company."
    return words + (
        "In train mode BatchNorm subtracts what a batch has in common. Where all are alike, that is the "
        "very shape that tells the class; one image not divided by 255 leaves the others nothing."
    )


MATES_WORDS = {
    "eval": "eval mode",
    "mixed": "shuffled digits",
    "own_class": "its own class (sorted)",
    "one_class": "one class",
    "outlier": "shuffled, one outlier",
    "blank": "blank images",
    "drawings": "my drawings",
}


def company_figure(rows: Sequence[MatesRow], other: int) -> Figure:
    """Ten probabilities of one image for each company, and beside it the accuracy over many digits."""
    labels = [f"{MATES_WORDS[row.mates]} ({other}s)" if row.mates == "one_class" else MATES_WORDS[row.mates] for row in rows]
    percent = [in_percent(row.probabilities.astype(float).tolist()) for row in rows]
    heat = {
        "type": "heatmap",
        "z": percent,
        "x": TEN_DIGITS,
        "y": labels,
        "colorscale": HEAT,
        "zmin": 0,
        "zmax": 100,
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "texttemplate": "%{z:.0f}",
        "meta": "page-text",
        "hovertemplate": "%{y}: %{x} has %{z:.1f} %<extra></extra>",
    }
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": labels,
        "x": in_percent([row.accuracy for row in rows]),
        "xaxis": "x2",
        "yaxis": "y2",
        "marker": {"color": [theme.EVAL_MODE if row.mates == "eval" else theme.TRAIN_MODE for row in rows]},
        "text": [f"{row.accuracy:.0%}" for row in rows],
        "textposition": "auto",
        "insidetextanchor": "start",
        "textfont": {"color": "#ffffff"},
        "outsidetextfont": {"color": theme.PARENT_RUN},
        "hovertemplate": "%{y}: %{x:.1f} % of the digits right<extra></extra>",
    }
    still = {"fixedrange": True, "showgrid": False}
    layout = {
        "height": 90 + 34 * len(rows),
        "margin": {"l": 8, "r": 8, "t": 8, "b": 42},
        "showlegend": False,
        "xaxis": {"domain": [0, 0.66], "type": "category", "title": {"text": "this image (%)"}, **still},
        "yaxis": {"automargin": True, "autorange": "reversed", **still},
        "xaxis2": {"domain": [0.7, 1], "range": [0, 100], "title": {"text": "all (%)"}, "anchor": "y2", **still},
        "yaxis2": {"showticklabels": False, "autorange": "reversed", "anchor": "x2", **still},
    }
    return {"data": [heat, bars], "layout": layout}


def pytorch_lines(lab: "Lab", params: dict[str, Any]) -> str:
    """One image beside different batch mates."""
    return (
        head_lines(lab)
        + f"""
from core.drawing.pins import as_digits, load_pins
from core.modes.batch_mates import batch_mates  # the page's batch mates, already normalised

image, label = images[{params["place"]} : {params["place"]} + 1], labels[{params["place"]}].item()
{BATCHNORM_IN_TRAIN_MODE}
pool = some_digits(digits, {_COMPANY_DIGITS})
drawings = as_digits(load_pins(Path({str(pins_root())!r}))).images[:, 0]  # those pinned on the Draw page
mates = {{
    name: torch.from_numpy(batch_mates(kind, {params["size"] - 1}, pool, label=of, drawings=drawings))
    for name, kind, of in (
        ("mixed", "mixed", 0),
        ("own_class", "one_class", label),
        ("one_class", "one_class", {params["other"]}),
        ("outlier", "mixed", 0),
        ("blank", "blank", 0),
        ("drawings", "drawings", 0),
    )
    if kind != "drawings" or len(drawings)
}}
outlier = mates["outlier"][:1]
outlier[:] = ((outlier * 0.3081 + 0.1307) * 255 - 0.1307) / 0.3081  # pixels from 0 to 255, never divided
with torch.no_grad():
    print("eval:", model(image)[0].softmax(0).tolist())
    for name, others in mates.items():
        print(f"{{name}}:", copied(torch.cat([image, others]))[0].softmax(0).tolist())
"""
    )


COMPANY = Experiment("Company", "Does it matter who else is in the batch?", "batchnorm", _controls, _work, _show, pytorch_lines)
