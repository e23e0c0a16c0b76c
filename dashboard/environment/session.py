"""The Environment page's check, run as a job."""

from core.execution.trainer import get_trainer
from core.machine.check import check

CHECK_JOB = "check"


def start_check() -> None:
    """Look at the installation."""
    get_trainer().jobs.start(CHECK_JOB, check)
