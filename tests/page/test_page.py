"""The page as a person who only looks sees it: a real browser, a real page process, a real stream of statuses."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.tabs.figures import CHART_HEIGHT
from schemas.api.status import Shortfall
from tests.page.browser import value
from tests.page.served import FIGURES
from tests.page.stage import Stage, until

pytestmark = pytest.mark.page

LINES = "chart => [...chart.querySelectorAll('path.js-line')].map(line => line.getAttribute('d')).join()"
MIXED = {"6": "m", "13": "l", "32": "s", "42": "n", "51": "m", "70": "d"}


def test_the_numbers_are_those_of_the_status(stage: Stage, page: Page) -> None:
    stage.figures(
        wave=False, count=4000, rate=972.25, commit_rate=971.5, p50=1.624, p99=10.56, waiting=49, open=3, off_by=0
    )
    stage.figures(states={"bpm": MIXED}, refused={"unknown_instrument": 7}, dead=2, missing_a_trigger=2.4)
    for column, shown in {
        "received": "972",
        "written": "116,580",
        "p50": "1.62",
        "p99": "10.6",
        "waiting": "49",
        "absent": "4",
    }.items():
        expect(value(page, column)).to_have_text(shown)
    readings = stage.status()["groups"]["bpm"]["readings"]
    for term in ("received", "committed", "duplicate", "dead", "waiting", "assembling"):
        expect(page.locator(f"#totals [data-term={term}] b")).to_have_text(f"{readings[term]:,}")
    expect(page.locator("#totals [data-term=refused]")).to_have_text("7 refused (unknown instrument 7)")
    expect(page.locator("#totals")).to_have_attribute("data-adds", "true")
    expect(page.locator("#who")).to_contain_text("klystron-gallery")
    expect(page.locator("#store")).to_contain_text("PostgreSQL 18.1, embedded")
    expect(page.locator("#store")).to_contain_text("sync: survives a crash of the server")


def test_gaps_are_told_where_there_are_any(stage: Stage, page: Page) -> None:
    aside = page.locator("#totals [data-term=aside]")
    expect(page.locator("#totals .verdict")).to_contain_text("accounted for")
    expect(aside).to_be_hidden()
    stage.figures(aside={"ahead": 524, "conflict": 2}, lost={"sender": 1200, "datagrams": 35}, skipped=1244)
    expect(aside).to_have_text("526 aside (ahead 524, conflict 2)")
    expect(page.locator("#totals")).to_have_attribute("data-adds", "true")
    verdict = page.locator("#totals .verdict")
    expect(verdict).to_contain_text("1,235 more lost on their way (sender 1,200, datagrams 35)")
    expect(verdict).to_contain_text("1,244 trigger numbers never came")
    for key, severity in (("lost", "critical"), ("skipped", "warning"), ("aside", "warning")):
        expect(page.locator(f".alarm[data-key={key}]")).to_have_attribute("data-severity", severity)


def test_readings_that_are_not_accounted_for_are_called_out(stage: Stage, page: Page) -> None:
    stage.figures(off_by=11)
    expect(page.locator("#totals")).to_have_attribute("data-adds", "false")
    expect(page.locator("#totals .verdict")).to_contain_text("11 not accounted for")


def test_a_state_is_told_by_glyph_words_and_colour(stage: Stage, page: Page) -> None:
    stage.figures(states={"bpm": MIXED})
    for number, name, glyph, words in (
        (0, "ok", "", "ok"),
        (13, "late", "◐", "late"),
        (6, "missing", "✕", "missing"),
        (70, "desynchronised", "≠", "out of step"),
        (32, "silent", "▲", "silent"),
        (42, "never", "○", "never heard"),
    ):
        cell = page.locator(f".cell[data-number='{number}']")
        expect(cell).to_have_attribute("data-state", name)
        expect(cell).to_have_attribute("aria-label", f"bpm_{number:03d}: {words}")
        expect(cell.locator(".glyph")).to_have_text(glyph)
    cells = page.locator(".cell")
    expect(cells).to_have_count(120)
    colours = [
        page.locator(f".cell[data-number='{n}']").evaluate("e => getComputedStyle(e).background")
        for n in (0, 13, 6, 32, 70)
    ]
    assert len(set(colours)) == 5
    counts = {"ok": "114", "late": "1", "missing": "2", "desynchronised": "1", "silent": "1", "never": "1"}
    for name, count in counts.items():
        expect(page.locator(f".legend [data-state={name}] b")).to_have_text(count)


def test_without_a_trigger_no_instrument_is_ok_and_none_is_missing(stage: Stage, page: Page) -> None:
    stage.figures(wave=False, states={"bpm": {str(n): "i" for n in range(120)}}, missing_a_trigger=None, rate=0)
    expect(page.locator(".legend [data-state=idle] b")).to_have_text("120")
    expect(value(page, "absent")).to_have_text("–")
    expect(page.locator("#tile-absent .aside")).to_have_text("no trigger lately", use_inner_text=True)


def test_of_few_commits_the_longest_stands_in_place_of_the_p99(stage: Stage, page: Page) -> None:
    expect(page.locator("#tile-p99 h2")).to_have_text("Commit p99")
    stage.figures(wave=False, p99=10.0, tail=4.0)
    expect(page.locator("#tile-p99 h2")).to_have_text("Commit longest")
    expect(value(page, "p99")).to_have_text("14.0")


def test_the_strip_is_empty_when_all_is_well_and_else_names_the_gravest_first(stage: Stage, page: Page) -> None:
    expect(page.locator(".alarm")).to_have_count(0)
    stage.figures(available=False, problem="connection refused", away_s=75.0, p99=50.0, states={"bpm": MIXED})
    expect(page.locator(".alarm")).to_have_count(3)
    expect(page.locator(".alarm").first).to_have_attribute("data-severity", "critical")
    expect(page.locator(".alarm").first).to_contain_text("Database away: connection refused")
    expect(page.locator(".alarm").first.locator(".since")).to_contain_text("1 min")
    expect(page.locator("#tile-p99")).to_have_attribute("data-level", "over")
    stage.figures(**FIGURES)
    expect(page.locator(".alarm")).to_have_count(0)


def test_what_is_at_risk_stands_beside_what_is_written_and_only_a_shortfall_is_coloured(
    stage: Stage, page: Page
) -> None:
    beside = page.locator("#tile-written .aside")
    expect(beside).to_have_text("rows, sync", use_inner_text=True)
    stage.figures(at_risk=71_904, at_risk_ms=600.0)
    expect(beside).to_have_text("rows, sync · 71,904 at risk", use_inner_text=True)
    expect(page.locator("#tile-written")).not_to_have_attribute("data-level", "over")
    assert beside.evaluate("e => e.scrollWidth <= e.clientWidth"), "it fits the tile"
    short = Shortfall(problem="NOT durable: fsync is off on the server", fix="set fsync = on there")
    stage.figures(at_risk=1_234_567, at_risk_ms=None, shortfall={"sync": short.model_dump()})
    expect(beside).to_have_text("rows, sync · all 1,234,567 at risk", use_inner_text=True)
    expect(page.locator("#tile-written")).to_have_attribute("data-level", "over")
    alarm = page.locator(".alarm", has_text="Durability sync is not kept (bpm): NOT durable: fsync is off")
    expect(alarm).to_have_attribute("data-severity", "warning")
    expect(alarm.locator(".action")).to_contain_text("Set fsync = on there.")
    expect(page.locator("#store")).to_have_attribute("title", "state/postgresql\nfsync = on\nsynchronous_commit = on")


def test_events_are_listed(stage: Stage, page: Page) -> None:
    stage.figures(
        events=[{"time_ns": 1_700_000_000_000_000_000, "severity": "warning", "text": "<b>bpm_006</b> silent"}]
    )
    expect(page.locator("#events li")).to_have_text(["2023-11-14 22:13:20warning<b>bpm_006</b> silent"])


def test_charts_have_a_height_and_lines(stage: Stage, page: Page) -> None:
    stage.figures(wave=True)
    charts = page.locator("#panel-live .chart .js-plotly-plot")
    expect(charts).to_have_count(4)
    expect(page.locator("#chart-rates .scatterlayer path.js-line").first).to_be_attached()
    for chart in charts.all():
        box = chart.bounding_box()
        assert box is not None
        assert box["height"] > 100
        assert box["width"] > 200
        # A gap cuts a line into paths, of which one of a second is a single pixel.
        until(lambda chart=chart: "L" in chart.evaluate(LINES), "a line is drawn")
    assert page.locator(".modebar").count() == 0


def test_charts_have_their_room_before_they_can_be_drawn(stage: Stage, browser: Browser) -> None:
    page = browser.new_page()
    try:
        page.route(re.compile("plotly"), lambda route: route.abort())
        page.goto(stage.page.url)
        expect(page.locator("#panel-live .charts figure")).to_have_count(4, timeout=60_000)
        expect(page.locator("#panel-live .js-plotly-plot")).to_have_count(0)
        # All at once: without the script a chart is put in anew now and then.
        measured = "figures => figures.map(figure => figure.getBoundingClientRect().height)"
        heights = page.locator("#panel-live .charts figure").evaluate_all(measured)
        assert len(heights) == 4
        assert min(heights) > CHART_HEIGHT
    finally:
        page.close()


def test_a_value_far_beyond_the_others_does_not_flatten_them(stage: Stage, page: Page) -> None:
    top = "() => document.querySelector('#chart-latency .js-plotly-plot').layout.yaxis.range[1]"
    stage.figures(wave=False, p99=4.0)
    page.wait_for_timeout(8_000)
    stage.figures(wave=False, p99=600_000.0)
    page.wait_for_timeout(300)
    stage.figures(wave=False, p99=4.0)
    beyond = page.locator("#chart-latency .annotation-text")
    expect(beyond).to_have_text(["↑ 600,000"], timeout=30_000)
    assert page.evaluate(top) < 100


def test_the_drawer_is_below_the_header_and_no_tile_stands_alone(stage: Stage, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    try:
        page.goto(stage.page.url)
        page.locator(".cell").first.click(timeout=60_000)
        header, drawer = page.locator("#page > header").bounding_box(), page.locator(".mantine-Drawer-inner")
        assert header is not None
        until(lambda: (drawer.bounding_box() or header)["y"] >= header["y"] + header["height"], "it is below")
        lefts = [tile.evaluate("e => e.offsetTop") for tile in page.locator(".tiles > .tile:visible").all()]
        assert sorted(map(lefts.count, set(lefts))) == [3, 4]
    finally:
        page.close()


def test_a_table_that_is_cut_off_says_so_and_none_is_laid_out_unseen(stage: Stage, browser: Browser) -> None:
    page, told = browser.new_page(viewport={"width": 390, "height": 800}), []
    page.on("console", lambda message: told.append(message.text))
    mark = "e => getComputedStyle(e, '::after').content"
    try:
        page.goto(f"{stage.page.url}?tab=storage")
        table = page.locator("#panel-storage .table").first
        table.locator(".ag-row").first.wait_for(timeout=60_000)
        until(lambda: "›" in table.evaluate(mark), "it can be scrolled")
        page.set_viewport_size({"width": 1600, "height": 800})
        until(lambda: table.evaluate(mark) == "none", "it is all there")
        assert not [text for text in told if "AG Grid" in text]
    finally:
        page.close()


def test_a_moment_pointed_at_is_marked_in_every_chart(page: Page) -> None:
    lines = page.locator("#panel-live .crosshair")
    expect(lines).to_have_count(4)
    page.wait_for_timeout(1_500)
    plot = page.locator("#chart-rates .nsewdrag")
    box = plot.bounding_box()
    assert box is not None
    plot.hover(position={"x": box["width"] * 0.99, "y": 40})
    expect(page.locator("#chart-rates .hoverlayer .legend")).to_contain_text("/s committed")
    for line in lines.all():
        expect(line).to_be_visible()
        across = "e => (e.offsetLeft - e.parentElement.querySelector('.js-plotly-plot')._fullLayout.xaxis._offset)"
        length = "e => e.parentElement.querySelector('.js-plotly-plot')._fullLayout.xaxis._length"
        assert line.evaluate(across) / line.evaluate(length) == pytest.approx(0.99, abs=0.02)
    page.locator("h1").hover()
    for line in lines.all():
        expect(line).to_be_hidden()
