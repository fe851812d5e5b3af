"""The tab Instruments: who does worst, since when, and the orbit."""

import re

import pytest
from playwright.sync_api import expect

from tests.page.browser import Watched, dead, live
from tests.page.stage import Stage, until

pytestmark = pytest.mark.page

MIXED = {"6": "m", "13": "l", "32": "s", "42": "n", "70": "d"}
ORBIT = "() => document.querySelector('#orbit .js-plotly-plot').data.map(trace => trace.y)"


def test_the_worst_are_listed_sorted_and_lead_to_their_detail(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(states={"bpm": MIXED})
    page.get_by_role("tab", name="Instruments").click()
    expect(page.locator("#panel-instruments .cell")).to_have_count(120)
    names = page.locator("#worst tbody th")
    expect(names).to_have_text(["bpm_042", "bpm_032", "bpm_006", "bpm_013", "bpm_070"], timeout=60_000)
    row = page.locator("#worst tbody tr").nth(1)
    expect(row).to_contain_text("▲ silent200 · 33 %0")
    expect(row).to_contain_text(re.compile(r"1 min \d+ s ago"))
    assert row.locator(".strip path").evaluate("e => e.getBBox().width") == pytest.approx(60, abs=3)
    page.get_by_role("button", name="Late", exact=True).click()
    expect(names.first).to_have_text("bpm_013")
    page.get_by_role("button", name="Instrument", exact=True).click()
    expect(names).to_have_text(["bpm_006", "bpm_013", "bpm_032", "bpm_042", "bpm_070"])
    expect(page.locator("#worst th[aria-sort]")).to_have_text("Instrument")
    page.get_by_role("button", name="bpm_032", exact=True).click()
    expect(page.locator(".mantine-Drawer-title")).to_have_text("bpm_032")
    expect(page.locator("#trend-missing")).to_have_text(
        "Missing from 200 of the last 600 triggers (33.3 %), 0 readings late since the daemon started, "
        "last heard 61 s ago.",
        timeout=60_000,
    )
    strip = page.locator("#missing-strip .main-svg").first
    expect(strip).to_be_visible()
    box = strip.bounding_box()
    assert box is not None
    assert box["height"] > 60
    assert box["width"] > 300
    assert fresh.errors == []


def test_the_orbit_is_of_the_newest_trigger_and_names_who_is_missing(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.get_by_role("tab", name="Instruments").click()
    expect(page.locator("#orbit-choice")).to_have_value("x, y", timeout=60_000)
    expect(page.locator("#orbit-note")).to_contain_text("x rms 0.1")
    until(lambda: len(page.evaluate(ORBIT)) == 4, "x and y are drawn")
    x = page.evaluate(ORBIT)[0]
    assert len(x) == 120
    # 20 (in - out) / sum of four buttons, of which all but the top outer one are as the served ones at place 0.
    assert x[0] == pytest.approx(20 * (1 + 1 - 1 - 1.03) / 4.03, abs=1e-4)
    box = page.locator("#orbit .main-svg").first.bounding_box()
    assert box is not None
    assert box["height"] > 250
    stage.figures(states={"bpm": {"6": "s"}})
    expect(page.locator("#orbit-missing")).to_contain_text("Missing from this trigger: bpm_006", timeout=60_000)
    page.locator("#orbit-choice").select_option("bot_out")
    assert "channel=bot_out" in page.url
    expect(page.locator("#orbit-note")).to_contain_text("bot_out rms 1.00 V", timeout=60_000)
    stage.daemon.kill()
    try:
        dead(page)
        expect(page.locator("#orbit-note")).to_contain_text("ago")
        expect(page.locator("#worst-note")).to_have_text("as last received")
    finally:
        stage.daemon.start()
    live(page)
