"""The loader: adds the folders that are missing, and inserts what they do not have yet, exactly once."""

import asyncio
import time
from collections.abc import Callable

from backends.base import StoreUnavailable
from backends.folders.base import FoldersStore
from daemon.web.backoff import Backoff
from daemon.workloads.snapshots.data import SOURCE, Data
from schemas.api.snapshots import SnapshotLoading
from schemas.conditions.rules import ConditionsRefused, RefusalKind

PAUSE_S = 0.25
PAUSE_MOST_S = 10.0
"""The pause before the database is tried again doubles up to this."""


class Loader:
    """Loads until all is there.

    progress: called with how far it is. troubled: called with why the database does not take it, when it is tried
    again later. stop: when it is set, loading ends after the insertion that is under way.
    """

    def __init__(
        self,
        store: FoldersStore,
        data: Data,
        progress: Callable[[SnapshotLoading], None],
        troubled: Callable[[str], None],
        stop: asyncio.Event,
    ) -> None:
        self._store, self._data, self._stop = store, data, stop
        self._progress, self._troubled = progress, troubled
        self._rows = [0] * data.folders
        self._found: int | None = None
        self._began_s = time.monotonic()

    async def run(self) -> bool:
        """Load; whether all is there, and not only what was inserted before it was to stop.

        Raises:
            StoreError: the database does not do it, and never will.
            ConditionsRefused: it cannot have such folders.
        """
        backoff = Backoff(PAUSE_S, PAUSE_MOST_S)
        while not self._stop.is_set():
            rows = sum(self._rows)
            try:
                await self._load()
            except StoreUnavailable as error:
                if sum(self._rows) > rows:
                    backoff.reset()
                self._troubled(str(error))
                await backoff.pause()
            else:
                break
        return sum(self._rows) == self._data.rows_a_folder * self._data.folders

    async def _load(self) -> None:
        await self._store.create()
        done = [await self._insertions(folder) for folder in range(self._data.folders)]
        self._rows = [self._data.rows_of(each) for each in done]
        if self._found is None:
            self._found = sum(self._rows)
        self._say()
        for folder, path in enumerate(self._data.paths):
            for number in range(done[folder], self._data.insertions):
                if self._stop.is_set():
                    return
                insertion = await asyncio.to_thread(self._data.insertion, folder, number)
                await self._store.insert(path, insertion)
                self._rows[folder] = self._data.rows_of(number + 1)
                self._say()

    async def _insertions(self, folder: int) -> int:
        """How many a folder has; it is added where it is not there."""
        path = self._data.paths[folder]
        try:
            position = await self._store.position(path, SOURCE)
        except ConditionsRefused as error:
            if error.kind is not RefusalKind.UNKNOWN:
                raise
            await self._store.add_folder(self._data.new_folder(folder))
            return 0
        return 0 if position is None else position.sequence

    def _say(self) -> None:
        assert self._found is not None
        rows, seconds = sum(self._rows), time.monotonic() - self._began_s
        loaded = rows - self._found
        self._progress(
            SnapshotLoading(
                rows=rows,
                rows_in_all=self._data.rows_a_folder * self._data.folders,
                rows_found=self._found,
                seconds=seconds,
                row_rate=loaded / seconds if loaded and seconds else None,
            )
        )
