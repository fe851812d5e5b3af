"""`triggerlog open-run`: tells a daemon that the timing system restarted its trigger numbers."""

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
    """Start a new run in every group, after a restart of the timing system and its trigger numbers.

    This changes the state of the daemon and needs the token of the API, which FILE names.
    """
    found = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    runs: dict[str, int] = ask_daemon(found, "POST", "/api/v1/run", patience_s=PATIENCE_S).json()
    for group, run in runs.items():
        typer.echo(f"{group}: run {run}")
