"""The pictures of the page in docs/images, of the demonstration: `make screenshots`."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.browser import OPENED_MS, Watched, chromium, live
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


@contextmanager
def demonstration(state: Path) -> Iterator[tuple[str, str]]:
    """The demonstration; addresses of its page and its API."""
    command = [sys.executable, "-m", "daemon", "demo", "--free-ports", "--rate", "100", "--state", str(state)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            yield (
                next(found[1] for line in demo.stdout if (found := re.search(r"Page +(http://[\d.:]+)", line))),
                next(found[1] for line in demo.stdout if (found := re.search(r"API +(http://[\d.:]+)", line))),
            )
        finally:
            demo.terminate()
            demo.wait(60)


def picture(page: Page, name: str) -> None:
    """Write a picture of all that there is to scroll to."""
    page.locator("h1").hover()
    page.screenshot(path=IMAGES / f"{name}.png", full_page=True)


def test_pictures_of_every_tab(tmp_path: Path) -> None:
    with demonstration(tmp_path) as (url, api), chromium() as browser:
        token = (tmp_path / "api-token").read_text().strip()
        page = Watched(browser, f"{url}/?range=1m", viewport={"width": 1600, "height": 860}).page
        live(page, OPENED_MS)
        with httpx.Client(base_url=api, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
            for reader in READERS:
                assert client.post("/api/v1/readers", json={"group": "bpm"} | reader).is_success
        page.wait_for_timeout(GATHERED_MS)
        expect(page.locator("#totals")).to_have_attribute("data-adds", "true")
        page.screenshot(path=IMAGES / "page.png")
        page.locator("#tab-instruments").click()
        until(lambda: page.locator("#orbit .scatterlayer path.js-line").count() > 0, "the orbit is drawn")
        page.wait_for_timeout(2_000)
        picture(page, "page-instruments")
        for tab in ("reads", "storage"):
            page.locator(f"#tab-{tab}").click()
            page.wait_for_timeout(5_000)
            picture(page, f"page-{tab}")
        with httpx.Client(base_url=api, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
            for reader in READERS:
                assert client.delete(f"/api/v1/readers/{reader['name']}").is_success
            assert client.post("/api/v1/interference", json=EXPERIMENT).is_success
        page.locator("#tab-interference").click()
        done = page.locator("#experiments-past .ag-row [col-id=state]").first
        expect(done).to_have_text(re.compile("^✓ finished"), timeout=300_000)
        expect(page.locator("#experiment .verdict")).to_be_visible()
        # Not all of it: the command that repeats it names a folder of this machine.
        page.set_viewport_size({"width": 1600, "height": 1400})
        page.wait_for_timeout(2_000)
        page.screenshot(path=IMAGES / "page-interference.png")
        with httpx.Client(base_url=api, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
            assert client.post("/api/v1/visits", json=VISITS).is_success
        page.locator("#tab-visits").click()
        expect(page.locator("#visits-tile-state .value")).to_have_text("✓ finished", timeout=300_000)
        until(lambda: page.locator("#visits-sizes [row-id]").count() > 0, "the sizes are told")
        page.wait_for_timeout(5_000)
        picture(page, "page-visits")
        phone(browser, url)


def phone(browser: Browser, url: str) -> None:
    """Live on a phone."""
    shown = Watched(browser, url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True).page
    live(shown, OPENED_MS)
    shown.wait_for_timeout(10_000)
    shown.screenshot(path=IMAGES / "page-phone.png")
