"""Training with the Train page open in a real browser on this machine against training without, in images/s.

`kept`: at the page's own thread count. `kept_of_best`: against the best headless thread count. Runs of simple_cnn at batch
64, in turn: headless and watched. The browser, the server and the training share this machine's cores.
"""

import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from core.machine.hardware import choose_threads, usable_cores
from core.runs.info import read_info
from core.runs.reader import RunReader
from tests.benchmarks.harness import arguments, report
from tests.benchmarks.throughput import product
from tests.helpers.servers import CHROMIUM_ARGUMENTS, start_server, stop_server
from tests.helpers.waits import wait_for

STEPS = 700


def watched(data: Path, browser_path: str) -> float:
    """Images/s of the last 500 steps of a run that was started from the page and watched there."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = start_server(Path(folder), str(data.resolve()))
        browser = playwright.chromium.launch(executable_path=browser_path, args=CHROMIUM_ARGUMENTS)
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{server.url}/?train_size={64 * STEPS}&validation_size=1000&epochs=1&precision=auto")
            page.locator(".st-key-start button").click()
            page.wait_for_url(lambda url: "run=" in url, timeout=60_000)
            run_id = page.url.partition("run=")[2].partition("&")[0]
            folder_of_run = server.runs / run_id

            def ended() -> bool:
                page.wait_for_timeout(1000)  # the page only lives while Playwright runs
                return not read_info(folder_of_run).status.is_active

            wait_for(ended, 600)
            steps = RunReader(folder_of_run).read().steps
            seconds, images = steps.column("seconds")[-500:], steps.column("images")[-499:]
            return float(images.astype("int64").sum() / (seconds[-1] - seconds[0]))
        finally:
            browser.close()
            stop_server(server)


def main() -> None:
    """Measure and print."""
    import shutil

    given = arguments(__doc__ or "", rounds=3)
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        raise SystemExit("needs a browser: apt-get install chromium")
    threads = choose_threads(None, beside_pages=True)
    headless = {count: [] for count in sorted({threads, usable_cores()})}
    seen = []
    for _ in range(given.rounds):
        seen.append(watched(given.data, browser_path))
        for count, figures in headless.items():
            figures.append(product(given.data, count, 64 * STEPS))
    watched_rate = statistics.median(seen)
    rates = {count: statistics.median(figures) for count, figures in headless.items()}
    values = {
        "kept": watched_rate / rates[threads],
        "kept_of_best": watched_rate / max(rates.values()),
        "threads": threads,
        "images_per_second": watched_rate,
        "headless_images_per_second": {str(k): v for k, v in rates.items()},
    }
    alone = ", ".join(f"{rate:,.0f} with {count} thread{'s' if count > 1 else ''}" for count, rate in rates.items())
    report(
        given,
        values,
        f"watched: {watched_rate:,.0f} images/s with {threads} thread{'s' if threads > 1 else ''}; headless: "
        f"{alone}. Kept {values['kept']:.2f}, of the best {values['kept_of_best']:.2f}",
    )


if __name__ == "__main__":
    main()
