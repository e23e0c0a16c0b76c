import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from tests.conftest import wait_for

expect.set_options(timeout=60_000)

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip


@dataclass
class Server:
    """A dashboard of its own for one test module."""

    url: str
    runs: Path
    process: "subprocess.Popen[bytes]"
    log: Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_server(folder: Path, data: str | None = None, command: tuple[str, ...] = ("-m", "dashboard")) -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder / "server.log"
    environment = os.environ | {"DIGIT_LAB_RUNS": str(folder / "runs"), "DIGIT_LAB_DATA": data or str(folder / "data")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command, f"--server.port={port}", "--server.fileWatcherType=none"],
            cwd=ROOT, env=environment, stdout=output, stderr=output,
        )  # fmt: skip
    server = Server(f"http://127.0.0.1:{port}", folder / "runs", process, log)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    wait_for(answers, 60, "the server answers")
    return server


def stop_server(server: Server) -> None:
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGINT)
        try:
            server.process.wait(20)
        except subprocess.TimeoutExpired:
            server.process.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, chromium_path: str) -> Iterator[Server]:
    made = start_server(tmp_path_factory.mktemp("server"))
    yield made
    stop_server(made)


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[BrowserContext]:
    """One profile for all tests, so that Streamlit's scripts are fetched and compiled once."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_ARGUMENTS)
        context = made.new_context()
        context.set_default_timeout(60_000)
        yield context
        made.close()


@pytest.fixture
def open_page(browser: BrowserContext) -> Iterator[Callable[..., Page]]:
    """Opens pages that fail the test when their scripts raise, or when anything is fetched from elsewhere."""
    pages: list[Page] = []
    problems: list[str] = []

    def opened(
        url: str, width: int = 1440, height: int = 900, color_scheme: Literal["light", "dark"] = "light",
        ready: str = ".st-key-start button",
    ) -> Page:  # fmt: skip
        page = browser.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=color_scheme)
        page.on("pageerror", lambda error: problems.append(f"script: {error}"))
        page.on("request", lambda request: elsewhere(request.url))
        page.goto(url)
        page.get_by_role("heading", level=1).wait_for()
        page.locator(ready).wait_for()
        return page

    def elsewhere(url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")):
            problems.append(f"fetched from elsewhere: {url}")

    yield opened
    for page in pages:
        page.close()
    assert problems == []
