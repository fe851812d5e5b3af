"""Debian's Chromium, driven by Playwright: what every page test needs of it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, ViewportSize, expect, sync_playwright

from tests.page.served import TOKEN

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
BACK_MS = 180_000
"""Far beyond the 2 s within which the page tries again: a machine may be busy."""
OPENED_MS = 240_000
"""A page is built by a browser that may have to share its core with many."""
expect.set_options(timeout=90_000)
NO_DATA_MS = 15_000
"""Far beyond the 4 s after which the page says so."""
DESK: ViewportSize = {"width": 1600, "height": 1000}


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser. Without one the test is skipped on a laptop, and fails in CI."""
    if not CHROMIUM.exists():
        missing = f"{CHROMIUM} is missing: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page whose requests and errors are kept."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.page: Page = browser.new_page(**({"viewport": DESK} | options))
        self.page.set_default_timeout(OPENED_MS)
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("websocket", lambda opened: self._asked(opened.url))
        self.had_by: Literal["nobody", "those who look", "a test"] = "nobody"
        """Since it was opened: who only looks leaves it as it was."""
        self.page.goto(url)

    def again(self, url: str, viewport: ViewportSize = DESK) -> Page:
        """Open an address in the same tab as if for the first time: nothing is kept, errors and requests are its own.

        It costs a third of what a new page does: the browser has the scripts compiled.
        """
        self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear() }")
        self.page.set_viewport_size(viewport)
        self.page.mouse.move(0, 0)
        self.hosts.clear()
        # Not before: what the page that is left still says is none of the new one's.
        self.page.once("framenavigated", lambda _: self.errors.clear())
        self.page.goto(url)
        self.had_by = "a test"
        return self.page

    def _said(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            # What cannot be loaded is told without its name.
            self.errors.append(f"{said.text} ({said.location['url']})")

    def _asked(self, url: str) -> None:
        if urlsplit(url).scheme not in ("data", "blob"):
            self.hosts.add(str(urlsplit(url).hostname))


def live(page: Page, timeout: int = BACK_MS) -> None:
    """The page says that its data is live."""
    expect(page.locator("#badge-text")).to_have_text("LIVE", timeout=timeout)
    expect(page.locator("#page")).to_have_attribute("data-link", "live")


def has_keys(page: Page, are: str = "on") -> None:
    """Single keys are "on" or "off": the choice comes by a callback, after the rest."""
    expect(page.locator("body")).to_have_attribute("data-keys", are)


def dead(page: Page, timeout: int = NO_DATA_MS) -> None:
    """The page says that it has no data, and shows none as if it were live."""
    expect(page.locator("#badge-text")).to_have_text("NO DATA", timeout=timeout)
    expect(page.locator("#banner")).to_be_visible()
    expect(page.locator("#tile-received .value")).to_have_text("–")
    expect(page.locator("#tile-received .was")).to_have_text(re.compile(r"^was \d"))
    greyed = page.locator(".live").evaluate("element => getComputedStyle(element).filter")
    assert "grayscale(1)" in greyed


def grave(page: Page) -> list[str]:
    """What is wrong seriously for who cannot see, or not well, and with which elements."""
    found = Axe().run(page).response["violations"]
    return [f"{v['id']}: {[n['target'] for n in v['nodes']]}" for v in found if v["impact"] in ("serious", "critical")]


def give(page: Page, token: str = TOKEN, *, keep: bool = True) -> None:
    """Give the token that the dialog asks for."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Token of the daemon").fill(token)
    if keep:
        dialog.get_by_label("Remember it").check()
    dialog.get_by_role("button", name="Send").click()


def value(page: Page, column: str) -> Locator:
    """The number of a tile."""
    return page.locator(f"#tile-{column} .value")
