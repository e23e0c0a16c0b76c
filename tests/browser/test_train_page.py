"""The Train page in a real browser: start, watch, pause, reload, stop, start again."""

import re
from contextlib import suppress

import pytest
from playwright.sync_api import TimeoutError, expect

from core.runs.info import list_runs, read_info
from core.status import RunStatus
from tests.helpers.servers import Server
from tests.helpers.train_page import LONG, badge, open_sidebar, open_tab, points, start, stop, wait_for_points
from tests.helpers.waits import wait_for


@pytest.fixture(autouse=True)
def nothing_is_left_running(server: Server, open_page):
    yield
    active = [run.run_id for run in list_runs(server.runs) if run.status.is_active]
    for run_id in active:
        page = open_page(f"{server.url}/?run={run_id}")

        def ended(page=page, run_id=run_id):
            stop_button = page.locator(".st-key-stop button")
            with suppress(TimeoutError):  # a short run may end by itself meanwhile
                if stop_button.is_enabled():
                    stop_button.click(timeout=5_000)
            return not read_info(server.runs / run_id).status.is_active

        wait_for(ended)


def test_a_newcomer_starts_watches_pauses_reloads_stops_and_starts_again(server: Server, open_page):
    page = open_page(server.url + LONG)
    expect(page.get_by_text("5,000 real MNIST digits")).to_be_visible()
    run_id = start(page)
    wait_for_points(page, 20)
    before = points(page)
    wait_for_points(page, before + 10)
    expect(page.get_by_text("guessing: ln 10 = 2.303").first).to_be_visible()
    expect(page.get_by_text("First loss 2.3")).to_be_visible()

    page.get_by_role("button", name="Pause").click()
    badge(page, "Paused")
    step = wait_for(lambda: (info := read_info(server.runs / run_id)).status == RunStatus.PAUSED and info.step)
    wait_for_points(page, 20)

    page.reload()
    badge(page, "Paused")
    wait_for_points(page, 20)
    assert read_info(server.runs / run_id).step == step

    page.locator(".st-key-resume button").click()
    badge(page, "Training")
    wait_for(lambda: read_info(server.runs / run_id).step > step)
    stop(page)
    assert read_info(server.runs / run_id).status == RunStatus.STOPPED

    again = start(page)
    assert again != run_id
    wait_for_points(page, 5)
    stop(page)


def test_zoom_and_hidden_lines_survive_refreshes(server: Server, open_page):
    page = open_page(server.url + LONG)
    start(page)
    badge(page, "Training")
    wait_for_points(page, 30)
    plot = page.locator("[data-chart=loss]")
    plot.locator(".legendtoggle").first.click(force=True)
    page.wait_for_function("document.querySelector('[data-chart=loss]')?._fullData?.[0].visible === 'legendonly'")
    wait_for_points(page, 30)
    box = plot.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.2 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], y, steps=8)
    wait_for_points(page, points(page, "accuracy") + 5, "accuracy")  # the other charts go on while this one is dragged
    page.mouse.up()
    page.evaluate("document.querySelector('[data-chart=loss]').id = 'the-same-node'")
    zoom = "document.querySelector('#the-same-node')._fullLayout.xaxis.range"
    page.wait_for_function(f"document.querySelector('#the-same-node')._fullLayout.xaxis.autorange === false && {zoom}[0] > 3")
    before, count = page.evaluate(zoom), points(page)
    wait_for_points(page, count + 30)
    assert page.evaluate(zoom) == before
    assert page.evaluate("document.querySelector('#the-same-node')._fullData[0].visible") == "legendonly"
    stop(page)


# (width, height, the most that may lie above the loss curve, whether the whole accuracy curve is on the first screen)
SCREENS = [(1440, 900, 420, True), (1280, 720, 420, True), (1920, 1080, 420, True), (390, 844, 520, False)]


def curves_come_first(page, what):
    """The loss begins high on the first screen at every size, and nothing is wider than the window."""
    for width, height, most, both in SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            """([most, width]) => { const plot = document.querySelector("[data-chart=loss] .nsewdrag")?.getBoundingClientRect();
            return plot && plot.top <= most && plot.right <= width; }""",
            arg=[most, width],
            timeout=15_000,
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width, what
        if both:
            bottom = "document.querySelector('[data-chart=accuracy] .nsewdrag')?.getBoundingClientRect().bottom"
            # It is drawn after the loss, and anew after another size.
            assert page.wait_for_function(bottom).json_value() < height, what


def test_the_curve_comes_first_in_every_state_at_every_size(server: Server, open_page):
    """Without MNIST, so with its note; while it trains, with a queue, paused, stopped, and failed with its verdict."""
    page = open_page(server.url + LONG + "&seed=41")
    first = start(page)
    wait_for_points(page, 20)
    curves_come_first(page, "training")
    other = open_page(server.url + LONG + "&seed=42")
    start(other)
    expect(other.get_by_text("It waits for its turn")).to_be_visible()
    assert other.get_by_text("It waits for its turn").bounding_box()["y"] < 420
    expect(page.get_by_text("Queue: 1 waits")).to_be_visible()
    curves_come_first(page, "with a queue")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("button", name="Pause").click()
    badge(page, "Paused")
    curves_come_first(page, "paused")
    page.set_viewport_size({"width": 1440, "height": 900})
    stop(other)
    stop(page)
    assert read_info(server.runs / first).status == RunStatus.STOPPED
    curves_come_first(page, "stopped")
    failing = open_page(server.url + "/?dataset=mnist_sample&model=mlp&optimizer=sgd&learning_rate=1000000")
    start(failing)
    expect(failing.get_by_text("The loss became")).to_be_visible()
    curves_come_first(failing, "failed")


def test_a_chart_is_enlarged_and_made_small_again(server: Server, open_page):
    page = open_page(server.url + LONG + "&seed=51")
    start(page)
    wait_for_points(page, 10)
    plot, button = page.locator("[data-chart=loss]"), page.get_by_label("Enlarge this chart").first
    small = plot.bounding_box()
    button.click()
    drawn = "document.querySelector('[data-chart=loss]')._fullLayout.width"
    page.wait_for_function(f"{drawn} > {1.5 * small['width']}")
    assert plot.bounding_box()["height"] > 1.5 * small["height"]
    button.click()
    page.wait_for_function(f"{drawn} < {1.1 * small['width']}")
    stop(page)


def test_on_a_phone_one_labelled_button_leads_to_the_settings_and_start(server: Server, open_page):
    page = open_page(server.url, 390, 844)
    label = "getComputedStyle(document.querySelector('[data-testid=stExpandSidebarButton]'), '::after').content"
    assert page.evaluate(label) == '"Pages, settings and Start"'
    open_sidebar(page)
    expect(page.locator(".st-key-start button")).to_be_in_viewport()
    page.get_by_test_id("stSidebarCollapseButton").locator("button").click()


def test_a_double_click_is_one_run_and_a_second_tab_finds_it(server: Server, open_page):
    page = open_page(server.url + LONG + "&seed=11")
    before = len(list_runs(server.runs))
    open_sidebar(page)
    page.get_by_role("button", name="Start training").dblclick()
    page.wait_for_url(re.compile(r"run="))
    wait_for_points(page, 10)
    assert len(list_runs(server.runs)) == before + 1
    other = open_page(server.url)
    wait_for_points(other, 10)
    badge(other, "Training")
    other.locator(".st-key-stop button").click()
    expect(page.get_by_text("Stopped by hand")).to_be_visible()


def test_a_second_start_waits_in_line(server: Server, open_page):
    page = open_page(server.url + LONG + "&seed=21")
    first = start(page)
    badge(page, "Training")
    other = open_page(server.url + LONG + "&seed=22")
    expect(other.get_by_role("button", name="Add to the queue")).to_be_visible()
    second = start(other)
    badge(other, "Queued")
    expect(other.locator(".st-key-run_head input")).to_have_value(re.compile("seed 22"))
    stop(page)
    wait_for(lambda: read_info(server.runs / second).status == RunStatus.RUNNING)
    assert read_info(server.runs / first).status == RunStatus.STOPPED
    badge(other, "Training")
    stop(other)


def test_a_finished_run_shows_its_result_and_gives_its_files(server: Server, open_page):
    page = open_page(server.url + "/?dataset=mnist_sample&train_size=640&epochs=2&model=mlp")
    run_id = start(page)
    expect(page.locator(".digit-lab-band").get_by_text("Test accuracy")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("Most confidently wrong")).to_be_visible()
    expect(page).to_have_title(re.compile("Finished - Digit Lab$"))
    open_tab(page, "Files")
    for name, ending in (("Metrics (CSV)", "steps.csv"), ("Settings (JSON)", "config.json"), ("Report (HTML)", "report.html")):
        with page.expect_download() as download:
            page.get_by_role("button", name=name).click()
        assert download.value.suggested_filename == f"{run_id}-{ending}"
        assert download.value.path().stat().st_size > 200


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_and_every_control_has_a_name(server: Server, open_page, width, height, scheme):
    page = open_page(server.url + "/?dataset=mnist_sample&train_size=640&epochs=1&model=mlp", width, height, scheme)
    start(page)
    expect(page.locator(".digit-lab-band").get_by_text("Test accuracy")).to_be_visible(timeout=60_000)
    wait_for_points(page, 5)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate(
        "[...document.querySelectorAll('.digit-lab-charts .plot')].map(plot => plot.getBoundingClientRect().right)"
    )
    assert len(wide) == 5
    assert max(wide) <= width
    nameless = page.evaluate(
        "[...document.querySelectorAll('[data-testid=stMain] button, [data-testid=stMain] input')]"
        ".filter(one => one.offsetParent && !(one.ariaLabel || one.textContent.trim() || one.labels?.length || one.title"
        " || one.getAttribute('aria-labelledby'))).map(one => one.outerHTML.slice(0, 200))"
    )
    assert nameless == []


def test_the_charts_are_there_again_after_another_page(server: Server, open_page):
    page = open_page(server.url + LONG + "&seed=31")
    start(page)
    wait_for_points(page, 10)
    page.get_by_role("link", name="Environment").click()
    expect(page.get_by_text("Matrix product on cpu").first).to_be_visible(timeout=60_000)
    page.get_by_role("link", name="Train", exact=True).click()
    wait_for_points(page, 10)
    stop(page)


def test_without_plotly_js_the_charts_are_drawn_plainly_and_it_is_said(server: Server, open_page):
    page = open_page(server.url + "/?dataset=mnist_sample&train_size=640&epochs=1&model=mlp")
    page.route("**/app/static/plotly*", lambda route: route.abort())
    page.reload()
    start(page)
    expect(page.get_by_text("could not load plotly.js")).to_have_count(1)  # two for a moment, while a refresh replaces it
    expect(page.get_by_test_id("stPlotlyChart").first).to_be_visible()


def test_a_line_of_code_lights_up_its_chart_and_a_chart_its_lines(server: Server, open_page):
    page = open_page(server.url + LONG)
    start(page)
    wait_for_points(page, 20)
    page.locator(".st-key-view_code label").first.click()
    backward = page.locator(".digit-lab-code .line[data-does=backward]")
    expect(backward).to_contain_text("loss.backward()")
    backward.hover()
    expect(page.locator("figure.lit [data-chart]")).to_have_attribute("data-chart", "gradient_norm")
    expect(page.locator(".digit-lab-code .words")).to_contain_text(re.compile(r"gradient norm [\d.]+"))
    expect(backward.locator(".share")).to_have_text(re.compile(r"\d+ %"))  # measured by now, and told without a reload
    page.locator("[data-chart=learning_rate]").scroll_into_view_if_needed()
    page.locator("[data-chart=learning_rate]").hover()
    expect(page.locator(".digit-lab-code .line.lit").first).to_contain_text("optimizer.step()")
    before = points(page)
    wait_for_points(page, before + 10)  # the charts go on beside the code
    page.locator(".st-key-view_code label").first.click()
    expect(page.locator(".digit-lab-code")).to_have_count(0)
    expect(page.locator("figure.lit")).to_have_count(0)
    wait_for_points(page, before + 20)
    stop(page)


def test_keys_start_pause_and_stop_but_not_while_somebody_types(server: Server, open_page):
    page = open_page(server.url + LONG)
    expect(page.locator(".st-key-start button")).to_be_enabled()
    page.keyboard.press("Control+Enter")
    page.wait_for_url(lambda url: "run=" in url)
    wait_for_points(page, 10)
    page.keyboard.press("p")
    badge(page, "Paused")
    page.locator(".st-key-setting_epochs input").click()
    page.keyboard.type("p")
    expect(page.locator(".st-key-setting_epochs input")).to_have_value(re.compile("p$"))
    badge(page, "Paused")  # a letter that was typed resumes nothing
    page.locator(".st-key-setting_epochs input").press("Backspace")
    page.locator(".stMain").click(position={"x": 200, "y": 300})
    page.keyboard.press("Shift+S")
    badge(page, "Stopped")


def test_the_slider_goes_back_in_time_and_marks_the_curves(server: Server, open_page):
    page = open_page(server.url + "/?preset=fast99&dataset=mnist_sample&epochs=2")
    start(page)
    badge(page, "Finished")
    handle = page.locator("[class*=st-key-look_] input[type=range]")
    handle.focus()
    page.keyboard.press("ArrowLeft")
    told = page.get_by_text(re.compile(r"After step 126: .* validation digits right"))
    expect(told).to_be_visible()
    page.locator("[data-chart=loss]").scroll_into_view_if_needed()
    page.wait_for_function(
        "() => document.querySelector('[data-chart=loss]')?.layout?.annotations?.some((one) => one.text === 'step 126')"
    )
    handle.focus()
    page.keyboard.press("ArrowLeft")
    expect(told).to_have_count(0)
    page.keyboard.press("End")
    expect(page.get_by_text("Scored on the test digits")).to_be_visible()
