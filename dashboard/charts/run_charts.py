"""Values of a run -> what its charts show. Never imports streamlit.

A `Chart` is a plain description. The live component draws it from the points it already has and the new ones;
`run_figures.figure` makes a complete plotly figure of it for downloads and as a fallback.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from core.runs.reader import RunView
from core.runs.thinning import MAX_BUCKETS, Floats, bucket_size, thin
from core.runs.verdict import GUESSING
from dashboard import theme, wording

AXES = ("step", "epoch", "time")
_MIB = 2**20
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Line:
    """One trace.

    Attributes:
        first: how many points come before `x[0]`; a live chart has them already.
        x, y: points; NaN leaves a gap.
    """

    name: str
    color: str
    first: int
    x: Floats
    y: Floats
    dash: str = "solid"
    width: float = 2
    mode: str = "lines"
    symbol: str = "circle"
    hover: str = "%{y:.6g}"


@dataclass(frozen=True, eq=False)
class Chart:
    """One chart: its title says what is seen; `note` what part of the data is drawn; `alt` is for screen readers.

    Attributes:
        mark: a height that is worth a dashed line across, and its words; None for none.
    """

    id: str
    title: str
    y_title: str
    lines: list[Line]
    x_title: str = "step"
    log: bool = False
    note: str = ""
    alt: str = ""
    y_format: str = ""
    from_zero: bool = False
    mark: tuple[float, str] | None = None


@dataclass(frozen=True)
class View:
    """How a person wants to see a run: x axis, smoothing window in steps, and whether on logarithmic axes: the loss, and the
    share of wrong answers in place of the accuracy."""

    axis: str = "step"
    window: int = 25
    log: bool = False


@dataclass(frozen=True)
class Sent:
    """What a live chart has received: only what comes after is sent next.

    Attributes:
        token: identity of the set of points; another one means that all points change.
        steps, reports: the first bucket that may still change.
    """

    token: str = ""
    steps: int = 0
    reports: int = 0


@dataclass(eq=False)
class _Axis:
    """Places of rows along the chosen x axis.

    Attributes:
        shift: added to every place; a parent's lines are moved so that they meet its child's at the fork.
    """

    snapshot: RunView
    view: View
    minutes: bool | None = None
    shift: float = 0.0

    def __post_init__(self) -> None:
        steps = self.snapshot.steps
        if self.minutes is None:
            self.minutes = bool(len(steps)) and float(steps.column("seconds")[-1]) > 300

    @property
    def title(self) -> str:
        if self.view.axis == "time":
            return "training time (min)" if self.minutes else "training time (s)"
        return self.view.axis

    def of(self, step: npt.NDArray[Any], seconds: npt.NDArray[Any]) -> Floats:
        if self.view.axis == "time":
            return seconds.astype(np.float64) / (60 if self.minutes else 1) + self.shift
        values = step.astype(np.float64)
        return (values / self.snapshot.config.steps_per_epoch() if self.view.axis == "epoch" else values) + self.shift


def run_charts(
    snapshot: RunView, view: View, sent: Sent | None = None, parent: RunView | None = None
) -> tuple[list[Chart], Sent, bool]:
    """The charts of a run.

    Args:
        sent: what the viewer has; only later points are given then, as long as they fit to it.
        parent: the run that it was forked from, drawn behind it from its beginning.

    Returns:
        (charts, what the viewer has after them, whether they are complete in themselves).
    """
    axis = _Axis(snapshot, view)
    steps_bucket, reports_bucket = bucket_size(len(snapshot.steps)), bucket_size(len(snapshot.reports))
    parts = (snapshot.info.run_id, view.axis, axis.minutes, view.window, view.log, steps_bucket, reports_bucket)
    token = "/".join(map(str, (*parts, len(parent.steps) if parent else 0)))
    complete = sent is None or sent.token != token
    start = Sent() if complete or sent is None else sent
    charts = [
        _loss_chart(snapshot, view, axis, start.steps),
        _accuracy_chart(snapshot, view, axis, start.steps),
        _learning_rate_chart(snapshot, axis, start.steps),
        _gradient_chart(snapshot, axis, start.steps),
        _memory_chart(snapshot, axis, start.reports),
    ]
    if parent is not None and len(parent.steps):
        behind = {chart.id: _parent_lines(chart.id, parent, snapshot, axis, complete) for chart in charts}
        charts = [replace(chart, lines=[*behind[chart.id], *chart.lines]) for chart in charts]
    last = Sent(token, max(0, len(snapshot.steps) // steps_bucket - 1), max(0, len(snapshot.reports) // reports_bucket - 1))
    return charts, last, complete


def place_of(snapshot: RunView, view: View, step: int) -> float:
    """Where a step lies along the chosen x axis."""
    steps = np.array([step], np.int64)
    return float(_Axis(snapshot, view).of(steps, snapshot.seconds_at(steps))[0])


def _parent_lines(chart: str, parent: RunView, child: RunView, axis: _Axis, complete: bool) -> list[Line]:
    """A parent's lines, moved so that both runs meet where the child begins. A viewer that has them gets no points again."""
    step = np.array([child.info.parent_step or 0], np.int64)
    meet = _Axis(parent, axis.view, axis.minutes).of(step, parent.seconds_at(step))[0]
    begin = (
        0.0
        if axis.view.axis == "time"
        else child.info.first_step / (child.config.steps_per_epoch() if axis.view.axis == "epoch" else 1)
    )
    moved, view, gray = _Axis(parent, axis.view, axis.minutes, float(begin - meet)), axis.view, theme.PARENT_RUN
    train: dict[str, Any] = {"name": "parent, train", "color": gray, "width": 1.5}
    validation: dict[str, Any] = {"name": "parent, validation", "color": gray, "dash": "dash"}
    match chart:
        case "loss":
            lines = [
                _smooth_line(parent, view, moved, 0, "loss", 1, **train),
                _validation_line(parent, moved, "loss", **validation),
            ]
        case "accuracy":
            lines = [
                _in_view(_smooth_line(parent, view, moved, 0, "accuracy", 100, hover="%{y:.2f} %", **train), view),
                _in_view(_validation_line(parent, moved, "accuracy", 100, hover="%{y:.2f} %", **validation), view),
            ]
        case "learning_rate" | "gradient_norm":
            lines = [_step_line(parent, moved, 0, chart, name="parent", color=gray, width=1)]
        case _:
            lines = []
    return lines if complete else [replace(line, first=len(line.x), x=line.x[:0], y=line.y[:0]) for line in lines]


def _step_line(snapshot: RunView, axis: _Axis, first: int, column: str, scale: float = 1.0, **style: Any) -> Line:
    """A column with the smallest and largest value of every bucket, from bucket `first` on."""
    steps = snapshot.steps
    values = steps.column(column)
    thinned = thin(values, first)
    rows = thinned.rows
    x = axis.of(steps.column("step")[rows], steps.column("seconds")[rows])
    y = values[rows].astype(np.float64) * scale
    return Line(first=first * (2 if thinned.bucket > 1 else 1), x=x, y=y, **style)


def _smooth_line(snapshot: RunView, view: View, axis: _Axis, first: int, column: str, scale: float, **style: Any) -> Line:
    """A moving average, one point at the end of every bucket."""
    steps = snapshot.steps
    size, count = bucket_size(len(steps)), len(steps)
    ends: Rows = np.minimum(np.arange(first, math.ceil(count / size)) * size + size, count) - 1
    x = axis.of(steps.column("step")[ends], steps.column("seconds")[ends])
    return Line(first=first, x=x, y=steps.smoothed(column, ends, shown_window(snapshot, view)) * scale, **style)


def shown_window(snapshot: RunView, view: View) -> int:
    """Steps behind one point of a smoothed line: never fewer than the point stands for, or steps would be in no point."""
    return max(view.window, bucket_size(len(snapshot.steps)))


def _validation_line(snapshot: RunView, axis: _Axis, column: str, scale: float = 1.0, **style: Any) -> Line:
    validations = snapshot.validations
    y = np.array([getattr(validation.evaluation, column) for validation in validations], np.float64) * scale
    rows = thin(y).rows if len(y) > MAX_BUCKETS else np.arange(len(y))
    steps = np.array([validation.step for validation in validations], np.int64)[rows]
    return Line(first=0, x=axis.of(steps, snapshot.seconds_at(steps)), y=y[rows], mode="lines+markers", **style)


def _nonfinite_line(snapshot: RunView, axis: _Axis, column: str) -> list[Line]:
    """A cross at each step whose value is NaN or infinite, at the height of the last finite one."""
    rows = np.array(snapshot.steps.nonfinite_rows(column), np.int64)
    if not len(rows):
        return []
    values, steps = snapshot.steps.column(column), snapshot.steps
    heights = [next((float(values[back]) for back in range(row, -1, -1) if math.isfinite(values[back])), 0.0) for row in rows]
    x = axis.of(steps.column("step")[rows], steps.column("seconds")[rows])
    return [Line("NaN or infinite", theme.PROBLEM, 0, x, np.array(heights), mode="markers", symbol="x", hover="not finite")]


def _drawn_note(snapshot: RunView) -> str:
    count = len(snapshot.steps)
    size = bucket_size(count)
    if size == 1:
        return f"Drawn: all {count:,} steps" if count != 1 else "Drawn: the one step"
    drawn = min(count, 2 * math.ceil(count / size))
    return f"Drawn: {drawn:,} of {count:,} steps, the smallest and largest of every {size}"


def _loss_chart(snapshot: RunView, view: View, axis: _Axis, first: int) -> Chart:
    huge = _is_huge(snapshot)
    # Label smoothing is part of what is trained for; validation is scored without it.
    smoothing = f", label smoothing {snapshot.config.label_smoothing:g}" if snapshot.config.label_smoothing else ""
    lines = [
        _step_line(snapshot, axis, first, "loss", name=f"train, each step{smoothing}", color=theme.RAW, width=1),
        _smooth_line(snapshot, view, axis, first, "loss", 1, name=_mean_name(snapshot, view) + smoothing, color=theme.TRAIN),
        _validation_line(snapshot, axis, "loss", name="validation", color=theme.VALIDATION, dash="dash"),
        *_nonfinite_line(snapshot, axis, "loss"),
    ]
    return Chart(
        "loss",
        "Loss",
        "cross-entropy (nats)",
        lines,
        axis.title,
        view.log or huge,
        f"{_drawn_note(snapshot)}{_first_loss(snapshot)}{' The axis is logarithmic, since the loss ran away.' if huge else ''}",
        f"Loss over {axis.title}: {_last_words(snapshot)}",
        mark=(GUESSING, f"guessing: ln 10 = {GUESSING:.3f}"),
    )


def _is_huge(snapshot: RunView) -> bool:
    """Whether the loss ran away so far that on a linear axis everything else would lie at the bottom."""
    return snapshot.steps.largest_loss > 100 * GUESSING


def _first_loss(snapshot: RunView) -> str:
    """What the loss before any update says, for a run that starts anew."""
    if not len(snapshot.steps) or snapshot.info.parent or snapshot.info.first_step:
        return ""
    first = float(snapshot.steps.column("loss")[0])
    return f". First loss {wording.number(first)}: {first_loss_words(first)}"


def first_loss_words(first: float) -> str:
    """What the loss before any update says about a network for ten classes."""
    if not math.isfinite(first):
        return "not finite before any update. The images or the first weights hold NaN or overflow."
    if abs(first - GUESSING) < 0.35:
        return "guessing, as it should be."
    if first > GUESSING:
        return (
            "higher than guessing. The untrained network is sure of wrong answers. Likely causes: first weights too large, or "
            "images that are not normalised."
        )
    return "lower than guessing. Few classes in the first batch (digits in order), or weights that were trained before."


def _in_view(line: Line, view: View) -> Line:
    """A line of shares in per cent, turned into the share of wrong answers where axes are logarithmic."""
    return replace(line, y=100 - line.y) if view.log else line


def _mean_name(snapshot: RunView, view: View) -> str:
    return f"train, mean of {shown_window(snapshot, view)} steps"


def _last_words(snapshot: RunView) -> str:
    if not len(snapshot.steps):
        return "no steps yet"
    loss = float(snapshot.steps.column("loss")[-1])
    words = f"train loss {loss:.4f} at step {snapshot.step:,}"
    if snapshot.validations:
        last = snapshot.validations[-1].evaluation
        words += f", last validation loss {last.loss:.4f} and accuracy {last.accuracy:.2%}"
    return words


def _accuracy_chart(snapshot: RunView, view: View, axis: _Axis, first: int) -> Chart:
    lines = [
        _smooth_line(
            snapshot, view, axis, first, "accuracy", 100, name=_mean_name(snapshot, view), color=theme.TRAIN, hover="%{y:.2f} %"
        ),
        _validation_line(
            snapshot, axis, "accuracy", 100, name="validation", color=theme.VALIDATION, dash="dash", hover="%{y:.2f} %"
        ),
    ]
    if snapshot.tested:
        step = np.array([snapshot.tested.step], np.int64)  # whose weights were scored
        x = axis.of(step, snapshot.seconds_at(step))
        accuracy = np.array([snapshot.tested.evaluation.accuracy * 100])
        lines.append(Line("test, once", theme.TEST, 0, x, accuracy, mode="markers", symbol="star", hover="%{y:.2f} %"))
    title, y_title = ("Wrong answers", "wrong (%)") if view.log else ("Accuracy", "correct (%)")
    alt = f"{title}: {_last_words(snapshot)}"
    return Chart("accuracy", title, y_title, [_in_view(line, view) for line in lines], axis.title, view.log, alt=alt)


def _learning_rate_chart(snapshot: RunView, axis: _Axis, first: int) -> Chart:
    line = _step_line(snapshot, axis, first, "learning_rate", name="learning rate", color=theme.TRAIN)
    return Chart(
        "learning_rate",
        "Learning rate",
        "learning rate",
        [line],
        axis.title,
        alt="Learning rate of each step",
        y_format=".1~e",
        from_zero=True,
    )


def _gradient_chart(snapshot: RunView, axis: _Axis, first: int) -> Chart:
    lines = [
        _step_line(snapshot, axis, first, "gradient_norm", name="gradient norm", color=theme.TRAIN, width=1),
        *_nonfinite_line(snapshot, axis, "gradient_norm"),
    ]
    return Chart(
        "gradient_norm",
        "Gradient norm, before clipping",
        "L2 norm",
        lines,
        axis.title,
        alt="Length of the whole gradient at each step",
    )


def _memory_chart(snapshot: RunView, axis: _Axis, first: int) -> Chart:
    reports = snapshot.reports
    total = float(reports.column("total")[-1]) if len(reports) else 0.0

    def line(column: str, **style: Any) -> Line:
        values = reports.column(column)
        thinned = thin(values, first)
        x = axis.of(reports.column("step")[thinned.rows], reports.column("seconds")[thinned.rows])
        y = values[thinned.rows].astype(np.float64) / _MIB
        return Line(first=first * (2 if thinned.bucket > 1 else 1), x=x, y=y, hover="%{y:,.0f} MiB", **style)

    if total:
        lines = [
            line("allocated", name="allocated", color=theme.GPU_MEMORY),
            line("reserved", name="reserved", color=theme.GPU_MEMORY, dash="dash"),
            line("peak", name="peak", color=theme.GPU_MEMORY, dash="dot"),
        ]
        return Chart(
            "memory",
            f"GPU memory (card: {total / 2**30:.1f} GiB)",
            "MiB",
            lines,
            axis.title,
            from_zero=True,
            alt="GPU memory by tensors, by the allocator, and the peak",
        )
    lines = [line("resident", name="this process", color=theme.GPU_MEMORY)]
    return Chart(
        "memory",
        "Memory of this process",
        "MiB",
        lines,
        axis.title,
        from_zero=True,
        alt="Resident memory of the training process, which uses no GPU",
    )
