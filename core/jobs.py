"""Jobs: what takes over a second besides training, such as a download or an experiment, each in a thread of its own.

A job is a generator of progress and results, so that it can be cancelled wherever it yields.
"""

import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from core.errors import CoreError
from core.events import Progress, RunStatus

MAX_HEAVY_JOBS, MAX_WAITING_JOBS = 2, 20
_MAX_ENDED_JOBS = 40
Steps = Callable[[], Iterator[object]]


@dataclass(frozen=True)
class JobSnapshot:
    """A job at one moment.

    Attributes:
        progress: the last one reported.
        results: what else the job gave, in order.
        reason, details: why it failed, in words, and the traceback; "" when it did not.
    """

    name: str
    status: RunStatus
    progress: Progress
    results: tuple[object, ...] = ()
    reason: str = ""
    details: str = ""


class Jobs:
    """The jobs of a process, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heavy = threading.BoundedSemaphore(MAX_HEAVY_JOBS)
        self._jobs: dict[str, tuple[JobSnapshot, threading.Event]] = {}
        self._lasting: set[str] = set()
        self._heavy_names: set[str] = set()
        self._closing = False

    def start(self, name: str, steps: Steps, *, heavy: bool = False, lasting: bool = False) -> None:
        """Run a generator in a thread: it gives Progress, or results. One job of a name at a time: a second start joins
        the first.

        Args:
            heavy: it computes; of such jobs MAX_HEAVY_JOBS work at a time and MAX_WAITING_JOBS wait, so that a class that tries
                out experiments does not slow down the training. One more fails with a word.
            lasting: that it was done is remembered as long as the process; of other ended jobs the last ones are.
        """
        with self._lock:
            current = self._jobs.get(name)
            if (current and current[0].status.is_active) or self._closing:
                return
            if lasting:
                self._lasting.add(name)
            ended = [one for one, (job, _) in self._jobs.items() if not job.status.is_active and one not in self._lasting]
            for old in ended[:-_MAX_ENDED_JOBS]:
                del self._jobs[old]
            cancel = threading.Event()
            self._jobs.pop(name, None)  # the order is that of the starts
            if heavy and len(self._heavy_names) >= MAX_HEAVY_JOBS + MAX_WAITING_JOBS:
                self._jobs[name] = JobSnapshot(name, RunStatus.FAILED, Progress(0, 0, ""), reason=(
                    f"{MAX_WAITING_JOBS} experiments wait on this server already. Try again in a minute.")), cancel  # fmt: skip
                return
            if heavy:
                self._heavy_names.add(name)
            self._jobs[name] = JobSnapshot(name, RunStatus.RUNNING, Progress(0, 0, "Starting")), cancel
        work = self._waiting_turn(steps) if heavy else steps
        threading.Thread(target=self._do, args=(name, work, cancel), name=f"job-{name}", daemon=True).start()

    def get(self, name: str) -> JobSnapshot | None:
        """The job of this name as it is now, ended ones included; None when there was none."""
        with self._lock:
            entry = self._jobs.get(name)
            return entry[0] if entry else None

    def cancel(self, name: str) -> None:
        """Ask a job to end at its next place to do so."""
        with self._lock:
            if name in self._jobs:
                self._jobs[name][1].set()

    def forget(self, name: str) -> None:
        """Drop an ended job, so that its result is no longer shown."""
        with self._lock:
            if name in self._jobs and not self._jobs[name][0].status.is_active:
                del self._jobs[name]

    def shutdown(self) -> None:
        """Ask every job to end, and take no new ones."""
        with self._lock:
            self._closing = True
            for _, cancel in self._jobs.values():
                cancel.set()

    def _waiting_turn(self, steps: Steps) -> Steps:
        def waiting() -> Iterator[object]:
            while not self._heavy.acquire(timeout=0.1):
                yield Progress(0, 0, "Waits until other experiments are done")
            try:
                yield from steps()
            finally:
                self._heavy.release()

        return waiting

    def _do(self, name: str, steps: Steps, cancel: threading.Event) -> None:
        ended: dict[str, object] = {"status": RunStatus.FINISHED}
        try:
            for given in steps():
                self._update(name, given)
                if cancel.is_set():
                    ended["status"] = RunStatus.STOPPED
                    break
        except Exception as error:
            reason = str(error) if isinstance(error, CoreError) else f"{type(error).__name__}: {error}"
            ended = {"status": RunStatus.FAILED, "reason": reason, "details": "".join(traceback.format_exception(error))}
        with self._lock:
            self._heavy_names.discard(name)
            self._jobs[name] = replace(self._jobs[name][0], **ended), cancel

    def _update(self, name: str, given: object) -> None:
        with self._lock:
            job, cancel = self._jobs[name]
            change = {"progress": given} if isinstance(given, Progress) else {"results": (*job.results, given)}
            self._jobs[name] = replace(job, **change), cancel
