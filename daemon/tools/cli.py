"""The command line: the list of the commands, how their errors are reported, and a configuration without `--config`.

A command's module is imported when the command is looked up: each starts without the libraries of the others. An
argument that ends with .toml is a configuration.
"""

import io
import os
import re
import sys
from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from daemon.core.imports import uncollected


class _Place(NamedTuple):
    """The place of a command, and its line in the list of commands.

    attribute: a module below `daemon.tools`, and in it the function or the `typer.Typer`. The module's `EPILOG` has the
        examples of the function, by the names of the commands where there are several.
    panel: the heading that it stands under.
    """

    attribute: str
    panel: str
    help: str


COMMANDS = {
    "run": _Place(
        "commands.run:run",
        "Everyday",
        "Run the daemon until SIGTERM or Ctrl-C; it commits what it has received before it ends.",
    ),
    "dashboard": _Place("commands.run:dashboard", "Everyday", "Serve the live page of a daemon."),
    "demo": _Place(
        "commands.demo:demo",
        "Everyday",
        "Run a demonstration until Ctrl-C: a daemon, a sender with 120 instruments, and the page.",
    ),
    "status": _Place(
        "commands.status:status",
        "Everyday",
        "Show the status of the daemon live: rates, latency, what waits, what is missing, what was refused.",
    ),
    "alarms": _Place(
        "commands.status:app",
        "Everyday",
        "List what is wrong and what to do about it; acknowledge or shelve alarms.",
    ),
    "events": _Place(
        "commands.status:events",
        "Everyday",
        "Print what the daemon reported and which commands it was given, the oldest first.",
    ),
    "mark": _Place(
        "commands.marks:mark",
        "Everyday",
        "Note an event: the page draws it on every time axis, and exports contain it.",
    ),
    "marks": _Place("commands.marks:marks", "Everyday", "List the events that were noted, or withdraw one."),
    "announce-run": _Place(
        "commands.marks:announce_run",
        "Everyday",
        "Tell every group that the timing system starts its trigger numbers again.",
    ),
    "export": _Place(
        "export.command:export",
        "Everyday",
        "Write readings into a Parquet, CSV or HDF5 file, with units and names.",
    ),
    "psql": _Place(
        "commands.database:app", "Everyday", "Open PostgreSQL's terminal on the database of a configuration."
    ),
    "backup": _Place(
        "backup.command:backup",
        "Old data",
        "Copy the database and the state folder into one file; the daemon may run.",
    ),
    "restore": _Place(
        "backup.command:restore",
        "Old data",
        "Restore a backup into an empty database and state folder; the daemon must not run.",
    ),
    "retention": _Place("commands.retention:app", "Old data", "Show which old readings are dropped, and why."),
    "decimation": _Place("commands.decimation:app", "Old data", "Show which old readings are reduced, and why."),
    "tiers": _Place(
        "commands.tiers:app",
        "Old data",
        "Show which old readings are moved to cheaper disks, and why; move some by hand.",
    ),
    "check-config": _Place(
        "commands.check_config:check_config",
        "Checks",
        "Check a configuration: print each problem with its field and the fix.",
    ),
    "reconcile": _Place(
        "reconcile.command:reconcile",
        "Checks",
        "Count the readings in the database and compare with the daemon's account; exit code 3 if they differ.",
    ),
    "dead-letters": _Place(
        "dead_letters.command:app",
        "Checks",
        "List, retry, export or discard what the database rejected for good.",
    ),
    "drill": _Place("drill.command:drill", "Checks", "Cause failures on purpose, and count what was lost or doubled."),
    "conditions": _Place(
        "conditions.command:app",
        "Conditions",
        "Calibrations and settings by global tag: serve them, look at them, change them.",
    ),
    "folders": _Place(
        "folders.command:app",
        "Conditions",
        "Values that hold for intervals of time: what held when, and what changed.",
    ),
    "bench": _Place(
        "commands.bench:bench",
        "Benchmarks and load",
        "Measure the ways to write triggers into databases, and write a report that says which to choose.",
    ),
    "simulate": _Place(
        "simulate.command:simulate",
        "Benchmarks and load",
        "Send readings of simulated instruments to a daemon; report what was acknowledged.",
    ),
    "interference": _Place(
        "workloads.interference:interference",
        "Benchmarks and load",
        "Measure what readers do to the writing: with and without them by turns, under the same load.",
    ),
    "readers": _Place(
        "workloads.readers:app",
        "Benchmarks and load",
        "List, start or stop the reader workloads of a daemon.",
    ),
    "governor": _Place(
        "workloads.readers:governor",
        "Benchmarks and load",
        "Show or set the limits beyond which readers are held back.",
    ),
    "visits": _Place(
        "workloads.visits:app",
        "Benchmarks and load",
        "Mock DIA visits of a telescope: run them, and look at what was measured.",
    ),
    "snapshots": _Place(
        "workloads.snapshots:app",
        "Benchmarks and load",
        "Readers of snapshots with a deadline: run them, and look at what was measured.",
    ),
    "install-units": _Place(
        "commands.install:install_units",
        "Set-up",
        "Write the systemd units, and a configuration if there is none yet.",
    ),
    "config-reference": _Place(
        "commands.reference:config_reference",
        "Set-up",
        "Print the reference of the configuration as Markdown.",
    ),
    "schema": _Place(
        "commands.database:schema",
        "Set-up",
        "Print the SQL that the daemon would run on an empty server; asks no database.",
    ),
}
"""The commands in the order of the help."""


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
        # Imported here: a list of the commands needs none of the options.
        from daemon.tools.options import App

        single = App()
        examples = module.EPILOG if isinstance(module.EPILOG, str) else module.EPILOG[name]
        single.command(name, epilog=examples)(found)
        found = single
    command = typer.main.get_command(found)
    _keep_brackets(command)
    take_files(command)
    return command


def _keep_brackets(command: Any) -> None:
    """Let `[visits]` in a help be text: rich would take it for markup, and print nothing of it."""
    for told, field in [(command, "help"), (command, "epilog"), *((each, "help") for each in command.params)]:
        text = getattr(told, field, None)
        setattr(told, field, text and re.sub(r"(?<!\\)\[(?=[a-z/@#])", r"\\[", text))
    for each in getattr(command, "commands", {}).values():
        _keep_brackets(each)


class _Lazy(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing any: the process ends after its help."""
        self.commands = {
            name: TyperCommand(name, help=place.help, rich_help_panel=place.panel) for name, place in COMMANDS.items()
        }
        for command in self.commands.values():
            _keep_brackets(command)
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may lack what a name or a unit has
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


OPTION = "--config"
ENDING = ".toml"


def take_files(command: Any) -> None:
    """Let a click command, and those below it, take `beam.toml` for `--config beam.toml`, wherever it stands."""
    if any(OPTION in each.opts for each in command.params):
        command.parse_args = partial(_parsed, command, command.parse_args)
        command.collect_usage_pieces = partial(_usage, command.collect_usage_pieces)
    for each in getattr(command, "commands", {}).values():
        take_files(each)


def _parsed(command: Any, parse: Callable[[Any, list[str]], list[str]], context: Any, given: list[str]) -> list[str]:
    return parse(context, named(command, given))


def _usage(pieces: Callable[[Any], list[str]], context: Any) -> list[str]:
    options, *arguments = pieces(context)
    return [options, f"[FILE{ENDING}]" if arguments else "[FILE]", *arguments]


def named(command: Any, arguments: list[str]) -> list[str]:
    """Put `--config` before the first argument that names a file of configuration.

    Where a command has no other argument, each is one, whatever its ending.
    """
    is_group = hasattr(command, "commands")
    takes_more = is_group or any(each.param_type_name == "argument" for each in command.params)
    valued = {name for each in command.params if not getattr(each, "is_flag", True) for name in each.opts}
    is_value = False
    for at, argument in enumerate(arguments):
        if argument == "--":
            break
        is_positional, is_value = not is_value and not argument.startswith("-"), argument in valued
        if is_positional and (argument.endswith(ENDING) or not takes_more):
            return [*arguments[:at], OPTION, *arguments[at:]]
        if is_positional and is_group:  # the name of a command, which has what follows
            break
    return arguments
