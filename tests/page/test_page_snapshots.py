"""Snapshot readers on the tab Reads, over a served status: a run at work, one that was, and the form for the next."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser import Watched, give, grave, live
from tests.page.snapshots import LOADING, STATUS
from tests.page.stage import Stage, until

pytestmark = pytest.mark.page

SHOWN_MS = 120_000
OVER = "20251231T120000Z"
DRAWN = (
    "name => (document.querySelector(`#snapshots-${name} .js-plotly-plot`)?.data || []).map(trace => trace.x.length)"
)


def drawn(page: Page, name: str) -> list[int]:
    """Points of the lines of a chart."""
    found: list[int] = page.evaluate(DRAWN, name)
    return found


def test_a_run_is_drawn_while_it_goes_on_and_one_that_was_is_chosen_by_address(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-reads").click()
    expect(page.locator("#snapshots-empty")).to_contain_text("Clients start one after the other", timeout=SHOWN_MS)
    expect(page.locator("#snapshots-shown")).to_be_hidden()

    stage.figures(snapshots=LOADING, past_snapshots=[OVER])
    expect(page.locator("#snapshots-phase")).to_contain_text("600,000 of 2,400,000 rows loaded", timeout=SHOWN_MS)
    expect(page.locator("#snapshots-clients-panel")).to_be_hidden()

    stage.figures(snapshots=STATUS)
    expect(page.locator("#snapshots-phase")).to_contain_text("400 of 800 cycles", timeout=SHOWN_MS)
    expect(page.locator("#snapshots-tile-efficiency-value")).to_have_text("97.0")
    expect(page.locator("#snapshots-tile-efficiency")).to_have_attribute("data-level", "over")
    expect(page.locator("#snapshots-clients-note")).to_contain_text("▲ 2 late")
    until(lambda: drawn(page, "clients") == [40], "a bar a client is drawn")
    until(lambda: sum(drawn(page, "times")) == 400, "the cycles are drawn")
    until(lambda: drawn(page, "rows") == [100], "the time line is drawn")
    until(lambda: drawn(page, "cliff") == [40, 40], "both layouts have their cliff")
    for name, height in {"clients": 230, "times": 300, "rows": 230, "bytes": 230, "blocks": 230, "cliff": 230}.items():
        box = page.locator(f"#snapshots-{name} .main-svg").first.bounding_box()
        assert box is not None
        assert (box["height"], box["width"] > 250) == (height, True)

    more = STATUS | {"figures": STATUS["figures"] | {"cycles": 460}, "states": STATUS["states"].replace("l", "w")}
    stage.figures(snapshots=more)
    until(lambda: sum(drawn(page, "times")) == 460, "the cycles that ended since are drawn")
    expect(page.locator("#snapshots-clients-note")).not_to_contain_text("late")

    over = {"state": "finished", "states": "", "progress": [], "read": [], "remaining_s": None}
    stage.figures(snapshots=more | over)
    expect(page.get_by_role("button", name="Stop the run")).to_be_hidden(timeout=SHOWN_MS)
    expect(page.locator("#snapshots-clients-panel")).to_be_hidden()
    page.get_by_role("button", name=OVER).click()
    expect(page).to_have_url(re.compile(f"snapshots={OVER}"))
    expect(page.locator("#snapshots-title")).to_have_text(f"Snapshot readers: run {OVER}", timeout=SHOWN_MS)
    expect(page.locator("#snapshots-summary")).to_contain_text("PostgreSQL 18.1 · layout channel-max")
    until(lambda: sum(drawn(page, "times")) == 800, "all of its cycles are drawn")
    assert fresh.errors == []


def test_the_form_says_what_a_run_would_do_and_what_is_wrong_with_it(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-reads").click()
    form, plan = page.locator("#snapshots-form"), page.locator("#snapshots-plan")
    expect(plan).to_contain_text("Loads 200,000 rows, 191 MiB", timeout=SHOWN_MS)
    form.get_by_label("Folders", exact=True).fill("20")
    expect(plan).to_contain_text("Loads 400,000 rows")
    start = form.get_by_role("button", name="Start the run")
    form.get_by_text("More settings").click()
    form.get_by_label("Processing, s of data").fill("1000")
    start.click()
    expect(form.locator("[data-field=processing_s]")).to_contain_text("leave some of the cycle to read")
    expect(page.get_by_role("dialog")).to_have_count(0)
    form.get_by_label("Processing, s of data").fill("0")
    start.click()
    give(page)
    expect(page.locator("#snapshots-outcome")).to_contain_text("Snapshot readers run already")
    assert fresh.errors == []


@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing_serious_and_nothing_scrolls_sideways(stage: Stage, opened: Watched, width: int) -> None:
    stage.figures(snapshots=STATUS, past_snapshots=[OVER])
    page = opened.again(f"{stage.page.url}/?tab=reads", viewport={"width": width, "height": 900})
    live(page)
    until(lambda: drawn(page, "clients") == [40], "a bar a client is drawn")
    until(lambda: drawn(page, "cliff") == [40, 40], "the cliff is drawn")
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    assert grave(page) == []
