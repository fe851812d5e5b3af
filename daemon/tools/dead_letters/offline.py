"""Retrying and discarding where no daemon runs: the command itself opens the database and the folders."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial

from backends.base import Store
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import store_of
from daemon.core.outside import Outside
from daemon.pipeline.dead_letters.folder import DeadLetters, folder_of
from daemon.pipeline.dead_letters.retrying import Outcome, Retrying
from schemas.readings import InstrumentGroup

OUTSIDE = Outside.real()


async def retry(
    loaded: LoadedConfig,
    groups: Sequence[InstrumentGroup],
    outcomes: Callable[[dict[str, Outcome]], None],
    lost: Callable[[str, int], None],
) -> None:
    """Offer the dead letters of groups to the database.

    outcomes: called at once with what becomes of them, by group: it grows while they are offered. lost: told by group
    how many readings of earlier retries the database has lost, before that is noted and no later retry finds it.

    Raises:
        StoreError: the database is away, or cannot be used as configured.
        OSError: the disk failed.
    """
    found: dict[str, Outcome] = {}
    outcomes(found)
    async with _store(loaded) as store:
        for group in groups:
            letters = _opened(loaded, group)
            found[group.name] = outcome = Outcome()
            try:
                await Retrying(store, group, letters, lost=partial(lost, group.name)).round(outcome)
            finally:
                letters.close()


async def discard(loaded: LoadedConfig, groups: Sequence[InstrumentGroup]) -> dict[str, dict[str, int]]:
    """Throw the dead letters of groups away; return how much it was, as the API gives it.

    Raises:
        OSError: the disk failed.
    """
    return {group.name: asdict(await _opened(loaded, group).discard()) for group in groups}


def _opened(loaded: LoadedConfig, group: InstrumentGroup) -> DeadLetters:
    """The dead letters; what the database has of them a round of retrying asks, which tells what it lost."""
    letters = DeadLetters(folder_of(loaded.state_dir, group.name), group, OUTSIDE)
    letters.open()
    return letters


@asynccontextmanager
async def _store(loaded: LoadedConfig) -> AsyncIterator[Store]:
    store = store_of(loaded)
    try:
        await store.open()
        yield store
    finally:
        await store.close()
