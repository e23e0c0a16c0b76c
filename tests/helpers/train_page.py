"""The Train page in a browser."""

from playwright.sync_api import Page, expect

LONG = "/?preset=tutorial&dataset=mnist_sample&epochs=300&train_size=2000"


def points(page: Page, chart: str = "loss", line: int = 0) -> int:
    """How many points a chart has drawn; 0 before it is there."""
    return page.evaluate(
        "([chart, line]) => document.querySelector(`[data-chart=${chart}]`)?._fullData?.[line]?.x?.length ?? 0", [chart, line]
    )


def wait_for_points(page: Page, at_least: int, chart: str = "loss") -> None:
    # Below the fold a chart is not drawn until it is seen. The page may put another element in its place at any moment.
    page.wait_for_function(
        """([chart, least]) => { const one = document.querySelector(`[data-chart=${chart}]`);
        one?.scrollIntoView({ block: "nearest" });
        return (one?._fullData?.[0]?.x?.length ?? 0) >= least; }""",
        arg=[chart, at_least],
    )


def badge(page: Page, word: str) -> None:
    expect(page.locator(".stMarkdownBadge").filter(has_text=word)).to_be_visible()


def run_in(url: str) -> str:
    return url.partition("run=")[2].partition("&")[0]


def start(page: Page) -> str:
    """Press Start; returns the id of the new run, which the address then names."""
    before = run_in(page.url)
    open_sidebar(page)
    page.locator(".st-key-start button").click()
    page.wait_for_url(lambda url: run_in(url) not in ("", before))
    if page.viewport_size["width"] < 640:
        page.get_by_test_id("stSidebarCollapseButton").locator("button").click()
    return run_in(page.url)


def open_sidebar(page: Page) -> None:
    """What leads to the settings and Start. A browser remembers whether it was open, and on a phone it begins closed."""
    page.wait_for_function(
        """() => document.querySelector("[data-testid=stExpandSidebarButton]")
        || document.querySelector("[data-testid=stSidebar]")?.getBoundingClientRect().left === 0"""
    )
    if page.get_by_test_id("stExpandSidebarButton").is_visible():
        page.get_by_test_id("stExpandSidebarButton").click()


def open_tab(page: Page, name: str) -> None:
    """Open one of a run's tabs."""
    page.get_by_role("tab", name=name).click()


def stop(page: Page) -> None:
    page.locator(".st-key-stop button").click()
    expect(page.get_by_text("Stopped by hand")).to_be_visible()
