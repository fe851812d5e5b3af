"""The data of a run: which folders there are, what is inserted into them, and at which times snapshots are.

All of it follows from the settings alone. So a loader that was cut off goes on where the database says that it is, and
clients know how many rows an answer must have.
"""

import asyncio
import time
from collections.abc import Callable
from functools import cached_property

import numpy as np

from backends.base import StoreUnavailable
from backends.folders.base import FoldersStore
from daemon.web.rates import Backoff
from schemas.api.snapshots import InsertionOrder, Payload, Sample, SnapshotLoading, SnapshotSettings
from schemas.batch import JournalPosition
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.blocks import Insertion
from schemas.folders.folders import Column, NewFolder
from schemas.readings import Array

SOURCE = "snapshots"
SECOND_NS = 10**9
CONTROL_NS = SECOND_NS
"""Length of an interval of the control sample, as in the paper."""
BLOCK_BYTES = 8 * 2**20
"""An insertion has about so many."""
PRINTABLE = ord("!"), ord("~") + 1


class Data:
    """Folders, channels and intervals of some settings.

    folders, channels, intervals: numbers of them, of each above. length_ns: of an interval. stagger_ns: the intervals
    of a channel begin so much later than those of the channel before, over all folders.
    """

    def __init__(self, settings: SnapshotSettings) -> None:
        self.settings = settings
        is_control = settings.sample is Sample.CONTROL
        self.folders = 1 if is_control else settings.folders
        self.channels = 1 if is_control else settings.channels
        self.intervals = settings.rows_in_snapshot if is_control else settings.intervals
        self.length_ns = CONTROL_NS if is_control else round(settings.interval_s * SECOND_NS)
        self.stagger_ns = self.length_ns // (self.folders * self.channels)

    @cached_property
    def top(self) -> str:
        """Path of the set that the folders are in: other settings of the data have another one."""
        of = self.settings
        size = f"{self.folders}x{self.channels}x{self.intervals}x{of.payload_bytes}"
        return f"/{of.sample}-{of.layout}-{of.order}-{of.payload}-{size}-{self.length_ns}"

    @cached_property
    def paths(self) -> list[str]:
        """Paths of the folders."""
        return [f"{self.top}/f{k:03d}" for k in range(self.folders)]

    def new_folder(self, folder: int) -> NewFolder:
        """A folder as it is added."""
        return NewFolder(
            path=self.paths[folder],
            columns=(Column(name="value", dtype="text", width=self.settings.payload_bytes),),
            layout=self.settings.layout,
            channels={k: f"channel {k}" for k in range(self.channels)},
        )

    # --- what is inserted ----------------------------------------------------------------------------------------

    @cached_property
    def rows_a_folder(self) -> int:
        """Rows of a folder."""
        return self.channels * self.intervals

    @cached_property
    def rows_an_insertion(self) -> int:
        """Rows of each insertion but the last of a folder."""
        return max(1, BLOCK_BYTES // self.new_folder(0).dtype.itemsize)

    @property
    def insertions(self) -> int:
        """Insertions of a folder."""
        return -(-self.rows_a_folder // self.rows_an_insertion)

    def rows_of(self, insertions: int) -> int:
        """Rows that a folder has after so many insertions."""
        return min(insertions * self.rows_an_insertion, self.rows_a_folder)

    def insertion(self, folder: int, number: int) -> Insertion:
        """An insertion of a folder, by its number from 0."""
        rows = np.arange(self.rows_of(number), self.rows_of(number + 1))
        if self.settings.order is InsertionOrder.TIME:
            steps, channels = np.divmod(rows, self.channels)
        else:
            channels, steps = np.divmod(rows, self.intervals)
        block = np.empty(len(rows), self.new_folder(folder).dtype)
        block["channel"] = channels
        block["since"] = steps * self.length_ns + self._offsets(folder)[channels]
        block["until"] = block["since"] + self.length_ns
        block["value"] = self._values(folder, number, len(rows))
        return Insertion(block=block, source=SOURCE, position=JournalPosition(sequence=number + 1))

    def _values(self, folder: int, number: int, rows: int) -> Array | bytes:
        width = self.settings.payload_bytes
        if self.settings.payload is Payload.CONSTANT:
            return b"0" * width
        rng = np.random.default_rng([folder, number])
        found: Array = rng.integers(*PRINTABLE, (rows, width), np.uint8).view(f"S{width}")[:, 0]
        return found

    def _offsets(self, folder: int) -> Array:
        """How much later than the first channel of the first folder each channel of a folder begins, in ns."""
        return (folder * self.channels + np.arange(self.channels, dtype=np.int64)) * self.stagger_ns

    # --- what is asked -------------------------------------------------------------------------------------------

    @property
    def span_ns(self) -> int:
        """Time over which each channel has a value, from `length_ns` on."""
        return (self.intervals - 1) * self.length_ns

    def at(self, chunk: int) -> int:
        """Time of the snapshot of a chunk, by its number; behind the last one comes the first one again."""
        return self.length_ns + chunk * round(self.settings.chunk_s * SECOND_NS) % max(1, self.span_ns)

    def rows_begun(self, folder: int, after: int, upto: int) -> int:
        """Intervals of a folder that begin in after < since <= upto."""
        offsets = self._offsets(folder)
        begun = [np.clip((time - offsets) // self.length_ns + 1, 0, self.intervals) for time in (after, upto)]
        return int((begun[1] - begun[0]).sum())


# --- loading ---------------------------------------------------------------------------------------------------------

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
