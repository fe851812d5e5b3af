"""The database of a drill: a throw-away server that may be killed, or one that the user named, which may not."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from backends.throwaway.base import ThrowawayServer
from schemas.checking.dsn import Backend

SERVERS = {
    Backend.POSTGRESQL: ("backends.throwaway.postgresql", "ThrowawayPostgresql"),
    Backend.MYSQL: ("backends.throwaway.mariadb", "ThrowawayMariadb"),
    Backend.MONGODB: ("backends.throwaway.mongodb", "ThrowawayMongodb"),
}


@dataclass(kw_only=True)
class Target:
    """Where a drill's daemon writes.

    settings: section [database] of its configuration, without the schema.
    server: None for a database that others may use.
    """

    settings: dict[str, Any]
    server: ThrowawayServer | None = None


def throwaway(backend: Backend, folder: Path) -> ThrowawayServer:
    """Make a server that is not started yet.

    Raises:
        ServerNotInstalled: its program is not here.
    """
    module, name = SERVERS[backend]
    make: Callable[[Path], ThrowawayServer] = getattr(import_module(module), name)
    return make(folder)
