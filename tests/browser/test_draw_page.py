"""The Draw page in a real browser: mouse, finger and clipboard, a model that the app itself trained on the real MNIST."""

import base64
import re
from time import monotonic

import pytest
from playwright.sync_api import Page, expect

from core.runs.info import list_runs, read_info
from tests.helpers.picture_files import PICTURES
from tests.helpers.servers import Server, start_server, stop_server
from tests.helpers.shapes import DIGITS
from tests.helpers.train_page import start
from tests.helpers.waits import wait_for

CANVAS = ".st-key-draw_canvas canvas.upper-canvas"


@pytest.fixture(scope="module")
def server(tmp_path_factory, chromium_path, mnist_root):
    made = start_server(tmp_path_factory.mktemp("server"), str(mnist_root.resolve()))
    yield made
    stop_server(made)


@pytest.fixture
def draw(server: Server, open_page):
    """Opens the Draw page with a model; the first test that asks trains it from the page."""

    def opened(**options) -> Page:
        tested = next((run.run_id for run in list_runs(server.runs) if run.test_accuracy is not None), None)
        page = open_page(f"{server.url}/draw" + (f"?run={tested}" if tested else ""), ready=CANVAS, **options)
        if tested is None:
            page.get_by_role("button", name="Train a model now").click()
        expect(page.get_by_text("test accuracy")).to_be_visible(timeout=180_000)
        return page

    yield opened
    for run in list_runs(server.runs):
        if run.status.is_active:
            page = open_page(f"{server.url}/?run={run.run_id}")
            page.locator(".st-key-stop button").click()
            wait_for(lambda run_id=run.run_id: not read_info(server.runs / run_id).status.is_active)


def drawn(page: Page, digit: int, scale: float = 1.0) -> None:
    """Draw with the mouse."""
    canvas = page.locator(CANVAS)
    canvas.hover()
    box = canvas.bounding_box()
    for points in DIGITS[digit]:
        places = [(box["x"] + 140 + (x - 140) * scale, box["y"] + 140 + (y - 140) * scale) for x, y in points]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place)
        page.mouse.up()


def answer(page: Page, digit: int) -> None:
    expect(page.locator(".digit-lab-answer")).to_have_text(str(digit))


def clear(page: Page) -> None:
    page.locator(".st-key-draw_clear button").click()
    expect(page.locator(".digit-lab-answer")).to_have_count(0)
    expect(page.locator(".st-key-draw_clear button")).to_be_disabled()


def ink(page: Page) -> int:
    """White pixels on the canvas as it stands in the browser."""
    return page.locator(".st-key-draw_canvas canvas.dc-canvas.lower-canvas").evaluate(
        "canvas => canvas.getContext('2d').getImageData(0, 0, 280, 280).data.filter((v, i) => i % 4 == 0 && v > 128).length"
    )


def test_each_digit_drawn_with_the_mouse_is_recognised(draw):
    page = draw()
    for digit in DIGITS:
        drawn(page, digit)
        answer(page, digit)
        clear(page)
        wait_for(lambda: ink(page) == 0)
    drawn(page, 3, scale=0.4)  # small
    answer(page, 3)


def test_the_drawing_survives_page_changes_a_theme_switch_and_a_training(draw, server: Server, open_page):
    page = draw()
    drawn(page, 5)
    answer(page, 5)
    # Its first stroke alone may be called a 5 already; the canvas sends the last one 200 ms after the pen was lifted.
    page.wait_for_function(
        "count => JSON.parse(sessionStorage.getItem('digit-lab-drawing') ?? '{}').objects?.length === count", arg=len(DIGITS[5])
    )
    white = ink(page)
    assert white > 2000
    page.get_by_role("link", name="Environment").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Environment|installation", re.I))
    page.get_by_role("link", name="Draw").click()
    answer(page, 5)
    wait_for(lambda: ink(page) == white)
    page.emulate_media(color_scheme="dark")
    answer(page, 5)
    assert ink(page) == white

    other = open_page(f"{server.url}/?epochs=300&train_size=2000")
    start(other)
    other.wait_for_url(lambda url: "run=" in url)
    other.close()
    page.get_by_role("radio", name="My test set").click()
    page.locator(".st-key-pin button").click()
    expect(page.get_by_text("of 1 right")).to_be_visible()
    page.get_by_role("button", name="Change model").click()
    page.get_by_role("combobox", name="Model").click()
    page.get_by_role("option").first.click()
    expect(page.get_by_text("training now")).to_be_visible()
    first = page.get_by_text(re.compile(r"right at step [\d,]+")).inner_text()
    expect(page.get_by_text(re.compile(r"right at step [\d,]+"))).not_to_have_text(first)  # its newer weights are asked
    assert ink(page) == white
    clear(page)
    drawn(page, 7)
    expect(page.locator(".digit-lab-answer")).to_be_visible()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("pin up to 10")).to_be_visible()


def test_a_stroke_is_sent_once(draw):
    page = draw()
    drawn(page, 1)
    answer(page, 1)
    page.evaluate(
        """() => { window.sent = 0; const send = WebSocket.prototype.send;
        WebSocket.prototype.send = function (data) { window.sent += 1; return send.call(this, data); }; }"""
    )
    began = monotonic()
    for digit in (7, 2, 3):
        before = page.locator("[id^=digit-lab-answer-]").get_attribute("id")
        drawn(page, digit)
        expect(page.locator(f"[id='{before}']")).to_have_count(0)
        page.wait_for_timeout(500)  # the canvas waits 200 ms before it sends: a second message would come now
    heartbeats = 1 + int((monotonic() - began) / 5)
    assert 3 <= page.evaluate("window.sent") <= 3 + heartbeats


def test_a_finger_draws(draw):
    page = draw(width=390, height=844)
    box = page.locator(CANVAS).bounding_box()
    touch = page.context.new_cdp_session(page)
    (points,) = DIGITS[7]
    for number, (x, y) in enumerate(points):
        place = [{"x": box["x"] + x, "y": box["y"] + y}]
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove" if number else "touchStart", "touchPoints": place})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    answer(page, 7)
    expect(page.locator(".digit-lab-answer")).to_be_in_viewport()  # without scrolling


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 720), (390, 844)])
def test_a_switch_and_its_effect_are_seen_together(draw, width, height):
    page = draw(width=width, height=height)
    drawn(page, 7)
    answer(page, 7)
    switches = page.locator(".st-key-stages [data-testid='stCheckbox']")
    expect(switches).to_have_count(5)
    if width < 641:  # a phone shows canvas, answer and switches together once it is scrolled past the page's head
        page.locator(".st-key-draw_canvas").evaluate("canvas => canvas.scrollIntoView()")
    for one in (page.locator(".st-key-draw_canvas"), page.locator(".digit-lab-answer"), *switches.all()):
        expect(one).to_be_in_viewport(ratio=0.9)
    switches.nth(1).locator("label").click()
    expect(page.get_by_text("Some steps of the image are switched off")).to_be_visible()
    expect(page.locator(".digit-lab-answer")).to_be_in_viewport()


def test_a_pasted_picture_is_read(draw):
    page = draw()
    page.get_by_role("radio", name="Picture").click()
    expect(page.get_by_text("paste one from the clipboard")).to_be_visible()
    page.evaluate(
        """(content) => {
        const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
        const clipboard = new DataTransfer();
        clipboard.items.add(new File([bytes], "digit.png", { type: "image/png" }));
        document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: clipboard, bubbles: true, cancelable: true }));
        }""",
        base64.b64encode(PICTURES["grey png, black on white"]).decode(),
    )
    answer(page, 5)
    page.get_by_role("button", name="Remove the picture").click()
    expect(page.locator(".digit-lab-answer")).to_have_count(0)


@pytest.mark.parametrize(("width", "height", "scheme"), [(1440, 900, "dark"), (390, 844, "light")])
def test_both_modes_and_the_past_of_an_answer(draw, width, height, scheme):
    page = draw(width=width, height=height, color_scheme=scheme)
    drawn(page, 8)
    answer(page, 8)
    page.get_by_role("radio", name="train", exact=True).click()
    expect(page.get_by_text("in train mode")).to_be_visible()
    bars = page.locator(".st-key-draw_bars .digit-lab-figure")
    wait_for(lambda: bars.evaluate("host => host._fullData?.map(trace => trace.name)") == ["eval mode", "train mode"])

    page.get_by_role("radio", name="Over training").click()
    expect(page.get_by_text("through the run's training")).to_be_visible()
    strip = page.locator(".st-key-draw_travel .digit-lab-figure")
    wait_for(lambda: (strip.evaluate("host => host._fullData?.length ?? 0")) == 4)
    last = strip.evaluate("host => host._fullData[3].y")
    strip.evaluate("host => window.Plotly.animate(host, ['0'], { mode: 'immediate', frame: { duration: 0 } })")
    wait_for(lambda: strip.evaluate("host => host._fullData[3].y") != last)
    for panel in ("Why?", "Where it looks", "My test set"):
        page.get_by_role("radio", name=panel).click()
        page.wait_for_function("document.querySelector('[data-test-script-state]')?.dataset.testScriptState !== 'running'")
    expect(page.get_by_role("button", name="Naive shrink")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    expect(page.locator(".stException")).to_have_count(0)


def test_a_tap_or_a_stroke_anywhere_on_the_canvas_draws_and_does_nothing_else(draw):
    """The package's own toolbar lies unseen over the canvas, with a bin and a switch for drawing in it."""
    page = draw()
    drawn(page, 7)
    answer(page, 7)
    box = page.locator(".st-key-draw_canvas canvas.dc-canvas.lower-canvas").bounding_box()
    for y in range(6, 280, 39):
        for x in (5, 70, 140, 210, 275):
            hit = page.evaluate(
                "([x, y]) => { let one = document.elementFromPoint(x, y); while (one?.shadowRoot?.elementFromPoint(x, y)) "
                "{ const inner = one.shadowRoot.elementFromPoint(x, y); if (inner === one) break; one = inner; } "
                "return one?.tagName; }",
                [box["x"] + x, box["y"] + y],
            )
            assert hit == "CANVAS", (x, y)


def test_a_drawing_survives_a_reload_and_a_cleared_one_does_not_come_back(draw):
    page = draw()
    drawn(page, 7)
    answer(page, 7)
    white = ink(page)
    wait_for(lambda: page.evaluate("(sessionStorage.getItem('digit-lab-drawing') || '').length") > 100)
    page.reload()
    answer(page, 7)
    wait_for(lambda: ink(page) == white)
    clear(page)
    wait_for(lambda: ink(page) == 0)
    page.reload()
    expect(page.locator(".st-key-draw_clear button")).to_be_disabled()
    wait_for(lambda: ink(page) == 0)
    drawn(page, 1)
    answer(page, 1)


def test_ctrl_z_takes_the_last_stroke_back(draw):
    page = draw()
    drawn(page, 7)
    answer(page, 7)
    page.locator("h1").click()
    page.keyboard.press("Control+z")
    expect(page.locator(".digit-lab-answer")).to_have_count(0)
    wait_for(lambda: ink(page) == 0)
