"""The page when the daemon or its own process goes away, and what it asks of whom."""

import re
import signal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.browser import Watched, dead, live, value
from tests.page.stage import Stage, ask, until

pytestmark = pytest.mark.page

OLDEST = "() => window.triggerlog.state.series.bpm.t[0]"


def test_a_killed_daemon_is_seen_and_a_restarted_one_is_found_again(stage: Stage, page: Page) -> None:
    stage.daemon.kill()
    try:
        dead(page)
        expect(page.locator("#banner")).to_contain_text("(connection refused)")
        expect(page.locator("#banner")).to_contain_text("triggerlog run FILE")
        expect(page.locator(".cell").first).to_have_attribute("aria-label", "bpm_000: unknown, was ok")
    finally:
        stage.daemon.start()
    live(page)
    expect(page.locator("#banner")).to_be_hidden()
    expect(value(page, "received")).to_have_text(re.compile(r"\d"))
    expect(page.locator(".cell").first).to_have_attribute("aria-label", "bpm_000: ok")


def test_a_page_that_never_heard_the_daemon_says_so_and_shows_no_number(opened: Watched) -> None:
    alone = Stage()
    try:
        alone.page.start()
        page = opened.again(alone.page.url)
        expect(page.locator("#banner")).to_contain_text("(connection refused)")
        expect(page.locator("#badge-text")).to_have_text("NO DATA")
        assert set(page.locator(".tile .value").all_text_contents()) == {"–"}
        assert page.locator(".xtick, .ytick").count() == 0
        alone.daemon.start()
        live(page)
        expect(page.locator(".cell")).to_have_count(120)
    finally:
        alone.end()


def test_a_daemon_that_hangs_is_seen_though_its_connection_stands(stage: Stage, page: Page) -> None:
    stage.daemon.signal(signal.SIGSTOP)
    try:
        expect(page.locator("#badge-text")).to_have_text("DELAYED")
        dead(page)
    finally:
        stage.daemon.signal(signal.SIGCONT)
    live(page)


def test_a_killed_page_process_is_seen_and_a_restarted_one_is_found_again(stage: Stage, page: Page) -> None:
    stage.page.kill()
    try:
        dead(page)
        expect(page.locator("#banner")).to_contain_text("this page has lost the connection to its server")
        oldest = page.evaluate(OLDEST)
    finally:
        stage.page.start()
    live(page)
    page.wait_for_timeout(1_000)
    assert page.evaluate(OLDEST) == oldest, "what the browser knew is not lost with the page process"
    page.locator(".cell").nth(7).click()
    expect(page.locator("#trend-note")).to_contain_text("3,000 readings stored")
    page.keyboard.press("Escape")
    expect(page.locator(".mantine-Drawer-title")).to_have_count(0)


def test_a_page_process_that_hangs_is_seen(stage: Stage, page: Page) -> None:
    stage.page.signal(signal.SIGSTOP)
    try:
        dead(page)
    finally:
        stage.page.signal(signal.SIGCONT)
    live(page)


def test_nothing_is_asked_of_the_outside_and_nothing_goes_wrong_in_the_script(fresh: Watched) -> None:
    fresh.page.locator(".cell").nth(6).click()
    expect(fresh.page.locator("#trend-chart .main-svg").first).to_be_visible()
    for button in fresh.page.locator("button.range").all():
        button.click()
    fresh.page.wait_for_timeout(1_000)
    assert fresh.hosts == {"127.0.0.1"}
    assert fresh.errors == []


def test_a_page_opened_later_has_its_charts_filled_at_once(fresh: Watched, stage: Stage) -> None:
    fresh.page.wait_for_timeout(3_000)
    later = fresh.again(stage.page.url)
    live(later)
    points = "() => document.querySelector('#chart-rates .js-plotly-plot')?.data?.[0].x.length ?? 0"
    until(lambda: later.evaluate(points) > 0, "the chart is drawn")
    assert later.evaluate(points) >= 10


def test_several_pages_at_once_are_all_live(stage: Stage, page: Page, browser: Browser) -> None:
    def browsers() -> int:
        return int(ask(stage.page.url + "/healthz")["browsers"])

    until(lambda: browsers() == 1, "only the page that stands open is left")
    pages = [Watched(browser, stage.page.url).page for _ in range(2)]
    for each in pages:
        live(each)
    assert browsers() == 3
    sequence = "() => window.triggerlog.state.sequence"
    began = [each.evaluate(sequence) for each in pages]
    for each, start in zip(pages, began, strict=True):
        until(lambda each=each, start=start: each.evaluate(sequence) >= start + 9, "frames go on coming")
    for each in pages:
        each.close()
    until(lambda: browsers() == 1, "the browsers have left")


def test_before_the_database_has_answered_once_tabs_draw_what_needs_no_database(stage: Stage, browser: Browser) -> None:
    stage.figures(groups={}, available=False, problem="connection refused")
    page = browser.new_page()
    try:
        page.goto(f"{stage.page.url}?tab=storage")
        live(page)
        expect(page.locator("#outage-note")).to_have_text("■ the database is away: connection refused")
        expect(page.locator("#durability")).to_contain_text("fsync")
        page.locator("#tab-live").click()
        expect(page.locator("#panel-live .charts figure")).to_have_count(4)
        expect(page.locator("#tile-received .value")).to_have_text("–")
    finally:
        page.close()
