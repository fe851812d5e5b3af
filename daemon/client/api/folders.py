"""The client of the routes for folders: what commands ask a daemon and order, with blocks as arrays of numpy."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from pydantic import ValidationError

from daemon.client.api.asking import DaemonGone, ask
from daemon.client.api.reach import Reach
from schemas.api.folders import (
    ChannelsAdded,
    FolderDescription,
    FolderDetails,
    FolderRemoved,
    FolderSetDescription,
    FolderTags,
    FolderTree,
    Inserted,
    NewChannels,
    NewFolder,
    NewFolderSet,
    SourcePosition,
)
from schemas.api.model import Model
from schemas.conditions.rules import ConditionsRefused
from schemas.folders.bodies import as_npy, from_npy
from schemas.readings import Array

if TYPE_CHECKING:
    import httpx

PREFIX = "/api/v1/folders"
PATIENCE_S = 120.0
"""A long history, and the storing of a large block, take seconds."""

M = TypeVar("M", bound=Model)


class FoldersApi:
    """Asks one daemon; every method raises DaemonGone where it does not answer, or refuses.

    Times are texts as the API takes them: RFC 3339, or integers.
    """

    def __init__(self, client: "httpx.AsyncClient") -> None:
        self._client = client

    async def tree(self) -> FolderTree:
        """All sets and folders."""
        return await self._ask(FolderTree, "GET", "")

    async def folder(self, path: str) -> FolderDetails:
        """One folder, with its channels and tags."""
        return await self._ask(FolderDetails, "GET", "/folder", {"path": path})

    async def add_folder(self, new: NewFolder) -> FolderDescription:
        """Add a folder."""
        return await self._ask(FolderDescription, "POST", "", body=new.model_dump(mode="json"))

    async def add_set(self, new: NewFolderSet) -> FolderSetDescription:
        """Add a set."""
        return await self._ask(FolderSetDescription, "POST", "/sets", body=new.model_dump(mode="json"))

    async def add_channels(self, new: NewChannels) -> ChannelsAdded:
        """Add channels to a folder."""
        return await self._ask(ChannelsAdded, "POST", "/channels", body=new.model_dump(mode="json"))

    async def remove(self, path: str) -> None:
        """Remove a folder with all that is in it, or an empty set."""
        await self._ask(FolderRemoved, "DELETE", "", {"path": path})

    async def add_tag(self, path: str, tag: str) -> FolderTags:
        """Tag a folder, or all multi-version ones of a set."""
        return await self._ask(FolderTags, "POST", "/tags", {"path": path, "tag": tag})

    async def remove_tag(self, path: str, tag: str) -> None:
        """Remove a tag of a folder."""
        await self._ask(FolderRemoved, "DELETE", "/tags", {"path": path, "tag": tag})

    async def snapshot(self, path: str, at: str | None = None, tag: str | None = None) -> Array:
        """What holds at a time, now where none is given."""
        return await self._block("/snapshot", {"path": path, "at": at, "tag": tag})

    async def history(
        self, path: str, channel: str, since: str | None = None, until: str | None = None, tag: str | None = None
    ) -> Array:
        """The intervals of a channel, which is given by its number or name."""
        asked = {"path": path, "channel": channel, "since": since, "until": until, "tag": tag}
        return await self._block("/history", asked)

    async def changes(self, path: str, after: str, upto: str | None = None, tag: str | None = None) -> Array:
        """The intervals that begin in a span of time, up to now where no end is given."""
        return await self._block("/changes", {"path": path, "after": after, "upto": upto, "tag": tag})

    async def position(self, path: str, source: str) -> SourcePosition:
        """Which insertion of a source was the last one."""
        return await self._ask(SourcePosition, "GET", "/position", {"path": path, "source": source})

    async def insert(
        self, path: str, block: Array, *, source: str, sequence: int, journal: int = 0, follows: int | None = None
    ) -> Inserted:
        """Insert a block, all or none; a repeat with the same number changes nothing.

        Args:
            path: of the folder.
            block: of the folder's dtype, shape (n,).
            source: who inserts.
            sequence: counts this source's insertions, ascending.
            journal: what counts them.
            follows: the number that was acknowledged last.
        """
        asked = {
            "path": path,
            "source": source,
            "sequence": str(sequence),
            "journal": str(journal),
            "follows": None if follows is None else str(follows),
        }
        return await self._ask(Inserted, "POST", "/block", asked, as_npy(block))

    async def _ask(
        self,
        model: type[M],
        method: str,
        route: str,
        asked: Mapping[str, str | None] | None = None,
        body: object = None,
    ) -> M:
        answer = await ask(self._client, method, _path(route, asked or {}), body)
        try:
            return model.model_validate_json(answer.content)
        except ValidationError:
            raise self._another() from None

    async def _block(self, route: str, asked: Mapping[str, str | None]) -> Array:
        answer = await ask(self._client, "GET", _path(route, {**asked, "format": "npy"}))
        try:
            return from_npy(answer.content)
        except ConditionsRefused:
            raise self._another() from None

    def _another(self) -> DaemonGone:
        where = str(self._client.base_url).rstrip("/")
        return DaemonGone(f"{where} sends what this version cannot read; see that a triggerlog daemon listens there")


@asynccontextmanager
async def folders_api(daemon: Reach) -> AsyncIterator[FoldersApi]:
    """Ask a daemon over one client."""
    async with daemon.client(PATIENCE_S) as client:
        yield FoldersApi(client)


def _path(route: str, asked: Mapping[str, str | None]) -> str:
    given = {name: value for name, value in asked.items() if value is not None}
    return f"{PREFIX}{route}{'?' * bool(given)}{urlencode(given)}"
