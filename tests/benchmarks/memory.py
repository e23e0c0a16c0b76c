"""Resident memory of the server while it trains on 60,000 images and serves a page: the peak, and its growth an hour.

Growth is the slope of a straight line through the second half of the readings, so a run of `--minutes` stands for an hour.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from playwright.sync_api import sync_playwright

from tests.benchmarks.harness import arguments, report
from tests.helpers.servers import CHROMIUM_ARGUMENTS, start_server, stop_server


def main() -> None:
    """Measure and print."""
    import shutil

    given = arguments(__doc__ or "", minutes=60)
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        raise SystemExit("needs a browser: apt-get install chromium")
    readings: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = start_server(Path(folder), str(given.data.resolve()))
        browser = playwright.chromium.launch(executable_path=browser_path, args=CHROMIUM_ARGUMENTS)
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{server.url}/?epochs=1000")
            page.locator(".st-key-start button").click(timeout=60_000)
            process, began = psutil.Process(server.process.pid), time.monotonic()
            while (now := time.monotonic() - began) < 60 * given.minutes:
                readings.append((now / 3600, process.memory_info().rss / 2**20))
                page.wait_for_timeout(1000)
        finally:
            browser.close()
            stop_server(server)
    hours, megabytes = np.array(readings).T
    late = hours > hours[-1] / 2
    growth = float(np.polyfit(hours[late], megabytes[late], 1)[0])
    values = {"peak_mb": float(megabytes.max()), "growth_mb_per_hour": growth, "minutes": given.minutes}
    report(given, values, f"peak {megabytes.max():,.0f} MB; growth {growth:+,.0f} MB an hour, over {given.minutes} minutes")


if __name__ == "__main__":
    main()
