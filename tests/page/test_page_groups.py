"""The page of a logger with many groups: figures of all together, a table of the groups, a view of each."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.page.browser import Watched, grave, live, value
from tests.page.stage import Stage, until

pytestmark = pytest.mark.page

FORTY: dict[str, Any] = {
    "groups": {f"sector{n:02d}": 24 for n in range(40)},
    "states": {"sector26": {"3": "s", "4": "s"}, "sector05": {"1": "m"}},
    "wave": False,
}
FIRST = "#groups-table .ag-row[row-index='{}'] [col-id={}]"


def test_the_figures_are_of_all_groups_and_the_worst_stand_first(stage: Stage, fresh: Watched) -> None:
    stage.figures(**FORTY)
    page = fresh.page
    expect(page.locator("#whose")).to_contain_text("All groups")
    expect(page.locator("#whose")).to_contain_text("40 groups, 2 in trouble: sector26, sector05")
    expect(value(page, "received")).to_have_text("4,000")
    expect(page.locator("#tile-absent .unit")).to_have_text("of 960")
    expect(page.locator("#tile-absent .aside")).to_have_text("most sector26", use_inner_text=True)
    expect(page.locator(FIRST.format(0, "name"))).to_have_text("sector26")
    expect(page.locator(FIRST.format(0, "state"))).to_have_text("▲ 2 silent")
    expect(page.locator(FIRST.format(1, "state"))).to_have_text("▲ 1 missing")
    expect(page.locator(FIRST.format(2, "state"))).to_have_text("ok")
    expect(page.locator(FIRST.format(0, "rate"))).to_have_text("100")
    until(lambda: "L" in (page.locator(FIRST.format(0, "minute") + " path").get_attribute("d") or ""), "a minute")
    expect(page.locator(".cell")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollHeight") < 1600
    assert grave(page) == []
    assert fresh.errors == []


def test_a_group_is_found_by_typing_and_opens_in_its_own_view(stage: Stage, fresh: Watched) -> None:
    stage.figures(**FORTY)
    page = fresh.page
    rows = page.locator("#groups-table .ag-row")
    expect(rows).to_have_count(40)
    page.get_by_label("Find a group").fill("sector2")
    expect(rows).to_have_count(10)
    page.get_by_role("button", name="sector23").click()
    expect(page).to_have_url(re.compile("group=sector23"))
    expect(page.locator("#whose h2")).to_have_text("sector23")
    expect(page.locator("#groups-panel")).to_be_hidden()
    expect(page.locator(".cell")).to_have_count(24)
    expect(value(page, "received")).to_have_text("100")
    expect(page.locator("#chart-rates path.js-line").first).to_be_attached()
    choice = page.get_by_role("textbox", name="Instrument group")
    expect(choice).to_have_value("sector23")
    choice.fill("tor07")
    page.get_by_role("option", name="sector07").click()
    expect(page.locator("#whose h2")).to_have_text("sector07")
    page.go_back()
    expect(page.locator("#whose h2")).to_have_text("sector23")
    page.go_back()
    expect(page.locator("#whose h2")).to_have_text("All groups")
    expect(choice).to_have_value("All groups")
    assert grave(page) == []
    assert fresh.errors == []


def test_the_points_of_a_group_are_asked_for_when_it_is_opened(stage: Stage, fresh: Watched) -> None:
    stage.figures(**FORTY)
    page = fresh.page
    expect(page.locator("#whose")).to_be_visible()
    page.wait_for_timeout(2_000)
    page = fresh.again(f"{stage.page.url}/?group=sector31")
    with page.expect_response(re.compile("/history/sector31")) as answered:
        live(page)
    sent = answered.value.json()["history"]
    assert len(sent) == 15
    until(lambda: page.evaluate("!triggerlog.state.brief.has('sector31')"), "they are there")
    held = page.evaluate("triggerlog.state.series.sector31.t")
    assert held[: len(sent[0])] == sent[0]
    assert held == sorted(set(held))
    assert fresh.errors == []


def test_forty_groups_need_no_sideways_scroll_on_a_phone(stage: Stage, browser: Browser) -> None:
    stage.figures(**FORTY)
    watched = Watched(browser, stage.page.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    live(watched.page)
    expect(watched.page.locator("#groups-table .ag-row").first).to_be_visible()
    watched.page.wait_for_function("() => document.documentElement.scrollWidth <= 390")
    watched.page.close()


def test_an_instrument_of_any_group_is_found_by_its_name(stage: Stage, fresh: Watched) -> None:
    stage.figures(**FORTY)
    page = fresh.page
    page.locator("#tab-instruments").click()
    expect(page.locator("#worst-table [row-id='sector26:3']").first).to_be_attached(timeout=120_000)
    find = page.get_by_role("textbox", name="Find an instrument")
    find.fill("31_007")
    page.get_by_role("option", name="sector31_007").click()
    expect(page.locator(".mantine-Drawer-title")).to_have_text("sector31_007")
    expect(page).to_have_url(re.compile("instrument=sector31%3A7"))
    expect(find).to_have_value("")
    assert grave(page) == []
    assert fresh.errors == []
