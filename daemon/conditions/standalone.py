"""The server by itself, without a daemon."""

import asyncio
import signal

from daemon.conditions.processes.servers import ConditionsServers
from daemon.core.configuration import LoadedConfig
from daemon.core.monitoring.events import Events


async def serve_conditions(loaded: LoadedConfig) -> None:
    """Serve until SIGTERM or SIGINT; the log tells what an operator should know.

    Raises:
        ConfigError: as of `ConditionsServers`.
        CommandFailed: the address is taken, or is none.
    """
    events = Events()
    servers = ConditionsServers(loaded, events)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    servers.start()
    try:
        await stop.wait()
    finally:
        await servers.end()
