"""The command line: the list of the commands, and how their errors are reported.

A command's module is imported when the command is looked up: each starts without the libraries of the others.
"""

import os
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from daemon.core.imports import uncollected


class _Place(NamedTuple):
    """Where a command is, and the first paragraph of its help, which the list of commands shows.

    attribute: a module of `daemon.tools.commands`, and in it the function (the module's `EPILOG` has its examples) or
        the `typer.Typer`.
    """

    attribute: str
    help: str


COMMANDS = {
    "run": _Place(
        "commands.run:run",
        "Run the daemon until SIGTERM or Ctrl-C; it commits what it has received before it ends.",
    ),
    "bench": _Place(
        "commands.bench:bench",
        "Measure the ways to write triggers into databases, and write one HTML page that says which to choose.",
    ),
    "simulate": _Place(
        "simulate.command:simulate",
        "Send readings of simulated instruments to a daemon; report what was sent and what was acknowledged.",
    ),
    "drill": _Place(
        "drill.command:drill",
        "Cause failures on purpose: kill and stop processes, fill the disk; count what was lost or doubled.",
    ),
    "interference": _Place(
        "commands.interference:interference",
        "Measure what readers do to the writing: blocks without and with readers by turns, under the same load.",
    ),
    "check-config": _Place(
        "commands.check_config:check_config",
        "Check a configuration: print each problem with its field and what to do, or what the configuration means.",
    ),
    "schema": _Place(
        "commands.schema:schema",
        "Print what the daemon would run on an empty server: a script for psql, mariadb or mongosh; asks no database.",
    ),
    "dead-letters": _Place(
        "dead_letters.command:app", "What the database rejected for good: list it, retry it, export it, discard it."
    ),
    "readers": _Place(
        "commands.readers:app",
        "Reader workloads of a daemon, which read what it writes: list them, start one, stop one.",
    ),
    "governor": _Place(
        "commands.governor:governor",
        "Show what holds readers back, or set the ceilings that it keeps: what is left out is none then.",
    ),
    "visits": _Place(
        "commands.visits:app",
        "Mock DIA visits of a telescope: run them by themselves or in a daemon, and look at what was measured.",
    ),
    "snapshots": _Place(
        "commands.snapshots:app",
        "Readers of snapshots with a deadline: run them by themselves or in a daemon, and look at what was measured.",
    ),
    "conditions": _Place(
        "commands.conditions:app",
        "Conditions by global tag: calibrations and settings, and what is valid when; serve them to programs.",
    ),
    "folders": _Place(
        "commands.folders:app",
        "Folders of channels: values that hold for intervals of time; what held when, and what changed.",
    ),
    "install-units": _Place(
        "install.command:install_units",
        "Write triggerlog.service and triggerlog-dashboard.service, and a configuration if there is none yet.",
    ),
    "reconcile": _Place(
        "reconcile.command:reconcile",
        "Count in the database and compare with the daemon, the account and the journal; exit code 1 if they differ.",
    ),
    "export": _Place(
        "export.command:export",
        "Write readings into a Parquet, CSV or HDF5 file, with units and names; without a range all of them.",
    ),
    "backup": _Place(
        "backup.command:backup",
        "Copy all that triggerlog has in its database, and its state folder, into one file; the daemon may run.",
    ),
    "restore": _Place(
        "backup.command:restore",
        "Bring a backup into a database and a state folder that have nothing yet; the daemon must not run.",
    ),
    "config-reference": _Place(
        "reference.command:config_reference",
        "Print the reference of the configuration: every section and key, as Markdown.",
    ),
    "status": _Place(
        "commands.status:status",
        "Show the status of the daemon live: rates, latency, what waits, what is missing, what was refused.",
    ),
    "alarms": _Place(
        "commands.alarms:app",
        "What is wrong with a daemon, and what to do: list the alarms, acknowledge or shelve them.",
    ),
    "events": _Place(
        "commands.events:events",
        "Print events, the oldest first: what a daemon reported, and which orders it was given from where.",
    ),
    "announce-run": _Place(
        "commands.announce_run:announce_run",
        "Announce a restart of the timing system and its trigger numbers to every group.",
    ),
    "mark": _Place(
        "commands.mark:mark",
        "Keep an event with the data: the page draws it on every time axis, and exports hold it.",
    ),
    "marks": _Place(
        "commands.marks:marks", "List the events that people noted, or withdraw one, which needs the API's token."
    ),
    "retention": _Place(
        "commands.retention:app", "Old readings that are dropped: what would be and why, and what was."
    ),
    "decimation": _Place(
        "commands.decimation:app", "Old readings that are reduced: what would be and why, and what was."
    ),
    "tiers": _Place("commands.tiers:app", "Tiers: what would be moved and why, what lies where, and a move by hand."),
    "psql": _Place(
        "commands.psql:app",
        "Open PostgreSQL's own terminal on the database of a configuration, with its schema in the search path.",
    ),
    "dashboard": _Place("commands.dashboard:dashboard", "Serve the live page, fed by a daemon's control API."),
    "demo": _Place(
        "demo.command:demo",
        "Run a demonstration: a daemon, a sender with 120 instruments over TCP, and the page, until Ctrl-C.",
    ),
}
"""The commands in the order of the help: a module below `daemon.tools`, and in it the function (the module's
`EPILOG` has its examples) or the `typer.Typer`."""


class _Commands(MutableMapping[str, Any]):
    """Commands by name, each made when it is looked up; and what typer adds by itself."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(name, COMMANDS[name].attribute)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*COMMANDS, *self._made]))

    def __len__(self) -> int:
        return len(COMMANDS | self._made)


def _made(name: str, place: str) -> Any:
    module_name, _, attribute = place.partition(":")
    with uncollected():
        module = import_module(f"daemon.tools.{module_name}")
    found = getattr(module, attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name, epilog=module.EPILOG)(found)
        found = single
    return typer.main.get_command(found)


class _Lazy(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing any: the process ends after its help."""
        self.commands = {name: TyperCommand(name, help=place.help) for name, place in COMMANDS.items()}
        super().format_help(ctx, formatter)


app = typer.Typer(
    name="triggerlog",
    cls=_Lazy,
    help="Logs every reading of every trigger into a database, with a ledger of what was missing.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # `main` reports an error in one line
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line; every error is a line on stderr and exit code 1, never a traceback."""
    try:
        app()
    except Exception as error:
        if os.environ.get("TRIGGERLOG_TRACEBACK"):
            raise
        from daemon.core.outcome import reasons_of  # it is needed only after an error

        for line in reasons_of(error):
            typer.echo(f"triggerlog: {line}", err=True)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"triggerlog {version('triggerlog')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
