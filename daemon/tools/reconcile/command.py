"""`triggerlog reconcile`: counts in the database, and compares with daemon, account and journal."""

import asyncio
import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from daemon.client.api.reach import Reach, reach
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.configuration.database import store_of
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.console import ProgressBar, make_console
from daemon.tools.options import AsJson, CaFile, DaemonUrl, File, TokenFile, groups_of
from daemon.tools.reconcile.verdicts import Findings, Verdict, judge
from schemas.batch import Layout

EPILOG = examples(
    "triggerlog reconcile beam.toml",
    "triggerlog reconcile beam.toml --group bpm --within 3600",
    "triggerlog reconcile beam.toml --group bpm --removed 1200000",
    "triggerlog reconcile beam.toml --json | jq .groups.bpm.verdicts",
)

THEY_DIFFER = 3
"""The exit code; 1 is that of a failure, in which nothing was compared, and 2 that of wrong options."""

Row = tuple[str, int | None, int | None]


def reconcile(
    file: File,
    *,
    group: Annotated[str | None, typer.Option(help="Only this group.", show_default="all")] = None,
    removed: Annotated[
        int,
        typer.Option(
            min=0, metavar="READINGS", help="How many readings were removed from the database on purpose; with --group."
        ),
    ] = 0,
    within: Annotated[
        float, typer.Option(min=1, max=86_400, metavar="SECONDS", help="Longest time to count one group.")
    ] = 600,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Count the readings in the database and compare with the daemon's account; exit code 3 if they differ.

    It only reads, and the daemon may go on. A large table takes long to count.
    """
    loaded = load_config(file)
    names = _names(loaded, group, removed)
    reached = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    found, no_daemon = asyncio.run(_survey(loaded, names, reached, within, removed))
    verdicts = {name: judge(findings) for name, findings in found.items()}
    agrees = all(verdict.agrees for each in verdicts.values() for verdict in each)
    if as_json:
        groups = {name: _as_json(found[name], verdicts[name]) for name in names}
        typer.echo(json.dumps({"agrees": agrees, "no_daemon": no_daemon, "groups": groups}, indent=2))
    else:
        console = make_console()
        for name in names:
            _show(console, name, found[name], verdicts[name])
        if no_daemon is not None:
            console.print(f"No daemon was asked: {no_daemon}", style="dim", soft_wrap=True)
    if not agrees:
        raise typer.Exit(THEY_DIFFER)


def _names(loaded: LoadedConfig, group: str | None, removed: int) -> list[str]:
    names = list(groups_of(loaded, group))
    if removed and len(names) > 1:
        raise CommandFailed(f"--removed counts readings of one group; name it with --group ({', '.join(names)})")
    return names


async def _survey(
    loaded: LoadedConfig, names: list[str], daemon: Reach, within_s: float, removed: int
) -> tuple[dict[str, Findings], str | None]:
    # Imported here: other commands start without the client of the API.
    from daemon.tools.reconcile.survey import Survey  # noqa: PLC0415

    store = store_of(loaded)
    console = make_console(stderr=True)
    try:
        with ProgressBar(console, "asking the daemon") as bar:
            survey = Survey(loaded, store, daemon=daemon, within_s=within_s)
            await survey.check_store()

            def counting(name: str) -> None:
                text = f"counting group {name} in {loaded.target}, for {within_s:g} s at most"
                if console.is_terminal:
                    bar.show(text)
                else:
                    typer.echo(text, err=True)

            found = {}
            for section in loaded.config.trigger_groups:
                if section.name in names:
                    findings = await survey.of_group(section, counting)
                    found[section.name] = dataclasses.replace(findings, removed=removed)
            return found, survey.no_daemon
    finally:
        await store.close()


def _show(console: Console, name: str, found: Findings, verdicts: list[Verdict]) -> None:
    table = Table(title=f"group {name}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("triggers", justify="right")
    table.add_column("readings", justify="right")
    for label, triggers, readings in (*_daemon_rows(found), *_rows(found)):
        table.add_row(label, *("" if count is None else f"{count:,}" for count in (triggers, readings)))
    console.print(table)
    for verdict in verdicts:
        mark, style = ("✓ agrees ", "green") if verdict.agrees else ("✗ DIFFERS", "bold red")
        console.print(Text.assemble((mark, style), f"  {verdict.what}: {verdict.result}"), soft_wrap=True)
    if found.received:
        console.print(
            f"{'at most ' if found.after is None else ''}{found.received:,} readings wait in the journal;"
            f" {'the next start of the daemon' if found.after is None else 'the daemon'} commits them",
            soft_wrap=True,
        )
    if found.dead.readings:
        console.print(
            f"{found.dead.readings:,} readings are dead letters; `triggerlog dead-letters list FILE` shows the reasons",
            soft_wrap=True,
        )


def _daemon_rows(found: Findings) -> Iterator[Row]:
    """What became of the readings that the daemon received since its start."""
    if found.after is None:
        return
    triggers, readings = found.after.triggers, found.after.readings
    yield "received since the daemon's start", triggers.received, readings.received
    yield "  committed", triggers.committed, readings.committed
    yield "  waiting, in the journal", triggers.waiting, readings.waiting
    yield "  being assembled", triggers.open, readings.assembling
    yield "  duplicate", None, readings.duplicate
    for reason, count in readings.refused.items():
        yield f"  refused: {reason}", None, count
    yield "  dead", None, readings.dead


def _rows(found: Findings) -> Iterator[Row]:
    """The counts in database, journal and dead letters."""
    yield "account: committed ever", found.of_group("account_triggers"), found.of_group("account_readings")
    yield "counted in the ledger", found.counted("triggers"), found.counted("arrived")
    stored = found.counted("stored")
    yield "counted in the data table", *((None, stored) if found.layout is Layout.ROWS else (stored, None))
    dropped = found.counted("dropped")
    reduced = min(found.reduced, dropped)
    for name, rows in (("dropped by retention", dropped - reduced), ("reduced", reduced)):
        if rows:
            yield name, *((None, rows) if found.layout is Layout.ROWS else (rows, None))
    yield "never came, by the ledger", found.counted("skipped"), None
    yield "missing by the ledger", None, found.counted("expected") - found.counted("arrived")
    if found.received or found.after is None:
        at_most = ", at most" if found.received and found.after is None else ""
        yield f"in the journal, not committed{at_most}", None, found.received
    if found.dead.readings:
        yield "dead letters, in the state folder", found.dead.triggers, found.dead.readings


def _as_json(found: Findings, verdicts: list[Verdict]) -> Mapping[str, Any]:
    names = found.totals.dtype.names or ()
    return {
        "layout": found.layout,
        "runs": [dict(zip(names, row.tolist(), strict=True)) for row in found.totals],
        "daemon": None if found.after is None else found.after.model_dump(include={"triggers", "readings"}),
        "journal": found.received,
        "dead": dataclasses.asdict(found.dead),
        "lost": found.lost,
        "removed": found.removed,
        "verdicts": [dataclasses.asdict(verdict) for verdict in verdicts],
    }
