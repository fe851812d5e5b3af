"""Alarms as people deal with them: seen by all browsers, acknowledged and shelved for all of them."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.page.browser import Watched, give, live
from tests.page.served import FIGURES
from tests.page.stage import Stage

pytestmark = pytest.mark.page

ILL = {"available": False, "problem": "connection refused", "away_s": 75.0, "states": {"bpm": {"6": "s"}}}


def test_what_one_says_of_an_alarm_all_are_told(stage: Stage, fresh: Watched, browser: Browser) -> None:
    stage.figures(**ILL)
    colleague = Watched(browser, stage.page.url).page
    live(colleague)
    page = fresh.page
    expect(page.locator("#alarm-count")).to_have_text("■ 2 alarms")
    expect(page).to_have_title("(2) triggerlog")
    store = page.locator(".alarm[data-key=store]")
    expect(store.locator(".word")).to_have_text("critical")
    expect(store.locator(".since")).to_contain_text(re.compile(r"[1-9] min"))
    expect(page.locator("#alarm-news")).to_contain_text("critical: Database away")
    store.get_by_role("button", name="Acknowledge").click()
    expect(page.get_by_role("dialog")).to_contain_text("Acknowledge: Database away: connection refused")
    give(page)
    for each in (page, colleague):
        expect(each.locator("#alarms > .alarm-lines > .alarm")).to_have_count(1)
        expect(each.locator("#alarms-quiet > summary")).to_have_text("1 acknowledged")
        expect(each.locator("#alarm-count")).to_have_text("▲ 1 alarm, 1 handled")
    instruments = colleague.locator(".alarm[data-key=instruments]")
    instruments.get_by_text("Shelve").click()
    instruments.get_by_role("button", name="for 15 min").click()
    give(colleague, "not-the-token", keep=False)
    expect(colleague.locator("#order-problem")).to_contain_text("The daemon refused it")
    expect(colleague.locator("#alarm-count")).to_have_text("▲ 1 alarm, 1 handled")
    give(colleague, keep=False)
    expect(page.locator("#alarms-quiet > summary")).to_have_text("1 acknowledged, 1 shelved")
    page.locator("#alarms-quiet > summary").click()
    expect(page.locator(".alarm[data-key=instruments] .since")).to_contain_text("shelved until")
    # Whoever comes later is told, too.
    colleague.reload()
    live(colleague)
    expect(colleague.locator("#alarm-count")).to_have_text("0 alarms, 2 handled")
    # The token is remembered in this tab: nobody is asked twice.
    for key in ("store", "instruments"):
        page.locator(f".alarm[data-key={key}]").get_by_role("button", name="Reactivate").click()
    expect(page.locator("#alarms > .alarm-lines > .alarm")).to_have_count(2)
    stage.figures(**FIGURES)
    expect(page.locator("#alarm-count")).to_have_text("0 alarms")
    assert fresh.errors == []
    colleague.close()


def test_an_alarm_that_has_ended_cannot_be_acknowledged_and_that_is_said(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(**ILL)
    page.locator(".alarm[data-key=store]").get_by_role("button", name="Acknowledge").click()
    stage.figures(**FIGURES)
    expect(page.locator("#alarm-count")).to_have_text("0 alarms")
    give(page)
    expect(page.locator("#alarm-outcome")).to_contain_text("the alarm 'store' is not in force")
