"""The pictures of the page in docs/images, of the demonstration.

`make screenshots` takes all of them, `make screenshots ARGS="-k visits"` one.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.browser import OPENED_MS, Watched, live
from tests.page.stage import ROOT, until

pytestmark = [
    pytest.mark.page,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        os.environ.get("TRIGGERLOG_SCREENSHOTS") != "1", reason="TRIGGERLOG_SCREENSHOTS=1 writes the pictures"
    ),
]

IMAGES = ROOT / "docs" / "images"
READERS = [
    {"name": "control_room", "kind": "newest", "clients": 2, "period_s": 1.0, "deadline_s": 1.0},
    {"name": "trends", "kind": "trend", "clients": 4, "period_s": 2.0, "deadline_s": 1.0},
]
SCAN = {"name": "scan", "kind": "scan", "period_s": 0, "deadline_s": 10}
VISITS = {"visits": 400, "cadence": "fast", "survey": {"scale": 0.01}}
EXPERIMENT = {"workloads": [SCAN], "pairs": 3, "block_s": 6, "warm_up_s": 1, "doses": [1, 2, 4]}
"""Two minutes: enough for a picture, and too short for figures of any worth."""
GATHERED_MS = 75_000
"""A minute of charts, and a little."""


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, httpx.Client]]:
    """The demonstration: the address of its page, and its API for who may give orders."""
    state = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "daemon", "demo", "--free-ports", "--rate", "100", "--state", str(state)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            page, api = (
                next(found[1] for line in demo.stdout if (found := re.search(rf"{name} +(http://[\d.:]+)", line)))
                for name in ("Page", "API")
            )
            token = (state / "api-token").read_text().strip()
            with httpx.Client(base_url=api, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
                yield page, client
        finally:
            demo.terminate()
            demo.wait(60)


@pytest.fixture(scope="module")
def desk(demonstration: tuple[str, httpx.Client], browser: Browser) -> Iterator[Page]:
    """A page on a desk, with a minute of charts, in which others read."""
    url, client = demonstration
    for reader in READERS:
        assert client.post("/api/v1/readers", json={"group": "bpm"} | reader).is_success
    page = Watched(browser, f"{url}/?range=1m", viewport={"width": 1600, "height": 860}).page
    live(page, OPENED_MS)
    page.wait_for_timeout(GATHERED_MS)
    yield page
    page.close()


def picture(page: Page, name: str) -> None:
    """Write a picture of all that there is to scroll to."""
    page.locator("h1").hover()
    page.screenshot(path=IMAGES / f"{name}.png", full_page=True)


def test_live(desk: Page) -> None:
    expect(desk.locator("#totals")).to_have_attribute("data-adds", "true")
    desk.screenshot(path=IMAGES / "page.png")


def test_instruments(desk: Page) -> None:
    desk.locator("#tab-instruments").click()
    desk.locator("label[for=orbit-calibrated]").first.click()
    until(lambda: desk.locator("#orbit .scatterlayer path.js-line").count() > 0, "the orbit is drawn")
    expect(desk.locator("#orbit")).to_contain_text("demo")
    desk.wait_for_timeout(2_000)
    picture(desk, "page-instruments")


@pytest.mark.parametrize("tab", ["reads", "conditions", "storage"])
def test_a_tab(desk: Page, tab: str) -> None:
    desk.locator(f"#tab-{tab}").click()
    expect(desk.locator(f"#panel-{tab} [row-id]").first).to_be_attached()
    desk.wait_for_timeout(5_000)
    picture(desk, f"page-{tab}")


def test_interference(demonstration: tuple[str, httpx.Client], desk: Page) -> None:
    _, client = demonstration
    for reader in READERS:
        assert client.delete(f"/api/v1/readers/{reader['name']}").is_success
    assert client.post("/api/v1/interference", json=EXPERIMENT).is_success
    desk.locator("#tab-interference").click()
    done = desk.locator("#experiments-past .ag-row [col-id=state]").first
    expect(done).to_have_text(re.compile("^✓ finished"), timeout=300_000)
    expect(desk.locator("#experiment .verdict")).to_be_visible()
    # Not all of it: the command that repeats it names a folder of this machine.
    desk.set_viewport_size({"width": 1600, "height": 1400})
    desk.wait_for_timeout(2_000)
    desk.locator("h1").hover()
    desk.screenshot(path=IMAGES / "page-interference.png")


def test_visits(demonstration: tuple[str, httpx.Client], desk: Page) -> None:
    _, client = demonstration
    assert client.post("/api/v1/visits", json=VISITS).is_success
    desk.locator("#tab-visits").click()
    expect(desk.locator("#visits-tile-state .value")).to_have_text("✓ finished", timeout=300_000)
    until(lambda: desk.locator("#visits-sizes [row-id]").count() > 0, "the sizes are told")
    desk.wait_for_timeout(5_000)
    picture(desk, "page-visits")


def test_a_phone(demonstration: tuple[str, httpx.Client], browser: Browser) -> None:
    url, _ = demonstration
    shown = Watched(browser, url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True).page
    live(shown, OPENED_MS)
    shown.wait_for_timeout(10_000)
    shown.screenshot(path=IMAGES / "page-phone.png")
