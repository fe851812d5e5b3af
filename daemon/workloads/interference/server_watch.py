"""Watches the database server during an experiment: what it counts, and what its sessions wait for."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from backends import open_store
from backends.base import ReadOnly, ServerView, Store, StoreError
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import tables_of

EVERY_S = 1.0
GIVE_UP_S = 10.0


@dataclass(frozen=True)
class _Seen:
    at_s: float
    view: ServerView


class ServerWatch:
    """Asks the server once a second, over a connection of its own.

    note: called with a sentence when it does not tell; an experiment goes on without.
    """

    def __init__(self, store: Store, note: Callable[[str], None], every_s: float = EVERY_S) -> None:
        self._store = store
        self._note = note
        self._every_s = every_s
        self._seen: list[_Seen] = []
        self._is_noted = False

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                began_s = time.monotonic()
                try:
                    view = await self._store.view()
                except StoreError as error:
                    self._say(f"The server's own view was not to be had all the time: {error}.")
                else:
                    self._seen.append(_Seen(time.monotonic(), view))
                await asyncio.sleep(max(0.0, began_s + self._every_s - time.monotonic()))
        finally:
            await self._store.close()

    def between(self, first_s: float, last_s: float) -> tuple[int, dict[str, float], dict[str, float]]:
        """Looks, growth of the counters a second, and sessions that waited on average by what for.

        Forgets what came before. With one look there are waits, and no growth.

        first_s, last_s: CLOCK_MONOTONIC.
        """
        self._seen = [seen for seen in self._seen if seen.at_s >= first_s]
        within = [seen for seen in self._seen if seen.at_s <= last_s]
        if not within:
            return 0, {}, {}
        waits: Counter[str] = Counter()
        for seen in within:
            waits.update(seen.view.waits)
        mean = {name: count / len(within) for name, count in sorted(waits.items())}
        return len(within), _growth(within[0], within[-1]), mean

    def _say(self, sentence: str) -> None:
        if not self._is_noted:
            self._is_noted = True
            self._note(sentence)


def _growth(first: _Seen, last: _Seen) -> dict[str, float]:
    seconds = last.at_s - first.at_s
    if seconds <= 0:
        return {}
    before, after = first.view.counters, last.view.counters
    # A server that was restarted counts from 0 again: that is no growth.
    return {
        name: (after[name] - before[name]) / seconds
        for name in sorted(after.keys() & before.keys())
        if after[name] >= before[name]
    }


def watching_store(loaded: LoadedConfig) -> Store:
    """A store that is only asked, of the server that is written to."""
    config = loaded.config
    return open_store(
        config.database,
        logger=config.logger,
        **tables_of(config),
        state_dir=loaded.state_dir,
        password=loaded.password,
        read_only=ReadOnly(connections=1, give_up_s=GIVE_UP_S),
    )
