"""A browser, and a page over a served status, once for each file of tests."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.page.browser import OPENED_MS, Watched, chromium, live
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
    watched = Watched(browser, running.page.url)
    yield watched
    watched.page.close()


@pytest.fixture
def page(stage: Stage, opened: Watched) -> Page:
    """A page that stands open through all tests that only look at it, as one in a control room does."""
    live(opened.page, OPENED_MS)
    return opened.page


@pytest.fixture
def fresh(stage: Stage, browser: Browser) -> Iterator[Watched]:
    """A page of the test's own, to be clicked on."""
    watched = Watched(browser, stage.page.url)
    live(watched.page, OPENED_MS)
    yield watched
    watched.page.close()
