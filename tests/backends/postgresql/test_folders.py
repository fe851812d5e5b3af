"""How many blocks PostgreSQL reads for a snapshot: a count, and no timing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from backends import open_folders_store
from backends.postgresql.folders import PostgresqlFoldersStore
from backends.throwaway.postgresql import ThrowawayPostgresql
from schemas.config import DatabaseConfig
from schemas.folders.folders import Column, Folder, FolderLayout, NewFolder
from schemas.readings import Array
from tests.support.folders import Source
from tests.support.servers import server_folder

CHANNELS, EACH, LENGTH, STAGGER = 1_000, 12, 300_000, 3
"""Channels, intervals of each, how long they are and how far apart, in ms: the paper's, but for 60 of each channel."""
AT = 6 * LENGTH + 1_234
MOST = 200
"""Blocks for a snapshot of 1,000 rows of 1 kB, of the table, of its indexes and of what lies beside it."""
BLOCKS = """
    SELECT
        sum(heap_blks_read + idx_blks_read + coalesce(toast_blks_read + tidx_blks_read, 0))::int8,
        sum(heap_blks_hit + idx_blks_hit + coalesce(toast_blks_hit + tidx_blks_hit, 0))::int8
    FROM pg_statio_user_tables WHERE schemaname = 'folders' AND relname LIKE 'f\\_%'
"""


@pytest.fixture
def server() -> Iterator[ThrowawayPostgresql]:
    """A server of the test's own, with a small cache, which the test starts again."""
    with server_folder() as folder:
        made = ThrowawayPostgresql(folder)
        made.start()
        with (folder / "postgresql" / "postgresql.conf").open("a") as settings:
            settings.write("shared_buffers = 4MB\n")
        yield made
        made.stop()


def history(folder: Folder, rng: np.random.Generator) -> Array:
    """Intervals of each channel one behind the other, those of the next channel a little later; random texts."""
    block = np.zeros(CHANNELS * EACH, folder.dtype)
    block["channel"] = np.tile(np.arange(CHANNELS), EACH)
    block["since"] = np.repeat(np.arange(EACH), CHANNELS) * LENGTH + block["channel"] * STAGGER
    block["until"] = block["since"] + LENGTH
    block["text"] = rng.integers(ord("!"), ord("~"), (len(block), 1_000), np.uint8).view("S1000")[:, 0]
    return block


async def load(dsn: str, layout: FolderLayout, state_dir: Path) -> Array:
    """Load a folder in as many insertions as each channel has intervals; by channel where the layout is so."""
    store = open_folders_store(DatabaseConfig(dsn=dsn), schema="folders", state_dir=state_dir)
    await store.create()
    folder = await store.add_folder(
        NewFolder(
            path="/conditions",
            columns=(Column(name="text", dtype="text", width=1_000),),
            layout=layout,
            channels={k: f"c{k}" for k in range(CHANNELS)},
        )
    )
    given, source = history(folder, np.random.default_rng(1)), Source(store)
    if layout.by_channel:
        given = given[np.lexsort((given["since"], given["channel"]))]
    for first in range(0, len(given), len(given) // EACH):
        assert await store.insert(folder.path, source.next(given[first : first + len(given) // EACH]))
    await store.close()
    return given


async def read(dsn: str, state_dir: Path) -> tuple[int, int, Array]:
    """Ask for a snapshot; return how many blocks the server reads for it, and how many it looks into."""
    looking = await asyncpg.connect(dsn)
    before = await looking.fetchrow(BLOCKS)
    store = open_folders_store(DatabaseConfig(dsn=dsn), schema="folders", state_dir=state_dir)
    snapshot = await store.snapshot("/conditions", AT)
    assert isinstance(store, PostgresqlFoldersStore)
    async with store._connected() as session:
        # What a session has counted is seen by others after a moment, or at once.
        await session.fetch("SELECT pg_stat_force_next_flush()")
    await store.close()
    after = await looking.fetchrow(BLOCKS)
    await looking.close()
    assert before is not None
    assert after is not None
    cold, found = (then - now for now, then in zip(before, after, strict=True))
    return cold, cold + found, snapshot


@pytest.mark.parametrize(
    ("layout", "least", "most"),
    [
        (FolderLayout.WINDOW, 0, MOST),
        (FolderLayout.BRIN, 0, 2 * MOST),
        (FolderLayout.ARRAYS, 0, MOST),
        # A look-up of each channel goes down an index.
        (FolderLayout.LATERAL, 3 * CHANNELS, 6 * CHANNELS),
        # The paper's order: each row has a block of its own, which has no other that is valid.
        (FolderLayout.CHANNEL_LATERAL, 3 * CHANNELS, 6 * CHANNELS),
        (FolderLayout.CHANNEL_MAX, 4 * CHANNELS, 16 * CHANNELS),
    ],
)
async def test_a_snapshot_looks_into_few_blocks_with_a_cold_cache(
    server: ThrowawayPostgresql, tmp_path: Path, layout: FolderLayout, least: int, most: int
) -> None:
    given = await load(await asyncio.to_thread(server.start), layout, tmp_path)
    await asyncio.to_thread(server.stop)
    cold, looked_into, snapshot = await read(await asyncio.to_thread(server.start), tmp_path)
    valid = given[(given["since"] <= AT) & (given["until"] > AT)]
    assert snapshot.tolist() == valid[np.argsort(valid["channel"])].tolist()
    assert least <= looked_into <= most, looked_into
    assert (cold > CHANNELS) == layout.by_channel, cold
