"""`triggerlog announce-run`: tells a daemon that the timing system restarted its trigger numbers."""

from typing import Annotated

import typer

from daemon.client.api.asking import ask_daemon
from daemon.client.api.reach import reach
from daemon.core.outcome import examples
from daemon.tools.options import CaFile, ConfigFile, DaemonUrl, TokenFile

EPILOG = examples(
    "triggerlog announce-run beam.toml --epoch 41",
    "triggerlog announce-run --daemon https://node:8120 --token-file token",
)
PATIENCE_S = 10.0

Epoch = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="The timing system's counter of restarts; 0 where nobody knows it.")
]


def announce_run(
    file: ConfigFile = None,
    epoch: Epoch = 0,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Tell every group that the timing system starts its trigger numbers again.

    With its epoch a new run begins at once; without it, with the next reading that has no epoch, whatever its number
    and time. It is followed after a restart of the daemon, too, and is accepted before the database answers: then it
    takes its place behind what was received by then, and the epoch has no number yet. This changes the state of the
    daemon and needs the token of the API, which FILE names.
    """
    found = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    path = f"/api/v1/run?epoch={epoch}"
    runs: dict[str, int | None] = ask_daemon(found, "POST", path, patience_s=PATIENCE_S).json()
    later = "announced; its run has a number when the database has answered"
    without = later if epoch else "a run begins with the next reading"
    for group, run in runs.items():
        typer.echo(f"{group}: run {run}" if run else f"{group}: {without}")
