import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from core.config import TrainConfig
from core.data import missing_files
from core.events import RunStatus
from core.jobs import JobSnapshot
from core.trainer import Trainer

SAMPLE = TrainConfig(dataset="mnist_sample", train_size=640, validation_size=200, epochs=2, threads=1, device="cpu")


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
        info = trainer.read(runs, run_id).info
        if not info.status.is_active and info.status != status:
            raise AssertionError(f"the run is {info.status}, not {status}: {info.reason}\n{info.details}")
        return info.status == status

    wait_for(reached, seconds, f"run {status}")
    return trainer.read(runs, run_id)


def wait_for_job(trainer: Trainer, name: str, seconds: float = 60.0, *, begun: bool = True) -> JobSnapshot | None:
    """Wait until a job has ended; also for its beginning, unless `begun` is False."""

    def ended():
        job = trainer.jobs.get(name)
        return not begun if job is None else not job.status.is_active

    wait_for(ended, seconds, f"job {name} ended")
    return trainer.jobs.get(name)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def trainer() -> Iterator[Trainer]:
    made = Trainer()
    yield made
    made.shutdown()
    assert made.wait_until_idle(20)


@pytest.fixture(scope="session")
def mnist_root() -> Path:
    """A folder with the real MNIST, or a skip that says how to get one."""
    root = Path(os.environ.get("DIGIT_LAB_DATA") or "data")
    if missing_files(root):
        pytest.skip("needs the real MNIST: name its folder in DIGIT_LAB_DATA")
    return root


@pytest.fixture(scope="session")
def chromium_path() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("needs a browser: apt-get install chromium")
    return found
