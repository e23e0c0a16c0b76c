"""The train/eval page in a real browser, on a model that the app itself trained there, on the embedded digits."""

import re

import pytest
from playwright.sync_api import Page, expect

from core.runs.info import list_runs
from tests.helpers.servers import Server
from tests.helpers.train_page import start

TITLES = (
    "One switch",
    "Batch size",
    "Company",
    "Inside a layer",
    "Warming up",
    "Poisoning",
    "Shift",
    "Dropout",
    "With and without",
    "During training",
    "eval or no_grad",
)


@pytest.fixture
def modes(server: Server, open_page):
    """Opens the page with a model; the first test that asks trains it there."""

    def opened(link: str = "", **options) -> Page:
        tested = next((run.run_id for run in list_runs(server.runs) if run.test_accuracy is not None), None)
        page = open_page(f"{server.url}/modes?run={tested or ''}{link}", ready="h1", **options)
        if tested is None:
            page.get_by_role("button", name="Train a model now").click()
        expect(page.get_by_text("test accuracy")).to_be_visible(timeout=180_000)
        return page

    return opened


def done(page: Page, seconds: float = 60) -> None:
    """The experiment on the page has ended."""
    expect(page.locator(".st-key-m_again button")).to_be_visible(timeout=1000 * seconds)
    expect(page.locator(".st-key-m_stop")).to_have_count(0)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def choose(page: Page, title: str) -> None:
    page.get_by_role("radio", name=re.compile(rf"\d+ {title}$")).click()


def test_each_question_is_answered_with_a_picture_and_a_sentence(modes):
    page = modes()
    for title in TITLES:
        choose(page, title)
        expect(page).to_have_url(re.compile(f"m={TITLES.index(title) + 1}") if title != TITLES[0] else re.compile("/modes"))
        if title == "With and without":
            page.get_by_role("button", name="Train the twins").click()
        done(page, 180)  # the twins train 400 steps
        if title != "eval or no_grad":
            expect(page.locator(".js-plotly-plot").first).to_be_visible()
        else:
            expect(page.locator("table")).to_be_visible()
        point = page.locator(".stMain h3 ~ *, .stMain [data-testid=stMarkdownContainer] p").filter(
            has=page.locator("strong"), has_text=re.compile(r"\d[\s\S]{20}")
        )
        expect(point.last).to_be_visible()


def test_a_link_keeps_the_question_and_its_choices_over_a_reload(modes):
    page = modes("&m=6+Poisoning&m_poison=blank+images")
    expect(page.get_by_text("forwards of 64 blank images")).to_be_visible()
    page.reload()
    expect(page.get_by_text("forwards of 64 blank images")).to_be_visible()
    done(page)


def test_a_click_on_a_channel_looks_into_it(modes):
    page = modes("&m=4+Inside+a+layer&m_layer=norm1")
    done(page)
    chart = page.locator(".js-plotly-plot").first
    expect(chart).to_be_visible()
    # The eighth dot of the batch's means.
    dot = chart.locator(".scatterlayer .trace").nth(1).locator(".points path").nth(7)
    box = dot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_text("Channel 7: what comes in")).to_be_visible()
    expect(page).to_have_url(re.compile("m_channel=7"))


def test_two_tabs_ask_different_things_at_once(modes):
    first, second = modes("&m=2+Batch+size"), modes("&m=11+eval+or+no_grad")
    done(second)
    done(first)
    expect(first.get_by_text("In eval mode")).to_be_visible()
    expect(second.get_by_text("Two switches for two things")).to_be_visible()


@pytest.mark.parametrize(("width", "height", "scheme"), [(390, 844, "dark"), (1440, 900, "light")])
def test_nothing_is_wider_than_the_screen(modes, width, height, scheme):
    page = modes("&m=3+Company", width=width, height=height, color_scheme=scheme)
    done(page)
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    assert page.locator(".stMain").evaluate("main => main.scrollWidth - main.clientWidth") <= 1


def test_a_run_in_training_is_looked_at_without_waiting_for_it(modes, server, open_page):
    modes()  # a model is there
    train = open_page(f"{server.url}/?model=lab_cnn&epochs=200&dropout=0.5&dataset=mnist_sample")
    start(train)
    expect(train.get_by_text(re.compile(r"Epoch \d+ of 200"))).to_be_visible()
    page = open_page(f"{server.url}/modes?run={train.url.partition('run=')[2]}", ready=".st-key-m_newer button")
    done(page)
    words = page.get_by_text("the page holds its weights of step")
    before = words.inner_text()
    page.locator(".st-key-m_newer button").click()
    expect(words).not_to_have_text(before)
    done(page)
    train.locator(".st-key-stop button").click()
    expect(train.get_by_text("Stopped by hand")).to_be_visible()
