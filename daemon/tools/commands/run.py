"""`triggerlog run`: runs the daemon."""

import asyncio
import importlib.util
from collections.abc import Coroutine
from enum import StrEnum
from typing import Annotated

import typer

from daemon.core.configuration import load_config
from daemon.core.imports import uncollected
from daemon.core.monitoring.logs import LogLevel, start_logging
from daemon.core.outcome import CommandFailed, examples
from daemon.core.process.state_folder import close_to_others
from daemon.tools.options import File

EPILOG = examples("triggerlog run beam.toml", "triggerlog run beam.toml --log-level debug --loop asyncio")


class Loop(StrEnum):
    """Which event loop runs the daemon."""

    AUTO = "auto"  # uvloop where it is installed
    UVLOOP = "uvloop"
    ASYNCIO = "asyncio"


def run(
    file: File,
    loop: Annotated[Loop, typer.Option(help="Event loop; auto is uvloop where it is installed.")] = Loop.AUTO,
    log_level: Annotated[LogLevel, typer.Option(help="How much is logged to stderr.")] = LogLevel.INFO,
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C; it commits what it has received before it ends."""
    start_logging(log_level)
    close_to_others()
    loaded = load_config(file)
    # Imported here: a wrong configuration is told of, and every help is shown, without the server's libraries.
    with uncollected():
        from daemon.service import serve  # noqa: PLC0415

    _run_async(serve(loaded), loop)


def _run_async(main: Coroutine[None, None, None], loop: Loop) -> None:
    uvloop = importlib.util.find_spec("uvloop") is not None
    if loop is Loop.UVLOOP and not uvloop:
        main.close()
        raise CommandFailed("uvloop is not installed; install it, or use --loop asyncio")
    with asyncio.Runner(loop_factory=_new_uvloop if uvloop and loop is not Loop.ASYNCIO else None) as runner:
        runner.run(main)


def _new_uvloop() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415

    return uvloop.new_event_loop()
