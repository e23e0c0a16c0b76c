"""Thirty browser sessions watch one run: what training keeps of its speed, how long refreshes take, what memory is left behind.

`kept`: images/s with the viewers, against the mean of before and after them, in one run at one thread count. The viewers are
websocket clients on this machine, so they and the training share its cores. `memory_left_mb`: resident memory of the server
after they have left and Streamlit has dropped their sessions, less what it was after as long a round of viewers before (the
first round fills caches, and freed memory stays with the process up to its peak).
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from playwright.sync_api import sync_playwright

from core.runs.reader import RunReader
from tests.benchmarks.harness import arguments, report
from tests.benchmarks.viewers import Seen, watch
from tests.helpers.servers import CHROMIUM_ARGUMENTS, Server, start_server, stop_server
from tests.helpers.waits import wait_for

# Streamlit keeps the session of a lost connection for two minutes, in case the browser comes back.
_SESSIONS_DROPPED_AFTER = 140.0


def start_long_run(server: Server, browser_path: str) -> str:
    """Start a long run of simple_cnn at batch 64 from the page, and close the page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=CHROMIUM_ARGUMENTS)
        page = browser.new_page()
        page.goto(f"{server.url}/?epochs=1000&checkpoint_seconds=600")
        page.locator(".st-key-start button").click()
        page.wait_for_url(lambda url: "run=" in url, timeout=60_000)
        run_id = page.url.partition("run=")[2].partition("&")[0]
        browser.close()
    return run_id


def images_per_second(reader: RunReader, seconds: float) -> float:
    """Training speed over the next so many seconds, by the run's own clock (validations left out)."""
    first = reader.read().step
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() >= until, seconds + 60)
    steps = reader.read().steps
    moments, images = steps.column("seconds")[first:], steps.column("images")[first + 1 :]
    return float(images.astype(np.int64).sum() / (moments[-1] - moments[0]))


def with_viewers(server: Server, reader: RunReader, query: str, viewers: int, seconds: float) -> tuple[float, Seen]:
    """(images/s while so many watch, what they saw)."""
    first = len(reader.read().steps)
    seen = watch(server.url, query, viewers, seconds)
    steps = reader.read().steps
    # The first seconds are the opening of all pages, which a class does once.
    moments, images = steps.column("seconds")[first:], steps.column("images")[first:].astype(np.int64)
    later = np.searchsorted(moments, moments[0] + (moments[-1] - moments[0]) / 4)
    return float(images[later + 1 :].sum() / (moments[-1] - moments[later])), seen


def resident_mb(server: Server) -> float:
    """Memory of the server in RAM."""
    return psutil.Process(server.process.pid).memory_info().rss / 1e6


def main() -> None:
    """Measure and print."""
    import shutil

    given = arguments(__doc__ or "", viewers=30, seconds=40)
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        raise SystemExit("needs a browser to start the run: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder), str(given.data.resolve()))
        try:
            run_id = start_long_run(server, browser_path)
            reader = RunReader(server.runs / run_id)
            wait_for(lambda: reader.read().step > 200, 120)
            with_viewers(server, reader, f"run={run_id}", given.viewers, given.seconds)
            _wait_until_dropped()
            memory = resident_mb(server)
            before = images_per_second(reader, given.seconds / 2)
            watched, seen = with_viewers(server, reader, f"run={run_id}", given.viewers, given.seconds)
            after = images_per_second(reader, given.seconds / 2)
            _wait_until_dropped()
            left = resident_mb(server) - memory
        finally:
            stop_server(server)
    alone = (before + after) / 2
    values = {
        "kept": watched / alone,
        "refresh_p95_ms": 1000 * float(np.percentile(seen.refreshes, 95)) if seen.refreshes else None,
        "memory_left_mb": left,
        "viewers": given.viewers,
        "refreshes": len(seen.refreshes),
        "errors": seen.errors,
        "images_per_second": watched,
        "images_per_second_alone": alone,
    }
    p95 = f"{values['refresh_p95_ms']:,.0f} ms" if seen.refreshes else "none"
    words = f"{given.viewers} viewers: {watched:,.0f} images/s against {alone:,.0f} alone: kept {watched / alone:.2f}; "
    words += f"{len(seen.refreshes):,} refreshes, 95th percentile {p95}; memory left {left:+,.0f} MB; {len(seen.errors)} errors"
    report(given, values, words)


def _wait_until_dropped() -> None:
    until = time.monotonic() + _SESSIONS_DROPPED_AFTER
    wait_for(lambda: time.monotonic() >= until, _SESSIONS_DROPPED_AFTER + 60)


if __name__ == "__main__":
    main()
