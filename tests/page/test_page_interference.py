"""The tab Interference over a served status: an experiment that runs, and those that were."""

import re
import time
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.page.browser import OPENED_MS, Watched, live
from tests.page.stage import Stage, until

pytestmark = pytest.mark.page

DOSES, PLAIN = "20260101T000000Z", "20251231T120000Z-P"
RUNNING: dict[str, Any] = {
    "id": "20260102T000000Z",
    "began_ns": time.time_ns(),
    "phase": "A",
    "block": 5,
    "blocks": 9,
    "readers": 0,
    "left_s": 93.0,
}
PLOT = "document.querySelector('#experiment-time .js-plotly-plot')"
BANDS = f"() => {PLOT}.layout.shapes.map(s => s.fillcolor)"


def bands_are_marked(page: Page, number: int) -> None:
    """So many bands are marked."""
    until(
        lambda: sum("255,212,121" in colour for colour in page.evaluate(BANDS)) == number, f"{number} bands are marked"
    )


def test_an_experiment_is_chosen_drawn_and_its_doses_marked(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-interference").click()
    expect(page.locator("#experiments-past .ag-overlay", has_text="None yet.")).to_be_visible(timeout=60_000)
    expect(page.locator("#experiment h2")).to_have_text("No experiment yet")
    stage.figures(past=[DOSES, PLAIN])
    page.get_by_role("button", name=PLAIN).click(timeout=60_000)
    expect(page).to_have_url(re.compile(f"experiment={PLAIN}"))
    expect(page.locator("#experiment h2")).to_have_text(f"Experiment {PLAIN}", timeout=60_000)
    expect(page.get_by_role("button", name=PLAIN)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name=DOSES).click()
    expect(page).to_have_url(re.compile(f"experiment={DOSES}"))
    page.reload()
    live(page, OPENED_MS)
    expect(page).to_have_url(re.compile(f"experiment={DOSES}"))
    expect(page.locator("#panel-interference")).to_be_visible()
    expect(page.locator("#experiment .verdict")).to_contain_text("With 8 readers: commit p99", timeout=60_000)
    row = page.locator("#experiment-figures [row-id=p99_ms8]")
    expect(row.locator("[col-id=interval]")).to_have_text(re.compile(r"^\d.* to \d"))
    expect(row.locator("[col-id=n]")).to_have_text("3")
    expect(page.locator("#experiment-readers .ag-row")).to_have_count(7)
    for name in ("time", "dose"):
        box = page.locator(f"#experiment-{name} .main-svg").first.bounding_box()
        assert box is not None
        assert (box["height"] > 300, box["width"] > 300) == (True, True)
    bands_are_marked(page, 0)
    page.locator("#experiment-dose-keys button", has_text="4").click()
    expect(page.locator("#experiment-dose-keys button", has_text="4")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#experiment-dose-keys button", has_text="4")).to_be_focused()
    bands_are_marked(page, 3)
    # A point of the chart does the same: the one of 4 clients takes the marks away again.
    point = page.locator("#experiment-dose .scatterlayer .trace").nth(1).locator(".point").nth(3)
    point.scroll_into_view_if_needed()
    place = point.bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2, steps=3)
    expect(page.locator("#experiment-dose .hoverlayer .hovertext").first).to_be_visible()
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    expect(page.locator("#experiment-dose-keys button", has_text="4")).to_have_attribute("aria-pressed", "false")
    bands_are_marked(page, 0)
    # Twice the same point: the second click is one, too. A click on a band marks it as well.
    for number in (3, 0):
        page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        bands_are_marked(page, number)
    panel = page.locator("#experiment-time .nsewdrag").first
    panel.scroll_into_view_if_needed()
    band = panel.bounding_box()
    assert band is not None
    at_30_s = (band["x"] + band["width"] * 0.06, band["y"] + band["height"] / 2)
    page.mouse.move(*at_30_s, steps=3)
    # What is clicked is what is pointed at: plotly.js finds that a moment after the mouse has come.
    expect(page.locator("#experiment-time .hoverlayer .legend").first).to_have_text(re.compile(r"^(29|30)\."))
    page.mouse.click(*at_30_s)
    expect(page.locator("#experiment-dose-keys button", has_text="8")).to_have_attribute("aria-pressed", "true")
    bands_are_marked(page, 3)
    report, *missing = [
        httpx.get(f"{stage.page.url}/answers/{path}", verify=False, trust_env=False, timeout=60)
        for path in (f"interference/{DOSES}/report", f"interference/{DOSES}/csv", f"elsewhere/{DOSES}/report")
    ]
    assert [answer.status_code for answer in missing] == [404, 404]
    assert "default-src 'none'" in report.headers["content-security-policy"]
    page.goto(str(report.url))
    expect(page.locator("h1")).to_have_text(DOSES)
    expect(page).not_to_have_title("it ran a script")
    page.goto(f"{stage.page.url}/?tab=interference&experiment=20010101T000000Z")
    expect(page.locator("#experiment-problem")).to_contain_text("20010101T000000Z cannot be shown", timeout=60_000)


def test_one_that_runs_is_drawn_as_it_grows_and_told_to_all_by_one_question(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-interference").click()
    stage.figures(under_way=2, experiment=RUNNING)
    expect(page.locator("#experiment .phase")).to_have_text("A · block 5 of 9 · about 93 s left", timeout=60_000)
    samples = f"() => (({PLOT} || {{}}).data || [])[0]?.x.length || 0"
    until(lambda: page.evaluate(samples) > 80, "the samples so far are drawn")
    before = page.evaluate(samples)
    stage.figures(under_way=4)
    until(lambda: page.evaluate(samples) > before, "those that came since are drawn")
    expect(page.locator("#experiment-figures [row-id=p99_ms4] [col-id=n]")).to_have_text("1")
    expect(page.get_by_role("button", name="Stop the experiment")).to_be_visible()
    stage.figures(under_way=None, experiment=None, past=[PLAIN])
    expect(page.locator("#experiment h2")).to_have_text(f"Experiment {PLAIN}", timeout=60_000)
    expect(page.get_by_role("button", name="Stop the experiment")).to_be_hidden()


def test_the_form_says_how_long_it_will_take(stage: Stage, opened: Watched) -> None:
    page = opened.again(stage.page.url)
    page.locator("#tab-interference").click()
    expect(page.locator("#experiment-lasts")).to_have_text("13 blocks, 4 min 20 s")
    page.get_by_label("Doses (clients)").fill("1, 2, 4")
    expect(page.locator("#experiment-lasts")).to_have_text("37 blocks, 12 min 20 s")
    workloads = page.locator("fieldset.workload")
    expect(workloads).to_have_count(2)
    workloads.last.get_by_label("Clients", exact=True).fill("7")
    page.get_by_role("button", name="Add a workload").click()
    expect(workloads).to_have_count(3)
    expect(workloads.last.get_by_role("textbox", name="Asks for")).to_be_focused()
    expect(page.get_by_role("option")).to_have_count(0)
    workloads.first.get_by_role("button", name="Remove").click()
    expect(workloads).to_have_count(2)
    expect(workloads.first.get_by_label("Clients", exact=True)).to_have_value("7")
    expect(workloads.last.locator("legend")).to_have_text("scan: an aggregate over everything that is stored")
    workloads.last.get_by_role("textbox", name="Asks for").click()
    page.get_by_role("option", name="trend").click()
    expect(workloads.last.get_by_label("Readings")).to_have_value("1000")
    expect(workloads.last.get_by_label("Period, s")).to_have_value("0.5")
    expect(workloads.first.get_by_label("Clients", exact=True)).to_have_value("7")
    workloads.last.get_by_role("button", name="Remove").click()
    expect(workloads).to_have_count(1)
    expect(workloads.get_by_role("button", name="Remove")).to_be_hidden()
    assert opened.errors == []


def test_what_is_wrong_is_said_at_its_field_before_anything_is_sent(fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-interference").click()
    clients = page.locator("fieldset.workload").last.get_by_label("Clients", exact=True)
    clients.fill("0")
    page.get_by_label("Doses (clients)").fill("few")
    page.get_by_role("button", name="Start the experiment").click()
    expect(clients).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#experiment-form")).to_contain_text("name numbers of clients, separated by commas")
    expect(page.get_by_role("dialog")).to_have_count(0)
    clients.fill("2")
    page.get_by_label("Doses (clients)").fill("")
    page.get_by_role("button", name="Start the experiment").click()
    expect(page.get_by_role("dialog", name="Start an interference experiment")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#experiment-outcome")).to_have_text("Not done: it was not sent.")
