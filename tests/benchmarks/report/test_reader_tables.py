"""What the reports make of the measures of the governor and of the page."""

from typing import Any

import pytest

from benchmarks.command.bench import command
from benchmarks.command.report import report
from benchmarks.measures.pages import AUDIENCES
from benchmarks.report.render import render
from benchmarks.rounds.summary import run_of
from tests.support.kept_run import SERVERS, kept
from tests.support.report_tables import rows_of

ONE = {"postgresql": SERVERS["postgresql"]}


def block(name: str, p99: list[float], within: float, answers: float, dose: float) -> dict[str, Any]:
    figures = {"p50 ms": 2.0, "sender p99 ms": 9.0, "within ceiling": within, "answers a second": answers}
    figures |= {"dose": dose, "triggers a second": 100.0, "ceiling ms": 15.0}
    extra = {"block": name, "clients": 4, "p99 ms": p99} | {key: [value] * len(p99) for key, value in figures.items()}
    return {"group": "governor", "extra_info": extra, "stats": {"data": [value / 1e3 for value in p99]}}


def audience(pages: int, browsers: int, daemon: float) -> dict[str, Any]:
    figures = {"daemon percent": daemon, "page percent": 2.0 * pages, "frames a second": 4.0, "bytes a second": 2500.0}
    extra = {"pages": pages, "browsers": browsers} | {key: [value, value] for key, value in figures.items()}
    return {"group": "page", "extra_info": extra, "stats": {"data": [daemon / 100] * 2}}


BLOCKS = [
    block("writing alone", [10.0, 10.0, 12.0], 0.98, 0.0, 0.0),
    block("readers", [30.0, 25.0, 24.0], 0.0, 6.0, 4.0),
    block("readers, governed", [14.0, 12.0, 16.8], 0.95, 2.5, 0.75),
]
PAGES = [audience(one.pages, one.browsers, 10.0 + 0.2 * one.pages) for one in AUDIENCES]


def table_of(kept_run: dict[str, Any], title: str) -> list[tuple[str, ...]]:
    return rows_of(report(run_of(kept_run), ""), title)


@pytest.mark.parametrize(("rows", "only"), [(BLOCKS, "governor"), (PAGES, "page")])
def test_each_is_in_the_report_and_says_what_repeats_it(rows: list[dict[str, Any]], only: str) -> None:
    run = run_of(kept(rows, ONE))
    assert command(run) == f"triggerlog bench --only {only} --backend postgresql"
    made = report(run, command(run))
    html = render(made)
    assert made.tables()
    for table in made.tables():
        assert table.title in html
    assert "While others read" not in render(report(run_of(kept([], ONE)), ""))


def test_the_governor_is_judged_by_what_the_readers_do_without_it() -> None:
    alone, readers, governed = table_of(kept(BLOCKS, ONE), "The governor")
    assert alone[:6] == ("writing alone", "10.00 (10.00 to 12.00)", "", "", "", "98 %")
    assert readers[1:6] == ("25.00 (24.00 to 30.00)", "2.50 (2.00 to 3.00)", "2", "yes", "0 %")
    assert governed[2:] == ("1.40 (1.20 to 1.40)", "1.5", "yes", "95 %", "9.00", "100.0", "2.50", "0.75")


def test_the_page_is_judged_by_the_daemon_that_nobody_looks_at() -> None:
    nobody, _, one, _, two = table_of(kept(PAGES, ONE), "What pages and browsers cost")
    assert nobody == ("no page", "10.0 (10.0 to 10.0)", "", "", "", "", "", "")
    assert one[:5] == ("a page, 1 browser", "10.2 (10.2 to 10.2)", "1.02 (1.02 to 1.02)", "1.1", "yes")
    assert two[0] == "2 pages, 3 browsers"
    assert two[5:] == ("4.0 (4.0 to 4.0)", "4.00", "2.5 (2.5 to 2.5)")
