"""`triggerlog bench`: checks its options, and becomes the program of the benchmarks."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from daemon.core.outcome import CommandFailed, examples, require_extra
from schemas.checking.dsn import Backend

EPILOG = examples(
    "triggerlog bench",
    "triggerlog bench beam.toml --full -o control-node-3.html",
    "TRIGGERLOG_PASSWORD=... triggerlog bench --dsn postgresql://me@db:5432/test --dsn mysql://me@db:3306",
    "triggerlog bench --only latency",
    "triggerlog bench --only conditions --scenario worst-case --backend postgresql",
    "triggerlog bench --from bench.json",
)

NEEDED = {"pytest": "pytest", "pytest_benchmark": "pytest-benchmark", "pytest_timeout": "pytest-timeout"}
NEEDED |= {"psycopg": "psycopg", "psycopg2": "psycopg2-binary"}
"""Packages of the extra `bench`, by the names of their modules."""


class Scenario(StrEnum):
    """The scenarios of conditions (`benchmarks.conditions.scenarios`, which this may not import)."""

    TINY = "tiny"
    TINY_MODERATE = "tiny-moderate"
    MODERATE = "moderate"
    HEAVY_USAGE = "heavy-usage"
    WORST_CASE = "worst-case"


def bench(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A configuration whose database is measured.", show_default=False),
    ] = None,
    dsn: Annotated[
        list[str] | None,
        typer.Option(help="A database to measure; may be repeated. What is made in it is removed again."),
    ] = None,
    backend: Annotated[
        list[Backend] | None,
        typer.Option(help="Without FILE or --dsn: which throw-away servers.", show_default="all installed"),
    ] = None,
    only: Annotated[
        Literal["throughput", "latency", "load", "outages", "governor", "page", "conditions"] | None,
        typer.Option(help="Only this measure.", show_default="the first four; all with --full"),
    ] = None,
    scenario: Annotated[
        list[Scenario] | None,
        typer.Option(help="Of conditions: how much is stored; may be repeated.", show_default="up to heavy-usage"),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Longer rounds and more of them: about two hours.")] = False,
    plan: Annotated[
        Literal["smoke", "short", "full"] | None,
        typer.Option(help="The set by its name; smoke only tries the benchmarks.", show_default="short"),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The report; the figures go next to it, as JSON.")
    ] = Path("bench.html"),
    folder: Annotated[Path, typer.Option(help="Folder on whose disk throw-away servers write.")] = Path(".benchmarks"),
    kept: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Measure nothing: write the report of these figures again."),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all tables of figures as Markdown, too.")
    ] = None,
) -> None:
    """Measure the ways to write triggers into databases, and write a report that says which to choose.

    Without a database named it measures throw-away servers of what is on this machine. A password comes with the DSN,
    or from TRIGGERLOG_PASSWORD.
    """
    require_extra("bench", "bench", NEEDED)
    if full and plan not in (None, "full"):
        raise CommandFailed(f"--full and --plan {plan} are two different sets; give one of them")
    options: dict[str, object] = {
        "--plan": "full" if full else plan or "short",
        "--only": only,
        "--output": output,
        "--folder": folder,
        "--from": kept,
        "--markdown": markdown,
    }
    arguments = [f"{name}={value}" for name, value in options.items() if value is not None]
    arguments += [f"--dsn={each}" for each in dsn or ()]
    arguments += [f"--backend={each}" for each in backend or ()]
    arguments += [f"--scenario={each}" for each in scenario or ()]
    if file is not None:
        arguments += ["--", str(file)]
    os.execv(sys.executable, [sys.executable, "-m", "benchmarks.command.bench", *arguments])  # noqa: S606 - no shell
