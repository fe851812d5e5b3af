"""The server by itself, without a daemon."""

from daemon.core.configuration import LoadedConfig
from daemon.core.outcome import CommandFailed


async def serve_conditions(loaded: LoadedConfig) -> None:
    """Serve until SIGTERM or SIGINT."""
    raise CommandFailed(f"conditions.serve: {loaded.path} cannot be served yet")
