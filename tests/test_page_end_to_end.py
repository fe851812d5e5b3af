"""The page over the real daemon and its embedded PostgreSQL."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.browser import Watched, chromium
from tests.page.stage import ROOT, Process, ask, until

pytestmark = [pytest.mark.page, pytest.mark.slow]

CONFIGURATION = """
logger = "end-to-end"
state_dir = "state"

[[groups]]
name = "bpm"
count = 24
channels = [{{ name = "top_in", unit = "mm" }}, {{ name = "bot_in", unit = "mm", dtype = "int32" }}]

[[sources]]
kind = "simulated"
group = "bpm"
rate = 20

[alarms]
commit_p99_ms = 60000.0

[api]
port = {port}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    file = tmp_path_factory.mktemp("page") / "page.toml"
    daemon = Process("-m", "daemon", "run", str(file), "--log-level", "warning", health="/ready")
    file.write_text(CONFIGURATION.format(port=daemon.port))
    daemon.start()
    try:
        yield daemon
    finally:
        assert daemon.terminate(30.0) == 0


@pytest.fixture(scope="module")
def shown(daemon: Process) -> Iterator[Process]:
    page = Process("-m", "dashboard", "--daemon", daemon.url, "--port", "{port}", health="/healthz")
    page.start()
    try:
        yield page
    finally:
        page.kill()


@pytest.fixture
def page(shown: Process, browser: Browser) -> Iterator[Page]:
    watched = Watched(browser, shown.url)
    expect(watched.page.locator("#badge-text")).to_have_text("LIVE")
    yield watched.page
    watched.page.close()


def group(daemon: Process) -> Any:
    return ask(daemon.url + "/api/v1/status")["groups"]["bpm"]


def number(page: Page, selector: str) -> float:
    return float((page.locator(selector).text_content() or "").replace(",", ""))


def test_the_page_shows_what_the_daemon_says(daemon: Process, page: Page) -> None:
    until(lambda: bool(group(daemon)["triggers"]["committed"] > 40), "triggers are committed")
    expect(page.locator("#who")).to_contain_text("end-to-end")
    expect(page.locator("#store")).to_contain_text(re.compile(r"PostgreSQL 18\.\d+, embedded"))
    expect(page.locator("#store")).to_contain_text(ask(daemon.url + "/api/v1/status")["store"]["durability"])
    expect(page.locator(".cell[data-state=ok]")).to_have_count(24)
    expect(page.locator(".cell").nth(6)).to_have_attribute("aria-label", "bpm_006: ok")
    for term in ("received", "committed"):
        before = group(daemon)["readings"][term]
        until(lambda term=term, before=before: number(page, f"#totals [data-term={term}] b") >= before, f"{term} shown")
        assert number(page, f"#totals [data-term={term}] b") <= group(daemon)["readings"][term]
    expect(page.locator("#totals")).to_have_attribute("data-adds", "true")
    expect(page.locator(".alarm")).to_have_count(0)
    until(lambda: 15 < number(page, "#tile-received .value") < 25, "20 triggers/s")


def test_the_trend_holds_the_readings_that_are_stored(page: Page) -> None:
    page.locator(".cell").nth(6).click()
    expect(page.locator(".mantine-Drawer-title")).to_have_text("bpm_006")
    expect(page.locator("#trend-note")).to_contain_text(
        re.compile(r"^[1-9][\d,]* readings stored in the last 5 minutes")
    )
    expect(page.locator("#trend-chart path.js-line")).to_have_count(2)
    expect(page.locator("#trend-chart")).to_contain_text("top_in")


def test_a_killed_daemon_is_seen_and_found_again(daemon: Process, page: Page) -> None:
    daemon.kill()
    try:
        expect(page.locator("#badge-text")).to_have_text("NO DATA", timeout=5_000)
        expect(page.locator("#banner")).to_contain_text("is not heard")
    finally:
        daemon.start()
    expect(page.locator("#badge-text")).to_have_text("LIVE", timeout=12_000)
    expect(page.locator("#totals")).to_have_attribute("data-adds", "true")
    until(lambda: number(page, "#totals [data-term=committed] b") > 0, "readings are committed again")


@pytest.mark.timeout(300)
@pytest.mark.skipif(
    os.environ.get("TRIGGERLOG_SCREENSHOTS") != "1", reason="TRIGGERLOG_SCREENSHOTS=1 writes the picture"
)
def test_a_picture_of_the_demonstration_for_the_readme(browser: Browser, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "daemon", "demo", "--free-ports", "--rate", "100", "--state", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            url = next(found[0] for line in demo.stdout if (found := re.search(r"Page +(http://\S+)", line)))
            url = url.split()[-1]
            watched = Watched(browser, f"{url}/?range=1m", viewport={"width": 1600, "height": 860})
            expect(watched.page.locator("#badge-text")).to_have_text("LIVE")
            watched.page.wait_for_timeout(75_000)
            expect(watched.page.locator("#totals")).to_have_attribute("data-adds", "true")
            watched.page.screenshot(path=ROOT / "docs" / "images" / "page.png")
            watched.page.close()
        finally:
            demo.terminate()
            demo.wait(60)
