"""The store of folders in MongoDB, or in what speaks its protocol."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pymongo
from bson import Int64

from backends.base import StoreUnavailable, is_committed
from backends.mongodb.conditions.segments import Document
from backends.mongodb.conditions.session import Session
from backends.mongodb.conditions.turn_store import TurnStore
from backends.mongodb.conditions.turns import Turn, deleted, edited, inserted
from backends.mongodb.folders import nodes
from backends.mongodb.folders.intervals import Found, Intervals
from backends.mongodb.folders.nodes import CHANNELS, NODES, ROWS, SET, TURN
from backends.mongodb.schema.create import create_collection
from backends.mongodb.server.errors import login_refused
from schemas.batch import JournalPosition
from schemas.conditions.intervals import NAME_MOST
from schemas.conditions.rules import check_text, exists, unknown
from schemas.config import DatabaseConfig
from schemas.folders.blocks import (
    OPEN,
    Insertion,
    check_span,
    check_times,
    checked,
    checked_reports,
    see_channels,
)
from schemas.folders.folders import (
    Folder,
    FolderKind,
    FolderSet,
    FolderTag,
    NewFolder,
    check_empty,
    check_new_channels,
    check_new_folder,
    check_path,
    check_tag_name,
    is_below,
    is_no_set,
    no_versions,
    see_path,
    sets_above,
)
from schemas.folders.timeline import (
    Changes,
    Reported,
    changes_of_multi,
    changes_of_reports,
    changes_of_single,
    holding,
    longest_of,
    newest,
    pieces,
)
from schemas.readings import Array

VOID_MOST = 1_000
"""Of numbers that never happened, so many are remembered: a command is under way no longer than that."""
TRIES = 10
"""So often an answer is read again that more than LAG insertions have overtaken."""


class MongodbFoldersStore(TurnStore):
    """Folders in MongoDB 5.0 or newer, or FerretDB 1.24; its methods promise what `FoldersStore` says."""

    def __init__(
        self, database: DatabaseConfig, *, schema: str, password: str | None = None, connections: int = 4
    ) -> None:
        super().__init__(
            database,
            schema=schema,
            password=password,
            connections=connections,
            what="folders",
            collections=(TURN, NODES, CHANNELS),
        )

    async def create(self) -> None:
        """Create the collections or check them, and remove what a process that was killed has left."""
        await super().create()
        with login_refused():
            async with self._turn() as turn:
                there = {ROWS + each["token"] for each in await turn.session.all(NODES, {}) if each["kind"] != SET}
                with pymongo.timeout(self._timeout_s):
                    for name in await turn.session.database.list_collection_names():
                        if name.startswith(ROWS) and name not in there:
                            await turn.session.database.drop_collection(name)

    # --- the tree ----------------------------------------------------------------------------------------------------

    async def add_set(self, path: str, description: str = "") -> FolderSet:
        """Add a set, and those above it."""
        check_path(path)
        check_text("description", description, NAME_MOST)
        async with self._turn() as turn:
            above = await _missing_above(turn.session, path)
            made = nodes.set_document(path, description)
            await turn.commit([inserted(NODES, each) for each in (*above, made)])
        return nodes.set_of(made)

    async def sets(self) -> Sequence[FolderSet]:
        """All sets, by path."""
        async with self._session() as session:
            return [nodes.set_of(each) for each in await session.all(NODES, {"kind": SET})]

    async def add_folder(self, new: NewFolder) -> Folder:
        """Add a folder, and the sets above it."""
        check_new_folder(new)
        async with self._turn() as turn:
            above = await _missing_above(turn.session, new.path)
            made = nodes.folder_document(new)
            intervals = Intervals(turn.session, made)
            with pymongo.timeout(self._timeout_s):
                await create_collection(turn.session.database, {"create": intervals.name})
            await intervals.create()
            channels = {"_id": made["token"], "revision": Int64(1), **nodes.channels_fields(new.channels)}
            documents = [(CHANNELS, channels), *((NODES, each) for each in (*above, made))]
            await turn.commit([inserted(*each) for each in documents])
        return nodes.folder_of(made)

    async def folders(self) -> Sequence[Folder]:
        """All folders, by path."""
        async with self._session() as session:
            return [nodes.folder_of(each) for each in await session.all(NODES, {"kind": {"$ne": SET}})]

    async def folder(self, path: str) -> Folder:
        """One folder."""
        async with self._session() as session:
            return nodes.folder_of(await _node(session, path))

    async def remove(self, path: str) -> None:
        """Remove a folder, or a set that is empty."""
        async with self._turn() as turn:
            found = await _there(turn.session, path)
            if found["kind"] == SET:
                check_empty(path, (each["_id"] for each in await turn.session.all(NODES, {})))
                await turn.commit([deleted(NODES, path)])
                return
            await turn.commit([deleted(NODES, path), deleted(CHANNELS, found["token"])])
            with pymongo.timeout(self._timeout_s):
                await turn.session.database.drop_collection(ROWS + found["token"])

    async def add_channels(self, path: str, channels: Mapping[int, str]) -> None:
        """Add channels to a folder."""
        async with self._turn() as turn:
            found = await _channels(turn.session, await _node(turn.session, path))
            known = nodes.channels_of(found)
            check_new_channels(channels, known)
            fields = nodes.channels_fields({**known, **channels})
            await turn.commit([edited(CHANNELS, found["_id"], int(found["revision"]), fields)])

    async def channels(self, path: str) -> Mapping[int, str]:
        """Names of a folder's channels by number."""
        async with self._session() as session:
            return nodes.channels_of(await _channels(session, await _node(session, path)))

    async def add_tag(self, path: str, name: str) -> Sequence[FolderTag]:
        """Name the versions that folders have now."""
        check_tag_name(name)
        async with self._turn() as turn:
            found = await _there(turn.session, path)
            every = await turn.session.all(NODES, {}) if found["kind"] == SET else [found]
            within = [each for each in every if each["_id"] == path or is_below(each["_id"], path)]
            multi = [each for each in within if each["kind"] == FolderKind.MULTI]
            if not multi:
                raise no_versions(path)
            changes, made, now_ns = [], [], time.time_ns()
            for each in multi:
                tags = nodes.tags_of(each)
                if name in {tag.name for tag in tags}:
                    raise exists("tag", f"tag {name} of {each['_id']}")
                version = int(each["version"])
                tag = FolderTag(path=each["_id"], name=name, version=version, created_ns=now_ns)
                fields = {"tags": [*each["tags"], nodes.tag_field(tag, each["written"])]}
                changes.append(edited(NODES, each["_id"], int(each["revision"]), fields))
                made.append(tag)
            await turn.commit(changes)
        return made

    async def tags(self, path: str) -> Sequence[FolderTag]:
        """Tags of a folder, by name."""
        async with self._session() as session:
            return nodes.tags_of(await _node(session, path))

    async def remove_tag(self, path: str, name: str) -> None:
        """Remove a tag of a folder."""
        async with self._turn() as turn:
            found = await _node(turn.session, path)
            _written(found, name)
            fields = {"tags": [tag for tag in found["tags"] if tag["name"] != name]}
            await turn.commit([edited(NODES, path, int(found["revision"]), fields)])

    # --- intervals ---------------------------------------------------------------------------------------------------

    async def insert(self, path: str, insertion: Insertion) -> bool:
        """Insert intervals into a folder, exactly once."""
        async with self._turn() as turn:
            node = await _node(turn.session, path)
            folder = nodes.folder_of(node)
            block = checked(folder, insertion)
            if _is_there(node, insertion):
                return False
            see_channels(block, nodes.numbers_of(await _channels(turn.session, node)), path)
            found = await _touched(Intervals(turn.session, node), folder, block)
            await self._change(turn, node, insertion, _changes(folder, block, found), found)
        return True

    async def report(self, path: str, insertion: Insertion, *, whole: bool = False, rehearse: bool = False) -> Reported:
        """Insert reports on change, exactly once."""
        async with self._turn() as turn:
            node = await _node(turn.session, path)
            reports = checked_reports(nodes.folder_of(node), insertion)
            is_there = _is_there(node, insertion)
            see_channels(reports, nodes.numbers_of(await _channels(turn.session, node)), path)
            found = await Intervals(turn.session, node).near(turn, reports)
            changes, reported = changes_of_reports(reports, found.block)
            if is_there or rehearse or (whole and reported.conflicts):
                return replace(reported, stored=0)
            await self._change(turn, node, insertion, changes, found)
        return reported

    async def _change(self, turn: Turn, node: Document, insertion: Insertion, changes: Changes, found: Found) -> None:
        path, revision, number = node["_id"], int(node["revision"]), int(node["given"]) + 1
        # From here on, whatever was under way for an older revision of the folder does not happen any more.
        await turn.note(edited(NODES, path, revision, {"given": Int64(number)}))
        void = [*map(int, node["void"]), *range(int(node["written"]) + 1, number)][-VOID_MOST:]
        intervals = Intervals(turn.session, {**node, "void": void})
        if number > int(node["written"]) + 1:
            await intervals.remove_void(void)
        await intervals.write(turn, number, changes, found.ids)
        lengths = nodes.lengths_of(node)
        for part in (changes.closed, changes.replaced):
            for each, longest in longest_of(part).items():
                lengths[each] = max(longest, lengths.get(each, 0))
        fields = {
            "version": Int64(int(node["version"]) + 1),
            "written": Int64(number),
            "void": list(map(Int64, void)),
            "lengths": nodes.lengths_field(lengths),
            "positions": nodes.positions_field(node, insertion.source, insertion.position),
        }
        await turn.commit([edited(NODES, path, revision + 1, fields)])

    async def position(self, path: str, source: str) -> JournalPosition | None:
        """Which insertion of a source was the last."""
        async with self._session() as session:
            return nodes.position_in(await _node(session, path), source)

    # --- questions ---------------------------------------------------------------------------------------------------

    async def snapshot(self, path: str, at: int, tag: str | None = None) -> Array:
        """What is valid at a time."""
        check_times(at=at)
        found = await self._ask(path, tag, lambda intervals: intervals.overlapping(at, at))
        return newest(found.block, found.versions)

    async def history(self, path: str, channel: int, since: int, until: int, tag: str | None = None) -> Array:
        """Intervals of a channel."""
        check_span(since, until)
        if channel not in await self.channels(path):
            raise unknown("channel", f"channel {channel} of {path}")
        only = {"$eq": channel}
        found = await self._ask(path, tag, lambda intervals: intervals.touching(since, until - 1, only))
        return holding(pieces(found.block, found.versions), since, until)

    async def changes(self, path: str, after: int, upto: int, tag: str | None = None) -> Array:
        """Intervals that begin in a span of time."""
        check_times(after=after, upto=upto)
        found = await self._ask(path, tag, lambda intervals: intervals.changing(after, upto))
        block = pieces(found.block, found.versions)
        return block[(block["since"] > after) & (block["since"] <= upto)]

    async def _ask(self, path: str, tag: str | None, ask: Callable[[Intervals], Awaitable[Found]]) -> Found:
        """Ask, and again where so many insertions have happened meanwhile that the answer may lack some of it."""
        async with self._session() as session:
            for _ in range(TRIES):
                node = await _node(session, path)
                intervals = Intervals(session, node, _written(node, tag))
                found = await ask(intervals)
                if intervals.were_not_overtaken(await _node(session, path)):
                    return found
        raise StoreUnavailable(f"{self._target}: folder {path} changes faster than it can be read")


async def _node(session: Session, path: str) -> Document:
    """The document of a folder.

    Raises:
        ConditionsRefused: there is none.
    """
    see_path(path)
    found = await session.one(NODES, path)
    if found is None or found["kind"] == SET:
        raise unknown("path", f"folder {path}")
    return found


async def _there(session: Session, path: str) -> Document:
    """The document of a folder or a set.

    Raises:
        ConditionsRefused: there is none.
    """
    see_path(path)
    found = await session.one(NODES, path)
    if found is None:
        raise unknown("path", path)
    return found


async def _channels(session: Session, node: Document) -> Document:
    """The document of a folder's channels."""
    found = await session.one(CHANNELS, node["token"])
    if found is None:
        raise unknown("path", f"folder {node['_id']}")  # it was removed a moment ago
    return found


async def _missing_above(session: Session, path: str) -> list[Document]:
    """Sets that are to be added above something new; sees that nothing has its path, nor a folder one above it.

    Raises:
        ConditionsRefused: something has.
    """
    if await session.one(NODES, path) is not None:
        raise exists("path", path)
    missing = []
    for above in sets_above(path):
        found = await session.one(NODES, above)
        if found is None:
            missing.append(nodes.set_document(above, ""))
        elif found["kind"] != SET:
            raise is_no_set(above)
    return missing


def _is_there(node: Document, insertion: Insertion) -> bool:
    there = nodes.position_in(node, insertion.source)
    return is_committed(there or JournalPosition(sequence=0), insertion)


async def _touched(intervals: Intervals, folder: Folder, block: Array) -> Found:
    """What decides whether intervals of a single-version folder overlap, and what they end."""
    if folder.kind is FolderKind.MULTI or not len(block):
        return Found(block=block[:0], versions=np.empty(0, np.int64), ids={})
    least, most = int(block["channel"].min()), int(block["channel"].max())
    # What ends where the first one begins, too: it may be an end.
    after = int(block["since"].min()) - 1
    return await intervals.overlapping(after, int(block["until"].max()), {"$gte": least, "$lte": most})


def _changes(folder: Folder, block: Array, found: Found) -> Changes:
    if folder.kind is FolderKind.MULTI:
        return changes_of_multi(block)
    is_open = found.block["until"] == OPEN
    opened = found.block[is_open & np.isin(found.block["channel"], block["channel"])]
    return changes_of_single(block, opened, found.block[~is_open])


def _written(node: Document, tag: str | None) -> int | None:
    """The number of the newest insertion that a tag shows; None is the newest that there is.

    Raises:
        ConditionsRefused: there is no such tag.
    """
    if tag is None:
        return None
    for each in node["tags"]:
        if each["name"] == tag:
            return int(each["written"])
    raise unknown("tag", f"tag {tag!r} of {node['_id']}")
