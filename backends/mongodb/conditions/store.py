"""A store of conditions in MongoDB, or in what speaks its protocol."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from backends.mongodb.conditions import names
from backends.mongodb.conditions.documents import (
    WITHOUT_DIRECTORIES,
    StoredList,
    lists_of,
    loose_document,
    loose_of,
    padded,
    revision_of,
    tag_of,
    type_of,
)
from backends.mongodb.conditions.editing import BLOCK, Ids, changes_of, edit, needs_end
from backends.mongodb.conditions.reading import (
    find_interval,
    find_intervals,
    find_page,
    read_between,
    read_intervals,
    read_list,
    read_lists,
    read_tag,
    read_valid,
)
from backends.mongodb.conditions.session import COUNTERS, LISTS, LOOSE, SEGMENTS, TAGS, TURN, TYPES
from backends.mongodb.conditions.sweeping import Sweeper
from backends.mongodb.conditions.turn_store import TurnStore
from backends.mongodb.conditions.turns import deleted, inserted
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
    check_interval,
    check_not_frozen,
    in_use,
    no_list,
    unknown,
)
from schemas.config import DatabaseConfig

COLLECTIONS = (TURN, TYPES, TAGS, LISTS, LOOSE, SEGMENTS, COUNTERS)
"""TURN is made first: a database that has it is one of conditions, however little a crash left of the others."""


class MongodbConditionsStore(TurnStore):
    """Conditions in MongoDB 5.0 or newer, or FerretDB 1.24; its methods promise what `ConditionsStore` says."""

    def __init__(
        self, database: DatabaseConfig, *, schema: str, password: str | None = None, connections: int = 4
    ) -> None:
        super().__init__(
            database,
            schema=schema,
            password=password,
            connections=connections,
            what="conditions",
            collections=COLLECTIONS,
        )
        self._ids = Ids()
        self._sweeper = Sweeper()

    # --- payload types, lists, tags --------------------------------------------------------------------------------

    async def add_type(self, name: str) -> PayloadType:
        """Add a payload type."""
        async with self._turn() as turn:
            return await names.add_type(turn, self._ids, name)

    async def types(self) -> Sequence[PayloadType]:
        """All payload types, by id."""
        async with self._session() as session:
            return [type_of(each) for each in await session.all(TYPES, {}, by="id")]

    async def remove_type(self, name: str) -> None:
        """Remove a payload type."""
        async with self._turn() as turn:
            await names.remove_type(turn, name)

    async def add_list(self, type: str) -> PayloadList:  # noqa: A002 - the field's name
        """Add an empty list of a type."""
        async with self._turn() as turn:
            return await names.add_list(turn, self._ids, type)

    async def lists(self) -> Sequence[PayloadList]:
        """All lists, by id."""
        async with self._session() as session:
            return [each.told() for each in await read_lists(session)]

    async def payload_list(self, name: str) -> PayloadList:
        """One list."""
        async with self._session() as session:
            return (await read_list(session, name)).told()

    async def remove_list(self, name: str) -> None:
        """Remove an empty list that no tag has."""
        async with self._turn() as turn:
            await names.remove_list(turn, name)

    async def attach_list(self, tag: str, name: str) -> PayloadList:
        """Give a list to a tag."""
        async with self._turn() as turn:
            return await names.attach_list(turn, tag, name)

    async def add_tag(self, name: str, status: TagStatus, author: str = "") -> GlobalTag:
        """Add a tag without lists."""
        async with self._turn() as turn:
            return await names.add_tag(turn, self._ids, name, status, author)

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
            return await names.set_status(turn, tag, status)

    async def clone_tag(self, source: str, name: str) -> GlobalTag:
        """Make an unlocked tag whose lists share their segments with those of another."""
        async with self._turn() as turn:
            return await names.clone_tag(turn, self._ids, source, name)

    async def remove_tag(self, name: str) -> None:
        """Remove a tag with its lists."""
        async with self._turn() as turn:
            await names.remove_tag(turn, name)

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

    async def interval_page(self, first: int, most: int, *, descending: bool = False) -> tuple[int, Sequence[Interval]]:
        """How many intervals there are, and some of them."""
        async with self._session() as session:
            return await find_page(session, first, most, descending=descending)

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

    def _next_id(self) -> int:
        return self._ids.next("interval")


def _extent(news: Sequence[NewInterval]) -> tuple[Key, Key]:
    return min(new.start for new in news), max(new.end for new in news)
