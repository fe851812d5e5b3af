"""`triggerlog status`: shows the status of a daemon, once or live."""

import asyncio
from typing import Annotated

import typer

from daemon.client.api.reach import reach
from daemon.core.outcome import examples
from daemon.tools.options import CaFile, ConfigFile, DaemonUrl, TokenFile

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
    once: Annotated[bool, typer.Option("--once", help="Print it once and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it once, as JSON of the API.")] = False,
    every: Annotated[float, typer.Option(min=0.1, max=60, metavar="SECONDS", help="Time between two updates.")] = 0.5,
) -> None:
    """Show the status of the daemon live: rates, latency, what waits, what is missing, what was refused."""
    # Imported here: the help is shown without the client and the tables.
    from daemon.client.api.status import fetch  # noqa: PLC0415
    from daemon.client.terminal.overview import overview  # noqa: PLC0415
    from daemon.client.terminal.watch import watch  # noqa: PLC0415
    from daemon.tools.console import make_console  # noqa: PLC0415

    console = make_console()
    found = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    if not (once or as_json or not console.is_terminal):
        try:
            asyncio.run(watch(found, every, console))
        except KeyboardInterrupt:
            return
    answer = asyncio.run(fetch(found))
    if as_json:
        typer.echo(answer.model_dump_json(indent=2))
    else:
        console.print(overview(answer, found.url))
