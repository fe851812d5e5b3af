"""The command line: which commands there are, and how what goes wrong in them is told.

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
    "run": "run:run",
    "bench": "bench:bench",
    "simulate": "simulate:simulate",
    "drill": "drill:drill",
    "interference": "interference:interference",
    "check-config": "check:check_config",
    "schema": "schema:schema",
    "dead-letters": "dead_letters:app",
    "readers": "readers:app",
    "visits": "visits:app",
    "install-units": "install:install_units",
    "reconcile": "reconcile:reconcile",
    "export": "export:export",
    "config-reference": "config_reference:config_reference",
    "status": "status:status",
    "open-run": "open_run:open_run",
    "psql": "psql:app",
    "dashboard": "dashboard:dashboard",
    "demo": "demo:demo",
}
"""The commands in the order of the help: a module of `daemon.tools.commands`, and in it the function (the
module's `EPILOG` has its examples) or the `typer.Typer`."""


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
    module = import_module(f"daemon.tools.commands.{module_name}")
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
    pretty_exceptions_enable=False,  # what goes wrong is told in one line, by `main`
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line; whatever goes wrong is a line on stderr and exit code 1, never a traceback."""
    try:
        app()
    except Exception as error:
        if os.environ.get("TRIGGERLOG_TRACEBACK"):
            raise
        for line in _reasons(error):
            typer.echo(f"triggerlog: {line}", err=True)
        sys.exit(1)


def _reasons(error: BaseException) -> Iterator[str]:
    # Imported here: they are needed only when something went wrong.
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
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version and end.")
    ] = False,
) -> None:
    pass
