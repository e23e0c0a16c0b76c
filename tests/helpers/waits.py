"""Waiting for conditions, never for a time."""

from pathlib import Path
from time import monotonic, sleep

from core.execution.jobs import JobView
from core.execution.process import get_jobs
from core.execution.trainer import Trainer
from core.status import RunStatus


def wait_for(condition, seconds: float = 60.0, what: str = ""):
    """Wait until `condition()` is true and return it; fail when it takes longer."""
    deadline = monotonic() + seconds
    while not (value := condition()):
        if monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what or condition}")
        sleep(0.01)
    return value


def wait_for_status(trainer: Trainer, runs: Path, run_id: str, status: RunStatus, seconds: float = 60.0):
    """Wait until a run's folder says `status`; fail at once when it ended otherwise."""

    def reached():
        info = trainer.readers.read(runs, run_id).info
        if not info.status.is_active and info.status != status:
            raise AssertionError(f"the run is {info.status}, not {status}: {info.reason}\n{info.details}")
        return info.status == status

    wait_for(reached, seconds, f"run {status}")
    return trainer.readers.read(runs, run_id)


def wait_for_job(name: str, seconds: float = 60.0, *, begun: bool = True) -> JobView | None:
    """Wait until a job has ended; also for its beginning, unless `begun` is False."""

    def ended():
        job = get_jobs().get(name)
        return not begun if job is None else not job.status.is_active

    wait_for(ended, seconds, f"job {name} ended")
    return get_jobs().get(name)
