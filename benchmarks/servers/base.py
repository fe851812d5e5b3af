"""A running server that is measured: a throw-away one of the run's own, or one that the user named; and its disk."""

import asyncio
import itertools
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

from backends import open_store
from backends.base import Store, StoreFacts
from benchmarks.load.workload import GROUP, LOGGER
from schemas.batch import Durability, Layout
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig

PATIENCE_S = 600.0
"""Time for what is not measured, such as reading everything back."""

_numbers = itertools.count(1)


class Server(ABC):
    """A server, and the schemas (in MariaDB and MongoDB, databases) that were made in it.

    dsn: where it is; it may hold a password, so it is never shown. folder: for files that go with it; it is
    removed afterwards. own: whether it is a throw-away server, which no other program uses.
    """

    backend: ClassVar[Backend]

    def __init__(self, dsn: str, folder: Path, *, own: bool) -> None:
        self.dsn = dsn
        self.folder = folder
        self.own = own
        self._made: list[str] = []

    def new_name(self) -> str:
        """A name for a schema; whatever is in it when the server is left is removed."""
        name = f"triggerlog_bench_{os.getpid()}_{next(_numbers)}"
        self._made.append(name)
        return name

    def fresh_schema(self, layout: Layout) -> str:
        """Make a schema with the very tables, indexes and partitions that the daemon makes; return its name."""
        schema = self.new_name()

        async def make() -> None:
            store = self.store(schema, layout)
            await store.open()
            await store.close()

        asyncio.run(make())
        return schema

    def store(self, schema: str, layout: Layout, **more: Any) -> Store:
        """The daemon's own store in a schema. more: fields of `[database]`."""
        fields = {"dsn": self.dsn, "schema": schema, "command_timeout_s": PATIENCE_S, **more}
        return open_store(
            DatabaseConfig.model_validate(fields),
            logger=LOGGER,
            groups={GROUP.name: GROUP},
            layouts={GROUP.name: layout},
            state_dir=self.folder,
        )

    def facts(self) -> StoreFacts:
        """What the server says of itself."""
        schema = self.new_name()

        async def ask() -> StoreFacts:
            store = self.store(schema, Layout.ROWS)
            await store.open()
            try:
                return await store.facts()
            finally:
                await store.close()

        try:
            return asyncio.run(ask())
        finally:
            self.drop(schema)

    def described(self) -> dict[str, Any]:
        """What is kept of it with the figures."""
        facts = self.facts()
        held = dict(facts.durability)
        for durability in self.durabilities():
            with self.holding(durability):
                held[durability] = self.facts().durability[durability]
        return {
            "product": facts.backend,
            "version": facts.version,
            "target": facts.target,
            "own": self.own,
            "settings": {**facts.settings, **self.settings()},
            "durability": {name.value: found.words for name, found in held.items()},
            # JSON knows no infinity: None is without limit.
            "risk_ms": {name.value: _finite(found.risk_ms) for name, found in held.items()},
            "shortfall": {name.value: found.shortfall and str(found.shortfall) for name, found in held.items()},
        }

    def drop(self, schema: str) -> None:
        """Drop a schema, and have the server write out what is dirty: no round pays for the one before."""
        self.remove(schema)
        self._made.remove(schema)
        self.settle()

    def drop_all(self) -> None:
        """Drop every schema that is left, as after a failure."""
        for schema in list(self._made):
            self.remove(schema)
            self._made.remove(schema)

    def durabilities(self) -> tuple[Durability, ...]:
        """The durabilities at which the strategies can be measured here."""
        return tuple(Durability)

    def holding(self, durability: Durability) -> AbstractContextManager[None]:
        """Let the server give that durability meanwhile, where it is the server's setting and not the writer's."""
        return nullcontext()

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Settings that decide about the figures, by their names in the server."""

    @abstractmethod
    def count(self, schema: str) -> int:
        """How many readings the strategies' tables in a schema hold, all together."""

    @abstractmethod
    def remove(self, schema: str) -> None:
        """Remove a schema; nothing happens when it is not there."""

    @abstractmethod
    def settle(self) -> None:
        """Have the server write out what is dirty, where one may ask it to."""


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@contextmanager
def left_clean(server: Server) -> Iterator[Server]:
    """Leave nothing in the server, whatever happens."""
    try:
        yield server
    finally:
        server.drop_all()


# --- the disk under a server -----------------------------------------------------------------------------------------

FDATASYNCS = 200


def fdatasync_ms(folder: Path) -> float:
    """Median time to append 8 KiB to a file and have it on the disk, in ms: what a commit cannot do without."""
    path = folder / "fdatasync"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        os.pwrite(descriptor, bytes(8192 * FDATASYNCS), 0)
        os.fsync(descriptor)
        times = []
        for k in range(FDATASYNCS):
            begun = time.perf_counter()
            os.pwrite(descriptor, os.urandom(8192), 8192 * k)
            os.fdatasync(descriptor)
            times.append(time.perf_counter() - begun)
    finally:
        os.close(descriptor)
        path.unlink()
    return sorted(times)[FDATASYNCS // 2] * 1e3
