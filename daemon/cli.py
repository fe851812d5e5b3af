"""The command line: `triggerlog run`, `status`, `dashboard`, `demo`, and those with a module of their own."""

import asyncio
import importlib.util
import os
import sys
from collections.abc import Coroutine, Iterator
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from backends.base import StoreError
from daemon.commands import (
    bench,
    check,
    dashboard,
    dead_letters,
    drill,
    install,
    open_run,
    psql,
    reconcile,
    schema,
    simulate,
)
from daemon.configuration import load_config
from daemon.logs import LogLevel, start_logging
from daemon.outcome import CommandFailed, examples
from daemon.reach import CaFile, DaemonUrl, TokenFile, reach
from daemon.reach import ConfigFile as MaybeConfigFile
from schemas.config import ConfigError

app = typer.Typer(
    name="triggerlog",
    help="Logs every reading of every trigger into a database, with a ledger of what was missing.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # what goes wrong is told in one line, by `main`
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigFile = Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file (TOML).", show_default=False)]


class Loop(StrEnum):
    """Which event loop runs the daemon."""

    AUTO = "auto"  # uvloop where it is installed
    UVLOOP = "uvloop"
    ASYNCIO = "asyncio"


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
        typer.echo(f"triggerlog {version('triggerlog')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version and end.")
    ] = False,
) -> None:
    pass


@app.command(epilog=examples("triggerlog run beam.toml", "triggerlog run beam.toml --log-level debug --loop asyncio"))
def run(
    file: ConfigFile,
    loop: Annotated[Loop, typer.Option(help="Event loop; auto is uvloop where it is installed.")] = Loop.AUTO,
    log_level: Annotated[LogLevel, typer.Option(help="How much is logged to stderr.")] = LogLevel.INFO,
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C: what was received by then is committed before it ends."""
    start_logging(log_level)
    loaded = load_config(file)
    # Imported here: every other command starts without the server's libraries.
    from daemon.service import serve

    _run_async(serve(loaded), loop)


def _run_async(main: Coroutine[None, None, None], loop: Loop) -> None:
    uvloop = importlib.util.find_spec("uvloop") is not None
    if loop is Loop.UVLOOP and not uvloop:
        main.close()
        raise CommandFailed("uvloop is not installed; install it, or use --loop asyncio")
    with asyncio.Runner(loop_factory=_new_uvloop if uvloop and loop is not Loop.ASYNCIO else None) as runner:
        runner.run(main)


def _new_uvloop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


app.command(epilog=bench.EPILOG)(bench.bench)
app.command(epilog=simulate.EPILOG)(simulate.simulate)
app.command(epilog=drill.EPILOG)(drill.drill)


app.command("check-config", epilog=check.EPILOG)(check.check_config)
app.command(epilog=schema.EPILOG)(schema.schema)
app.add_typer(dead_letters.app)
app.command("install-units", epilog=install.EPILOG)(install.install_units)
app.command(epilog=reconcile.EPILOG)(reconcile.reconcile)


@app.command("config-reference", epilog=examples("triggerlog config-reference | less"))
def config_reference() -> None:
    """Print the reference of the configuration: every section and key, as Markdown."""
    from daemon.reference import reference

    typer.echo(reference(), nl=False)


@app.command(
    epilog=examples(
        "triggerlog status",
        "triggerlog status --once",
        "triggerlog status --json | jq .groups.bpm.triggers",
        "triggerlog status beam.toml",
        "triggerlog status --daemon https://control-node-1:8120 --ca site-ca.crt --token-file token",
    )
)
def status(
    file: MaybeConfigFile = None,
    *,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    once: Annotated[bool, typer.Option("--once", help="Show it once and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it once, as the API gives it.")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=60, metavar="SECONDS", help="Time between two looks.")] = 0.5,
) -> None:
    """Show live how the daemon is: rates, latency, what waits, what is missing, what was refused."""
    from daemon.terminal import DaemonGone, fetch, overview, watch

    console = Console()
    found = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    if not (once or as_json or not console.is_terminal):
        try:
            asyncio.run(watch(found, every, console))
        except KeyboardInterrupt:
            return
    try:
        answer = asyncio.run(fetch(found))
    except DaemonGone as gone:
        raise CommandFailed(str(gone)) from None
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
    else:
        console.print(overview(answer, found.url))


app.command("open-run", epilog=open_run.EPILOG)(open_run.open_run)
app.command(context_settings={"ignore_unknown_options": True}, epilog=psql.EPILOG)(psql.psql)


app.command(epilog=dashboard.EPILOG)(dashboard.dashboard)


@app.command(epilog=examples("triggerlog demo", "triggerlog demo --rate 100 --state /var/tmp/triggerlog"))
def demo(
    state: Annotated[Path, typer.Option(help="Folder for the database and the logs of the demonstration.")] = Path(
        "state"
    ),
    rate: Annotated[float, typer.Option(min=0.1, max=10_000, help="Triggers a second of the simulated machine.")] = 10,
    free_ports: Annotated[bool, typer.Option("--free-ports", help="Use any free ports, not 8120 to 8122.")] = False,
) -> None:
    """Show it all at work: a daemon, a sender with 120 instruments over TCP, and the page, until Ctrl-C."""
    from daemon.demo import Demo

    asyncio.run(Demo(state=state.absolute(), rate=rate, free_ports=free_ports, console=Console()).run())
