"""The store of folders of a daemon: opened beside everything else, and given to whoever asks or writes."""

import asyncio

from backends.base import StoreBusy, StoreError, StoreUnavailable
from backends.folders.base import FoldersStore
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import folders_store_of
from daemon.core.monitoring.events import Events
from daemon.web.rates import Backoff
from schemas.config import FoldersConfig

RETRY_FIRST_S, RETRY_MOST_S = 0.25, 5.0


class OpenedFolders:
    """Opens the store, and has it from then on.

    Args:
        store: not opened yet; `close` closes it.
        folders: its section of the configuration.
        events: get what an operator should know.
    """

    def __init__(self, store: FoldersStore, folders: FoldersConfig, events: Events) -> None:
        self._store = store
        self._events = events
        self._lack: StoreUnavailable | None = StoreBusy("the schema of folders is being made or checked")
        self._is_open = asyncio.Event()
        self._refused: str | None = None
        self.change(folders)

    @property
    def answer_bytes(self) -> int:
        """Most bytes of intervals that an answer may have."""
        return round(self._config.answer_mib * 2**20)

    @property
    def problem(self) -> str | None:
        """Why it is not open; None where it is."""
        return None if self._lack is None else str(self._lack)

    def change(self, folders: FoldersConfig) -> None:
        """Take over what of the section can change while the daemon runs."""
        self._config = folders

    def store(self) -> FoldersStore:
        """The store, once it is open: from then on always, and each of its calls says when the database is away.

        Raises:
            StoreUnavailable: it is not open yet; the message says why.
        """
        if self._lack is not None:
            raise self._lack
        return self._store

    async def wait(self) -> FoldersStore:
        """The store, when it is open; never while it cannot be opened."""
        await self._is_open.wait()
        return self._store

    async def run(self) -> None:
        """Make the schema or check it, again and again until that is done."""
        backoff = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
        while True:
            try:
                await self._store.create()
            except StoreError as error:
                # Somebody may give the daemon the right that it lacks, or another schema, while it logs readings.
                self._lack = error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error))
                if not error.is_away:
                    self._tell(str(error))
            else:
                self._lack = None
                self._is_open.set()
                self._events.info(f"folders of schema {self._config.schema_name} are open")
                return
            await backoff.pause()

    async def close(self) -> None:
        """Give back the connections."""
        await self._store.close()

    def _tell(self, refused: str) -> None:
        if refused != self._refused:
            self._refused = refused
            self._events.error(f"folders cannot be opened, and are tried again: {refused}")


def opened_folders(loaded: LoadedConfig, events: Events) -> OpenedFolders | None:
    """The folders of a configuration, to be opened by `run`; None where it serves none."""
    folders = loaded.config.folders
    return OpenedFolders(folders_store_of(loaded), folders, events) if folders.serve else None
