"""What a run or a job is doing, and how to drain a generator that does it."""

from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


def result_of(steps: Generator[object, None, T]) -> T:
    """Run a generator to its end and return its value."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class RunStatus(StrEnum):
    """The state of a run or a job. Compare with ==: Streamlit re-imports modules, so identity breaks."""

    QUEUED = "queued"
    """Waits until the run before it has ended."""
    PREPARING = "preparing"
    """Reads and verifies data, builds the model."""
    RUNNING = "running"
    PAUSED = "paused"
    """Stands between two steps; keeps its memory."""
    FINISHED = "finished"
    """Reached its end, early stopping included; the test split was scored."""
    STOPPED = "stopped"
    """Ended by a person, between two steps."""
    FAILED = "failed"
    """Ended by an error; `reason` says which."""
    INTERRUPTED = "interrupted"
    """Its process ended without a word: killed, or the machine went down."""

    @property
    def is_active(self) -> bool:
        """True while the run can still change."""
        return self in (RunStatus.QUEUED, RunStatus.PREPARING, RunStatus.RUNNING, RunStatus.PAUSED)


@dataclass(frozen=True)
class Progress:
    """How far a job is: `done` of `total` (0 when unknown) in `unit`, and what it does now in words."""

    done: float
    total: float
    message: str
    unit: str = ""

    @property
    def share(self) -> float:
        """In [0, 1]; 0 while the total is unknown."""
        return min(1.0, self.done / self.total) if self.total else 0.0
