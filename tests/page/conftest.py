"""A browser, and a page over a served status, once for each file of tests."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.page.browser import OPENED_MS, Watched, chromium, has_keys, live
from tests.page.served import FIGURES
from tests.page.stage import Stage


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def running(browser: Browser) -> Iterator[Stage]:
    stage = Stage()
    try:
        stage.start()
        yield stage
    finally:
        stage.end()


@pytest.fixture
def stage(running: Stage) -> Stage:
    running.figures(**FIGURES)
    return running


@pytest.fixture(scope="module")
def opened(running: Stage, browser: Browser) -> Iterator[Watched]:
    """The one page of a file: a second one that stands open would be drawn all the while."""
    watched = Watched(browser, running.page.url)
    yield watched
    watched.page.close()


@pytest.fixture
def page(stage: Stage, opened: Watched) -> Page:
    """A page that stands open through all tests that only look at it, as one in a control room does."""
    if opened.had_by == "a test":
        opened.again(stage.page.url)
    opened.had_by = "those who look"
    live(opened.page, OPENED_MS)
    has_keys(opened.page)
    return opened.page


@pytest.fixture
def fresh(stage: Stage, opened: Watched) -> Watched:
    """A page as one that was just opened, to be clicked on."""
    if opened.had_by != "nobody":
        opened.again(stage.page.url)
    opened.had_by = "a test"
    live(opened.page, OPENED_MS)
    has_keys(opened.page)
    return opened
