"""Committing as the committer does."""

import asyncio

from backends.base import Store, StoreUnavailable
from schemas.batch import Batch

PATIENCE_S = 200


async def committed(store: Store, batch: Batch, failed: asyncio.Event | None = None) -> int:
    """Commit, again until it is acknowledged; return how often the store was not available. failed: set when it was."""
    failures = 0
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await store.commit(batch)
            except StoreUnavailable:
                failures += 1
                if failed is not None:
                    failed.set()
                await asyncio.sleep(0.02)
            else:
                return failures
