"""The tab Instruments: who does worst, since when, and the orbit."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.browser import Watched, dead, live
from tests.page.stage import Stage, until

pytestmark = pytest.mark.page

MIXED = {"6": "m", "13": "l", "32": "s", "42": "n", "70": "d"}
# The traces of the orbit as drawn; none before its chart is there.
ORBIT = """() => (document.querySelector('#orbit .js-plotly-plot')?._fullData ?? [])
    .map(trace => Array.from(trace.y ?? []))"""
MADE = (
    """() => (document.querySelector('#orbit .js-plotly-plot')?._fullLayout.annotations ?? []).map(one => one.text)"""
)
ORDER = "rows => rows.map(row => row.getAttribute('row-id'))"


def cell(page: Page, row: int, column: str) -> Locator:
    """A cell of the list, by the number of its instrument."""
    return page.locator(f'#worst [row-id="bpm:{row}"] [col-id="{column}"]')


def listed(page: Page, *numbers: int) -> None:
    """The list has these instruments, in this order."""
    wanted = [f"bpm:{number}" for number in numbers]
    until(lambda: page.locator("#worst [role=row][row-id]").evaluate_all(ORDER) == wanted, f"{wanted} are listed")


def sort_by(page: Page, label: str) -> None:
    """Press the head of a column."""
    page.locator("#worst").get_by_role("columnheader", name=label, exact=True).click()


def choose(page: Page, select: str, label: str) -> None:
    """Choose from a list that opens."""
    page.locator(f"#{select}").click()
    page.get_by_role("option", name=label, exact=True).click()


def test_the_worst_are_listed_sorted_and_lead_to_their_detail(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(states={"bpm": MIXED})
    page.get_by_role("tab", name="Instruments").click()
    expect(page.locator("#panel-instruments .cell")).to_have_count(120)
    listed(page, 42, 32, 6, 13, 70)
    expect(cell(page, 32, "state")).to_have_text("▲ silent")
    expect(cell(page, 32, "missing")).to_have_text("200 · 33 %")
    expect(cell(page, 32, "late")).to_have_text("0")
    expect(cell(page, 32, "heard")).to_have_text(re.compile(r"1 min \d+ s ago"))
    bars = cell(page, 32, "strip").evaluate("element => getComputedStyle(element).backgroundImage")
    assert bars.count("v-16") == 20, "missing from all triggers of the last third"
    sort_by(page, "Late")
    listed(page, 13, 42, 32, 6, 70)
    sort_by(page, "Instrument")
    listed(page, 6, 13, 32, 42, 70)
    expect(page.locator("#worst [role=columnheader][aria-sort=ascending]")).to_contain_text("Instrument")
    page.get_by_role("button", name="bpm_032", exact=True).click()
    expect(page.locator(".mantine-Drawer-title")).to_have_text("bpm_032")
    expect(page).to_have_url(re.compile("instrument=bpm%3A32"))
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
    # Chosen again it is no further step of the way back.
    page.evaluate("() => window.dash_clientside.triggerlog.choose({ instrument: 'bpm:32' })")
    page.go_back()
    expect(page.locator(".mantine-Drawer-title")).to_be_hidden()
    listed(page, 6, 13, 32, 42, 70)
    assert fresh.errors == []


def test_what_has_the_focus_in_the_list_keeps_it_while_figures_change(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(states={"bpm": MIXED})
    page.get_by_role("tab", name="Instruments").click()
    listed(page, 42, 32, 6, 13, 70)
    button = page.get_by_role("button", name="bpm_032", exact=True)
    button.focus()
    stage.figures(states={"bpm": MIXED | {"32": "m", "50": "l"}})
    listed(page, 42, 6, 32, 13, 50, 70)
    expect(button).to_be_focused()
    button.press("Enter")
    expect(page.locator(".mantine-Drawer-title")).to_have_text("bpm_032")
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.locator('#panel-instruments .cell[data-number="32"]')).to_be_focused()
    expect(page).not_to_have_url(re.compile("instrument="))
    assert fresh.errors == []


def test_the_orbit_is_of_the_newest_trigger_and_names_who_is_missing(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.get_by_role("tab", name="Instruments").click()
    expect(page.locator("#orbit-choice")).to_have_value("x, y", timeout=60_000)
    expect(page).not_to_have_url(re.compile("channel"))
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
    choose(page, "orbit-choice", "bot_out")
    expect(page.locator("#orbit-note")).to_contain_text("bot_out rms 1.00 V", timeout=60_000)
    expect(page).to_have_url(re.compile("channel=bot_out"))
    expect(page.locator("#orbit-choice")).to_have_value("bot_out")
    stage.daemon.kill()
    try:
        dead(page)
        expect(page.locator("#orbit-note")).to_contain_text("ago")
        expect(page.locator("#orbit-note")).to_have_attribute("data-old", "true")
        expect(
            page.locator(".panel-head", has=page.locator("#worst-note")).get_by_text("as last received")
        ).to_be_visible()
    finally:
        stage.daemon.start()
    live(page)


def test_a_point_of_the_orbit_leads_to_its_instrument_and_an_address_to_its_channel(
    stage: Stage, fresh: Watched
) -> None:
    page = fresh.again(f"{stage.page.url}/?tab=instruments&channel=bot_in")
    live(page)
    expect(page.locator("#orbit-choice")).to_have_value("bot_in", timeout=60_000)
    until(lambda: len(page.evaluate(ORBIT)) == 2, "one channel is drawn")
    at = page.evaluate(
        "() => { const plot = document.querySelector('#orbit .js-plotly-plot'), { xaxis, yaxis } = plot._fullLayout;"
        " const box = plot.getBoundingClientRect(), y = plot._fullData[0].y[60];"
        " return [box.left + xaxis._offset + xaxis.d2p(60), box.top + yaxis._offset + yaxis.d2p(y)]; }"
    )
    page.mouse.move(*at)
    page.mouse.click(*at)
    expect(page.locator(".mantine-Drawer-title")).to_have_text("bpm_060")
    assert fresh.errors == []


def test_the_orbit_is_drawn_calibrated_where_a_tag_is_configured_and_says_so(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.get_by_role("tab", name="Instruments").click()
    note, switch = page.locator("#orbit-note"), page.get_by_role("switch", name="calibrated")
    expect(note).to_contain_text("· not calibrated", timeout=60_000)
    expect(switch).to_be_hidden()
    stage.figures(calibrated_by="summer_2026")
    expect(switch).to_be_visible(timeout=60_000)
    expect(switch).not_to_be_checked()
    until(lambda: page.evaluate(MADE) == ["not calibrated"], "the chart says so")
    switch.click()
    expect(note).to_contain_text("calibrated by summer_2026 · 1 without a calibration", timeout=60_000)
    expect(page).to_have_url(re.compile("calibrated=yes"))
    until(lambda: page.evaluate(MADE) == ["calibrated by summer_2026"], "the chart says so")
    x = page.evaluate(ORBIT)[0]
    assert (x[7], x[118]) == (7, 118), "as the daemon has calibrated them"
    assert page.locator("#orbit-choice").input_value() == "x, y"
    # One that was calibrated before stays, and says why no newer one comes.
    stage.figures(calibrated_by="summer_2026", calibration_fails=True)
    expect(note).to_contain_text("Not calibrated: 'summer'", timeout=60_000)
    expect(note).to_have_attribute("data-old", "true")
    expect(note).to_contain_text("calibrated by summer_2026")
    switch.click()
    expect(note).to_contain_text("· not calibrated", timeout=60_000)
    expect(page).not_to_have_url(re.compile("calibrated"))
    assert page.evaluate(ORBIT)[0][7] != 7
    assert fresh.errors == []


def test_an_address_has_the_calibrated_orbit_and_what_cannot_be_calibrated_is_not_drawn(
    stage: Stage, fresh: Watched
) -> None:
    # A page that has never had a calibrated orbit.
    stage.page.kill()
    stage.page.start()
    stage.figures(calibrated_by="winter", calibration_fails=True)
    page = fresh.again(f"{stage.page.url}/?tab=instruments&calibrated=yes")
    live(page)
    note, switch = page.locator("#orbit-note"), page.get_by_role("switch", name="calibrated")
    expect(note).to_contain_text("Not calibrated", timeout=60_000)
    expect(switch).to_be_checked()
    assert page.evaluate(ORBIT) == []
    stage.figures(calibration_fails=False)
    expect(note).to_contain_text("calibrated by winter", timeout=60_000)
    until(lambda: len(page.evaluate(ORBIT)) == 4, "x and y are drawn")
    choose(page, "orbit-choice", "bot_in")
    expect(note).to_contain_text("bot_in rms", timeout=60_000)
    expect(note).not_to_contain_text("calibrated")
    assert page.evaluate(MADE) == []
    expect(switch).to_be_checked()
    # The tag is taken out of the configuration: the address asks for what there is no more.
    stage.figures(calibrated_by=None)
    expect(switch).to_be_hidden(timeout=60_000)
    choose(page, "orbit-choice", "x, y")
    expect(note).to_contain_text("· not calibrated", timeout=60_000)
    assert fresh.errors == []
