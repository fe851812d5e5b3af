"""A store of conditions in MongoDB, or in what speaks its protocol."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pymongo
from bson import Int64
from pymongo import ReadPreference

from backends.base import SchemaMismatch
from backends.mongodb.conditions.documents import (
    NO_SEGMENTS,
    WITHOUT_DIRECTORIES,
    StoredList,
    fields_of,
    lists_of,
    loose_document,
    loose_of,
    padded,
    revision_of,
    tag_document,
    tag_of,
    type_of,
)
from backends.mongodb.conditions.editing import BLOCK, Ids, changes_of, edit, needs_end
from backends.mongodb.conditions.reading import (
    find_interval,
    find_intervals,
    read_between,
    read_intervals,
    read_list,
    read_lists,
    read_tag,
    read_valid,
)
from backends.mongodb.conditions.segments import Document
from backends.mongodb.conditions.session import COUNTERS, LISTS, LOOSE, SEGMENTS, TAGS, TURN, TYPES, Session
from backends.mongodb.conditions.sweeping import Sweeper
from backends.mongodb.conditions.turns import Change, Turn, Turns, deleted, edited, inserted
from backends.mongodb.schema.create import check_rights, create_collection
from backends.mongodb.server.client import Client, make_client, target_of
from backends.mongodb.server.errors import login_refused, translated
from backends.mongodb.server.facts import check_server, meet_server
from schemas.batch import Durability
from schemas.conditions.intervals import (
    GlobalTag,
    Interval,
    Intervals,
    Key,
    ListContent,
    NewInterval,
    PayloadList,
    PayloadType,
    TagRevision,
    TagStatus,
    ValidAt,
)
from schemas.conditions.line import Line, interval_of, point_of, rows_of
from schemas.conditions.rules import (
    ConditionsRefused,
    check_changes_list_of,
    check_interval,
    check_name,
    check_not_frozen,
    check_removal,
    check_status_change,
    check_tag,
    exists,
    in_use,
    no_list,
    unknown,
)
from schemas.config import DatabaseConfig

COLLECTIONS = (TURN, TYPES, TAGS, LISTS, LOOSE, SEGMENTS, COUNTERS)
"""TURN is made first: a database that has it is one of conditions, however little a crash left of the others."""


class MongodbConditionsStore:
    """Conditions in MongoDB 5.0 or newer, or FerretDB 1.24; its methods promise what `ConditionsStore` says."""

    def __init__(
        self, database: DatabaseConfig, *, schema: str, password: str | None = None, connections: int = 4
    ) -> None:
        assert database.dsn is not None
        self._dsn, self._password = database.dsn, password
        self._schema, self._connections = schema, connections
        self._timeout_s = database.command_timeout_s
        self._target = target_of(database.dsn)
        self._client: Client | None = None
        self._opened: Session | None = None
        self._turns = Turns()
        self._ids = Ids()
        self._sweeper = Sweeper()

    async def create(self) -> None:
        """Create the collections or check them, and complete what a process that was killed has left."""
        with login_refused():
            async with self._session() as session:
                with pymongo.timeout(self._timeout_s):
                    await check_rights(session.database, self._target)
                    await self._see_free(session)
                    for name in COLLECTIONS:
                        await create_collection(session.database, {"create": name})
                await self._turns.complete_abandoned(session)

    async def close(self) -> None:
        """Give back the connections."""
        client, self._client, self._opened = self._client, None, None
        if client is not None:
            await client.close()

    async def drop(self) -> None:
        """Remove the database, where it is one of conditions."""
        async with self._session() as session:
            with pymongo.timeout(self._timeout_s):
                await self._see_free(session)
                await session.database.client.drop_database(self._schema)
        self._ids.forget()

    # --- payload types, lists, tags --------------------------------------------------------------------------------

    async def add_type(self, name: str) -> PayloadType:
        """Add a payload type."""
        check_name("payload_type", name)
        async with self._turn() as turn:
            if await turn.session.one(TYPES, name) is not None:
                raise exists("payload_type", name)
            made = {"_id": name, "id": await self._new_id(turn, "type"), "created_ns": Int64(time.time_ns())}
            await turn.commit([inserted(TYPES, made)])
        return type_of(made)

    async def types(self) -> Sequence[PayloadType]:
        """All payload types, by id."""
        async with self._session() as session:
            return [type_of(each) for each in await session.all(TYPES, {}, by="id")]

    async def remove_type(self, name: str) -> None:
        """Remove a payload type."""
        async with self._turn() as turn:
            await _see_type(turn.session, name)
            lists = await turn.session.all(LISTS, {"type": name}, {"type": 1}, most=1)
            if lists:
                raise in_use("payload_type", name, f"payload list {name}_{int(lists[0]['_id'])}")
            await turn.commit([deleted(TYPES, name)])

    async def add_list(self, type: str) -> PayloadList:  # noqa: A002 - the field's name
        """Add an empty list of a type."""
        async with self._turn() as turn:
            await _see_type(turn.session, type)
            made = StoredList(
                id=await self._new_id(turn, "list"),
                type=type,
                created_ns=time.time_ns(),
                tag=None,
                status=None,
                revision=1,
                own_revision=1,
                directory=NO_SEGMENTS,
                intervals=0,
            )
            await turn.commit([inserted(LISTS, made.document())])
        return made.told()

    async def lists(self) -> Sequence[PayloadList]:
        """All lists, by id."""
        async with self._session() as session:
            return [each.told() for each in await read_lists(session)]

    async def payload_list(self, name: str) -> PayloadList:
        """One list."""
        async with self._session() as session:
            return (await read_list(session, name)).told()

    async def remove_list(self, name: str) -> None:
        """Remove a list that no tag has."""
        async with self._turn() as turn:
            found = await read_list(turn.session, name)
            if found.tag is not None:
                raise in_use("payload_list", name, f"global tag {found.tag}")
            await turn.commit([deleted(LISTS, padded(found.id))])

    async def attach_list(self, tag: str, name: str) -> PayloadList:
        """Give a list to a tag."""
        async with self._turn() as turn:
            document, found = await read_tag(turn.session, tag), await read_list(turn.session, name)
            if found.tag not in (None, tag):
                raise in_use("payload_list", name, f"global tag {found.tag}")
            earlier = next((each for each in lists_of(document) if each.type == found.type), None)
            check_changes_list_of(TagStatus(document["status"]), has_type=earlier is not None)
            if found.tag == tag:
                return found.told()
            if earlier is not None:
                earlier = await read_list(turn.session, earlier.name)
            attached = found.in_tag(document)
            await turn.commit(_moves(document, attached, earlier))
        return attached.told()

    async def add_tag(self, name: str, status: TagStatus, author: str = "") -> GlobalTag:
        """Add a tag without lists."""
        check_tag(name, author)
        async with self._turn() as turn:
            await _see_free_name(turn.session, name)
            made = tag_document(
                await self._new_id(turn, "tag"), name, author=author, status=status, now_ns=time.time_ns()
            )
            await turn.commit([inserted(TAGS, made)])
        return tag_of(made)

    async def tags(self) -> Sequence[GlobalTag]:
        """All tags, by id."""
        async with self._session() as session:
            return [tag_of(each) for each in await session.all(TAGS, {}, WITHOUT_DIRECTORIES, by="id")]

    async def tag(self, name: str) -> GlobalTag:
        """One tag."""
        async with self._session() as session:
            return tag_of(await read_tag(session, name, WITHOUT_DIRECTORIES))

    async def tag_lists(self, tag: str) -> Mapping[str, str]:
        """Name of a tag's list by type."""
        async with self._session() as session:
            found = await read_tag(session, tag, WITHOUT_DIRECTORIES)
        return {each.type: each.name for each in lists_of(found)}

    async def set_status(self, tag: str, status: TagStatus) -> GlobalTag:
        """Change a tag's status."""
        async with self._turn() as turn:
            found = await read_tag(turn.session, tag, WITHOUT_DIRECTORIES)
            check_status_change(TagStatus(found["status"]))
            if found["status"] != status.value:
                fields = {"status": status.value, "updated_ns": Int64(time.time_ns())}
                await turn.commit([edited(TAGS, tag, found["revision"], fields)])
                found = {**found, **fields, "revision": found["revision"] + 1}
        return tag_of(found)

    async def clone_tag(self, source: str, name: str) -> GlobalTag:
        """Make an unlocked tag whose lists share their segments with those of another."""
        async with self._turn() as turn:
            found = await read_tag(turn.session, source)
            check_tag(name, found["author"])
            await _see_free_name(turn.session, name)
            now_ns, shared = time.time_ns(), lists_of(found)
            await self._ids.reserve(turn.session, "list", len(shared))
            lists = [
                replace(
                    each, id=self._ids.next("list"), created_ns=now_ns, tag=name, status=TagStatus.UNLOCKED, revision=1
                )
                for each in shared
            ]
            id_ = await self._new_id(turn, "tag")
            made = tag_document(
                id_, name, author=found["author"], status=TagStatus.UNLOCKED, now_ns=now_ns, lists=lists
            )
            await turn.commit([inserted(TAGS, made), *(inserted(LISTS, each.document()) for each in lists)])
        return tag_of(made)

    async def remove_tag(self, name: str) -> None:
        """Remove a tag with its lists."""
        async with self._turn() as turn:
            found = await read_tag(turn.session, name, WITHOUT_DIRECTORIES)
            check_removal(TagStatus(found["status"]))
            lists = [deleted(LISTS, padded(each.id)) for each in lists_of(found)]
            await turn.commit([deleted(TAGS, name), *lists])

    async def revisions(self) -> Sequence[TagRevision]:
        """Revision and status of every tag; whoever asks every second also completes what others left, and sweeps."""
        async with self._session() as session:
            await self._turns.complete_abandoned(session)
            if self._sweeper.is_due:
                async with self._turns.turn(session) as turn:
                    await self._sweeper.sweep(turn)
            about = {"id": 1, "status": 1, "revision": 1, "updated_ns": 1}
            return [revision_of(each) for each in await session.all(TAGS, {}, about, by="id")]

    # --- intervals ---------------------------------------------------------------------------------------------------

    async def add_interval(self, interval: NewInterval) -> Interval:
        """Store an interval that is in no list."""
        check_interval(interval)
        async with self._turn() as turn:
            await self._ids.reserve(turn.session, "interval", 1, BLOCK)
            made = interval_of(point_of(interval, self._next_id(), time.time_ns()), interval.end)
            await turn.commit([inserted(LOOSE, loose_document(made))])
        return made

    async def interval(self, id: int) -> Interval:  # noqa: A002 - the field's name
        """One interval, in a list or not."""
        async with self._session() as session:
            return await find_interval(session, id)

    async def intervals(self, after_id: int, most: int) -> Sequence[Interval]:
        """Intervals with id > after_id, by id."""
        async with self._session() as session:
            return await find_intervals(session, after_id, most)

    async def attach_interval(self, name: str, id: int) -> Interval:  # noqa: A002 - the field's name
        """Attach an interval to a list."""
        async with self._turn() as turn:
            to = await read_list(turn.session, name)
            document = await turn.session.one(LOOSE, padded(id)) if 0 < id < 2**63 else None
            if document is None:
                has_it = (await find_interval(turn.session, id)).list
                raise in_use("piov_id", id, f"payload list {has_it}")
            found = loose_of(document)
            await self._ids.reserve(turn.session, "interval", 1, BLOCK)
            point = point_of(found, id, found.inserted_ns)

            def attach(line: Line) -> list[Interval]:
                return line.attach(point, found.end, to.status, self._next_id)

            changed, detached = await edit(turn, to, found.start, found.end, attach, to_end=needs_end(to))
            changes = await changes_of(turn, [changed], {name: detached}, time.time_ns())
            await turn.commit([*changes, deleted(LOOSE, padded(id))])
        return replace(found, list=name)

    async def insert(self, intervals: Mapping[str, Intervals]) -> int:
        """Attach many new intervals, all or none."""
        count, now_ns = sum(map(len, intervals.values())), time.time_ns()
        async with self._turn() as turn:
            lists = {name: await read_list(turn.session, name) for name in intervals}
            # Each may split another.
            await self._ids.reserve(turn.session, "interval", 2 * count, BLOCK)
            changed: list[StoredList] = []
            detached: dict[str, list[Interval]] = {}
            for name, many in intervals.items():
                if len(many):
                    news, to = rows_of(many), lists[name]
                    first, last = _extent(news)
                    attach = partial(self._attach_many, name, news, to.status, now_ns)
                    made, detached[name] = await edit(turn, to, first, last, attach, to_end=needs_end(to))
                    changed.append(made)
            await turn.commit(await changes_of(turn, changed, detached, now_ns))
        return count

    async def remove_interval(self, tag: str, type: str, start: Key, end: Key) -> None:  # noqa: A002 - the field's name
        """Remove the interval of a tag that has exactly this start and end."""
        async with self._turn() as turn:
            found = await read_tag(turn.session, tag)
            check_not_frozen(TagStatus(found["status"]))
            of = next((each for each in lists_of(found) if each.type == type), None)
            if of is None:
                raise unknown("payload_type", type)

            def remove(line: Line) -> None:
                if line.remove(start, end) is None:
                    raise unknown("major_iov", f"an interval from {tuple(start)} to {tuple(end)}")

            changed, _ = await edit(turn, of, start, end, remove)
            await turn.commit(await changes_of(turn, [changed], {}, time.time_ns()))

    # --- questions ---------------------------------------------------------------------------------------------------

    async def valid_at(self, tag: str, key: Key) -> tuple[TagRevision, Sequence[ValidAt]]:
        """What is valid at a key, by type."""
        async with self._session() as session:
            found = await read_tag(session, tag)
            return revision_of(found), await read_valid(session, found, key)

    async def content(self, tag: str) -> AsyncIterator[TagRevision | ListContent]:
        """All of a tag as it is at one moment."""
        async with self._session() as session:
            found = await read_tag(session, tag)
        yield revision_of(found)
        for each in lists_of(found):
            async with self._session() as session:
                intervals = await read_intervals(session, each)
            yield ListContent(list_id=each.id, list_name=each.name, type=each.type, intervals=intervals)

    async def between(self, tag: str, type: str, first: Key, last: Key) -> tuple[TagRevision, Intervals]:  # noqa: A002
        """Intervals of one type of a tag that hold a key from `first` to `last`."""
        async with self._session() as session:
            found = await read_tag(session, tag)
            of = next((each for each in lists_of(found) if each.type == type), None)
            if of is None:
                raise no_list(tag, type)
            return revision_of(found), await read_between(session, of, first, last)

    async def timeline(self, name: str) -> Intervals:
        """All intervals of one list."""
        async with self._session() as session:
            return await read_intervals(session, await read_list(session, name))

    def _attach_many(
        self, name: str, news: Sequence[NewInterval], status: TagStatus | None, now_ns: int, line: Line
    ) -> list[Interval]:
        detached: list[Interval] = []
        for k, new in enumerate(news):
            try:
                check_interval(new)
                detached += line.attach(point_of(new, self._next_id(), now_ns), new.end, status, self._next_id)
            except ConditionsRefused as refusal:
                raise refusal.within(f"{name}[{k}]") from None
        return detached

    async def _new_id(self, turn: Turn, kind: str) -> Int64:
        await self._ids.reserve(turn.session, kind, 1)
        return Int64(self._ids.next(kind))

    def _next_id(self) -> int:
        return self._ids.next("interval")

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Turn]:
        async with self._session() as session, self._turns.turn(session) as turn:
            yield turn

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        with translated(self._target):
            yield await self._connected()

    async def _connected(self) -> Session:
        if self._client is None:
            self._client = make_client(
                self._dsn,
                password=self._password,
                program="triggerlog conditions",
                timeout_s=self._timeout_s,
                connections=self._connections,
            )
        if self._opened is None:
            database = self._client.get_database(self._schema, read_preference=ReadPreference.PRIMARY)
            server = await meet_server(database, self._timeout_s)
            check_server(server, self._target)
            self._opened = Session(
                database=database,
                server=server,
                target=self._target,
                concern=server.write_concern(Durability.SYNC, self._timeout_s),
                timeout_s=self._timeout_s,
            )
        return self._opened

    async def _see_free(self, session: Session) -> None:
        """See that a database has nothing, or conditions.

        Raises:
            SchemaMismatch: it has something else.
        """
        there = await session.database.list_collection_names()
        if there and TURN not in there:
            raise SchemaMismatch(
                f"database {self._schema!r} of {self._target} has a collection {min(there)!r} and no conditions; set"
                " another `schema` in [conditions]"
            )


async def _see_type(session: Session, name: str) -> None:
    if await session.one(TYPES, name) is None:
        raise unknown("payload_type", name)


async def _see_free_name(session: Session, name: str) -> None:
    if await session.one(TAGS, name, {"id": 1}) is not None:
        raise exists("global_tag", name)


def _extent(news: Sequence[NewInterval]) -> tuple[Key, Key]:
    return min(new.start for new in news), max(new.end for new in news)


def _moves(tag: Document, attached: StoredList, earlier: StoredList | None) -> list[Change]:
    """The changes that put a list into a tag, and take out the one of its type that was there."""
    own = edited(LISTS, padded(attached.id), attached.own_revision, {"tag": attached.tag}, ("directory", "intervals"))
    fields = {**attached.fields(), "updated_ns": Int64(time.time_ns())}
    if earlier is None:
        return [own, edited(TAGS, tag["_id"], int(tag["revision"]), fields)]
    out = {"tag": None, **earlier.in_tag(None).fields()}
    return [
        own,
        edited(LISTS, padded(earlier.id), earlier.own_revision, out),
        edited(TAGS, tag["_id"], int(tag["revision"]), fields, fields_of(earlier.id)),
    ]
