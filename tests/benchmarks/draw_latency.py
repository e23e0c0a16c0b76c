"""From pen-lift to the changed answer in a real browser, in milliseconds: 95th percentile of 50 strokes, idle and while a
training runs in the same server. The canvas itself waits 200 ms before it sends a stroke.

Beside it what `core` needs of that (strokes -> image -> answer), and time travel over a run's snapshots.
"""

import random
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from core.drawing.read import read
from core.drawing.strokes import drawing_from_canvas
from core.insight.time_travel import travel
from core.model.predictor import load_predictor
from core.runs.folder import RunFolder
from tests.benchmarks.harness import arguments, report, train
from tests.helpers.servers import CHROMIUM_ARGUMENTS, start_server, stop_server
from tests.helpers.shapes import DIGITS, as_canvas, drawing

# Notes when the pen is lifted, and when an answer with another drawing's mark is in the page.
WATCH = """() => {
  window.answer = () => document.querySelector('[id^="digit-lab-answer-"]')?.id;
  document.addEventListener("pointerup", () => { window.lifted = performance.now(); }, true);
  document.addEventListener("mouseup", () => { window.lifted = performance.now(); }, true);
  new MutationObserver(() => {
    const now = window.answer();
    if (now && now !== window.known) { window.known = now; window.changed = performance.now(); }
  }).observe(document.body, { childList: true, subtree: true, attributes: true });
}"""


def stroke(page: Page, points: list[tuple[float, float]]) -> float:
    """Draw one stroke; milliseconds from pen-lift to the changed answer."""
    canvas = page.locator(".st-key-draw_canvas canvas.upper-canvas")
    canvas.hover()
    box = canvas.bounding_box()
    assert box is not None
    page.evaluate("() => { window.changed = 0; window.known = window.answer(); }")
    page.mouse.move(box["x"] + points[0][0], box["y"] + points[0][1])
    page.mouse.down()
    for x, y in points[1:]:
        page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.up()
    page.wait_for_function("window.changed > 0 && window.changed > window.lifted", timeout=30_000)
    return page.evaluate("window.changed - window.lifted")


def strokes(page: Page, count: int) -> list[float]:
    """Milliseconds of `count` strokes: parts of digits, cleared after every second."""
    numbers, found = random.Random(0), []
    for number in range(count):
        if number % 2 == 0 and page.evaluate("Boolean(window.answer())"):
            page.locator(".st-key-draw_clear button").click()
            page.wait_for_function("!window.answer()", timeout=30_000)
            page.locator(".st-key-draw_clear button[disabled]").wait_for()
        points = DIGITS[number % 10][0]
        shift = numbers.uniform(-15, 15)
        found.append(stroke(page, [(float(x) + shift, float(y)) for x, y in points[::2]]))
    return found


def in_browser(data: Path, runs_from: Path, browser_path: str, count: int) -> tuple[list[float], list[float]]:
    """(idle, while training): milliseconds a stroke."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        shutil.copytree(runs_from, Path(folder) / "runs")
        server = start_server(Path(folder), str(data.resolve()))
        browser = playwright.chromium.launch(executable_path=browser_path, args=CHROMIUM_ARGUMENTS)
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(f"{server.url}/draw")
            page.locator(".st-key-draw_canvas canvas.upper-canvas").hover(timeout=120_000)
            page.evaluate(WATCH)
            strokes(page, 5)  # scripts are compiled, charts loaded
            idle = strokes(page, count)
            other = browser.new_page()
            other.goto(f"{server.url}/?epochs=1000")
            other.locator(".st-key-start button").click(timeout=120_000)
            other.wait_for_url(lambda url: "run=" in url, timeout=60_000)
            other.close()
            page.bring_to_front()
            page.get_by_text("training now").wait_for(timeout=60_000)
            strokes(page, 5)
            return idle, strokes(page, count)
        finally:
            browser.close()
            stop_server(server)


def in_core(best: Path, count: int) -> list[float]:
    """Milliseconds from the canvas's JSON to the answer."""
    predictor, found = load_predictor(best), []
    for number in range(count + 5):
        content = as_canvas(drawing(number % 10))
        began = time.perf_counter()
        images = read(drawing_from_canvas(content, 280, 280)).digits
        predictor.predict(np.stack([image.model_input for image in images]))
        found.append(1000 * (time.perf_counter() - began))
    return found[5:]


def main() -> None:
    """Measure and print."""
    given = arguments(__doc__ or "", strokes=50)
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        raise SystemExit("needs a browser: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        # 30 snapshots of the tutorial's network, in little time: many short epochs.
        result = train(
            "--preset", "batchnorm", "--set", "epochs=20", "--set", "train_size=3200", "--data", given.data, "--runs", runs
        )
        run = runs / result["run_id"]
        core = in_core(run / "best.pt", given.strokes)
        image = read(drawing(3)).digits[0].model_input[None]
        began = time.perf_counter()
        count = len(travel(run, image).steps)
        first = time.perf_counter() - began
        began = time.perf_counter()
        travel(run, image)
        again = time.perf_counter() - began
        assert count == len(RunFolder(run).snapshots())
        idle, training = in_browser(given.data, runs, browser_path, given.strokes)
    values = {
        "idle_p95_ms": float(np.percentile(idle, 95)),
        "training_p95_ms": float(np.percentile(training, 95)),
        "core_p95_ms": float(np.percentile(core, 95)),
        "idle_p50_ms": float(np.median(idle)),
        "training_p50_ms": float(np.median(training)),
        "travel_snapshots": count,
        "travel_first_seconds": first,
        "travel_again_seconds": again,
    }
    report(
        given,
        values,
        f"pen-lift to answer, p95 of {given.strokes}: idle {values['idle_p95_ms']:.0f} ms, training "
        f"{values['training_p95_ms']:.0f} ms, of it core {values['core_p95_ms']:.1f} ms; time travel over {count} snapshots "
        f"{first:.2f} s, then {again:.2f} s",
    )


if __name__ == "__main__":
    main()
