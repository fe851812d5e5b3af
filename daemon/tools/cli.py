"""The command line: the list of the commands, and how their errors are reported.

A command's module is imported when the command is looked up: each starts without the libraries of the others.
"""

import os
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "run": "commands.run:run",
    "bench": "commands.bench:bench",
    "simulate": "simulate.command:simulate",
    "drill": "drill.command:drill",
    "interference": "commands.interference:interference",
    "check-config": "commands.check_config:check_config",
    "schema": "commands.schema:schema",
    "dead-letters": "dead_letters.command:app",
    "readers": "commands.readers:app",
    "visits": "commands.visits:app",
    "install-units": "install.command:install_units",
    "reconcile": "reconcile.command:reconcile",
    "export": "export.command:export",
    "config-reference": "reference.command:config_reference",
    "status": "commands.status:status",
    "open-run": "commands.open_run:open_run",
    "psql": "commands.psql:app",
    "dashboard": "commands.dashboard:dashboard",
    "demo": "demo.command:demo",
}
"""The commands in the order of the help: a module below `daemon.tools`, and in it the function (the module's
`EPILOG` has its examples) or the `typer.Typer`."""


class _Commands(MutableMapping[str, Any]):
    """Commands by name, each made when it is looked up; and what typer adds by itself."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(name, COMMANDS[name])
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
        for line in _reasons(error):
            typer.echo(f"triggerlog: {line}", err=True)
        sys.exit(1)


def _reasons(error: BaseException) -> Iterator[str]:
    # Imported here: they are needed only after an error.
    from backends.base import StoreError
    from daemon.core.outcome import CommandFailed
    from schemas.config import ConfigError

    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _reasons(part)
    elif isinstance(error, ConfigError):
        yield from map(str, error.problems)
    elif isinstance(error, CommandFailed | StoreError | OSError):
        yield str(error)
    else:
        yield f"{type(error).__name__}: {error} (a defect of triggerlog; TRIGGERLOG_TRACEBACK=1 shows where)"


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
