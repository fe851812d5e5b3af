"""Looks at the database server and at the machine: blocks read and found, and processor time."""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import psutil

from backends import open_store
from backends.base import ReadOnly, Store, StoreError
from backends.files import Folder
from backends.folders.base import FoldersStore
from daemon.core.process.usage import family_seconds, machine_seconds
from daemon.workloads.frame.messages import ProcessSpec
from daemon.workloads.snapshots.data import Data
from schemas.api.snapshots import CliffPoint
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from schemas.readings import Array

T = TypeVar("T")

GIVE_UP_S = 10.0
SETTLED_S = 0.1
SETTLE_MOST_S = 3.0
"""What a session has counted is added up when it has ended, and a moment later: so long is waited for that at most."""
POSTGRESQL_SOCKET = ".s.PGSQL.{port}"
PORTS = {Backend.POSTGRESQL: 5432, Backend.MYSQL: 3306}
LOOPBACK = ("localhost", "127.0.0.1", "::1")
PEER = struct.Struct("3i")


@dataclass(frozen=True, kw_only=True)
class Look:
    """What has been counted up to a moment; None where nobody says.

    at_s: CLOCK_MONOTONIC. read, hit: blocks that the server had not in its cache, and those that it had. server_s:
    processor time of the server. busy_s, all_s: of all cores together.
    """

    at_s: float
    read: float | None
    hit: float | None
    server_s: float | None
    busy_s: float
    all_s: float


class Looks:
    """Asks the server over a connection of its own, and the kernel about its process if that is on this machine.

    problem: why the server last did not say what it counts; None where it did.
    """

    def __init__(self, store: Store, process: psutil.Process | None) -> None:
        self._store = store
        self._process = process
        self.problem: str | None = None

    async def look(self) -> Look:
        """Look now."""
        read, hit = await self._blocks()
        server_s = await asyncio.to_thread(self._server_seconds)
        busy_s, all_s = machine_seconds()
        return Look(at_s=time.monotonic(), read=read, hit=hit, server_s=server_s, busy_s=busy_s, all_s=all_s)

    async def settled(self) -> Look:
        """Look when nothing more is being added up; or soon, beside others who use the server."""
        # The looks themselves find a few blocks; they read none.
        return await settled(self.look, lambda look: look.read, SETTLED_S, SETTLE_MOST_S)

    async def close(self) -> None:
        """Close the connection."""
        await self._store.close()

    async def _blocks(self) -> tuple[float | None, float | None]:
        try:
            counters = (await self._store.view()).counters
        except StoreError as error:
            self.problem = str(error)
            return None, None
        self.problem = None
        return counters.get("cache_misses"), counters.get("cache_hits")

    def _server_seconds(self) -> float | None:
        if self._process is None:
            return None
        try:
            return family_seconds(self._process)
        except psutil.Error:  # it was killed
            return None


async def settled(
    look: Callable[[], Awaitable[T]], count: Callable[[T], float | None], every_s: float, most_s: float
) -> T:
    """Look every so often until what is counted no longer changes, or for so long at most; return the last look."""
    until_s = time.monotonic() + most_s
    before = await look()
    while time.monotonic() < until_s:
        await asyncio.sleep(every_s)
        now = await look()
        if count(now) == count(before):
            return now
        before = now
    return before


def looks_at(spec: ProcessSpec) -> Looks:
    """Looks at the server of a spec; nothing is asked yet."""
    store = open_store(
        spec.database,
        logger="snapshots",
        groups={},
        layouts={},
        state_dir=spec.state_dir,
        password=spec.password,
        read_only=ReadOnly(connections=1, give_up_s=GIVE_UP_S),
    )
    return Looks(store, server_process(spec.database, spec.state_dir))


def server_process(database: DatabaseConfig, state_dir: Path) -> psutil.Process | None:
    """The first process of a server on this machine; None where it is elsewhere, or not to be seen."""
    try:
        pid = _embedded(state_dir) if database.dsn is None else _listener(database.dsn, database.backend)
        return None if pid is None else psutil.Process(pid)
    except (OSError, ValueError, psutil.Error):
        return None


def _embedded(state_dir: Path) -> int:
    with Folder(state_dir / "postgresql") as folder:
        return int((folder.read("postmaster.pid") or "").partition("\n")[0])


def _listener(dsn: str, backend: Backend) -> int | None:
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    host = next(iter(query.get("host", [])), unquote(parts.hostname or "localhost"))
    port = parts.port or PORTS[backend]
    path = next(iter(query.get("unix_socket", [])), None)
    if host.startswith("/"):
        path = f"{host}/{POSTGRESQL_SOCKET.format(port=port)}"
    if path is not None:
        return _peer(path)
    if host not in LOOPBACK:
        return None
    listening = (each for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN)
    return next((each.pid for each in listening if each.laddr.port == port and each.pid is not None), None)


def _peer(path: str) -> int:
    """The process that listens on a Unix socket (SO_PEERCRED, unix(7))."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        pid: int = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))[0]
        return pid


# --- the cliff -------------------------------------------------------------------------------------------------------
# The blocks that a snapshot needs again after it was read, for snapshots of one folder to all. As in the paper: as long
# as a snapshot can be read again without reading from the disk, the cache is large enough.

POINTS = 12
"""At most."""
AT_CHUNK = 7
"""Which snapshot is read; any would do."""
READINGS = 3
"""A snapshot is read again so often at most, and the reading with the fewest blocks counts: what a server reads by
itself meanwhile, as autovacuum does, is counted, too, and pushes blocks out of the cache."""


def sizes(folders: int) -> list[int]:
    """Folders of each point, from one to all: each point is about so much larger than the one before."""
    found: list[int] = np.unique(np.round(np.geomspace(1, folders, min(folders, POINTS))).astype(int)).tolist()
    return found


async def cliff(data: Data, looks: Looks, opened: Callable[[], FoldersStore]) -> AsyncGenerator[CliffPoint]:
    """Measure point after point.

    opened: makes a store for one reading; its connection is closed before the server is asked what it has counted.

    Raises:
        StoreError: the database does not answer.
    """
    at = data.at(AT_CHUNK)
    for folders in sizes(data.folders):
        paths = data.paths[:folders]
        await _read(opened(), paths, at)
        again = [await _point(data, looks, opened(), paths, at)]
        while again[-1].read and len(again) < READINGS:
            again.append(await _point(data, looks, opened(), paths, at))
        yield min(again, key=lambda point: point.read or 0)


async def _point(data: Data, looks: Looks, store: FoldersStore, paths: list[str], at: int) -> CliffPoint:
    """Read a snapshot once, between two looks at the server."""
    before = await looks.settled()
    began_s = time.monotonic()
    rows = sum(len(block) for block in await _read(store, paths, at))
    seconds = time.monotonic() - began_s
    after = await looks.settled()
    return CliffPoint(
        folders=len(paths),
        rows=rows,
        value_bytes=rows * data.settings.payload_bytes,
        read=_between(before, after, "read"),
        hit=_between(before, after, "hit"),
        seconds=seconds,
    )


async def _read(store: FoldersStore, paths: list[str], at: int) -> list[Array]:
    try:
        return [await store.snapshot(path, at) for path in paths]
    finally:
        await store.close()


def _between(before: Look, after: Look, name: str) -> int | None:
    first, last = getattr(before, name), getattr(after, name)
    # A server that was restarted counts from 0 again.
    return round(last - first) if first is not None and last is not None and last >= first else None
