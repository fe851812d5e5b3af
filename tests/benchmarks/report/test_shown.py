"""No report loses a figure: shown.json has those of each table row, and all others, that a report has to show."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmarks.command.bench import command
from benchmarks.command.report import report as bench_report
from benchmarks.folders.report import report as folders_report
from benchmarks.interference.report import report as interference_report
from benchmarks.report.model import Report
from benchmarks.report.render import render
from benchmarks.rounds.summary import run_of
from benchmarks.tiers.report import report as tiers_report
from benchmarks.visits.report import comparison_report, run_report
from tests.benchmarks.report import records

SHOWN = Path(__file__).with_name("shown.json")
FIGURE = re.compile(r"\d(?:[\d,.]*\d)?")
UNSEEN = {"style", "script"}
VOID = {"meta", "link", "br", "wbr", "img"}


class Figures(HTMLParser):
    """Reads the figures of a page: of each row of its tables, and of all else but the names of ticks."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.other: set[str] = set()
        self._open: list[tuple[str, bool]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        if name == "tr":
            self.rows.append([])
        if name not in VOID:
            unseen = any("ticks" in (value or "") or value == "label" for key, value in attributes if key == "class")
            self._open.append((name, name in UNSEEN or unseen or bool(self._open and self._open[-1][1])))

    def handle_endtag(self, name: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open and not self._open[-1][1]:
            found = FIGURE.findall(data)
            if any(name == "tr" for name, _ in self._open):
                self.rows[-1] += found
            else:
                self.other.update(found)


def bench() -> Report:
    run = run_of(records.bench())
    return bench_report(run, command(run))


REPORTS: dict[str, Callable[[], Report]] = {
    "bench": bench,
    "interference": lambda: interference_report(records.interference()),
    "plain_interference": lambda: interference_report(records.plain_interference()),
    "visits": lambda: run_report(records.visits()),
    "comparison": lambda: comparison_report(records.comparison()),
    "tiers": lambda: tiers_report(records.tiered()),
    "folders": lambda: folders_report(records.foldered()),
}


@pytest.mark.parametrize("name", REPORTS)
def test_every_figure_that_was_shown_is_shown(name: str) -> None:
    shown, wanted = Figures(render(REPORTS[name]())), json.loads(SHOWN.read_text(encoding="utf-8"))[name]
    rows = [set(row) for row in shown.rows]
    assert [row for row in wanted["rows"] if not any(set(row.split()) <= each for each in rows)] == []
    assert set(wanted["other"].split()) <= shown.other.union(*rows)
