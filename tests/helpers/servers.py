"""The app as a server process, and how Chromium is started."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.waits import wait_for

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


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
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
        )
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
