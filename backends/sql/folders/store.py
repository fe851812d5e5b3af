"""The store of folders in a SQL database: each call is one transaction over one of a few connections."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TypeVar

from backends.sql.folders import tree
from backends.sql.folders.inserting import KnownChannels, insert, position_of, report
from backends.sql.folders.questions import Span, all_fields, as_block, find, snapshot
from backends.sql.folders.session import SET, FoldersSession, StoredFolder, tables_of
from backends.sql.session import READ, SqlSessionStore
from schemas.batch import JournalPosition
from schemas.conditions.rules import unknown
from schemas.folders.blocks import Insertion, check_span, check_times, sorted_block
from schemas.folders.folders import CHANNEL_MOST, Folder, FolderKind, FolderSet, FolderTag, NewFolder
from schemas.folders.timeline import Reported, holding, hull, newest, pieces
from schemas.readings import Array

S = TypeVar("S", bound=FoldersSession)


class SqlFoldersStore(SqlSessionStore[S]):
    """What the SQL stores have in common; see `backends.folders.base` for what its methods promise."""

    _schema: str
    _known: KnownChannels

    @abstractmethod
    def _alone_with_tree(self) -> AbstractAsyncContextManager[S]:
        """A transaction that changes the tree, and no other one does meanwhile."""

    def _check_layout(self, new: NewFolder) -> None:
        """See that the server has a folder's layout.

        Raises:
            ConditionsRefused: it does not.
        """

    # --- the tree ----------------------------------------------------------------------------------------------------

    async def add_set(self, path: str, description: str = "") -> FolderSet:
        """Add a set, and those above it."""
        async with self._alone_with_tree() as session:
            return await tree.add_set(session, path, description)

    async def sets(self) -> Sequence[FolderSet]:
        """All sets, by path."""
        async with self._connected() as session:
            return await tree.sets(session)

    async def add_folder(self, new: NewFolder) -> Folder:
        """Add a folder, and the sets above it."""
        self._check_layout(new)
        async with self._alone_with_tree() as session:
            return await tree.add_folder(session, self._schema, new)

    async def folders(self) -> Sequence[Folder]:
        """All folders, by path."""
        async with self._connected() as session:
            return await tree.folders(session)

    async def folder(self, path: str) -> Folder:
        """One folder."""
        async with self._connected() as session:
            return await tree.folder(session, path)

    async def remove(self, path: str) -> None:
        """Remove a folder, or a set that is empty."""
        async with self._alone_with_tree() as session:
            tables = None
            if await tree.kind_of(session, path) != SET:
                there = await tree.stored_folder(session, path)
                tables = tables_of(self._schema, there.folder, there.token)
            await tree.remove(session, path, tables)

    async def add_channels(self, path: str, channels: Mapping[int, str]) -> None:
        """Add channels to a folder."""
        async with self._transaction() as session:
            await tree.add_channels(session, path, channels)

    async def channels(self, path: str) -> Mapping[int, str]:
        """Names of a folder's channels by number."""
        async with self._transaction(READ) as session:
            return await tree.channels_of(session, (await tree.stored_folder(session, path)).id)

    async def add_tag(self, path: str, name: str) -> Sequence[FolderTag]:
        """Name the versions that folders have now."""
        async with self._transaction() as session:
            return await tree.add_tag(session, path, name)

    async def tags(self, path: str) -> Sequence[FolderTag]:
        """Tags of a folder, by name."""
        async with self._transaction(READ) as session:
            return await tree.tags(session, await tree.stored_folder(session, path))

    async def remove_tag(self, path: str, name: str) -> None:
        """Remove a tag of a folder."""
        async with self._transaction() as session:
            await tree.remove_tag(session, path, name)

    # --- intervals ---------------------------------------------------------------------------------------------------

    async def insert(self, path: str, insertion: Insertion) -> bool:
        """Insert intervals into a folder, exactly once."""
        async with self._transaction() as session:
            return await insert(session, self._known, path, insertion)

    async def report(self, path: str, insertion: Insertion, *, whole: bool = False, rehearse: bool = False) -> Reported:
        """Insert reports on change, exactly once."""
        async with self._transaction() as session:
            return await report(session, self._known, path, insertion, whole=whole, rehearse=rehearse)

    async def position(self, path: str, source: str) -> JournalPosition | None:
        """Which insertion of a source was the last."""
        async with self._transaction(READ) as session:
            return await position_of(session, (await tree.stored_folder(session, path)).id, source)

    # --- questions ---------------------------------------------------------------------------------------------------

    async def snapshot(self, path: str, at: int, tag: str | None = None) -> Array:
        """What is valid at a time."""
        check_times(at=at)
        async with self._transaction(READ) as session:
            stored = await tree.stored_folder(session, path)
            version = await tree.version_of(session, stored, tag)
            rows = await snapshot(session, stored, at, version)
        return newest(as_block(stored, rows), rows["version"])

    async def history(self, path: str, channel: int, since: int, until: int, tag: str | None = None) -> Array:
        """Intervals of a channel."""
        check_span(since, until)
        async with self._transaction(READ) as session:
            stored = await tree.stored_folder(session, path)
            version = await tree.version_of(session, stored, tag)
            text = f"SELECT name FROM {session.channels} WHERE folder = $1 AND number = $2"
            if not 0 <= channel <= CHANNEL_MOST or not await session.fetch(text, stored.id, channel):
                raise unknown("channel", f"channel {channel} of {path}")
            span = Span(upto=until - 1, holds=since, channel=channel, version=version)
            found = await _pieces(session, stored, span)
            if len(found) and stored.folder.kind is FolderKind.MULTI:
                # What hides some of them may be beyond the span.
                first, last = hull(found)
                found = await _pieces(session, stored, replace(span, upto=last, holds=first))
        return holding(found, since, until)

    async def changes(self, path: str, after: int, upto: int, tag: str | None = None) -> Array:
        """Intervals that begin in a span of time."""
        check_times(after=after, upto=upto)
        async with self._transaction(READ) as session:
            stored = await tree.stored_folder(session, path)
            version = await tree.version_of(session, stored, tag)
            if stored.folder.kind is FolderKind.SINGLE:
                return await _pieces(session, stored, Span(upto=upto, after=after))
            found = await _pieces(session, stored, Span(upto=upto, holds=after, version=version))
        return found[(found["since"] > after) & (found["since"] <= upto)]


async def _pieces(session: FoldersSession, stored: StoredFolder, span: Span) -> Array:
    """What is found, as far as no newer version hides it, in the order of (channel, since)."""
    rows = await find(session, stored, span, all_fields(stored), opened=True)
    block = as_block(stored, rows)
    if stored.folder.kind is FolderKind.SINGLE:
        return sorted_block([block], stored.folder.dtype)
    return pieces(block, rows["version"])
