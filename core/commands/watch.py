"""`python -m core watch [RUN]`: a run in the terminal, whoever trains it: its numbers, its curves, what is to be said of it."""

import argparse
import math
import time
from pathlib import Path

import numpy as np
import plotille
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from core.config.text import format_value
from core.config.train_config import settings
from core.errors import RunError
from core.finding import Verdict
from core.runs.folder import run_folder, runs_root
from core.runs.info import list_runs, newest_run_id
from core.runs.reader import RunReader, RunView
from core.runs.speed import speed_finding
from core.runs.thinning import thin
from core.runs.time_left import duration_words, phase, seconds_left
from core.runs.verdict import GUESSING, so_far, verdict
from core.status import RunStatus

_TRAIN, _VALIDATION = 33, 208  # blue and orange of the 256 colours that terminals have
_COLORS = {Verdict.OK: "green", Verdict.NOTE: "yellow", Verdict.FAIL: "red", Verdict.MENDED: "green"}
_STATUS_COLORS = {
    RunStatus.RUNNING: "blue",
    RunStatus.PAUSED: "yellow",
    RunStatus.FINISHED: "green",
    RunStatus.FAILED: "red",
    RunStatus.INTERRUPTED: "red",
}
_SHARE = 0.009  # of a core that watching may take
_MOST_POINTS = 160  # to a curve: more than a terminal has dots


def watch_run(given: argparse.Namespace) -> int:
    """Show a run until it has ended, or once where the output is no terminal; 0 unless there is no such run."""
    runs = given.runs or runs_root()
    reader = RunReader(run_folder(runs, given.run or _run_to_watch(runs)))
    view, console = reader.read(), Console()
    if given.once or not console.is_terminal:
        console.print(screen(view, console.width, 40))
        return 0
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            spent = time.process_time()
            while True:
                live.update(screen(view, console.width, console.height), refresh=True)
                if not view.info.status.is_active:
                    break
                # A run of millions of steps takes longer to draw: watching it must not slow it down.
                time.sleep(max(given.every, (time.process_time() - spent) / _SHARE))
                spent = time.process_time()
                view = reader.read()
    except KeyboardInterrupt:
        pass
    console.print(screen(view, console.width, 40))  # what stays in the terminal
    return 0


def _run_to_watch(runs: Path) -> str:
    """The run that trains, else the newest."""
    active = next((info.run_id for info in list_runs(runs, limit=30) if info.status.is_active), None)
    if run_id := active or newest_run_id(runs):
        return run_id
    raise RunError(f"There is no run in {runs} yet. Train one: python -m core train")


def screen(view: RunView, width: int, height: int) -> RenderableType:
    """All that is shown of a run at one moment, in so many columns and about so many lines."""
    return Group(
        _headline(view),
        _numbers(view, width),
        Padding(ProgressBar(total=max(1, view.total_steps), completed=view.step, width=width - 1), 0),
        *_words(view),
        _curves(view, width, min(16, max(8, (height - 12) // (1 if width >= 100 else 2)))),
    )


def _headline(view: RunView) -> Text:
    info, config = view.info, view.config
    changed = ", ".join(
        f"{settings()[name].label.lower()} {format_value(value) or 'none'}"
        for name, value in config.changed().items()
        if name not in ("model", "dataset")
    )
    words = Text(f" {info.status} ", f"reverse {_STATUS_COLORS.get(info.status, 'white')}")
    words.append(f" {config.model} · {config.dataset}{f' · {changed}' if changed else ''} · {info.run_id}", "default")
    return words


def _numbers(view: RunView, width: int) -> Table:
    """The numbers, each below its name, in as many rows as the width asks for."""
    table, shown = Table.grid(padding=(0, 3)), list(_cells(view).items())
    columns = max(1, min(len(shown), width // 17))
    for start in range(0, len(shown), columns):
        part = shown[start : start + columns]
        table.add_row(*(Text(name, "dim") for name, _ in part))
        table.add_row(*(Text(value, "bold") for _, value in part))
    return table


def _cells(view: RunView) -> dict[str, str]:
    last, steps = view.validations[-1] if view.validations else None, view.steps
    train = float(steps.smoothed("loss", np.array([len(steps) - 1]), 25)[0]) if len(steps) else math.nan
    rate, left = view.images_per_second(), seconds_left(view) if view.info.status.is_active else None
    doing = phase(view) if view.info.status == RunStatus.RUNNING else ""
    score = view.tested.evaluation.accuracy if view.tested else last.evaluation.accuracy if last else None
    return {
        "test accuracy" if view.tested else "validation": f"{score:.2%}" if score is not None else "–",
        "validation loss": f"{last.evaluation.loss:.4f}" if last else f"guessing: {GUESSING:.3f}",
        "train loss": f"{train:.4f}" if math.isfinite(train) else "–",
        f"epoch of {view.config.epochs}": str(view.epoch),
        "step": f"{view.step:,} of {view.total_steps:,}",
        doing or "left": duration_words(left) if left is not None else "–",
        "images/s": f"{rate:,.0f}" if rate else "–",
    }


def _words(view: RunView) -> list[Text]:
    """The verdict, or how it goes; what limits its speed; what of the folder cannot be read."""
    found = [one for one in (verdict(view) or so_far(view), speed_finding(view)) if one]
    lines = [Text(f"{one.evidence} {one.advice}".strip(), _COLORS[one.verdict]) for one in found]
    return [*lines, *(Text(words, "yellow") for words in view.damage)]


def _curves(view: RunView, width: int, height: int) -> RenderableType:
    if not len(view.steps):
        return Text("Its curves appear here with the first steps.", "dim")
    side = width // 2 - 2 if width >= 100 else width
    plots = [_plot(view, name, side, height) for name in ("loss", "accuracy")]
    if width < 100:
        return Group(*plots)
    beside = Table.grid(padding=(0, 3))
    beside.add_row(*plots)
    return beside


def _plot(view: RunView, name: str, width: int, height: int) -> Group:
    steps, scale = view.steps, 1.0 if name == "loss" else 100.0
    rows = thin(steps.column("loss"), 0, _MOST_POINTS).rows
    train = scale * steps.smoothed(name, rows, max(25, len(steps) // _MOST_POINTS))
    scored = [(one.step, scale * getattr(one.evaluation, name)) for one in view.validations]
    figure = plotille.Figure()
    # The plot's own margins: tick labels at the left, two lines of axis below, one above.
    figure.width, figure.height = max(20, width - 18), max(4, height - 5)
    figure.color_mode, figure.origin, figure.with_colors = "byte", False, True
    figure.x_label, figure.y_label = "step", "nats" if name == "loss" else "%"
    figure.register_label_formatter(float, _tick)
    figure.set_x_limits(min_=0.0, max_=float(max(1, view.step)))
    values: list[float] = []
    for line, color in ((zip(steps.column("step")[rows].tolist(), train.tolist(), strict=True), _TRAIN), (scored, _VALIDATION)):
        pairs = [(float(at), float(value)) for at, value in line if math.isfinite(value)]
        values += [value for _, value in pairs]
        if pairs:
            figure.plot([at for at, _ in pairs], [value for _, value in pairs], lc=color)
    top = max(values, default=1.0)
    figure.set_y_limits(min_=0.0, max_=top if top > 0 else 1.0)
    title = Text(f"{name.capitalize()}  ", "bold")
    title.append("train, mean  ", f"color({_TRAIN})").append("validation", f"color({_VALIDATION})")
    return Group(title, Text.from_ansi(figure.show(legend=False)))


def _tick(val: float, chars: int, delta: float, left: bool = False) -> str:
    """A number at an axis, in at most `chars` characters."""
    text = f"{val:,.0f}" if abs(val) >= 100 else f"{val:.3g}"
    return text.ljust(chars) if left else text.rjust(chars)
