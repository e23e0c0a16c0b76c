import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.data.sources import missing_files
from core.execution.trainer import Trainer


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
