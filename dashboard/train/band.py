"""The numbers of a run in one band: how good it is, how far, how fast. No Streamlit here."""

import math
from dataclasses import dataclass
from html import escape

import numpy as np

from core.runs.reader import RunView
from core.runs.speed import speed_finding
from core.runs.time_left import duration_words, phase, seconds_left
from core.runs.verdict import GUESSING
from core.status import RunStatus
from dashboard import wording

NONE_YET = "–"


@dataclass(frozen=True)
class Cell:
    """One number: what it is, the number, a word beside it, and more words for whoever points at it."""

    label: str
    value: str
    detail: str = ""
    more: str = ""


def cells(view: RunView, window: int, place_in_line: int = 0) -> list[Cell]:
    """The five of them, the same in every state, so that nothing moves.

    Args:
        window: steps that the train loss is a mean of. place_in_line: runs before a queued one.
    """
    return [_accuracy(view), _validation_loss(view), _train_loss(view, window), _time(view, place_in_line), _speed(view)]


def share_done(view: RunView) -> float:
    """In [0, 1]."""
    return min(1.0, view.step / max(1, view.total_steps))


def band_html(shown: list[Cell], share: float) -> str:
    """The band and a thin bar below it."""
    boxes = "".join(
        f'<div title="{escape(cell.more or cell.detail)}"><small>{escape(cell.label)}</small>'
        f"<b>{escape(cell.value)}</b> <span>{escape(cell.detail)}</span></div>"
        for cell in shown
    )
    return (
        f'<div class="digit-lab-band">{boxes}</div>'
        f'<progress class="digit-lab-progress" max="1" value="{share:.4f}" aria-label="Share of the steps that are done">'
        f"{share:.0%}</progress>"
    )


def _accuracy(view: RunView) -> Cell:
    best = max((validated for validated in view.validations if validated.best), key=lambda one: one.step, default=None)
    told = (
        f"Best on the validation digits: {wording.percent(best.evaluation.accuracy)} after step {best.step:,}" if best else ""
    )
    if view.tested:
        detail = f"val. {wording.percent(best.evaluation.accuracy)}" if best else ""
        return Cell("Test accuracy", wording.percent(view.tested.evaluation.accuracy), detail, told)
    if not view.validations:
        return Cell("Validation accuracy", NONE_YET, "guessing: 10 %")
    last = view.validations[-1]
    detail = "the best" if best is None or last.step == best.step else f"best {wording.percent(best.evaluation.accuracy)}"
    return Cell("Validation accuracy", wording.percent(last.evaluation.accuracy), detail, f"After step {last.step:,}. {told}")


def _validation_loss(view: RunView) -> Cell:
    losses = [validated.evaluation.loss for validated in view.validations]
    if not losses:
        return Cell("Validation loss", NONE_YET, f"guessing: {GUESSING:.3f}")
    lowest = min((loss for loss in losses if math.isfinite(loss)), default=math.nan)
    return Cell(
        "Validation loss",
        wording.number(losses[-1]),
        "the lowest" if losses[-1] == lowest else f"min. {wording.number(lowest)}",
    )


def _train_loss(view: RunView, window: int) -> Cell:
    count = len(view.steps)
    if not count:
        return Cell("Train loss", NONE_YET, f"guessing: {GUESSING:.3f}")
    window = min(window, count)
    loss = float(view.steps.smoothed("loss", np.array([count - 1], np.int64), window)[0])
    return Cell("Train loss", wording.number(loss), f"last {window} steps" if window > 1 else "last step")


def _time(view: RunView, place_in_line: int) -> Cell:
    info, config = view.info, view.config
    where = f"Step {view.step:,} of {view.total_steps:,}"
    if info.status == RunStatus.QUEUED:
        before = f"{place_in_line} run{'s' if place_in_line != 1 else ''}" if place_in_line else "no run"
        return Cell("Waits in line", before, "before it", f"{view.total_steps:,} steps to come")
    if info.status == RunStatus.PREPARING:
        return Cell("Prepares", "…", "reads the digits", f"{view.total_steps:,} steps to come")
    if not info.status.is_active:
        label = f"Trained for {view.step:,} step{'s' if view.step != 1 else ''}"
        return Cell(label, duration_words(info.train_seconds), "", f"{where}; validations and pauses left out")
    label = f"Epoch {view.epoch} of {config.epochs}"
    left = seconds_left(view)
    told = NONE_YET if left is None else duration_words(left)
    if info.status == RunStatus.RUNNING and (doing := phase(view)):
        return Cell(label, told, doing, f"{where}; {told} left")
    return Cell(label, told, "left", f"{where}; validations and the test counted")


def _speed(view: RunView) -> Cell:
    info = view.info
    rate = view.images_per_second()
    if not info.status.is_active and info.train_seconds > 0:
        rate = info.images / info.train_seconds  # of the whole run, as the table of runs says it
    found = speed_finding(view)
    return Cell(
        "Speed", f"{rate:,.0f}" if rate else NONE_YET, "images/s", f"{found.evidence} More under Speed." if found else ""
    )
