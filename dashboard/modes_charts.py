"""Train/eval experiments -> plotly figures in JSON form. No Streamlit here."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from core.batch_statistics import LayerInside, PoisonScore
from core.dropout_passes import DropoutPasses
from core.mode_gap import GapPoint
from core.mode_scores import CompanyRow, OneSwitch, SizeScore
from core.shift import ShiftScore
from core.twin_trainings import TwinLosses, TwinScore, WarmUpStep
from dashboard import theme

Figure = dict[str, Any]
_DIGITS = [str(digit) for digit in range(10)]
_LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
_HEAT = [[0, "rgba(18,160,122,0)"], [1, "rgba(18,160,122,1)"]]
COMPANION_WORDS = {
    "eval": "eval mode", "mixed": "shuffled digits", "own_class": "its own class (sorted)", "one_class": "one class",
    "outlier": "shuffled, one outlier", "blank": "blank images", "drawings": "my drawings",
}  # fmt: skip


def _layout(height: int, x_title: str, y_title: str, **more: Any) -> Figure:
    return {
        "height": height, "margin": {"l": 54, "r": 12, "t": 34, "b": 42}, "legend": _LEGEND, "hovermode": "x unified",
        "xaxis": {"title": {"text": x_title, "standoff": 6}, **more.pop("xaxis", {})},
        "yaxis": {"title": {"text": y_title, "standoff": 6}, **more.pop("yaxis", {})}, **more,
    }  # fmt: skip


def _line(name: str, x: Sequence[Any] | npt.NDArray[Any], y: Sequence[Any] | npt.NDArray[Any], color: str,
          dash: str = "solid", **more: Any) -> Figure:  # fmt: skip
    style = {"mode": "lines+markers", "line": {"color": color, "dash": dash, "width": 2}, "marker": {"color": color, "size": 6}}
    return {"type": "scatter", "name": name, "x": _plain(x), "y": _plain(y), **style, **more}


def _plain(values: Sequence[Any] | npt.NDArray[Any]) -> list[Any]:
    """Numbers for JSON: six significant digits, null for what is not finite."""
    given = values.tolist() if isinstance(values, np.ndarray) else values
    return [
        (float(f"{one:.6g}") if np.isfinite(one) else None) if isinstance(one, float) else one for one in given
    ]  # fmt: skip


def _percent(values: Sequence[float | None]) -> list[float | None]:
    return [None if one is None else round(100 * one, 3) for one in values]


def one_switch_figure(found: OneSwitch, has_both: bool) -> Figure:
    """Accuracy in eval mode, in train mode, and with one kind of layer switched."""
    rows = [("eval mode", found.eval, theme.EVAL_MODE, ""), ("train mode", found.train, theme.TRAIN_MODE, "")]
    if has_both:
        rows += [("only BatchNorm in train mode", found.batchnorm, theme.TRAIN_MODE, "/"),
                 ("only Dropout in train mode", found.dropout, theme.TRAIN_MODE, ".")]  # fmt: skip
    rows.reverse()
    bars = {
        "type": "bar", "orientation": "h", "y": [row[0] for row in rows], "x": _percent([row[1].accuracy for row in rows]),
        "text": [f"{row[1].accuracy:.2%} · loss {row[1].loss:.3f}" for row in rows], "textposition": "auto",
        "insidetextanchor": "start", "textfont": {"color": "#ffffff", "size": 13}, "cliponaxis": False,
        "marker": {"color": [row[2] for row in rows],
                   "pattern": {"shape": [row[3] for row in rows], "fillmode": "overlay", "solidity": 0.15}},
        "hovertemplate": "%{y}: %{x:.2f} % correct<extra></extra>",
    }  # fmt: skip
    layout = _layout(56 + 44 * len(rows), "correct (%)", "", xaxis={"range": [0, 100.5], "fixedrange": True},
                     yaxis={"automargin": True, "fixedrange": True}, hovermode="closest", showlegend=False)  # fmt: skip
    layout["margin"] |= {"t": 6, "l": 8}
    return {"data": [bars], "layout": layout}


def batch_size_figure(in_eval: float, scores: Sequence[SizeScore], with_dropout: bool) -> Figure:
    """Accuracy over batch sizes, on a logarithmic axis."""
    scores = sorted(scores, key=lambda one: one.size)
    sizes = [one.size for one in scores]
    ends = [1, 512]
    data = [
        _line("eval mode", ends, _percent([in_eval] * 2), theme.EVAL_MODE, "dash", mode="lines",
              hovertemplate="%{y:.2f} %"),
        _line("train mode", sizes, _percent([one.train for one in scores]), theme.TRAIN_MODE, hovertemplate="%{y:.2f} %"),
    ]  # fmt: skip
    if with_dropout:
        only = _percent([one.batchnorm for one in scores])
        data.append(_line("only BatchNorm in train mode", sizes, only, theme.TRAIN_MODE, "dot", hovertemplate="%{y:.2f} %",
                          marker={"symbol": "diamond-open", "size": 8, "color": theme.TRAIN_MODE}))  # fmt: skip
    axis = {"type": "log", "tickvals": [2**power for power in range(10)], "range": [-0.1, 2.8]}
    return {"data": data, "layout": _layout(340, "batch size", "correct (%)", xaxis=axis)}


def company_figure(rows: Sequence[CompanyRow], other: int) -> Figure:
    """Ten probabilities of one image for each company, and beside it the accuracy over many digits."""
    labels = [
        f"{COMPANION_WORDS[row.kind]} ({other}s)" if row.kind == "one_class" else COMPANION_WORDS[row.kind] for row in rows
    ]
    percent = [_percent(row.probabilities.astype(float).tolist()) for row in rows]
    heat = {
        "type": "heatmap", "z": percent, "x": _DIGITS, "y": labels, "colorscale": _HEAT, "zmin": 0, "zmax": 100,
        "showscale": False, "xgap": 1, "ygap": 1, "texttemplate": "%{z:.0f}", "meta": "page-text",
        "hovertemplate": "%{y}: %{x} has %{z:.1f} %<extra></extra>",
    }  # fmt: skip
    bars = {
        "type": "bar", "orientation": "h", "y": labels, "x": _percent([row.accuracy for row in rows]), "xaxis": "x2",
        "yaxis": "y2", "marker": {"color": [theme.EVAL_MODE if row.kind == "eval" else theme.TRAIN_MODE for row in rows]},
        "text": [f"{row.accuracy:.0%}" for row in rows], "textposition": "auto", "insidetextanchor": "start",
        "textfont": {"color": "#ffffff"}, "outsidetextfont": {"color": theme.PARENT_RUN},
        "hovertemplate": "%{y}: %{x:.1f} % of the digits right<extra></extra>",
    }  # fmt: skip
    still = {"fixedrange": True, "showgrid": False}
    layout = {
        "height": 90 + 34 * len(rows), "margin": {"l": 8, "r": 8, "t": 8, "b": 42}, "showlegend": False,
        "xaxis": {"domain": [0, 0.66], "type": "category", "title": {"text": "this image (%)"}, **still},
        "yaxis": {"automargin": True, "autorange": "reversed", **still},
        "xaxis2": {"domain": [0.7, 1], "range": [0, 100], "title": {"text": "all (%)"}, "anchor": "y2", **still},
        "yaxis2": {"showticklabels": False, "autorange": "reversed", "anchor": "x2", **still},
    }  # fmt: skip
    return {"data": [heat, bars], "layout": layout}


def channels_figure(found: LayerInside) -> Figure:
    """Batch statistics against running ones, channel by channel; mean above, variance below."""
    channels = list(range(len(found.batch_mean)))
    data = []
    for axis, what, batch, running in (("", "mean", found.batch_mean, found.running_mean),
                                       ("2", "variance", found.batch_variance, found.running_variance)):  # fmt: skip
        shown = {"mode": "markers", "xaxis": "x", "yaxis": f"y{axis}", "showlegend": not axis}
        dash = {"symbol": "line-ew-open", "size": 13, "color": theme.EVAL_MODE, "line": {"width": 3}}
        data.append(_line("running (eval mode)", channels, running, theme.EVAL_MODE, marker=dash,
                          hovertemplate=f"running {what} %{{y:.4g}}", **shown))  # fmt: skip
        data.append(_line("batch (train mode)", channels, batch, theme.TRAIN_MODE, hovertemplate=f"batch {what} %{{y:.4g}}",
                          marker={"symbol": "circle", "size": 7, "color": theme.TRAIN_MODE}, **shown))  # fmt: skip
    layout = _layout(430, "channel (click one to look into it)", "mean", hoversubplots="axis",
                     xaxis={"range": [-0.7, len(channels) - 0.3], "anchor": "y2"}, yaxis={"domain": [0.54, 1]})  # fmt: skip
    layout["yaxis2"] = {"domain": [0, 0.46], "title": {"text": "variance", "standoff": 6}, "rangemode": "tozero"}
    edge = {"color": theme.PARENT_RUN, "dash": "dot", "width": 1}
    layout["shapes"] = [{"type": "line", "x0": found.channel, "x1": found.channel, "y0": 0, "y1": 1, "yref": "paper",
                         "line": edge, "layer": "below"}]  # fmt: skip
    return {"data": data, "layout": layout}


def before_figure(found: LayerInside) -> Figure:
    """What comes into one channel."""
    centres = (found.edges[:-1] + found.edges[1:]) / 2
    bars = {"type": "bar", "x": _plain(centres), "y": found.before.tolist(), "marker": {"color": theme.PARENT_RUN},
            "hovertemplate": "%{y:,} values about %{x:.3g}<extra></extra>"}  # fmt: skip
    lines = [
        (found.batch_mean[found.channel], theme.TRAIN_MODE, "solid", "batch mean"),
        (found.running_mean[found.channel], theme.EVAL_MODE, "dash", "running mean"),
    ]
    layout = _layout(230, f"value that comes into channel {found.channel}", "count", bargap=0, showlegend=False,
                     hovermode="closest",
                     yaxis={"type": "log" if found.before.max() > 100 else "linear"})  # fmt: skip
    layout["shapes"] = [
        {"type": "line", "x0": float(x), "x1": float(x), "y0": 0, "y1": 1, "yref": "paper",
         "line": {"color": color, "dash": dash, "width": 2}}
        for x, color, dash, _ in lines
    ]  # fmt: skip
    layout["margin"]["t"] = 12
    return {"data": [bars], "layout": layout}


def after_figure(found: LayerInside) -> Figure:
    """What goes out of one channel in each mode."""
    centres = (found.after_edges[:-1] + found.after_edges[1:]) / 2
    data = [
        {"type": "scatter", "mode": "lines", "line": {"shape": "hvh", "color": color, "dash": dash}, "name": name,
         "fill": "tozeroy",
         "x": _plain(centres), "y": counts.tolist(), "hovertemplate": "%{y:,} values"}
        for name, counts, color, dash in (("eval mode", found.after_eval, theme.EVAL_MODE, "solid"),
                                          ("train mode", found.after_train, theme.TRAIN_MODE, "dash"))
    ]  # fmt: skip
    return {"data": data, "layout": _layout(230, "value that goes out", "count")}


def warm_up_figure(steps: Sequence[WarmUpStep]) -> Figure:
    """Accuracy of both modes over the first steps."""
    scored = [one for one in steps if one.eval is not None]
    x = [one.step for one in scored]
    data = [
        _line("eval mode", x, _percent([one.eval for one in scored]), theme.EVAL_MODE, hovertemplate="%{y:.1f} %"),
        _line("train mode", x, _percent([one.train for one in scored]), theme.TRAIN_MODE, "dash", hovertemplate="%{y:.1f} %"),
    ]
    return {"data": data, "layout": _layout(320, "training step", "correct (%)", yaxis={"range": [0, 101]})}


def warm_up_statistics_figure(steps: Sequence[WarmUpStep], channel: int) -> Figure:
    """One channel's running mean and variance approaching those of the batches."""
    x, data = [one.step for one in steps], []
    for axis, what in (("", "mean"), ("2", "variance")):
        batch = np.array([getattr(one, f"batch_{what}")[channel] for one in steps])
        running = np.array([getattr(one, f"running_{what}")[channel] for one in steps])
        shown = {"xaxis": "x", "yaxis": f"y{axis}", "showlegend": not axis}
        data.append(
            _line("batch", x, batch, theme.TRAIN_MODE, mode="markers", hovertemplate=f"batch {what} %{{y:.4g}}", **shown)
        )
        data.append(_line("running", x, running, theme.EVAL_MODE, mode="lines", hovertemplate=f"running {what} %{{y:.4g}}",
                          **shown))  # fmt: skip
    layout = _layout(320, "training step", "mean", hoversubplots="axis", yaxis={"domain": [0.54, 1]}, xaxis={"anchor": "y2"})
    layout["yaxis2"] = {"domain": [0, 0.46], "title": {"text": "variance", "standoff": 6}}
    return {"data": data, "layout": layout}


def poison_figure(scores: Sequence[PoisonScore], forwards: int) -> Figure:
    """Eval mode's accuracy while bad batches go through in train mode, and while clean ones do after a reset."""
    data = []
    for phase, name, color, dash in (("poison", "bad batches in train mode", theme.TRAIN_MODE, "solid"),
                                     ("recalibrate", "clean batches after a reset", theme.EVAL_MODE, "dash")):  # fmt: skip
        part = [one for one in scores if one.phase == phase]
        x = [one.forwards + (forwards if phase == "recalibrate" else 0) for one in part]
        data.append(
            _line(name, x, _percent([one.accuracy for one in part]), color, dash, hovertemplate="%{y:.1f} % in eval mode")
        )
    layout = _layout(340, "forwards", "correct in eval mode (%)", yaxis={"range": [0, 101]})
    layout["shapes"] = [{"type": "line", "x0": forwards, "x1": forwards, "y0": 0, "y1": 1, "yref": "paper",
                         "line": {"color": theme.PARENT_RUN, "dash": "dot", "width": 1}}]  # fmt: skip
    return {"data": data, "layout": layout}


def shift_scores_figure(scores: Sequence[ShiftScore], kind: str) -> Figure:
    """Accuracy over one kind of shift: eval mode, and train mode in shuffled and in sorted batches."""
    scores = sorted(scores, key=lambda one: getattr(one.shift, kind))
    x = [getattr(one.shift, kind) for one in scores]
    data = [
        _line("eval mode", x, _percent([one.eval for one in scores]), theme.EVAL_MODE, hovertemplate="%{y:.1f} %"),
        _line("train mode, shuffled batches", x, _percent([one.train for one in scores]), theme.TRAIN_MODE, "dash",
              hovertemplate="%{y:.1f} %"),
        _line("train mode, sorted by class", x, _percent([one.train_sorted for one in scores]), theme.TRAIN_MODE, "dot",
              hovertemplate="%{y:.1f} %"),
    ]  # fmt: skip
    title = {"brightness": "brightness (1: as in training)", "contrast": "contrast (1: as in training)",
             "noise": "noise (standard deviation; white is 1)"}[kind]  # fmt: skip
    axis = {} if kind == "noise" else {"type": "log", "tickvals": x, "ticktext": [f"{one:g}" for one in x]}
    return {"data": data, "layout": _layout(340, title, "correct (%)", xaxis=axis, yaxis={"range": [0, 101]})}


def passes_figure(found: DropoutPasses) -> Figure:
    """Ten digits: each pass a point, the mean of the passes, and eval mode's answer."""
    shares = 100 * found.probabilities().astype(float)
    shown = shares[:200]
    spread = np.random.default_rng(0).uniform(-0.28, 0.28, shown.shape)
    eval_shares = 100 * softmax(found.in_eval)
    places = list(range(10))
    data = [
        {"type": "scatter", "mode": "markers", "name": "one pass", "x": _plain((np.arange(10) + spread).ravel().round(3)),
         "y": _plain(shown.ravel().round(2)), "marker": {"color": theme.TRAIN_MODE, "size": 4, "opacity": 0.35},
         "hoverinfo": "skip"},
        {"type": "scatter", "mode": "markers", "name": f"mean of {len(shares)} passes", "x": places,
         "y": _plain(shares.mean(0).round(3)), "hovertemplate": "mean %{y:.2f} %",
         "marker": {"color": theme.TRAIN_MODE, "size": 11, "symbol": "line-ew-open", "line": {"width": 3}}},
        {"type": "scatter", "mode": "markers", "name": "eval mode", "x": places, "y": _plain(eval_shares.round(3)),
         "marker": {"color": theme.EVAL_MODE, "size": 10, "symbol": "diamond-open", "line": {"width": 2}},
         "hovertemplate": "eval mode %{y:.2f} %"},
    ]  # fmt: skip
    axis = {"tickvals": places, "showgrid": False}
    return {"data": data, "layout": _layout(340, "digit", "probability (%)", xaxis=axis, yaxis={"range": [-2, 102]})}


def mean_figure(found: DropoutPasses, digit: int) -> Figure:
    """The mean logit of one digit over more and more passes, with and without the scaling."""
    rows = np.unique(np.geomspace(1, len(found.logits), 80).round().astype(int)) - 1
    x = (rows + 1).tolist()
    value = float(found.in_eval[digit])
    data = [
        _line("eval mode", [1, len(found.logits)], [value, value], theme.EVAL_MODE, "dash", mode="lines",
              hovertemplate="%{y:.3f}"),
        _line("mean, scaled by 1 / (1 - p)", x, found.mean_so_far(digit)[rows], theme.TRAIN_MODE, mode="lines",
              hovertemplate="%{y:.3f}"),
        _line("mean, not scaled", x, found.mean_so_far(digit, unscaled=True)[rows], theme.PARENT_RUN, "dot", mode="lines",
              hovertemplate="%{y:.3f}"),
    ]  # fmt: skip
    return {"data": data, "layout": _layout(340, "passes", f"logit of {digit}", xaxis={"type": "log", "dtick": 1})}


def twin_loss_figure(losses: Mapping[str, Sequence[TwinLosses]], window: int = 10) -> Figure:
    """Train loss of each twin, mean of some steps."""
    data = []
    for name, parts in losses.items():
        steps = np.concatenate([one.steps for one in parts])
        values = np.concatenate([one.losses for one in parts]).astype(float)
        finite = np.where(np.isfinite(values), values, np.nan)
        smooth = np.array([np.nanmean(finite[max(0, row + 1 - window) : row + 1]) if np.isfinite(finite[row]) else np.nan
                           for row in range(len(finite))])  # fmt: skip
        color, dash = theme.TWINS[name]
        data.append(_line(name, steps, np.minimum(smooth, 20), color, dash, mode="lines", hovertemplate="%{y:.3f}"))
    layout = _layout(340, "step", "train loss (nats)", yaxis={"rangemode": "tozero", "autorangeoptions": {"maxallowed": 5}})
    return {"data": data, "layout": layout}


def twin_accuracy_figure(scores: Mapping[str, Sequence[TwinScore]]) -> Figure:
    """Validation accuracy of each twin, eval mode."""
    data = []
    for name, parts in scores.items():
        color, dash = theme.TWINS[name]
        data.append(_line(name, [one.step for one in parts], _percent([one.accuracy for one in parts]), color, dash,
                          hovertemplate="%{y:.1f} %"))  # fmt: skip
    return {"data": data, "layout": _layout(340, "step", "validation (%)", yaxis={"range": [0, 101]})}


def gap_figure(points: Sequence[GapPoint], what: str) -> Figure:
    """The views of one run; `what` is "loss" or "accuracy"."""
    x, scale = [one.step for one in points], 100 if what == "accuracy" else 1
    augmented = any(abs(one.clean_loss - one.train_loss) > 0 for one in points)  # NaN is no difference
    hover = "%{y:.2f} %" if what == "accuracy" else "%{y:.4f}"
    data = [
        _line(name, x, np.array([scale * getattr(one, f"{field}_{what}") for one in points]), color, dash, hovertemplate=hover,
              marker={"symbol": symbol, "size": 7, "color": color})
        for name, field, color, dash, symbol in (
            ("train mode: as the optimizer saw it", "optimizer", theme.TRAIN_MODE, "dash", "circle"),
            ("train mode again, a few steps later", "again", theme.TRAIN_MODE, "dot", "circle-open"),
            ("the same images in eval mode", "train", theme.TRAIN, "solid", "square"),
            *([("the same digits, not augmented", "clean", theme.TRAIN, "dashdot", "square-open")] if augmented else []),
            ("validation digits in eval mode", "validation", theme.VALIDATION, "dot", "diamond"),
        )
    ]  # fmt: skip
    title = "correct (%)" if what == "accuracy" else "loss (nats)"
    return {"data": data, "layout": _layout(380, "step", title, xaxis={"type": "log", "dtick": 1}, legend=_LEGEND)}
