"""`triggerlog open-run`: tell a daemon that the timing system counts its triggers anew."""

import asyncio

import typer

from daemon.outcome import CommandFailed, examples
from daemon.reach import CaFile, ConfigFile, DaemonUrl, TokenFile, reach

EPILOG = examples("triggerlog open-run beam.toml", "triggerlog open-run --daemon https://node:8120 --token-file token")
PATIENCE_S = 10.0


def open_run(
    file: ConfigFile = None, daemon: DaemonUrl = None, token_file: TokenFile = None, ca: CaFile = None
) -> None:
    """Begin a new run in every group: the timing system was restarted, and counts its triggers anew.

    This changes what the daemon does, and needs the API's token: FILE says where it is.
    """
    # Imported here: other commands start without the client.
    from daemon.terminal import DaemonGone, ask  # noqa: PLC0415

    async def order() -> dict[str, int]:
        async with found.client(PATIENCE_S) as client:
            answer: dict[str, int] = (await ask(client, "POST", "/api/v1/run")).json()
            return answer

    found = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    try:
        runs = asyncio.run(order())
    except DaemonGone as gone:
        raise CommandFailed(str(gone)) from None
    for group, run in runs.items():
        typer.echo(f"{group}: run {run}")
