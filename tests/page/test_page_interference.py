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
BANDS = "() => document.getElementById('experiment-time').layout.shapes.map(s => s.fillcolor)"


def marked(page: Page) -> int:
    """How many bands are marked."""
    return sum("255,212,121" in colour for colour in page.evaluate(BANDS))


def test_an_experiment_is_chosen_drawn_and_its_doses_marked(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#tab-interference").click()
    expect(page.locator("#experiments-past .nothing")).to_have_text("None yet.", timeout=60_000)
    expect(page.locator("#experiment h2")).to_have_text("No experiment yet")
    stage.figures(past=[DOSES, PLAIN])
    page.get_by_role("button", name=PLAIN).click(timeout=60_000)
    assert f"experiment={PLAIN}" in page.url
    expect(page.locator("#experiment h2")).to_have_text(f"Experiment {PLAIN}", timeout=60_000)
    page.get_by_role("button", name=DOSES).click()
    page.reload()
    live(page, OPENED_MS)
    assert f"experiment={DOSES}" in page.url
    expect(page.locator("#panel-interference")).to_be_visible()
    expect(page.locator("#experiment .verdict")).to_contain_text("With 8 readers: commit p99", timeout=60_000)
    row = page.locator("#experiment-figures tr[data-key=p99_ms8]")
    expect(row.locator("[data-column=interval]")).to_have_text(re.compile(r"^\d.* to \d"))
    expect(row.locator("[data-column=n]")).to_have_text("3")
    expect(page.locator("#experiment-readers tbody tr")).to_have_count(7)
    for name in ("time", "dose"):
        box = page.locator(f"#experiment-{name} .main-svg").first.bounding_box()
        assert box is not None
        assert (box["height"] > 300, box["width"] > 300) == (True, True)
    assert marked(page) == 0
    page.locator("#experiment-dose-keys button", has_text="4").click()
    expect(page.locator("#experiment-dose-keys button", has_text="4")).to_have_attribute("aria-pressed", "true")
    assert marked(page) == 3
    # A point of the chart does the same: the one of 4 clients takes the marks away again.
    point = page.locator("#experiment-dose .scatterlayer .trace").nth(1).locator(".point").nth(3)
    point.scroll_into_view_if_needed()
    place = point.bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2, steps=3)
    expect(page.locator("#experiment-dose .hoverlayer .hovertext").first).to_be_visible()
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    expect(page.locator("#experiment-dose-keys button", has_text="4")).to_have_attribute("aria-pressed", "false")
    assert marked(page) == 0
    report = httpx.get(
        f"{stage.page.url}/answers/interference/{DOSES}/report", verify=False, trust_env=False, timeout=60
    )
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
    samples = "() => (document.getElementById('experiment-time').data || [{x: []}])[0].x.length"
    until(lambda: page.evaluate(samples) > 80, "the samples so far are drawn")
    before = page.evaluate(samples)
    stage.figures(under_way=4)
    until(lambda: page.evaluate(samples) > before, "those that came since are drawn")
    expect(page.locator("#experiment-figures tr[data-key=p99_ms4] [data-column=n]")).to_have_text("1")
    expect(page.get_by_role("button", name="Stop the experiment")).to_be_visible()
    stage.figures(under_way=None, experiment=None, past=[PLAIN])
    expect(page.locator("#experiment h2")).to_have_text(f"Experiment {PLAIN}", timeout=60_000)
    expect(page.get_by_role("button", name="Stop the experiment")).to_be_hidden()


def test_the_form_says_how_long_it_will_take(stage: Stage, opened: Watched) -> None:
    # The page's process forgets a while later than the daemon does what another test had it draw.
    until(
        lambda: httpx.get(stage.page.url + "/answers/interference").json()["past"] == [], "what was drawn is forgotten"
    )
    page = opened.again(stage.page.url)
    page.locator("#tab-interference").click()
    expect(page.locator("#experiment-lasts")).to_have_text("13 blocks, 4 min 20 s")
    page.get_by_label("Doses (clients)").fill("1, 2, 4")
    expect(page.locator("#experiment-lasts")).to_have_text("37 blocks, 12 min 20 s")
    expect(page.locator("fieldset.workload")).to_have_count(2)
    page.get_by_role("button", name="Add a workload").click()
    page.locator("fieldset.workload").last.get_by_role("button", name="Remove").click()
    expect(page.locator("fieldset.workload")).to_have_count(2)
    assert opened.errors == []
