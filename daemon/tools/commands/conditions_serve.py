"""`triggerlog conditions serve`: runs the server of conditions by itself."""

import asyncio
from typing import Annotated

import typer

from daemon.core.configuration import load_config
from daemon.core.imports import uncollected
from daemon.core.monitoring.logs import LogLevel, start_logging
from daemon.core.outcome import examples
from daemon.tools.options import File

EPILOG = examples("triggerlog conditions serve beam.toml")


def serve(
    file: File,
    log_level: Annotated[LogLevel, typer.Option(help="How much is logged to stderr.")] = LogLevel.INFO,
) -> None:
    """Serve conditions until SIGTERM or Ctrl-C, as the section `conditions` of the configuration says.

    A daemon with `serve = true` does the same in a process of its own. What is in the database is served to programs
    that speak the contract of the reference conditions database: docs/conditions.md.
    """
    start_logging(log_level)
    loaded = load_config(file)
    with uncollected():
        from daemon.conditions.servers import serve_conditions  # noqa: PLC0415

    asyncio.run(serve_conditions(loaded))
