"""A page in a zone that is half an hour off the full hours."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, expect

from tests.page.browser import Watched, give
from tests.page.stage import Stage, ask, until
from tests.page.test_page_marks import drawn, fill

pytestmark = pytest.mark.page

NAME = "Asia/Kolkata"
ZONE = ZoneInfo(NAME)
MARK_X = "() => document.querySelector('#chart-rates .js-plotly-plot').layout.annotations[0].x"


@pytest.fixture(scope="module")
def running(browser: Browser) -> Iterator[Stage]:
    stage = Stage("--time-zone", NAME)
    try:
        stage.start()
        yield stage
    finally:
        stage.end()


def near(shown: datetime, within_s: float) -> bool:
    return abs(shown - datetime.now(ZONE)) <= timedelta(seconds=within_s)


def test_all_times_are_by_the_clock_of_the_zone(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    clock, _, label = page.locator("#clock").inner_text().rpartition(" ")
    assert label == NAME
    assert near(datetime.fromisoformat(clock).replace(tzinfo=ZONE), 60)
    stage.figures(events=[{"time_ns": 1_774_746_000 * 10**9, "severity": "info", "text": "the daemon started"}])
    expect(page.locator("#events time")).to_have_text("2026-03-29 06:30:00")

    def labels() -> list[str]:
        return page.locator("#chart-rates .xtick text").all_text_contents()

    page.locator("[data-range='5m']").click()
    until(lambda: len(labels()) > 1, "the axis of the rates has labels")
    today = datetime.now(ZONE)
    ticks = [datetime.combine(today, datetime.strptime(each, "%H:%M:%S").time(), ZONE) for each in labels()]
    # A label may be of the day before, just after midnight.
    assert all(near(tick, 400) or near(tick - timedelta(days=1), 400) for tick in ticks)
    page.locator("#pause").click()
    expect(page.locator("#paused")).to_contain_text(f"{NAME}; data is still collected")
    assert f"pausedAt={time.time():.0f}"[:-4] in page.url
    assert fresh.errors == []


def test_a_mark_is_filled_in_and_shown_by_that_clock(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    moment = datetime.now(ZONE).replace(microsecond=0) - timedelta(seconds=100)
    page.locator("#marks > summary").click()
    expect(page.locator("#mark-form").get_by_label(f"When, {NAME}")).to_be_visible()
    fill(page, "valve 3 closed", When=f"{moment:%Y-%m-%dT%H:%M:%S}")
    give(page)
    said = f"{moment:%Y-%m-%d %H:%M:%S} {NAME}: valve 3 closed"
    expect(page.locator("#mark-outcome")).to_contain_text(said)
    expect(page.locator("#marks-newest li")).to_contain_text(said)
    (made,) = ask(f"{stage.daemon.url}/api/v1/marks?last=100")["marks"]
    assert made["time_ns"] == int(moment.timestamp()) * 10**9
    page.locator("[data-range='5m']").click()
    drawn(page, "valve 3 closed")
    assert page.evaluate(MARK_X) == moment.timestamp() * 1e3 + 5.5 * 3_600_000
    assert fresh.errors == []
