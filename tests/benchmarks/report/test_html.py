"""The report of `triggerlog bench`, from its figures to what a person sees in a browser."""

import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from benchmarks.command.bench import command
from benchmarks.command.choice import advise, crash_safe, fastest, warn
from benchmarks.command.report import published_hz
from benchmarks.command.report import report as report_of
from benchmarks.report.model import Axis, between, listed, milliseconds, number, percent, times, whole
from benchmarks.report.render import Scale, render, scale_of, short
from benchmarks.rounds.summary import NoRun, Run, Spread, run_of
from schemas.checking.dsn import Backend
from tests.page.browser import Watched, chromium
from tests.support.kept_run import HOSTILE, LATENCIES, MYSQL, POSTGRESQL, SERVERS, kept, latency, server, way

ROOT = Path(__file__).parents[3]
POSTGRESQL_ALONE = {"postgresql": SERVERS["postgresql"]}
COMMAND = "triggerlog bench"


def run(*benchmarks: dict[str, Any], servers: dict[str, Any] | None = None, **facts: Any) -> Run:
    """A run on PostgreSQL alone, unless servers are given."""
    return run_of(kept(list(benchmarks), POSTGRESQL_ALONE if servers is None else servers, **facts))


def page(found: Run, said: str = COMMAND) -> str:
    return render(report_of(found, said))


def advice(found: Run) -> dict[str, str]:
    return {item.need: item.text for item in advise(found)}


class TestWording:
    @pytest.mark.parametrize(
        ("value", "words"),
        [(0.517, "0.52"), (4.128, "4.13"), (76.34, "76.3"), (1049.6, "1,050"), (float("inf"), "no limit"), (0, "0.00")],
    )
    def test_figures_have_three_digits_that_count(self, value: float, words: str) -> None:
        assert number(value) == words

    def test_units_and_lists(self) -> None:
        assert (milliseconds(0.104), milliseconds(600), milliseconds(12_000)) == ("0.10 ms", "600 ms", "12.0 s")
        assert (times(0.5), times(4.13), times(16.2)) == ("0.50", "4.1", "16")
        assert (whole(1.0), whole(1.54), whole(1700.2)) == ("1", "1.5", "1,700")
        assert (percent(0.034), percent(-0.2)) == ("3 %", "20 %")
        assert (listed(["a"]), listed(["a", "b", "c"])) == ("a", "a, b and c")
        assert between(Spread(median=2, low=1, high=3)) == "1.00 to 3.00"
        assert between(Spread(median=2, low=2, high=2)) == ""


class TestGoal:
    def test_it_is_met_with_a_margin(self) -> None:
        found = advice(run(way("postgresql", "insert_each_table", 76), way("postgresql", "daemon_rows", 9600)))[
            "The goal"
        ]
        assert "meets the goal of 10 Hz with every crash safe way" in found
        assert "“insert each table”, writes 76.0 triggers/s, 7.6 times the goal" in found
        assert "makes 76.0 Hz here, 1.7 times the about 44 Hz it made on the paper's server" in found

    def test_a_slower_machine_than_the_papers_is_told(self) -> None:
        found = advice(run(way("postgresql", "insert_each_table", 22)))["The goal"]
        assert "makes 22.0 Hz here, 50 % of the about 44 Hz" in found

    def test_ways_that_miss_it_are_named(self) -> None:
        found = advice(run(way("postgresql", "insert_each_table", 4.5), way("postgresql", "daemon_rows", 9600)))[
            "The goal"
        ]
        assert "1 of 2 crash safe ways" in found
        assert "“insert each table” (4.50 Hz)" in found

    def test_unsafe_ways_and_ceilings_do_not_count(self) -> None:
        slow = way("postgresql", "one_copy_async", 5), way("postgresql", "bare_copy_rows", 6)
        found = advice(run(*slow, way("postgresql", "one_copy", 1000)))["The goal"]
        assert "with every crash safe way: the slowest, “one copy”" in found


class TestFastest:
    def test_async_and_ceilings_are_never_advised(self) -> None:
        found = run(*POSTGRESQL)
        best = fastest(found, Backend.POSTGRESQL)
        assert best is not None
        assert best.slug == "daemon_arrays"

    def test_the_advice_compares_with_one_trigger_a_commit(self) -> None:
        found = advice(run(*POSTGRESQL))["Highest rate, crash safe"]
        assert found == (
            "“triggerlog, arrays”: 17,000 triggers/s, 2,040,000 readings/s; that is 16 times the best way that commits "
            "each trigger alone (“one COPY”)."
        )

    def test_a_server_that_is_not_durable_has_no_safe_way(self) -> None:
        words = "NOT durable: fsync is off on the server"
        off = server("postgresql", "18.4", shortfall=dict.fromkeys(("sync", "async"), words), risk_ms={"sync": None})
        found = run(*POSTGRESQL, servers={"postgresql": off})
        assert fastest(found, Backend.POSTGRESQL) is None
        assert not any(crash_safe(found, way) for way in found.ways)
        assert "Highest rate, crash safe" not in advice(found)
        assert any("PostgreSQL, sync: NOT durable: fsync is off" in line for line in warn(found))

    def test_where_nothing_is_known_to_be_safe_the_fastest_is_named_all_the_same(self) -> None:
        lacking = server("ferretdb", "1.24.2", shortfall={"sync": "FerretDB 1 does not tell whether it flushes"})
        servers = {"postgresql": SERVERS["postgresql"], "mongodb": lacking}
        pair = way("mongodb", "daemon_rows", 150), way("mongodb", "daemon_rows_async", 300)
        found = run(*pair, way("postgresql", "daemon_rows", 100), servers=servers)
        text = advice(found)["Highest rate, crash safe"]
        assert text.startswith("“daemon rows” on PostgreSQL: 100 triggers/s")
        assert (
            "On FerretDB nothing is known to be crash safe; the fastest that asks for it is “daemon rows” (150/s)."
            in text
        )
        assert "it is not known what a crash loses there" in advice(found)["Asynchronous commit"]
        assert "nothing measured here is known to be crash safe" in Reader(page(found, COMMAND)).text

    def test_databases_are_compared_and_those_within_the_spread_called_alike(self) -> None:
        servers = {name: SERVERS[name] for name in ("postgresql", "mysql")}
        near = run(way("postgresql", "daemon_rows", 100), way("mysql", "daemon_rows", 97), servers=servers)
        far = run(way("postgresql", "daemon_rows", 100), way("mysql", "daemon_rows", 50), servers=servers)
        assert (
            "on MariaDB, as fast within the spread of the rounds (97.0/s)" in advice(near)["Highest rate, crash safe"]
        )
        assert "“daemon rows” on MariaDB (50.0/s)" in advice(far)["Highest rate, crash safe"]


class TestLatency:
    def test_the_lowest_at_each_rate_comes_first(self) -> None:
        servers = {name: SERVERS[name] for name in ("postgresql", "mysql")}
        found = advice(
            run(
                *(latency("postgresql", who, 10, p99) for who, p99 in (("daemon", 6.0), ("bare loop", 1.5))),
                latency("mysql", "daemon", 10, 2.0),
                latency("postgresql", "daemon", 1000, 40.0),
                latency("mysql", "daemon", 1000, 42.0),
                servers=servers,
            )
        )["Lowest latency"]
        assert "At 10 triggers/s the daemon on MariaDB: 2.00 ms; on PostgreSQL 6.00 ms." in found
        assert (
            "At 1,000 triggers/s the daemon on PostgreSQL: 40.0 ms; on MariaDB 42.0 ms, alike within the spread."
            in found
        )

    def test_one_database_is_not_named(self) -> None:
        found = advice(run(*(item for item in LATENCIES if item["extra_info"]["backend"] == "postgresql")))
        assert (
            "At 10 triggers/s the daemon: 1.99 ms (a bare loop that only commits: 1.35 ms)." in found["Lowest latency"]
        )
        assert list(found) == ["Lowest latency"], "nothing is advised that was not measured"


class TestAsynchronous:
    @pytest.mark.parametrize(
        ("loose", "gain", "verdict"),
        [
            (101, "“daemon rows” nothing beyond the spread", "stay with sync"),
            (107, "“daemon rows” 7 % more", "stay with sync"),
            (150, "“daemon rows” 50 % more", "Take it only where that may be lost."),
            (80, "“daemon rows” 20 % less", "stay with sync"),
        ],
    )
    def test_what_it_buys_and_what_it_risks(self, loose: float, gain: str, verdict: str) -> None:
        found = advice(run(way("postgresql", "daemon_rows", 100), way("postgresql", "daemon_rows_async", loose)))
        text = found["Asynchronous commit"]
        assert "An fdatasync takes 0.10 ms on this disk." in text
        assert gain in text
        assert "a crash may lose the last 600 ms: at 10 Hz 6 triggers, 720 readings" in text
        assert verdict in text

    def test_a_gain_of_the_papers_ways_alone_does_not_recommend_it(self) -> None:
        text = advice(run(*POSTGRESQL))["Asynchronous commit"]
        assert "“one COPY” 43 % more" in text
        assert text.endswith("It does not buy the daemon that: stay with sync.")

    @pytest.mark.parametrize(
        ("risk", "words"),
        [
            ({"async": None}, "may lose without a limit"),
            ({"async": 0.0}, "by the server’s settings a crash loses nothing even so"),
            ({}, "a crash of the server may lose its last 600 ms"),
        ],
    )
    def test_a_risk_without_a_limit_or_not_known_is_told(self, risk: dict[str, Any], words: str) -> None:
        servers = {"postgresql": server("postgresql", "18.4", risk_ms=risk)}
        pair = way("postgresql", "daemon_rows", 100), way("postgresql", "daemon_rows_async", 150)
        assert words in advice(run(*pair, servers=servers))["Asynchronous commit"]


class TestLayout:
    @pytest.mark.parametrize(
        ("rows", "arrays", "words"),
        [
            (100, 180, "Here, take rows up to 100 triggers/s, and arrays beyond: up to 180, 1.8 times as many."),
            (100, 101, "Here, take rows: arrays is no faster within the spread (101 triggers/s against 100)."),
            (100, 50, "Here, take rows, the faster of the two: 100 triggers/s against 50.0."),
        ],
    )
    def test_which(self, rows: float, arrays: float, words: str) -> None:
        found = advice(run(way("postgresql", "daemon_rows", rows), way("postgresql", "daemon_arrays", arrays)))
        assert found["Layout"].endswith(words)


class TestWarnings:
    def test_half_written_triggers(self) -> None:
        (found,) = warn(run(way("postgresql", "threads_one_connection", 190, safe=False, half_written=[120, 131, 118])))
        assert found.startswith("“threads one connection”: 369 half-written triggers seen by a reader in 3 rounds")

    def test_ferretdb_is_no_mongodb(self) -> None:
        found = run(way("mongodb", "daemon_rows", 100), servers={"mongodb": SERVERS["mongodb"]})
        assert any("say nothing about a MongoDB server" in line for line in warn(found))

    def test_few_rounds_and_a_busy_machine(self) -> None:
        single = way("postgresql", "daemon_rows", 100)
        single["stats"]["data"] = [0.01]
        assert any("Only 1 round" in line for line in warn(run(single)))
        assert any("busy before the run (load 1.5 on 2 cores)" in line for line in warn(run(*POSTGRESQL, load=1.5)))

    def test_a_sound_run_has_none(self) -> None:
        assert warn(run(way("postgresql", "daemon_rows", 100))) == []


class TestMeasured:
    @pytest.mark.parametrize("report", [{}, {"benchmarks": []}, [], {"triggerlog": {}, "machine_info": {}}])
    def test_what_is_no_run_is_told_in_one_line(self, report: Any) -> None:
        with pytest.raises(NoRun, match="this version of `triggerlog bench` did not write that file") as caught:
            run_of(report)
        assert "\n" not in str(caught.value)

    def test_it_survives_the_file(self) -> None:
        assert run_of(json.loads(json.dumps(kept()))) == run_of(kept())

    def test_the_papers_figures_are_postgresqls(self) -> None:
        found = run_of(kept())
        by = {(way.backend, way.slug): published_hz(way) for way in found.ways}
        assert by[Backend.POSTGRESQL, "insert_each_table"] == (44, 44)
        assert by[Backend.POSTGRESQL, "threads_one_connection"] == (880, 880)
        assert by[Backend.POSTGRESQL, "processes_same_tables"] == (100, 1000)
        assert by[Backend.POSTGRESQL, "one_copy"] is None
        assert by[Backend.MYSQL, "insert_each_table"] is None


class TestScale:
    def test_places_are_percent_of_the_logarithm(self) -> None:
        axis = Scale(1, 10_000, log=True)
        assert [axis.at(value) for value in (0.1, 1, 100, 10_000, 1e6)] == pytest.approx([0, 0, 50, 100, 100])
        assert axis.ticks() == pytest.approx([1, 10, 100, 1000, 10_000])

    def test_ends_and_ticks(self) -> None:
        found = scale_of(Axis(label="", log=True), [0.43, 64.5])
        assert (found.low, found.high) == pytest.approx((0.2, 100))
        assert found.ticks(9) == pytest.approx([0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
        assert scale_of(Axis(label=""), [3.0, 10.0], room=0.1) == Scale(0, 11)
        assert scale_of(Axis(label="", tight=True), [90.0, 100.0]) == Scale(89, 101)
        assert scale_of(Axis(label="", low=1, high=4), [3.0]) == Scale(1, 4)

    @pytest.mark.parametrize("log", [False, True])
    def test_without_any_value_there_is_a_scale_all_the_same(self, log: bool) -> None:
        found = scale_of(Axis(label="", log=log), [0.0, float("nan")] if log else [])
        assert found.low < found.high
        assert found.ticks()

    def test_names(self) -> None:
        assert [short(value) for value in (0.5, 10, 1000, 20_000, 1e6)] == ["0.5", "10", "1k", "20k", "1M"]


VOID = {"meta", "link", "br"}


class Reader(HTMLParser):
    """Reads the report: that elements close in order, its texts, and whatever would ask for something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counted: dict[str, int] = {}
        self.texts: list[str] = []
        self.asks: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.counted[name] = self.counted.get(name, 0) + 1
        self.asks += [value or "" for key, value in attributes if key in ("src", "href", "srcset", "action", "data")]
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


class TestFile:
    def test_it_holds_every_way_and_its_figures(self) -> None:
        html = page(run_of(kept()))
        read = Reader(html)
        for title in (
            "120 tables, 120 INSERTs, one commit",
            "triggerlog, arrays, asynchronous commit",
            "multi row insert",
        ):
            assert title in read.text
        for figure in (
            "about 44 Hz",
            "17,000",
            "16,660 to 17,340",
            "369 half-written triggers seen",
            "wal_sync_method",
        ):
            assert figure in read.text
        assert read.counted["table"] == 7
        assert "script" not in read.counted

    def test_it_asks_nothing_of_the_outside(self) -> None:
        html = page(run_of(kept()))
        assert Reader(html).asks == ["data:,"]
        assert not re.search(r"@import|url\(|https?://", html)
        assert len(html) < 1_000_000

    def test_whatever_is_in_the_figures_is_escaped(self) -> None:
        hostile = way("postgresql", "one_copy", 100, title=HOSTILE, note=HOSTILE, paper=HOSTILE, file=HOSTILE)
        evil = server("postgresql", HOSTILE, settings={HOSTILE: HOSTILE}, target=HOSTILE, own=False)
        evil["durability"] = {"sync": HOSTILE, "async": HOSTILE}
        html = page(run(hostile, servers={"postgresql": evil}), HOSTILE)
        read = Reader(html)
        assert "script" not in read.counted
        assert "<script>alert('x')</script>" in read.text, "it is there, as text"

    @pytest.mark.parametrize("benchmarks", [LATENCIES[:2], POSTGRESQL[:1], MYSQL[:1] + LATENCIES[:1], []])
    def test_a_measure_that_was_left_out_has_no_section(self, benchmarks: list[dict[str, Any]]) -> None:
        html = page(run(*benchmarks, servers=SERVERS), COMMAND)
        read = Reader(html)
        groups = {item["group"] for item in benchmarks}
        assert ("Ways to write triggers" in read.text) is ("throughput" in groups)
        assert ("Latency against the rate" in read.text) is ("latency, p99" in groups)
        assert "What the daemon costs" not in read.text

    def test_one_round_has_no_spread_to_show(self) -> None:
        single = way("postgresql", "daemon_rows", 100)
        single["stats"]["data"] = [0.01]
        assert "100 to 100" not in Reader(page(run(single), COMMAND)).text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(run_of(kept())), encoding="utf-8")
    return path


@pytest.mark.page
class TestInABrowser:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_axe_finds_nothing_serious(self, browser: Browser, report: Path, scheme: str) -> None:
        for width in (1280, 390):
            watched = Watched(browser, report.as_uri(), color_scheme=scheme, viewport={"width": width, "height": 900})
            found = Axe().run(watched.page).response["violations"]
            watched.page.close()
            grave = [f"{v['id']}: {[n['target'] for n in v['nodes']]}" for v in found]
            assert grave == [], f"{scheme}, {width} px"

    def test_it_asks_for_nothing_and_nothing_goes_wrong(self, browser: Browser, report: Path) -> None:
        asked: list[str] = []
        watched = Watched(browser, "about:blank", offline=True)
        watched.page.on("request", lambda request: asked.append(request.url))
        watched.page.goto(report.as_uri())
        watched.page.wait_for_load_state("networkidle")
        watched.page.close()
        assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
        assert watched.errors == []

    def test_the_charts_are_drawn(self, browser: Browser, report: Path) -> None:
        page = Watched(browser, report.as_uri()).page
        heights = "all => all.map(each => each.getBoundingClientRect().height)"
        plots = page.locator(".bare svg").evaluate_all(heights)
        assert len(plots) == 25
        assert min(plots) > 50
        bars = page.locator(".bare").evaluate_all(
            "all => all.map(each => Math.max(...[...each.querySelectorAll('path.bars')]"
            ".map(bar => bar.getBoundingClientRect().height)))"
        )
        assert min(bars) > 40
        curves = page.locator("#latency-against-the-rate svg").evaluate_all(heights)
        assert len(curves) == 3
        assert min(curves) > 200
        assert page.locator("path.line").count() == 4 + 3 * 2 + 1
        page.close()

    def test_a_bar_lies_where_the_axis_says(self, browser: Browser, report: Path) -> None:
        page = Watched(browser, report.as_uri()).page
        first = page.locator(".chart").first
        tick = first.locator(".ticks-x span", has_text=re.compile("^100$")).bounding_box()
        goal = first.locator("path.at").first.bounding_box()
        plot = first.locator("svg").first.bounding_box()
        assert tick is not None
        assert goal is not None
        assert plot is not None
        # Five decades from 1 Hz to 100 kHz: 10 Hz lies at a fifth, 100 Hz at two.
        assert goal["x"] - plot["x"] == pytest.approx(plot["width"] / 5, abs=2)
        assert tick["x"] + tick["width"] / 2 - plot["x"] == pytest.approx(2 * plot["width"] / 5, abs=2)
        page.close()

    @pytest.mark.parametrize("width", [320, 390, 700, 900, 1280, 1600])
    def test_no_width_needs_a_sideways_scroll(self, browser: Browser, report: Path, width: int) -> None:
        page = Watched(browser, report.as_uri(), viewport={"width": width, "height": 844}).page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """() => [...document.querySelectorAll('.card')].flatMap(card => {
                const edge = card.getBoundingClientRect().right
                if (innerWidth > 760 && card.scrollWidth > card.clientWidth) return []  // it scrolls by itself
                return [...card.querySelectorAll('td, th, p, dd, .ticks-x span')]
                    .filter(part => part.getBoundingClientRect().right > edge + 1).map(part => part.textContent)
            })"""
        )
        assert outside == []
        page.close()

    def test_it_prints(self, browser: Browser, report: Path, tmp_path: Path) -> None:
        page = Watched(browser, report.as_uri(), color_scheme="dark").page
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        page.pdf(path=tmp_path / "report.pdf", format="A4")
        assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
        page.close()


@pytest.mark.page
@pytest.mark.skipif(
    os.environ.get("TRIGGERLOG_SCREENSHOTS") != "1", reason="TRIGGERLOG_SCREENSHOTS=1 writes the pictures"
)
def test_pictures_of_the_report_for_the_docs(browser: Browser, tmp_path: Path) -> None:
    kept_run = os.environ.get("TRIGGERLOG_REPORT")
    if kept_run is None:
        pytest.skip("TRIGGERLOG_REPORT names the kept run that is pictured: figures that were measured, not made up")
    path = tmp_path / "report.html"
    found = run_of(json.loads(Path(kept_run).read_text()))
    path.write_text(page(found, command(found)), encoding="utf-8")
    watched = Watched(browser, path.as_uri(), viewport={"width": 1280, "height": 1000}, color_scheme="light")
    # The top is what there is to choose, down to the end of the first table; the other, the first database's 1/dt.
    for name, first, last in (
        ("report", "header", "#ways-to-write-triggers .card >> nth=0"),
        ("report-distributions", "#distributions-of-1-dt", "#distributions-of-1-dt .chart >> nth=0"),
    ):
        top, end = watched.page.locator(first).bounding_box(), watched.page.locator(last).bounding_box()
        assert top is not None
        assert end is not None
        clip = {"x": 0, "y": top["y"] - 12, "width": 1280, "height": end["y"] + end["height"] - top["y"] + 24}
        watched.page.screenshot(path=ROOT / "docs" / "images" / f"{name}.png", full_page=True, clip=clip)
    watched.page.close()
