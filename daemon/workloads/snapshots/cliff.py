"""The cliff: which blocks a snapshot needs again that was read just before, for snapshots of one folder to all.

As in the paper: as long as a snapshot can be read again without reading from the disk, the cache is large enough.
"""

import time
from collections.abc import AsyncGenerator, Callable

import numpy as np

from backends.folders.base import FoldersStore
from daemon.workloads.snapshots.data import Data
from daemon.workloads.snapshots.looks import Look, Looks
from schemas.api.snapshots import CliffPoint
from schemas.readings import Array

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
