"""Who has the processor's cores: the threads that train, the pages of the same process, and every other program.

Linux counts for each thread how long it ran and how long it stood in line for a core (schedstat); other systems do not tell.
"""

import math
import multiprocessing
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import psutil

_TASKS = Path("/proc/self/task")


@dataclass(frozen=True)
class CpuUse:
    """What became of the cores between two looks; seconds, NaN where the system does not tell.

    Attributes:
        period: wall time between the looks.
        wanted: the training threads ran or stood in line for a core (of all of them together). delay: stood in line.
        blocked: the training's own thread neither ran nor stood in line: it waited for another thread or process.
        pages: the process's other Python threads ran. elsewhere: other programs kept the usable cores busy.
    """

    period: float
    wanted: float
    delay: float
    blocked: float
    pages: float
    elsewhere: float


@dataclass(frozen=True)
class _Look:
    moment: float
    threads: dict[int, tuple[int, int]]
    busy: float
    own: float


class CpuWatch:
    """Looks from the thread that trains; each look tells what has been since the one before."""

    def __init__(self) -> None:
        self._thread = threading.get_native_id()
        self._last = _look()

    def restart(self) -> None:
        """Leave out what has been since the last look: a pause."""
        self._last = _look()

    def since(self) -> float:
        """Seconds since the last look."""
        return perf_counter() - self._last.moment

    def look(self) -> CpuUse:
        """What has been since the last look. Takes about a millisecond."""
        before, now = self._last, _look()
        self._last = now
        period = now.moment - before.moment
        # A busy core that is ours in part is counted in ticks of 10 ms: the difference can be a little below 0.
        elsewhere = max(0.0, now.busy - before.busy - (now.own - before.own))
        if not now.threads:
            return CpuUse(period, math.nan, math.nan, math.nan, math.nan, elsewhere)
        ran, waited = {}, {}
        for thread, (run, wait) in now.threads.items():
            run_before, wait_before = before.threads.get(thread, (0, 0))
            ran[thread], waited[thread] = max(0, run - run_before) / 1e9, max(0, wait - wait_before) / 1e9
        # What Python knows of are pages and their server; threads that it does not know of belong to tensor operations.
        pages = {thread.native_id for thread in threading.enumerate()} - {self._thread}
        delay = sum(seconds for thread, seconds in waited.items() if thread not in pages)
        wanted = delay + sum(seconds for thread, seconds in ran.items() if thread not in pages)
        blocked = max(0.0, period - ran.get(self._thread, 0.0) - waited.get(self._thread, 0.0))
        return CpuUse(period, wanted, delay, blocked, sum(ran[thread] for thread in pages if thread in ran), elsewhere)


def _look() -> _Look:
    return _Look(perf_counter(), _thread_times(), _busy_seconds(), _own_seconds())


def _thread_times() -> dict[int, tuple[int, int]]:
    """Thread -> nanoseconds that it ran, and that it stood in line; {} where the system does not tell."""
    times = {}
    with suppress(OSError):
        for name in os.listdir(_TASKS):
            with suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
                words = (_TASKS / name / "schedstat").read_bytes().split()
                times[int(name)] = int(words[0]), int(words[1])
    return times


def _busy_seconds() -> float:
    """Seconds that the cores which this process may use were busy, added up."""
    cores = psutil.cpu_times(percpu=True)
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(cores))
    idle = ("idle", "iowait", "guest", "guest_nice")  # guests are counted in user time already
    return sum(
        seconds for core in usable if core < len(cores) for name, seconds in cores[core]._asdict().items() if name not in idle
    )


def _own_seconds() -> float:
    """Seconds that this process and its worker processes ran."""
    times = os.times()
    seconds = times.user + times.system
    for child in multiprocessing.active_children():
        with suppress(psutil.Error):
            used = psutil.Process(child.pid).cpu_times()
            seconds += used.user + used.system
    return seconds
