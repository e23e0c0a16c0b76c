from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from tests.helpers.servers import CHROMIUM_ARGUMENTS, Server, start_server, stop_server

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, chromium_path: str) -> Iterator[Server]:
    made = start_server(tmp_path_factory.mktemp("server"))
    yield made
    stop_server(made)


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[BrowserContext]:
    """One profile for all tests, so that Streamlit's scripts are fetched and compiled once."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium_path, args=CHROMIUM_ARGUMENTS)
        context = made.new_context()
        context.set_default_timeout(60_000)
        yield context
        made.close()


@pytest.fixture
def open_page(browser: BrowserContext) -> Iterator[Callable[..., Page]]:
    """Opens pages that fail the test when their scripts raise, or when anything is fetched from elsewhere."""
    pages: list[Page] = []
    problems: list[str] = []

    def opened(
        url: str,
        width: int = 1440,
        height: int = 900,
        color_scheme: Literal["light", "dark"] = "light",
        ready: str = ".st-key-start button",
    ) -> Page:
        page = browser.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=color_scheme)
        page.on("pageerror", lambda error: problems.append(f"script: {error}"))
        page.on("request", lambda request: elsewhere(request.url))
        page.goto(url)
        page.get_by_role("heading", level=1).wait_for()
        page.locator(ready).wait_for(state="attached")  # on a phone it is behind a button
        return page

    def elsewhere(url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")):
            problems.append(f"fetched from elsewhere: {url}")

    yield opened
    for page in pages:
        page.close()
    assert problems == []
