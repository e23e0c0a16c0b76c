"""What there is one of in a process that serves pages: its trainer, its other jobs, its readers of runs.

Kept here rather than in a cache of the user interface, which would make a second one when its code is edited.
"""

import atexit
import threading
from dataclasses import dataclass, field

from core.execution.jobs import Jobs
from core.execution.readers import Readers
from core.execution.trainer import Trainer


@dataclass(frozen=True, eq=False)
class Process:
    """The three of them.

    Attributes:
        jobs: what the process does apart from pages and training.
    """

    trainer: Trainer = field(default_factory=Trainer)
    jobs: Jobs = field(default_factory=Jobs)

    def shutdown(self) -> None:
        """End everything, so that a run's last weights are saved; waits a few seconds at most."""
        self.jobs.shutdown()
        self.trainer.shutdown()


_process: Process | None = None
_lock = threading.Lock()


def this_process() -> Process:
    """Made at the first call, shut down when the process ends."""
    global _process
    with _lock:
        if _process is None:
            _process = Process()
            atexit.register(_process.shutdown)
        return _process


def get_trainer() -> Trainer:
    """The trainer of this process."""
    return this_process().trainer


def get_jobs() -> Jobs:
    """The jobs of this process."""
    return this_process().jobs


def get_readers() -> Readers:
    """The readers of this process; they know endings that the trainer's disk did not take."""
    return this_process().trainer.readers
