"""The tabs: opened by click, key and link; each fit to be read by everybody, on a phone, too."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser import Watched, grave, has_keys, live
from tests.page.stage import Stage

pytestmark = pytest.mark.page

TABS = ("live", "instruments", "reads", "interference", "visits", "conditions", "storage")


def seen(page: Page, tab: str) -> None:
    """This tab is the one that is seen."""
    expect(page.locator(f"#tab-{tab}")).to_have_attribute("aria-selected", "true")
    expect(page.locator("[role=tabpanel]:visible")).to_have_count(1)
    expect(page.locator(f"#panel-{tab}")).to_be_visible()


def test_a_tab_opens_by_click_key_and_link_and_the_way_back_leads_back(fresh: Watched) -> None:
    page = fresh.page
    seen(page, "live")
    page.get_by_role("tab", name="Storage").click()
    seen(page, "storage")
    expect(page).to_have_url(re.compile("tab=storage"))
    page.keyboard.press("ArrowRight")
    seen(page, "live")
    expect(page.locator("#tab-live")).to_be_focused()
    page.keyboard.press("End")
    seen(page, "storage")
    for number, tab in enumerate(TABS, 1):
        page.keyboard.press(str(number))
        seen(page, tab)
    page.go_back()
    seen(page, "conditions")
    page.reload()
    live(page)
    seen(page, "conditions")
    assert fresh.errors == []


def test_keys_act_unless_somebody_types_or_has_turned_them_off(fresh: Watched) -> None:
    page = fresh.page
    page.keyboard.press("p")
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile(r"pausedAt=\d{13}"))
    page.reload()
    expect(page.locator("#paused")).to_contain_text("Charts paused at")
    has_keys(page)
    page.keyboard.press("p")
    page.keyboard.press("[")
    expect(page.locator("button.range", has_text="1 m")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    keys.get_by_role("checkbox").click()
    has_keys(page, "off")
    page.keyboard.press("3")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.keyboard.press("3")
    seen(page, "live")
    page.reload()
    live(page)
    has_keys(page, "off")
    page.keyboard.press("3")
    seen(page, "live")
    page.keyboard.press("?")
    keys.get_by_role("checkbox").click()
    has_keys(page)
    page.keyboard.press("3")
    seen(page, "live")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.keyboard.press("3")
    seen(page, "reads")


def test_a_chart_of_a_tab_that_was_not_seen_has_its_size_when_it_is(stage: Stage, opened: Watched) -> None:
    page = opened.again(stage.page.url + "/?tab=storage&range=run")
    live(page)
    seen(page, "storage")
    page.get_by_role("tab", name="Live").click()
    for chart in page.locator("#panel-live .chart").all():
        expect(chart.locator("path.js-line").first).to_be_attached()
        across = chart.evaluate("e => e.querySelector('.main-svg').getBoundingClientRect().width / e.clientWidth")
        assert across == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("width", [1600, 390])
def test_axe_finds_nothing_serious_on_any_tab_and_none_scrolls_sideways(
    stage: Stage, opened: Watched, width: int
) -> None:
    page = opened.again(stage.page.url, viewport={"width": width, "height": 844})
    live(page)
    for tab in TABS:
        page.locator(f"#tab-{tab}").click()
        seen(page, tab)
        # Charts that were hidden take their size a moment after they are shown.
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
        assert grave(page) == [], tab
