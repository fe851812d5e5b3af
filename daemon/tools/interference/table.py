"""What an experiment found, as a terminal shows it."""

from rich import box
from rich.console import Console
from rich.table import Table

from schemas.api.interference import FIGURES, Mean, Ratio, ReaderRow, Record, Result


def say_result(record: Record, console: Console) -> None:
    """Print the table of A and B, the readers, the verdicts, and what else a reader has to know."""
    result = record.result
    if result is None:
        return
    if result.rows:
        console.print(_writing(result))
    if result.readers:
        console.print(_readers(result))
    for words in (result.headline, result.crossing_words, result.steadiness, *record.notes):
        if words:
            console.print(words, highlight=False)


def _writing(result: Result) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="The writing, without readers (A) and with them (B)", title_justify="left")
    for column in ("", "readers", "A", "B", "B by A", "95 %", "n"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_column("verdict", overflow="fold")
    for row in sorted(result.rows, key=lambda row: (list(FIGURES).index(row.figure), row.readers)):
        title, unit = FIGURES[row.figure]
        found = row.b_to_a
        cells = [f"{title}, {unit}", str(row.readers), _figure(row.a), _figure(row.b)]
        table.add_row(*cells, f"{found.ratio:.3g}", _interval(found), str(found.pairs), row.verdict)
    return table


def _readers(result: Result) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="The readers", title_justify="left")
    for column in ("workload", "clients", "answers/s", "p50 ms", "p99 ms", "in time", "failed"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for row in result.readers:
        table.add_row(*_reader(row))
    return table


def _reader(row: ReaderRow) -> list[str]:
    in_time = "-" if row.efficiency is None else f"{100 * row.efficiency.value:.1f} %"
    figures = [_mean(row.rate), _mean(row.p50_ms), _mean(row.p99_ms), in_time]
    return [row.workload, str(row.admitted), *figures, str(row.failed)]


def _mean(found: Mean | None) -> str:
    return "-" if found is None else _figure(found.value)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _interval(found: Ratio) -> str:
    return "-" if found.low is None or found.high is None else f"{found.low:.3g} to {found.high:.3g}"
