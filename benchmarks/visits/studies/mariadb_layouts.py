"""How MariaDB should keep packs: `python -m benchmarks.visits.studies.mariadb_layouts`. Decision 0038.

Packs of three sizes are written as visits do it, those of a field of 110 pixels in a transaction, and read by field: a
blob a row, blobs cut into rows that fit a page, and a blob a row in the order of visits. The buffer pool is small.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from backends.mysql.server.address import address_of, connect
from backends.mysql.visits.pack_rows import Pack, send_packs
from backends.mysql.visits.session import Session
from backends.throwaway.mariadb import ThrowawayMariadb

SIDE = 64
ACROSS, DOWN = 11, 10
"""A sky of 64 by 64 pixels; a field has 11 by 10 of them."""
READS = 24
POOL = "24M"
TIMEOUT_S = 600
WHOLE = 1 << 24
BY_PIXEL, BY_VISIT = "pixel, visit, tile, period", "visit, tile, pixel, period"


class Layout(NamedTuple):
    """A way to keep packs. most: bytes of a row's blob; `tile` counts the rows of a pack."""

    name: str
    most: int
    key: str


LAYOUTS = (
    Layout("a blob a row", WHOLE, BY_PIXEL),
    Layout("rows of 7600", 7600, BY_PIXEL),
    Layout("rows of 3900", 3900, BY_PIXEL),
    Layout("rows of 2600", 2600, BY_PIXEL),
    Layout("by visit", WHOLE, BY_VISIT),
)
SIZES = ((1350, 400), (13_500, 200), (67_500, 60))
"""Bytes of a pack, and visits: sources at level 8 at scales 0.02, 0.2 and 1."""


def field(random: np.random.Generator) -> list[int]:
    """Pixels of a field somewhere, ascending; their numbers keep neighbours together as those of the sky do."""
    left, top = random.integers(0, SIDE - ACROSS, 2)
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(left, left + ACROSS), np.arange(top, top + DOWN)))
    numbers = np.zeros_like(x)
    for bit in range(SIDE.bit_length()):
        numbers |= ((x >> bit) & 1) << (2 * bit) | ((y >> bit) & 1) << (2 * bit + 1)
    return sorted(numbers.tolist())


async def pages(session: Session) -> tuple[int, int]:
    """Pages that the server has read and written."""
    counters = dict(await session.fetch("SHOW GLOBAL STATUS LIKE 'Innodb_pages_%'"))
    return int(counters["Innodb_pages_read"]), int(counters["Innodb_pages_written"])


async def measure(session: Session, layout: Layout, nbytes: int, visits: int) -> str:
    """Write and read packs in one layout; a line."""
    await session.run(
        "CREATE OR REPLACE TABLE m.p (period INT, pixel BIGINT, visit BIGINT, tile INT, n INT, records MEDIUMBLOB,"
        f" PRIMARY KEY ({layout.key}))"
    )
    random = np.random.default_rng(1)
    blob = random.bytes(nbytes)
    cut = [blob[at : at + layout.most] for at in range(0, nbytes, layout.most)]
    before, began = await pages(session), time.perf_counter()
    for visit in range(visits):
        packs = [Pack(0, pixel, visit, k, 1, part) for pixel in field(random) for k, part in enumerate(cut)]
        await session.run("START TRANSACTION")
        await send_packs(session, "m.p", packs)
        await session.run("COMMIT")
    wrote, written = (time.perf_counter() - began) / visits, (await pages(session))[1] - before[1]
    before, began, random, got = await pages(session), time.perf_counter(), np.random.default_rng(7), 0
    for _ in range(READS):
        among = ",".join(map(str, field(random)))
        got += (await session.select(f"SELECT visit, n, records FROM m.p WHERE pixel IN ({among})")).nbytes
    took, read = time.perf_counter() - began, (await pages(session))[0] - before[0]
    return (
        f"{nbytes:>6} bytes, {layout.name:<13} write {wrote * 1e3:>6.1f} ms a visit, {written / visits:>6.0f} pages;"
        f" read {took / got * 1e3 * 2**20:>6.1f} ms a MiB, {read / got * 2**20:>5.0f} pages a MiB"
    )


async def main() -> None:
    """Measure all."""
    with tempfile.TemporaryDirectory() as folder:
        server = ThrowawayMariadb(Path(folder), innodb_buffer_pool_size=POOL)
        dsn = server.start()
        try:
            connection = await connect(address_of(dsn), program="layouts", timeout_s=TIMEOUT_S)
            session = Session(connection)
            await session.run("CREATE DATABASE m; SET SESSION eq_range_index_dive_limit = 1")
            for nbytes, visits in SIZES:
                for layout in LAYOUTS:
                    if layout.most == WHOLE or layout.most < nbytes:
                        print(await measure(session, layout, nbytes, visits), flush=True)  # noqa: T201
            connection.terminate()
        finally:
            server.stop()


if __name__ == "__main__":
    asyncio.run(main())
