"""`triggerlog demo`: options in, three processes until Ctrl-C."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from daemon.core.outcome import examples

EPILOG = examples("triggerlog demo", "triggerlog demo --rate 100 --state /var/tmp/triggerlog")


def demo(
    state: Annotated[Path, typer.Option(help="Folder for the database and the logs of the demonstration.")] = Path(
        "state"
    ),
    rate: Annotated[float, typer.Option(min=0.1, max=10_000, help="Triggers a second of the simulated machine.")] = 10,
    free_ports: Annotated[bool, typer.Option("--free-ports", help="Use any free ports, not 8120 to 8123.")] = False,
) -> None:
    """Run a demonstration until Ctrl-C: a daemon, a sender with 120 instruments, and the page."""
    # Imported here: a help is shown without the client and the tables.
    from daemon.tools.console import make_console  # noqa: PLC0415
    from daemon.tools.demo.demo import Demo  # noqa: PLC0415

    asyncio.run(Demo(state=state.absolute(), rate=rate, free_ports=free_ports, console=make_console()).run())
