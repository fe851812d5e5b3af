"""`triggerlog open-run`: tell a daemon that the timing system counts its triggers anew."""

import typer

from daemon.client.api.asking import ask_daemon
from daemon.client.api.reach import reach
from daemon.core.outcome import examples
from daemon.tools.options import CaFile, ConfigFile, DaemonUrl, TokenFile

EPILOG = examples("triggerlog open-run beam.toml", "triggerlog open-run --daemon https://node:8120 --token-file token")
PATIENCE_S = 10.0


def open_run(
    file: ConfigFile = None, daemon: DaemonUrl = None, token_file: TokenFile = None, ca: CaFile = None
) -> None:
    """Begin a new run in every group: the timing system was restarted, and counts its triggers anew.

    This changes what the daemon does, and needs the API's token: FILE says where it is.
    """
    found = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    runs: dict[str, int] = ask_daemon(found, "POST", "/api/v1/run", patience_s=PATIENCE_S).json()
    for group, run in runs.items():
        typer.echo(f"{group}: run {run}")
