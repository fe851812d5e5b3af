"""The tab Visits over a served status: nothing yet, a run that grows, one that was, and the form for the next."""

import re
import time
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.page.browser import Watched, grave
from tests.page.stage import Stage, ask, until
from tests.page.visits import STATUS

pytestmark = pytest.mark.page

LIVE, OVER = STATUS["id"], "20251231T120000Z"
SHOWN_MS = 90_000
DRAWN = "name => (document.querySelector(`#${name} .js-plotly-plot`)?.data || []).map(trace => trace.x.length)"
PLOT = "document.querySelector('#visits-time .js-plotly-plot')"


def run(done: int, **changes: Any) -> dict[str, Any]:
    """Status of the run with so many visits done."""
    return STATUS | {"done": done, "here": done, "limit_s": 0.5, "last_ns": time.time_ns()} | changes


def points(page: Page) -> int:
    """Visits that the chart of seconds holds."""
    drawn = page.evaluate(DRAWN, "visits-time")
    return drawn[0] if drawn else 0


def cell(page: Page, table: str, row: str, column: str) -> Any:
    """A cell of a table."""
    return page.locator(f'#visits-{table} [row-id="{row}"] [col-id="{column}"]')


def select(form: Any, label: str, option: str) -> None:
    """Choose in a field."""
    form.get_by_label(label, exact=True).click()
    form.page.get_by_role("option", name=option, exact=True).click()


def tile(page: Page, name: str) -> Any:
    """The number of a tile."""
    return page.locator(f"#visits-tile-{name} .value")


def test_a_run_is_drawn_as_it_grows_and_one_that_was_is_chosen_by_address(
    stage: Stage, page: Page, opened: Watched
) -> None:
    page.locator("#tab-visits").click()
    expect(page.locator("#visits-run h2")).to_have_text("No run of visits yet", timeout=SHOWN_MS)
    expect(page.locator("#visits-empty")).to_contain_text("start one below, with triggerlog visits run")
    expect(page.locator("#visits-shown")).to_be_hidden()

    stage.figures(visits=run(300, over_limit=0.012), shown_visits=300)
    expect(page.locator("#visits-run h2")).to_have_text(f"Run {LIVE}")
    expect(tile(page, "state")).to_have_text("● running")
    expect(tile(page, "done")).to_have_text("300")
    expect(tile(page, "over")).to_have_text("1.20")
    expect(page.locator("#visits-tile-over")).to_have_attribute("data-level", "over")
    until(lambda: points(page) == 300, "the visits are drawn")
    for name, height in {"time": 400, "boxes": 230, "parts": 230, "over": 230}.items():
        box = page.locator(f"#visits-{name} .main-svg").first.bounding_box()
        assert box is not None
        assert (box["height"], box["width"] > 300) == (height, True)
    assert page.locator("#visits-sky .scatterlayer .trace .js-fill").first.get_attribute("d") != ""
    expect(page.locator("#visits-sky-drawn")).to_have_attribute(
        "aria-label", re.compile("visit 299 at RA .* 300 earlier")
    )
    expect(cell(page, "sizes", "DIAObject", "off")).to_have_text("+0.7 %")
    expect(cell(page, "fits", "paper", "slope")).to_have_text("0.164")

    # What came since is put behind what is there: the points before are not sent again.
    page.evaluate(f"() => {{ {PLOT}.data[0].marked = true }}")
    stage.figures(visits=run(340), shown_visits=340)
    until(lambda: points(page) == 340, "the visits that came since are drawn")
    assert page.evaluate(f"() => {PLOT}.data[0].marked")
    page.locator("#visits-scale").get_by_text("Logarithmic").click()
    until(
        lambda: page.evaluate(f"() => {PLOT}.layout.yaxis.type") == "log",
        "the axis is logarithmic",
    )

    stage.figures(visits=run(340, state="finished", remaining_s=None), past_visits=[LIVE, OVER])
    expect(page.get_by_role("button", name="Stop after this visit")).to_be_hidden()
    page.get_by_role("button", name=OVER).click(timeout=SHOWN_MS)
    expect(page).to_have_url(re.compile(f"visits={OVER}"))
    expect(page.locator("#visits-run h2")).to_have_text(f"Run {OVER}")
    expect(tile(page, "state")).to_have_text("✓ finished")
    link = page.get_by_role("link", name=f"CSV of {OVER}").get_attribute("href")
    told = httpx.get(f"{stage.page.url}{link}", verify=False, trust_env=False, timeout=60)
    assert told.text == f"visit,visit_s\n0,0.1\n# {OVER}\n"
    assert told.headers["content-disposition"] == f'attachment; filename="visits-{OVER}.csv"'
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=390)
    assert grave(page) == []
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.goto(f"{stage.page.url}/?tab=visits&visits=20010101T000000Z")
    expect(page.locator("#visits-problem")).to_contain_text("nothing is kept here of visits", timeout=SHOWN_MS)
    assert opened.errors == []


def test_the_form_begins_with_the_configuration_and_tells_why_not(stage: Stage, page: Page) -> None:
    page.locator("#tab-visits").click()
    form = page.locator("#visits-form")
    expect(form.get_by_label("Total visits")).to_have_value("2400", timeout=SHOWN_MS)
    expect(form.get_by_label("Scale of the sky")).to_have_value("0.02")
    expect(form.get_by_label("Last table’s update")).to_be_hidden()
    select(form, "Index mode", "last object table")
    select(form, "Last table’s update", "upsert")
    form.get_by_label("Total visits").fill("480")
    form.get_by_role("button", name="Start the run").click()
    dialog = page.get_by_role("dialog", name="Start a run of visits")
    dialog.get_by_label("Token of the daemon’s API").fill("of-a-person")
    dialog.get_by_role("button", name="Send").click()
    expect(form.locator(".outcome")).to_have_text("Visits run already; stop them first, or wait for their end.")
    ordered = ask(stage.daemon.url + "/ordered")
    assert (ordered["index_mode"], ordered["last_update"], ordered["visits"]) == ("last_object_table", "upsert", 480)
    assert ordered["survey"] == {"scale": 0.02, "seed": 1}
    assert "pixel_level" not in ordered


def test_the_daemon_is_asked_for_figures_only_when_there_are_more(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(visits=run(300), shown_visits=300)
    page.locator("#tab-visits").click()
    until(lambda: points(page) == 300, "the visits are drawn")
    asked = ask(stage.daemon.url + "/asked")["visits"]
    for _ in range(3):
        with page.expect_response(lambda answer: "visits-known.data" in (answer.request.post_data or "")) as looked:
            pass
        assert looked.value.ok
    assert ask(stage.daemon.url + "/asked")["visits"] == asked
    stage.figures(visits=run(301), shown_visits=301)
    until(lambda: points(page) == 301, "the visit that came since is drawn")
    assert ask(stage.daemon.url + "/asked")["visits"] == asked + 1
