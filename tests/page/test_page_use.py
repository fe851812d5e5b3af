"""The page as a person uses it: clicked on, walked by keyboard, on a phone; opened anew for each test."""

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.page.browser import BACK_MS, Watched, grave, live, value
from tests.page.stage import Stage, until

pytestmark = pytest.mark.page

MIXED = {"6": "m", "13": "l", "32": "s", "42": "n", "51": "m", "70": "d"}


def test_a_cell_opens_the_trend_of_its_instrument_and_the_address_remembers_it(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(states={"bpm": {"6": "m"}})
    expect(page.locator(".cell").nth(6)).to_have_attribute("data-state", "missing")
    page.locator(".cell").nth(6).click()
    expect(page.locator(".mantine-Drawer-title")).to_have_text("bpm_006")
    expect(page.locator("#trend-state")).to_contain_text("missing: absent from some of the last triggers")
    expect(page.locator("#trend-note")).to_contain_text("3,000 readings stored in the last 5 minutes")
    chart = page.locator("#trend-graph .js-plotly-plot")
    expect(chart.locator("path.js-line")).to_have_count(4)
    box = chart.bounding_box()
    assert box is not None
    assert box["height"] > 300
    page.reload()
    expect(page.locator(".mantine-Drawer-title")).to_have_text("bpm_006", timeout=BACK_MS)
    page.keyboard.press("Escape")
    expect(page.locator(".mantine-Drawer-title")).to_have_count(0)
    expect(page.locator(".cell").nth(6)).to_be_focused()
    expect(page).not_to_have_url(re.compile("instrument"))


def test_a_longer_trend_has_a_band_where_readings_were_reduced(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(reduced=4)
    page.locator(".cell").nth(6).click()
    lines = page.locator("#trend-graph .js-plotly-plot path.js-line")
    expect(lines).to_have_count(4)
    expect(page.locator("#trend-note")).not_to_contain_text("Reduced")
    page.locator("#trend-span").get_by_text("30 d").click()
    # Of each channel the readings, the mean, and the two edges of the band, which have no line.
    expect(page.locator("#trend-graph .js-plotly-plot path.js-fill")).to_have_count(4, timeout=BACK_MS)
    note = page.locator("#trend-note")
    expect(note).to_contain_text("3,000 readings stored in the last 5 minutes")
    expect(note).to_contain_text("What was not reduced is drawn of the last 5 minutes alone. Reduced: ")
    expect(note).to_contain_text(
        "; the band is from the least to the greatest, with the mean, in steps of 3,600 s, coarser than the 60 s that"
        " fit."
    )
    page.locator("#trend-span").get_by_text("1 h", exact=True).click()
    expect(page.locator("#trend-graph .js-plotly-plot path.js-fill")).to_have_count(0)
    expect(note).to_contain_text("in the last 60 minutes")
    assert grave(page) == []
    assert fresh.errors == []


def test_an_instrument_out_of_step_tells_by_how_much(stage: Stage, fresh: Watched) -> None:
    page, cell = fresh.page, fresh.page.locator(".cell").nth(7)
    expect(cell).to_have_attribute("title", "bpm_007")
    stage.figures(states={"bpm": {"7": "d"}})
    size = "1 trigger behind its timestamps (+100.2 ms) since trigger 1234"
    alarm = page.locator(".alarm", has_text="out of step")
    expect(alarm).to_have_attribute("data-severity", "warning")
    expect(alarm).to_contain_text(f"1 instrument out of step: bpm_007 is {size}")
    expect(cell).to_have_attribute("title", f"bpm_007: {size}")
    cell.click()
    expect(page.locator("#trend-state")).to_contain_text("out of step: its trigger numbers or its clock")
    expect(page.locator("#trend-state")).to_contain_text(size)
    stage.figures(states={})
    expect(cell).to_have_attribute("title", "bpm_007")
    expect(alarm).to_have_count(0)


def test_readings_that_cannot_be_had_are_explained(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(readings_fail=True)
    page.locator(".cell").nth(3).click()
    expect(page.locator("#trend-note")).to_have_text(
        "No readings to show: the daemon answered 503: the store does not answer."
    )
    stage.figures(readings_fail=False)
    expect(page.locator("#trend-chart .main-svg").first).to_be_visible(timeout=60_000)


def test_the_grid_is_walked_by_keyboard_with_a_visible_focus(fresh: Watched) -> None:
    page = fresh.page
    first = page.locator(".cell").first
    first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(page.locator(".cell").nth(1)).to_be_focused()
    outline = (
        page.locator(".cell")
        .nth(1)
        .evaluate("e => getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth")
    )
    assert outline == "solid2px"
    page.keyboard.press("End")
    expect(page.locator(".cell").last).to_be_focused()
    assert page.locator(".cell[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    expect(page.locator(".mantine-Drawer-title")).to_have_text("bpm_119")


def test_ranges_are_in_the_address_and_a_pause_goes_on_gathering(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    page.locator("button.range", has_text="1 m").click()
    expect(page).to_have_url(re.compile("range=1m"))
    expect(page.locator("#chart-rates path.js-line").first).to_be_attached()
    page.locator("#pause").click()
    expect(page.locator("#paused")).to_contain_text("Charts paused at")
    newest = (
        "() => { const x = document.querySelector('#chart-rates .js-plotly-plot').data[0].x; return x[x.length - 1] }"
    )
    gathered = "() => window.triggerlog.state.sequence"
    paused = page.evaluate(gathered)
    until(lambda: page.evaluate(gathered) >= paused + 2, "what was being drawn at the pause is drawn")
    stood, before = page.evaluate(newest), page.evaluate(gathered)
    until(lambda: page.evaluate(gathered) >= before + 6, "frames go on coming")
    assert page.evaluate(newest) == stood
    page.locator("#pause").click()
    points = "() => document.querySelector('#chart-rates .js-plotly-plot').data[0].x"
    until(lambda: page.evaluate(newest) > stood, "the charts go on")
    assert len([t for t in page.evaluate(points) if t > stood]) >= 6
    page.reload()
    expect(page.locator("button.range", has_text="1 m")).to_have_attribute("aria-pressed", "true")


def test_groups_have_tabs_and_a_grid_each(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    expect(page.locator("#groups")).to_be_hidden()
    stage.figures(groups={"toroid": 24, "bpm": 120}, states={"toroid": {"3": "s"}})
    expect(page.locator(".grid")).to_have_count(2)
    # In the order of the configuration.
    expect(page.locator("#groups button")).to_have_text(["All groups", "toroid", "bpm"])
    expect(page.locator("#groups button[data-level=over]")).to_have_text(["toroid"])
    expect(page.locator("#tile-absent .unit")).to_have_text("of 144")
    page.locator("#tab-reads").click()
    form = page.locator("#panel-reads").get_by_role("textbox", name="Group")
    for name in ("toroid", "bpm", "toroid"):
        page.locator("#groups button", has_text=name).click()
        expect(form).to_have_value(name)
    page.locator("#tab-live").click()
    expect(page.locator(".grid")).to_have_count(1)
    expect(page.locator("#tile-absent .unit")).to_have_text("of 24")
    expect(value(page, "absent")).to_have_text("1")
    expect(page).to_have_url(re.compile("group=toroid"))
    stage.figures(groups={"bpm": 120}, states={})
    expect(page.locator(".grid")).to_have_count(1)
    expect(page.locator("#tile-absent .unit")).to_have_text("of 120")


def test_an_address_that_makes_no_sense_and_a_group_named_as_an_object_has_it_do_no_harm(
    stage: Stage, fresh: Watched
) -> None:
    stage.figures(groups={"bpm": 120, "constructor": 3})
    asked = "tab=reads&group=constructor&pausedAt=1e300&range=constructor&instrument=bpm:-1"
    page = fresh.again(f"{stage.page.url}/?{asked}")
    live(page)
    expect(page.locator("#tile-absent .unit")).to_have_text("of 3")
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("button.range", has_text="5 m")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#readers")).to_be_visible()
    expect(page.locator("#chart-reads path.js-line").first).to_be_attached()
    expect(page.locator(".mantine-Drawer-title")).to_have_count(0)
    page.locator("#tab-live").click()
    expect(page.locator(".grid")).to_have_count(1)
    expect(page.locator(".cell")).to_have_count(3)
    assert fresh.errors == []


def test_axe_finds_nothing_serious(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    stage.figures(states={"bpm": MIXED}, p99=50.0, available=False, problem="connection refused", refused={"far": 2})
    stage.figures(events=[{"time_ns": 1_700_000_000_000_000_000, "severity": "error", "text": "database away"}])
    expect(page.locator(".alarm")).to_have_count(3)
    assert grave(page) == []
    page.locator(".cell").nth(6).click()
    expect(page.locator("#trend-chart .main-svg").first).to_be_visible()
    assert grave(page) == [], "with the drawer open"


def test_a_phone_needs_no_sideways_scroll(stage: Stage, browser: Browser) -> None:
    stage.figures(
        groups={"bpm": 120, "toroid": 24},
        states={"bpm": MIXED},
        available=False,
        problem="connection to server at 10.11.12.13, port 5432 failed: no route to host",
        refused={"unknown_instrument": 123_456, "impossible_trigger": 78_901},
    )
    watched = Watched(browser, stage.page.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    live(watched.page)
    expect(watched.page.locator(".grid")).to_have_count(2)
    expect(watched.page.locator(".alarm")).to_have_count(3)
    # Charts take the width of their places a moment after these have it.
    fits = "() => document.documentElement.scrollWidth <= 390"
    watched.page.wait_for_function(fits)
    watched.page.locator(".cell").first.tap()
    expect(watched.page.locator("#trend-chart .main-svg").first).to_be_visible()
    watched.page.wait_for_function(fits)
    watched.page.close()


def test_no_words_of_a_tile_are_cut_and_none_grows(stage: Stage, fresh: Watched) -> None:
    page = fresh.page
    heights = "() => [...document.querySelectorAll('.tile')].map(tile => tile.offsetHeight)"
    cut = """() => [...document.querySelectorAll('.tile, .tile p')].filter(
        e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight + 1).map(e => e.textContent)"""
    before = page.evaluate(heights)
    reader = {"clients": 64, "admitted": 48, "rate": 1234.0, "row_rate": 1_234_567.0}
    stage.figures(readers={"operators": reader}, waiting=12_345, drained_in_s=5000.0, at_risk=123_456, at_risk_ms=None)
    for name, words in (
        ("reads", re.compile(r"^48 of 64 clients · 1,23\d,\d{3} rows/s$")),
        ("written", re.compile("^rows, sync · all 123,456 at risk$")),
    ):
        expect(page.locator(f"#tile-{name} .aside")).to_have_text(words, use_inner_text=True)
    assert page.evaluate(heights) == before
    for width in (1600, 1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(cut) == [], width


def test_motion_is_spared_where_it_is_not_wanted(fresh: Watched) -> None:
    fresh.page.emulate_media(reduced_motion="reduce")
    moving = """() => [...document.querySelectorAll('#page *')].filter(e => {
        const s = getComputedStyle(e);
        return s.animationName !== 'none' || s.transitionDuration.split(', ').some(d => parseFloat(d) > 0.01);
    }).length"""
    assert fresh.page.evaluate(moving) == 0
    fresh.page.emulate_media(reduced_motion="null")
