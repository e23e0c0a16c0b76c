"""Jobs: what takes over a second besides training, such as a download or an experiment, each in a thread of its own.

A job is a generator of progress and results, so that it can be cancelled wherever it yields.
"""

import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from time import monotonic

from core.errors import CoreError, failure_of
from core.status import Progress, RunStatus

MAX_HEAVY_JOBS, MAX_WAITING_JOBS = 2, 20
# Of the heavy ones: from one address at a time, and places that are kept for who may control.
MAX_FROM_ONE_ADDRESS, _KEPT_PLACES = 2 + MAX_HEAVY_JOBS, 2
_MAX_ENDED_JOBS = 40
_LET_GO_SECONDS = 1.0
Work = Callable[[], Generator[object, None, None] | Iterator[object]]


@dataclass(frozen=True, eq=False)
class Asker:
    """Who asks for a heavy job.

    Attributes:
        address: of the person's machine; "" for this one. controls: may start and stop everything here.
        is_here: False once nobody looks at the answer any more: the job is ended then.
    """

    address: str = ""
    controls: bool = True
    is_here: Callable[[], bool] = lambda: True


NOBODY = Asker()


@dataclass(frozen=True)
class JobView:
    """A job at one moment.

    Attributes:
        progress: the last one reported.
        results: what else the job gave, in order.
        reason, details: why it failed, in words, and the traceback; "" when it did not. failure: the kind of error.
    """

    name: str
    status: RunStatus
    progress: Progress
    results: tuple[object, ...] = ()
    reason: str = ""
    details: str = ""
    failure: str = ""


@dataclass(eq=False)
class _Ends:
    """When a job is to end: somebody cancels it, or whoever asked has left. `at`: since when, None while it goes on."""

    asker: Asker
    at: float | None = None

    def cancel(self) -> None:
        self.at = monotonic() if self.at is None else self.at

    def now(self) -> bool:
        if not self.asker.is_here():
            self.cancel()
        return self.at is not None

    @property
    def let_go(self) -> bool:
        """The job was to end and does not come back: it waits for something that says nothing."""
        return self.at is not None and monotonic() > self.at + _LET_GO_SECONDS


def _failure(error: Exception) -> dict[str, object]:
    reason = str(error) if isinstance(error, CoreError) else f"{type(error).__name__}: {error}"
    details = "".join(traceback.format_exception(error))
    return {"status": RunStatus.FAILED, "reason": reason, "details": details, "failure": failure_of(error)}


class Jobs:
    """The jobs of a process, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heavy = threading.BoundedSemaphore(MAX_HEAVY_JOBS)
        self._packing = threading.Lock()
        self._jobs: dict[str, tuple[JobView, _Ends]] = {}
        self._lasting: set[str] = set()
        self._heavy_names: dict[str, _Ends] = {}
        self._closing = False

    def start(
        self,
        name: str,
        work: Work,
        *,
        heavy: bool = False,
        lasting: bool = False,
        growing: bool = False,
        asker: Asker = NOBODY,
    ) -> None:
        """Run a generator in a thread: it gives Progress, or results. One job of a name at a time: a second start joins
        the first.

        Args:
            heavy: it computes; of such jobs MAX_HEAVY_JOBS work at a time and MAX_WAITING_JOBS wait, so that a class that tries
                out experiments does not slow down the training. One more fails with a word.
            lasting: that it was done is remembered as long as the process; of other ended jobs the last ones are.
            growing: each result holds all that came before it, so the last one is kept alone.
            asker: whose job it is, for fair shares of the heavy ones; it ends when they have left.
        """
        with self._lock:
            current = self._current(name)
            if (current and current.status.is_active) or self._closing:
                return
            if lasting:
                self._lasting.add(name)
            ended = [one for one, (job, _) in self._jobs.items() if not job.status.is_active and one not in self._lasting]
            for old in ended[:-_MAX_ENDED_JOBS]:
                del self._jobs[old]
            ends = _Ends(asker)
            self._jobs.pop(name, None)  # the order is that of the starts
            if heavy and (full := self._full(asker)):
                self._jobs[name] = JobView(name, RunStatus.FAILED, Progress(0, 0, ""), reason=full), ends
                return
            if heavy:
                self._heavy_names[name] = ends
            self._jobs[name] = JobView(name, RunStatus.RUNNING, Progress(0, 0, "Starting")), ends
        work = self._waiting_turn(work) if heavy else work
        threading.Thread(target=self._do, args=(name, work, ends, growing), name=f"job-{name}", daemon=True).start()

    def _full(self, asker: Asker) -> str:
        """Why another heavy job of this person cannot wait, in words; "" when it can."""
        places = MAX_HEAVY_JOBS + MAX_WAITING_JOBS - (0 if asker.controls else _KEPT_PLACES)
        if len(self._heavy_names) >= places:
            return f"{len(self._heavy_names)} experiments work and wait on this server already. Try again in a minute."
        own = sum(ends.asker.address == asker.address and not ends.asker.controls for ends in self._heavy_names.values())
        if not asker.controls and own >= MAX_FROM_ONE_ADDRESS:
            return f"{own} experiments from your address work and wait already. Try again when one is done."
        return ""

    @contextmanager
    def turn(self, seconds: float = 30.0) -> Iterator[None]:
        """Pack something here and now, in the caller's thread, while nobody else does. Raises CoreError when they take long."""
        if not self._packing.acquire(timeout=seconds):
            raise CoreError("The server is busy packing other files. Try again in a minute.")
        try:
            yield
        finally:
            self._packing.release()

    def get(self, name: str) -> JobView | None:
        """The job of this name as it is now, ended ones included; None when there was none."""
        with self._lock:
            return self._current(name)

    def _current(self, name: str) -> JobView | None:
        job, ends = self._jobs.get(name, (None, None))
        if job is not None and ends is not None and job.status.is_active and ends.let_go:
            return replace(job, status=RunStatus.STOPPED)
        return job

    def cancel(self, name: str) -> None:
        """Ask a job to end at its next place to do so. One that has not ended within a second counts as stopped all the same:
        what it still waits for is of no interest to anybody, and it ends when that has come."""
        with self._lock:
            if name in self._jobs:
                self._jobs[name][1].cancel()

    def forget(self, name: str) -> None:
        """Drop an ended job, so that its result is no longer shown."""
        with self._lock:
            if (job := self._current(name)) and not job.status.is_active:
                del self._jobs[name]

    def shutdown(self) -> None:
        """Ask every job to end, and take no new ones."""
        with self._lock:
            self._closing = True
            for _, ends in self._jobs.values():
                ends.cancel()

    def _waiting_turn(self, work: Work) -> Work:
        def waiting() -> Iterator[object]:
            while not self._heavy.acquire(timeout=0.1):
                yield Progress(0, 0, "Waits until other experiments are done")
            try:
                yield from work()
            finally:
                self._heavy.release()

        return waiting

    def _do(self, name: str, work: Work, ends: "_Ends", growing: bool) -> None:
        ended: dict[str, object] = {"status": RunStatus.FINISHED}
        results: Iterator[object] = iter(())
        try:
            results = work()
            for given in results:
                self._update(name, given, ends, growing)
                if ends.now():
                    ended["status"] = RunStatus.STOPPED
                    break
        except Exception as error:
            # What a cancelled job waited for may have failed since.
            ended = {"status": RunStatus.STOPPED} if ends.at is not None else _failure(error)
        with suppress(Exception):
            getattr(results, "close", lambda: None)()
        with self._lock:
            if self._heavy_names.get(name) is ends:
                del self._heavy_names[name]
            job, current = self._jobs.get(name, (None, None))
            if job is not None and current is ends:
                self._jobs[name] = replace(job, **ended), ends

    def _update(self, name: str, given: object, ends: "_Ends", growing: bool) -> None:
        with self._lock:
            job, current = self._jobs.get(name, (None, None))
            if job is None or current is not ends:
                return
            before = () if growing else job.results
            change = {"progress": given} if isinstance(given, Progress) else {"results": (*before, given)}
            self._jobs[name] = replace(job, **change), ends
