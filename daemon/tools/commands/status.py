"""`triggerlog status`: how a daemon is, live."""

import asyncio
from typing import Annotated

import typer

from daemon.client.reach import CaFile, ConfigFile, DaemonUrl, TokenFile, reach
from daemon.core.outcome import CommandFailed, examples

EPILOG = examples(
    "triggerlog status",
    "triggerlog status --once",
    "triggerlog status --json | jq .groups.bpm.triggers",
    "triggerlog status beam.toml",
    "triggerlog status --daemon https://control-node-1:8120 --ca site-ca.crt --token-file token",
)


def status(
    file: ConfigFile = None,
    *,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    once: Annotated[bool, typer.Option("--once", help="Show it once and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it once, as the API gives it.")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=60, metavar="SECONDS", help="Time between two looks.")] = 0.5,
) -> None:
    """Show live how the daemon is: rates, latency, what waits, what is missing, what was refused."""
    # Imported here: a help is shown without the client and the tables.
    from daemon.client.terminal import DaemonGone, fetch, overview, watch  # noqa: PLC0415
    from daemon.tools.console import make_console  # noqa: PLC0415

    console = make_console()
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
