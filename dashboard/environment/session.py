"""The Environment page's check, run as a job."""

from core.execution.process import get_jobs
from core.machine.check import check

CHECK_JOB = "check"


def start_check() -> None:
    """Look at the installation."""
    get_jobs().start(CHECK_JOB, check)
