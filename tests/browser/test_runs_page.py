"""The Runs page in a real browser: many made-up runs, and one that trains meanwhile."""

import dataclasses
import re

import pytest
from playwright.sync_api import Page, expect

from core.execution.trainer import Trainer
from core.runs.folder import run_names
from core.runs.index import RunIndex
from core.runs.notes import change_notes
from core.runs.trash import deleted_runs
from tests.helpers.many_runs import make_runs
from tests.helpers.servers import Server
from tests.helpers.trainings import SAMPLE
from tests.helpers.waits import wait_for

ROW, HEAD = 35, 36  # pixels of the table's rows, which are painted on a canvas
HOSTILE = "<img src=x onerror=\"document.title='broken'\"><b>bold</b>"


@pytest.fixture(scope="module", autouse=True)
def sixty_runs(server: Server) -> None:
    """Sixty made-up runs, of which the newest has a hostile name."""
    make_runs(server.runs, 60)
    newest = RunIndex(server.runs).rows()[0].run_id
    change_notes(server.runs / newest, name=HOSTILE)


@pytest.fixture
def runs_page(server: Server, open_page):
    """Opens the page, and waits for its table."""

    def opened(*size, **options) -> Page:
        page = open_page(f"{server.url}/runs", *size, ready="[data-testid=data-grid-canvas]", **options)
        expect(page.get_by_text(re.compile(r"^(\d+) of \1 runs"))).to_be_visible()
        return page

    return opened


def tick(page: Page, *rows: int, of: int = 60) -> None:
    """Choose rows of a table that is known to have so many, by their boxes, one after the other."""
    height = min(420, 38 + 35 * max(2, of))
    page.wait_for_function(
        "height => { const table = document.querySelector('[data-testid=stDataFrame]');"
        " return table && Math.abs(table.getBoundingClientRect().height - height) < 4 }",
        arg=height,
    )
    for row in rows:
        page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
        box = page.get_by_test_id("stDataFrame").first.bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 18, box["y"] + HEAD + ROW * row + ROW / 2)


def test_chosen_runs_are_compared_and_stay_chosen_while_others_come(server, runs_page):
    page = runs_page()
    tick(page, 1, 3)
    expect(page.get_by_text("2 chosen")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(5)  # four overlays, one scatter
    chosen = [RunIndex(server.runs).rows()[row].title for row in (1, 3)]
    for title in chosen:
        expect(page.locator("[data-testid=stHtml] span").filter(has_text=title).last).to_be_visible()
    # A run that another process trains comes in above them: rows move, the choice does not.
    trainer = Trainer()
    run_id = trainer.start(dataclasses.replace(SAMPLE, epochs=1000, model="mlp"), server.runs, server.runs)
    try:
        expect(page.get_by_text("61 of 61 runs")).to_be_visible(timeout=90_000)
        expect(page.get_by_text("2 chosen")).to_be_visible()
        for title in chosen:
            expect(page.locator("[data-testid=stHtml] span").filter(has_text=title).last).to_be_visible()
    finally:
        trainer.shutdown()
        trainer.wait_until_idle(20)
    tick(page, 2)  # one of them, a row lower now
    expect(page.get_by_text("2 chosen")).to_have_count(0)
    expect(page.locator(".st-key-runs_open button")).to_be_visible()
    page.locator(".st-key-runs_open button").click()
    expect(page).to_have_url(re.compile(r"run="))
    assert "broken" not in page.title()
    for name in (run_id,):
        wait_for(lambda name=name: name in run_names(server.runs))


def test_a_name_is_text_and_deleted_runs_come_back(server, runs_page):
    page = runs_page()
    page.locator(".st-key-runs_search input").fill("img")
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile("^1 of "))).to_be_visible()
    tick(page, 0, of=1)
    # The table's own cells for screen readers hold the name too, and are never visible.
    expect(page.locator("[data-testid=stMarkdown]").filter(has_text="<b>bold</b>").first).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    before = len(run_names(server.runs))
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Undo").wait_for()
    assert len(deleted_runs(server.runs)) == 1
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    assert len(run_names(server.runs)) == before
    assert "broken" not in page.title()


@pytest.mark.parametrize(("width", "height", "scheme"), [(1440, 900, "dark"), (390, 844, "light")])
def test_a_point_of_the_scatter_chooses_its_run_and_all_fits(runs_page, width, height, scheme):
    page = runs_page(width, height, scheme)
    expect(page.locator(".js-plotly-plot .point").first).to_be_attached()
    point = page.locator(".js-plotly-plot .point").nth(7)
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".st-key-runs_open button")).to_be_visible()
    page.get_by_role("radio", name="Parallel coordinates").click()
    expect(page.locator(".parcoords").first).to_be_visible()
    overflow = page.evaluate("document.querySelector('.stMain').scrollWidth - document.querySelector('.stMain').clientWidth")
    assert overflow <= 0
