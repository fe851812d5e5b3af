"""`triggerlog interference`: its options, and which daemon it is about."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from backends.base import StoreError
from backends.kinds import KINDS
from daemon.core.outcome import CommandFailed, examples, reason_of
from daemon.tools.console import FILE_WIDTH, labelled, make_console, stopped_by_signal
from daemon.tools.drill.machine import DrillFailed, work_folder
from daemon.tools.options import NamedConnection
from daemon.tools.workloads.experiment import Throwaway, follow, throwaway_daemon
from daemon.workloads.interference.experiment import command_of, experiment_of, workload_of
from schemas.api.interference import FIGURES, Experiment, Mean, Ratio, ReaderRow, Record, Result
from schemas.batch import Layout
from schemas.checking.dsn import Backend

EPILOG = examples(
    "triggerlog interference",
    "triggerlog interference --backend mysql --workload scan:2:0 --pairs 10",
    "triggerlog interference --workload scan:1:0 --doses 1,2,4,8 --budget 50",
    "triggerlog interference beam.toml --workload history:4:1:stretch_s=600 --block 30 -o night-shift.html",
)
DEFAULT = ("scan:1:0", "history:4:1")
_FILLS = ", ".join(f"{kind.fill_triggers} in {kind.backend}" for kind in KINDS.values())
PANEL = "A throw-away daemon (no FILE, no --daemon)"


def interference(
    *,
    connection: NamedConnection,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND[:CLIENTS[:PERIOD[:DEADLINE]]][:KEY=VALUE]",
            help="What reads, several times for several; kinds and keys are those of `readers.workloads`.",
            show_default=" ".join(DEFAULT),
        ),
    ] = None,
    pairs: Annotated[int, typer.Option(min=1, max=100, help="Blocks with readers; of each dose.")] = 6,
    block: Annotated[float, typer.Option(metavar="SECONDS", help="Length of a block.")] = 20.0,
    warm_up: Annotated[float, typer.Option(metavar="SECONDS", help="Cut off at the start of each.")] = 3.0,
    doses: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Numbers of clients to try, all workloads together.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of the doses.")] = 1,
    governed: Annotated[bool, typer.Option("--governed", help="Run it although the governor is on.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The report; the figures go next to it, as JSON.",
            show_default="interference-TIME.html",
        ),
    ] = None,
    backend: Annotated[
        Backend | None, typer.Option(help="Which database.", show_default="postgresql", rich_help_panel=PANEL)
    ] = None,
    layout: Annotated[
        Layout | None, typer.Option(help="Of its tables.", show_default="rows", rich_help_panel=PANEL)
    ] = None,
    instruments: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many.", show_default="120", rich_help_panel=PANEL)
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.1, max=10_000, help="Triggers a second.", show_default="100", rich_help_panel=PANEL),
    ] = None,
    fill: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=100_000_000,
            help="Triggers stored before it begins.",
            show_default=_FILLS,
            rich_help_panel=PANEL,
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="MS", min=0.1, help="For the p99.", show_default="100", rich_help_panel=PANEL),
    ] = None,
    ceiling: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            min=0.1,
            help="Turn the governor on, with this ceiling for the p99.",
            show_default="off",
            rich_help_panel=PANEL,
        ),
    ] = None,
) -> None:
    """Measure what readers do to the writing: with and without them by turns, under the same load.

    On the daemon of FILE or --daemon; without either on a throw-away daemon with a database and a sender of its own.
    Writes a report and the figures, and prints the table. Ctrl-C ends it early and keeps what was measured.
    """
    given = {"backend": backend, "layout": layout, "instruments": instruments, "rate": rate, "fill": fill}
    given |= {"budget_ms": budget, "ceiling_ms": ceiling}
    settings = _settings(
        workloads=_workloads(workload or list(DEFAULT)),
        pairs=pairs,
        block_s=block,
        warm_up_s=warm_up,
        doses=_doses(doses),
        seed=seed,
        governed=governed or ceiling is not None,
    )
    html = output or Path(time.strftime("interference-%Y%m%dT%H%M%SZ.html", time.gmtime()))
    _see_writable(html)
    console = make_console(stderr=True)
    if connection.config is None and connection.daemon is None:
        record = _on_throwaway(_setup(given), settings, html, console)
    else:
        _refuse_setup(given)
        record = asyncio.run(_on_daemon(connection.reach(), settings, html, console))
    out = make_console(file_width=FILE_WIDTH)
    say_result(record, out)
    for name, path in (("report", html), ("figures", html.with_suffix(".json"))):
        out.print(labelled(name, 8, path.absolute()), soft_wrap=True)


# --- options ---------------------------------------------------------------------------------------------------------


def _workloads(texts: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for text in texts:
        taken = [workload["name"] for workload in found]
        found.append(workload_of(text, taken).model_dump(mode="json"))
    return found


def _settings(**fields: Any) -> Experiment:
    return experiment_of(fields)


def _doses(text: str | None) -> list[int]:
    """The numbers; 0, which is A, comes by itself."""
    if text is None:
        return []
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        raise CommandFailed(f"--doses: {text!r} are no numbers of clients; give some like 1,2,4,8") from None
    if not any(found):
        raise CommandFailed("--doses: there are no readers in it; give some like 1,2,4,8")
    return [dose for dose in found if dose]


def _setup(given: dict[str, Any]) -> Throwaway:
    named = {name: value for name, value in given.items() if value is not None}
    named.setdefault("fill", KINDS[named.get("backend", Backend.POSTGRESQL)].fill_triggers)
    return Throwaway(**named)


def _refuse_setup(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            option = name.removesuffix("_ms")
            raise CommandFailed(f"--{option}: is of a throw-away daemon; leave it out, or leave FILE and --daemon out")


def _see_writable(html: Path) -> None:
    # Known now, and not after the measurement.
    folder = html.absolute().parent
    if not folder.is_dir():
        raise CommandFailed(f"--output: there is no folder {folder}; make it, or name a file elsewhere")
    if html.suffix != ".html":
        raise CommandFailed(f"--output: {html} does not end in .html; the figures go next to it, as JSON")


# --- measuring -------------------------------------------------------------------------------------------------------


async def _on_daemon(found: Any, settings: Experiment, html: Path, console: Console) -> Record:
    with stopped_by_signal() as stop:
        record, report = await follow(found, settings, console, stop)
    _write(html, report)
    _write(html.with_suffix(".json"), record.model_dump_json(indent=1))
    return record


def _on_throwaway(setup: Throwaway, settings: Experiment, html: Path, console: Console) -> Record:
    said = "The logs of daemon, sender and database are"
    with work_folder(console, "interference", said, CommandFailed, StoreError) as folder:
        try:
            record = asyncio.run(_measured(setup, settings, folder, console))
        except DrillFailed as error:
            raise CommandFailed(str(error)) from None
    # The daemon's own command would name a configuration that is gone.
    record = record.model_copy(update={"command": command_of(settings, *setup.options())})
    figures = html.with_suffix(".json")
    _write(figures, record.model_dump_json(indent=1))
    command = [sys.executable, "-m", "benchmarks.interference", str(figures), "--html", str(html)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if done.returncode:
        raise CommandFailed(done.stderr.strip() or f"the report of {figures} cannot be written")
    return record


async def _measured(setup: Throwaway, settings: Experiment, folder: Path, console: Console) -> Record:
    record: Record | None = None
    with stopped_by_signal() as stop:
        try:
            async with throwaway_daemon(
                setup, folder, lambda words: console.print(words, highlight=False), stop
            ) as found:
                record, _ = await follow(found, settings, console, stop)
        except (DrillFailed, CommandFailed) as error:
            if record is None:
                raise
            # What was measured is none the worse for it.
            console.print(f"after the last block {error}", highlight=False)
    return record


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written ({reason_of(error)})") from None


def say_result(record: Record, console: Console) -> None:
    """Print the table of A and B, the readers, the verdicts, and what else a reader has to know."""
    result = record.result
    if result is None:
        return
    if result.rows:
        console.print(_writing(result))
    if result.readers:
        console.print(_reading(result))
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


def _reading(result: Result) -> Table:
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
