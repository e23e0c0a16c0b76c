"""Where a run's time goes, and what limits its speed: one finding, with the measured shares and a setting to change."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.finding import Finding, Verdict
from core.runs.reader import RunView
from core.runs.verdict import within_limits

_WINDOW = 60.0  # seconds of training that are looked at: the newest ones, so that what changed shows
_LEAST_SECONDS = 2.0
# What is worth a word. Measured on trainings that are well and on planted causes (tests/benchmarks/speed_verdict.py).
_VALIDATING, _WAITING, _IN_LINE, _BLOCKED = 0.3, 0.35, 0.1, 0.12
_A_NEIGHBOUR = 0.25  # cores
_SMALL_BATCH, _FIXED = 16, 0.13
_CREEPING, _LEAST_GROWTH, _MOST_READINGS = 0.1, 48 * 2**20, 3000
PARTS = ("data", "forward", "backward", "optimizer", "rest", "validation")
PART_WORDS = {
    "data": "waiting for data",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "rest": "the rest (gradient norm, checks, recording)",
    "validation": "validation",
}


@dataclass(frozen=True)
class TimeSpent:
    """Seconds of the last minute of a run's training by what they were spent on, validations beside them.

    Attributes:
        parts: seconds for each of PARTS. images: digits trained on in them.
        in_line: share of the training threads' time that they stood in line for a core, in [0, 1]; NaN where it is not known,
            as the next three. blocked: share of the time that training waited for another thread. pages, elsewhere: cores that
            the process's pages and other programs kept busy.
    """

    parts: Mapping[str, float]
    images: int
    in_line: float
    blocked: float
    pages: float
    elsewhere: float

    def share(self, *names: str) -> float:
        """Of the whole time, in [0, 1]."""
        return sum(self.parts[name] for name in names) / sum(self.parts.values())

    @property
    def seconds(self) -> float:
        """Of training, without validations."""
        return sum(self.parts.values()) - self.parts["validation"]


def time_spent(view: RunView) -> TimeSpent | None:
    """None before there are two seconds of training, and for runs of a version that did not measure."""
    reports = view.reports
    seconds = reports.column("seconds")
    if not len(seconds):
        return None
    # The first reports hold what is done once: imports, memory, the choice of kernels.
    first = max(int(np.searchsorted(seconds, seconds[-1] - _WINDOW)), min(3, len(seconds) // 2))

    def total(name: str) -> float:
        with np.errstate(over="ignore"):  # a file from elsewhere may hold any times
            return float(np.nansum(reports.column(name)[first:]))

    duration, sampled = total("duration"), total("sampled_seconds")
    if not _LEAST_SECONDS <= duration < math.inf or not 0 < sampled < math.inf or not total("sampled_steps"):
        return None
    images = view.steps.column("images")[int(reports.column("step")[first - 1]) - view.info.first_step if first else 0 :]
    waiting = min(total("data_seconds"), duration)
    updating = min(duration - waiting, len(images) * sampled / total("sampled_steps"))
    parts = {name: updating * total(f"{name}_seconds") / sampled for name in ("forward", "backward", "optimizer")}
    parts |= {"data": waiting, "rest": max(0.0, duration - waiting - sum(parts.values()))}
    begin = int(reports.column("step")[first])
    parts["validation"] = sum(one.evaluation.seconds for one in view.validations if one.step >= begin)
    period, wanted = total("cpu_period"), total("cpu_wanted")
    known = period > 0 and not math.isnan(float(np.max(reports.column("cpu_delay")[first:], initial=0.0)))
    return TimeSpent(
        {name: parts[name] for name in PARTS},
        int(images.astype(np.int64).sum()),
        total("cpu_delay") / wanted if known and wanted else math.nan,
        total("cpu_blocked") / period if known else math.nan,
        total("cpu_pages") / period if known else math.nan,
        total("cpu_elsewhere") / period if period > 0 else math.nan,
    )


def speed_finding(view: RunView) -> Finding | None:
    """What limits a run's speed and how to lift it; verdict OK when nothing is in the way of computing. None before there is
    enough to say."""
    spent = time_spent(view)
    if spent is None:
        return None
    for cause in _CAUSES:
        if found := cause(view, spent):
            break
    else:
        found = _computing(view, spent)
    # A fork's settings would begin a fresh run otherwise than the fork began.
    return replace(found, remedy={}) if view.info.parent is not None else within_limits(found, view.config)


def speed_change(before: RunView, after: RunView) -> str:
    """What changed in speed between two runs, in a sentence or two; "" when one of them measured nothing."""
    first, second = time_spent(before), time_spent(after)
    if first is None or second is None or not first.images or not second.images:
        return ""
    rates = [spent.images / spent.seconds for spent in (first, second)]
    factor = rates[1] / rates[0]
    words = f"{rates[1]:,.0f} images/s after {rates[0]:,.0f}"
    if 0.9 < factor < 1.11:
        return f"About as fast: {words}."
    each = {
        name: [1e6 * spent.parts[name] / spent.images for spent in (first, second)] for name in PARTS if name != "validation"
    }
    moved = sorted(each, key=lambda name: (each[name][1] - each[name][0]) * (1 if factor > 1 else -1))
    told = " and ".join(
        f"{PART_WORDS[name]} {'fell' if each[name][1] < each[name][0] else 'rose'} from {each[name][0]:,.0f} to "
        f"{each[name][1]:,.0f} microseconds a digit"
        for name in moved[:2]
        if abs(each[name][1] - each[name][0]) > 0.15 * abs(sum(each[part][1] - each[part][0] for part in each))
    )
    compared = f"{factor:.1f} times as fast" if factor > 1 else f"{1 / factor:.1f} times slower"
    return f"{compared[0].upper()}{compared[1:]}: {words}. {told[:1].upper()}{told[1:]}{'.' if told else ''}".strip()


def _validating(view: RunView, spent: TimeSpent) -> Finding | None:
    share, times = spent.share("validation"), view.config.validations_per_epoch
    if share < _VALIDATING or times <= 1:
        return None
    words = f"{_percent(share)} of the time goes into validations: {times} an epoch, each over all validation digits."
    return Finding("Validates often", words, Verdict.NOTE, "One an epoch is enough.", {"validations_per_epoch": 1})


def _in_line(view: RunView, spent: TimeSpent) -> Finding | None:
    """Threads that wait for a core."""
    started, config = view.started, view.config
    if math.isnan(spent.in_line) or spent.in_line < _IN_LINE or started is None:
        return None
    words = f"Its threads stood in line for a core {_percent(spent.in_line)} of their time"
    if started.cores and started.threads > started.cores:
        words = f"{words}: {started.threads} threads share {_counted(started.cores, 'core')}."
        return Finding("Too many threads", words, Verdict.NOTE, "Leave the number to Digit Lab.", {"threads": None})
    if config.pipeline == "dataloader" and config.workers and started.threads + config.workers > started.cores > 0:
        sharing = f"{config.workers} workers and {_counted(started.threads, 'thread')}"
        words = f"{words}: {sharing} share {_counted(started.cores, 'core')}."
        return _from_memory("Too many workers", words)
    fewer: dict[str, Any] = {"threads": 1} if started.threads > 1 else {}
    advice = "With one thread, none waits for another." if fewer else "It is faster when they end."
    if max(spent.pages, spent.elsewhere) >= _A_NEIGHBOUR:
        if spent.pages > spent.elsewhere:
            return Finding("Busy pages", f"{words}: pages kept {spent.pages:.1f} cores busy.", Verdict.NOTE, advice, fewer)
        words = f"{words}: other programs kept {spent.elsewhere:.1f} cores busy."
        return Finding("Busy neighbours", words, Verdict.NOTE, advice, fewer)
    return None


def _waiting(view: RunView, spent: TimeSpent) -> Finding | None:
    config, share = view.config, spent.share("data")
    if share < _WAITING:
        return None
    words = f"{_percent(share)} of the time it waits for data"
    if config.pipeline == "memory":
        if not config.augments():
            return Finding("Waits for data", f"{words}: taking the digits of each batch out of memory.", Verdict.NOTE)
        moved = "moving, turning and scaling the digits takes that long"
        return Finding("Waits for data", f"{words}: {moved}.", Verdict.NOTE, "Augment less, or take the time as its price.")
    how = f"{config.workers} worker processes prepare" if config.workers > 1 else "one worker process prepares"
    how = how if config.workers else "the training's own thread prepares"
    return _from_memory("Waits for data", f"{words}: {how} each digit by itself, {_milliseconds(spent, 'data')} for each.")


def _from_memory(name: str, words: str) -> Finding:
    advice = "Pipeline memory: all digits as one tensor, a batch is one indexing."
    return Finding(name, words, Verdict.NOTE, advice, {"pipeline": "memory", "workers": 0})


def _page(view: RunView, spent: TimeSpent) -> Finding | None:
    """Python runs one thread at a time: pages of the same process take turns with the training."""
    if math.isnan(spent.blocked) or spent.blocked < _BLOCKED or spent.pages < _BLOCKED or view.config.pipeline != "memory":
        return None
    words = (
        f"{_percent(spent.blocked)} of the time it waited for pages of its own process: they kept {spent.pages:.1f} cores busy."
    )
    return Finding("The page itself", words, Verdict.NOTE, "Close tabs that nobody looks at, or train in a terminal.")


def _creeping(view: RunView, spent: TimeSpent) -> Finding | None:
    """Memory that grows in a line, long after the first steps."""
    reports = view.reports
    late = slice(len(reports) // 3, None, 1 + len(reports) // _MOST_READINGS)
    seconds, resident = reports.column("seconds")[late], reports.column("resident")[late].astype(np.float64)
    if len(seconds) < 50 or seconds[-1] - seconds[0] < 2 * _LEAST_SECONDS:
        return None
    thirds = [float(np.median(part)) for part in np.array_split(resident, 3)]
    growth = thirds[2] - thirds[0]  # over two thirds of the stretch
    even = min(thirds[1] - thirds[0], thirds[2] - thirds[1]) > 0.25 * growth
    if not even or growth < max(_LEAST_GROWTH, _CREEPING * thirds[0]):
        return None
    pace = growth / (2 / 3 * (seconds[-1] - seconds[0])) * 60 / 2**20
    words = (
        f"Memory creeps: {thirds[0] / 2**20:,.0f}, {thirds[1] / 2**20:,.0f}, {thirds[2] / 2**20:,.0f} MiB, {pace:,.0f} "
        "MiB more each minute."
    )
    advice = "Something keeps what each step made, a loss with its graph, say: keep loss.item() or loss.detach()."
    return Finding("Memory creeps", words, Verdict.NOTE, advice)


def _anomaly(view: RunView, spent: TimeSpent) -> Finding | None:
    if not view.config.detect_anomaly:
        return None
    words = (
        f"Detect anomaly checks each operation of the backward pass for NaN: forward and backward take "
        f"{_percent(spent.share('forward', 'backward'))} of the time."
    )
    return Finding("Detects anomalies", words, Verdict.NOTE, "Only to search for a NaN.", {"detect_anomaly": False})


def _small_batch(view: RunView, spent: TimeSpent) -> Finding | None:
    fixed, size = spent.share("optimizer", "rest"), view.config.batch_size * view.config.accumulation_steps
    if size > _SMALL_BATCH or fixed < _FIXED or not _larger(view):
        return None
    words = (
        f"{_percent(fixed)} of the time goes into what an update of {_counted(size, 'digit')} costs as one of any size does."
    )
    return Finding("Small batches", words, Verdict.NOTE, "Larger batches share that cost.", _larger(view))


def _larger(view: RunView) -> dict[str, Any]:
    larger = min(64, view.config.split_sizes()[0])
    return {"batch_size": larger} if larger > view.config.batch_size else {}


def _computing(view: RunView, spent: TimeSpent) -> Finding:
    words = f"{_percent(spent.share('forward', 'backward'))} of the time goes into forward and backward: it computes."
    started, config = view.started, view.config
    if started and started.precision == "float32" and started.fastest_precision == "bfloat16":
        advice = "This device computes with bfloat16, too, which is faster."
        if config.precision == "float32":
            return Finding("Computes", words, Verdict.OK, advice, {"precision": "auto"})
    return Finding("Computes", words)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _milliseconds(spent: TimeSpent, part: str) -> str:
    return f"{1000 * spent.parts[part] / max(1, spent.images):.2f} ms"


# In this order: what comes first hides what comes after it.
_CAUSES: tuple[Callable[[RunView, TimeSpent], Finding | None], ...] = (
    _anomaly,
    _validating,
    _waiting,
    _in_line,
    _page,
    _creeping,
    _small_batch,
)
