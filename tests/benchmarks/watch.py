"""`python -m core watch` on a run of a million steps: seconds until it is shown, and what watching takes of a core.

`core_share`: processor time of the command while it watches, start left out, over the wall time; in a terminal of 120 x 40.
"""

import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from core.config.train_config import TrainConfig
from core.runs.writer import RunWriter
from core.status import RunStatus
from tests.benchmarks.harness import ROOT, arguments, report
from tests.benchmarks.refresh_cost import write_steps

STEPS = 1_000_000


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "", seconds=30)
    with tempfile.TemporaryDirectory() as folder:
        writer = RunWriter.create(Path(folder), TrainConfig(epochs=1000, batch_size=10))
        write_steps(writer, 1, STEPS)
        writer.set_status(RunStatus.RUNNING)
        command = [sys.executable, "-m", "core", "watch", "--runs", folder]
        opened = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([*command, "--once"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            opened.append(time.perf_counter() - began)
        ours, theirs = pty.openpty()
        os.set_blocking(ours, True)
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "120", "LINES": "40"}
        )
        threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(ours, 65536), b"")], daemon=True).start()
        try:
            time.sleep(5)
            watched, began = psutil.Process(process.pid), time.perf_counter()
            before, done = watched.cpu_times(), STEPS
            while time.perf_counter() - began < given.seconds:
                write_steps(writer, done + 1, 50)  # the run goes on
                done += 50
                time.sleep(0.5)
            after, seconds = watched.cpu_times(), time.perf_counter() - began
        finally:
            process.terminate()
            process.wait()
            writer.close()
    share = (after.user + after.system - before.user - before.system) / seconds
    values = {"open_seconds": sorted(opened)[2], "core_share": share}
    report(given, values, f"{STEPS:,} steps: shown after {values['open_seconds']:.2f} s; watching takes {share:.2%} of a core")


if __name__ == "__main__":
    main()
