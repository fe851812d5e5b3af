"""Marks on the page: made in the form, seen by all browsers, drawn on every time axis."""

import time
from typing import Any
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.browser import BACK_MS, Watched, give, grave, live
from tests.page.stage import Stage, ask, until

pytestmark = pytest.mark.page

ANNOTATIONS = (
    "id => (document.querySelector(`#${id} .js-plotly-plot`)?.layout.annotations || []).map(each => each.text)"
)
SPANS = "id => document.querySelector(`#${id} .js-plotly-plot`)?.layout.shapes?.filter(e => e.type === 'rect').length"
EXPERIMENT = "20251231T120000Z-P"
PLACE = "document.querySelector('#experiment-time .js-plotly-plot')"
OF_EXPERIMENT = f"() => ({PLACE}?.layout?.annotations || []).filter(e => e.hovertext).map(e => [e.text, e.x])"


def mark(ago_s: float, text: str, **fields: Any) -> dict[str, Any]:
    return {"id": str(uuid4()), "time_ns": time.time_ns() - int(ago_s * 1e9), "text": text, **fields}


def served(stage: Stage) -> Any:
    return ask(f"{stage.daemon.url}/api/v1/marks?last=100")["marks"]


def drawn(page: Page, *texts: str, chart: str = "chart-rates") -> None:
    until(lambda: page.evaluate(ANNOTATIONS, chart) == list(texts), f"{texts} are drawn in {chart}")


def fill(page: Page, text: str, **fields: str) -> None:
    """Fill in the form, and press its button."""
    form = page.locator("#mark-form")
    if not form.is_visible():
        page.locator("#marks > summary").click()
    for label, value in {"What happened": text, **fields}.items():
        form.get_by_label(label.replace("_", " ")).fill(value)
    form.get_by_role("button", name="Mark").click()


def test_a_mark_of_one_is_seen_by_all_and_after_a_reload(stage: Stage, fresh: Watched, browser: Browser) -> None:
    page = fresh.page
    colleague = Watched(browser, stage.page.url).page
    live(colleague)
    fill(page, "beam study <b>began</b> & more", Who="A. Operator")
    give(page)
    expect(page.locator("#mark-outcome")).to_contain_text("UTC: beam study <b>began</b> & more.")
    expect(page.get_by_label("What happened")).to_have_value("")
    expect(page.get_by_role("textbox", name="About")).to_be_hidden()
    for each in (page, colleague):
        for chart in ("chart-rates", "chart-backlog"):
            drawn(each, "beam study &#60;b&#62;began&#60;/b&#62; &#38; more", chart=chart)
    expect(colleague.locator("#chart-rates .annotation-text").first).to_have_text("beam study <b>began</b> & more")
    colleague.reload()
    live(colleague)
    drawn(colleague, "beam study &#60;b&#62;began&#60;/b&#62; &#38; more")
    (made,) = served(stage)
    assert made["author"] == "A. Operator"
    expect(page.locator("#marks-newest li")).to_have_count(1)
    assert grave(page) == []
    page.get_by_role("button", name="Withdraw").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Withdraw for good: ")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.locator("#marks-outcome")).to_have_text("Not done: it was not sent.")
    assert len(served(stage)) == 1
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Withdraw").click()
    dialog.get_by_role("button", name="Send").click()
    expect(page.locator("#marks-outcome")).to_have_text("The mark was withdrawn.")
    expect(page.locator("#marks-newest li")).to_have_count(0)
    drawn(colleague)
    assert fresh.errors == []
    colleague.close()


def test_a_mark_of_the_past_is_in_the_ranges_that_reach_it(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    began = time.gmtime(time.time() - 200)
    ended = time.gmtime(time.time() - 150)
    form = "%Y-%m-%dT%H:%M:%S"
    fill(page, "valve 3 closed", When=time.strftime(form, began), Until=time.strftime(form, ended))
    give(page)
    expect(page.locator("#mark-outcome")).to_contain_text("valve 3 closed.")
    (made,) = served(stage)
    assert (made["until_ns"] - made["time_ns"]) // 10**9 in (50, 51)
    page.locator("[data-range='5m']").click()
    drawn(page, "valve 3 closed")
    assert page.evaluate(SPANS, "chart-rates") == 1
    page.locator("[data-range='1m']").click()
    drawn(page)
    # While the charts are paused, too.
    page.locator("[data-range='5m']").click()
    page.locator("#pause").click()
    stage.figures(marks=[mark(100, "one"), mark(90, "two")], mark_changes=7)
    drawn(page, "one", "two")
    stage.figures(marks=[], mark_changes=8)
    drawn(page)


def test_marks_of_another_group_are_not_drawn(stage: Stage, fresh: Watched) -> None:
    marks = [mark(9, "of all"), mark(8, "of this", group="bpm"), mark(7, "of another", group="toroid")]
    stage.figures(marks=marks, mark_changes=1)
    drawn(fresh.page, "of all", "of this")


def test_what_cannot_be_marked_is_said_beside_the_form(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    form = page.locator("#mark-form")
    fill(page, "")
    expect(form).to_contain_text("missing; give it")
    fill(page, "fine", When="2026-11-21T18:00", Until="2026-11-21T17:00")
    expect(form).to_contain_text("it is not after time_ns; give a later time")
    fill(page, "fine", Until="")
    give(page, "a-wrong-token")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The daemon refused it: this is not the API's token.")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.locator("#mark-outcome")).to_have_text("Not done: it was not sent.")
    expect(page.get_by_label("What happened")).to_have_value("fine")
    expect(dialog).to_be_hidden()
    assert served(stage) == []
    # Whoever writes gives no other order by it.
    page.get_by_label("What happened").press_sequentially("p2")
    expect(page.locator("#panel-live")).to_be_visible()
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "false")


def test_a_time_that_is_filled_in_by_half_is_not_taken_for_now(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("#marks > summary").click()
    form, dialog = page.locator("#mark-form"), page.get_by_role("dialog")
    form.get_by_label("What happened").fill("valve 3 closed")
    when, send = form.get_by_label("When"), form.get_by_role("button", name="Mark")
    when.press_sequentially("11")
    send.click()
    expect(when).to_have_attribute("aria-invalid", "true")
    expect(form.locator("[data-field=time_ns]")).to_contain_text("valid value")
    expect(dialog).to_have_count(0)
    when.fill("2026-11-21T18:00")
    send.click()
    expect(dialog).to_be_visible()
    assert fresh.errors == []


def test_marks_that_cannot_be_listed_are_said_to_be_unknown(stage: Stage, fresh: Watched) -> None:
    said = fresh.page.locator("#marks > summary")
    stage.figures(marks_fail=True, marks=[mark(9, "unseen")], mark_changes=91)
    expect(said).to_contain_text("the newest are not known: the daemon answered 503: the store does not answer")
    stage.figures(marks_fail=False)
    expect(said.locator("[data-if='marks.problem']")).to_be_hidden()
    drawn(fresh.page, "unseen")


def test_the_trend_of_an_instrument_and_an_experiment_have_marks_too(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(past=[EXPERIMENT])
    record = ask(f"{stage.daemon.url}/api/v1/interference/{EXPERIMENT}")
    during = mark(0, "valve moved", time_ns=record["began_ns"] + 10 * 10**9)
    stage.figures(marks=[during, mark(60, "beam study began")], mark_changes=1)
    page.locator(".cell").nth(6).click()
    expect(page.locator("#trend-graph .annotation-text", has_text="beam study began")).to_be_visible(timeout=BACK_MS)
    page.keyboard.press("Escape")
    page.locator("#tab-interference").click()
    until(lambda: page.evaluate(OF_EXPERIMENT) == [["valve moved", 10]], "the mark is in the experiment")
    assert fresh.errors == []


def test_a_page_of_another_origin_makes_no_mark(stage: Stage) -> None:
    with httpx.Client(base_url=stage.page.url, trust_env=False, timeout=60) as client:
        answer = client.post("/_dash-update-component", json={}, headers={"origin": "http://evil.example"})
        assert answer.status_code == 403
        assert "another origin" in answer.json()["detail"]
        assert client.post("/_dash-update-component", json={}).status_code != 403
