"""The store of conditions in a SQL database: each call is one transaction over one of a few connections."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TypeVar

from backends.sql.conditions import attaching, names, reading
from backends.sql.conditions.locks import list_id
from backends.sql.conditions.session import TAG_REVISION, ConditionsSession
from backends.sql.session import READ, SqlSessionStore
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
from schemas.conditions.rules import unknown

S = TypeVar("S", bound=ConditionsSession)


class SqlConditionsStore(SqlSessionStore[S]):
    """What the SQL stores have in common; see `backends.conditions` for what its methods promise."""

    # --- payload types, lists, tags -------------------------------------------------------------------------------

    async def add_type(self, name: str) -> PayloadType:
        """Add a payload type."""
        async with self._transaction() as session:
            return await names.add_type(session, name)

    async def types(self) -> Sequence[PayloadType]:
        """All payload types, by id."""
        async with self._connected() as session:
            return await names.types(session)

    async def remove_type(self, name: str) -> None:
        """Remove a payload type."""
        async with self._transaction() as session:
            await names.remove_type(session, name)

    async def add_list(self, type: str) -> PayloadList:  # noqa: A002 - the field's name
        """Add an empty list of a type."""
        async with self._transaction() as session:
            return await names.add_list(session, type)

    async def lists(self) -> Sequence[PayloadList]:
        """All lists, by id."""
        async with self._connected() as session:
            return await names.lists(session)

    async def payload_list(self, name: str) -> PayloadList:
        """One list."""
        async with self._connected() as session:
            return await names.payload_list(session, name)

    async def remove_list(self, name: str) -> None:
        """Remove a list that no tag has."""
        async with self._transaction() as session:
            await names.remove_list(session, name)

    async def attach_list(self, tag: str, name: str) -> PayloadList:
        """Give a list to a tag."""
        async with self._transaction() as session:
            return await names.attach_list(session, tag, name)

    async def add_tag(self, name: str, status: TagStatus, author: str = "") -> GlobalTag:
        """Add a tag without lists."""
        async with self._transaction() as session:
            return await names.add_tag(session, name, status, author)

    async def tags(self) -> Sequence[GlobalTag]:
        """All tags, by id."""
        async with self._connected() as session:
            return await names.tags(session)

    async def tag(self, name: str) -> GlobalTag:
        """One tag."""
        async with self._connected() as session:
            return await names.tag(session, name)

    async def tag_lists(self, tag: str) -> Mapping[str, str]:
        """Name of a tag's list by type."""
        async with self._connected() as session:
            return await names.tag_lists(session, tag)

    async def set_status(self, tag: str, status: TagStatus) -> GlobalTag:
        """Change a tag's status."""
        async with self._transaction() as session:
            return await names.set_status(session, tag, status)

    async def clone_tag(self, source: str, name: str) -> GlobalTag:
        """Make an unlocked tag that answers as another one does."""
        async with self._transaction() as session:
            return await names.clone_tag(session, source, name)

    async def remove_tag(self, name: str) -> None:
        """Remove a tag with its lists."""
        async with self._transaction() as session:
            await names.remove_tag(session, name)

    async def revisions(self) -> Sequence[TagRevision]:
        """Revision and status of every tag."""
        async with self._connected() as session:
            return await names.revisions(session)

    # --- intervals ------------------------------------------------------------------------------------------------

    async def add_interval(self, interval: NewInterval) -> Interval:
        """Store an interval that is in no list."""
        async with self._transaction() as session:
            return await attaching.add_interval(session, interval)

    async def interval(self, id: int) -> Interval:  # noqa: A002 - the field's name
        """One interval, in a list or not."""
        async with self._transaction(READ) as session:
            return await reading.interval(session, id)

    async def intervals(self, after_id: int, most: int) -> Sequence[Interval]:
        """Intervals with id > after_id, by id."""
        async with self._transaction(READ) as session:
            return await reading.intervals(session, after_id, most)

    async def interval_page(self, first: int, most: int, *, descending: bool = False) -> tuple[int, Sequence[Interval]]:
        """How many intervals there are, and some of them."""
        async with self._transaction(READ) as session:
            return await reading.interval_page(session, first, most, descending=descending)

    async def attach_interval(self, name: str, id: int) -> Interval:  # noqa: A002 - the field's name
        """Attach an interval to a list."""
        async with self._transaction() as session:
            return await attaching.attach_interval(session, name, id)

    async def insert(self, intervals: Mapping[str, Intervals]) -> int:
        """Attach many new intervals, all or none."""
        async with self._transaction() as session:
            return await attaching.insert(session, intervals)

    async def remove_interval(self, tag: str, type: str, start: Key, end: Key) -> None:  # noqa: A002 - the field's name
        """Remove the interval of a tag that has exactly this start and end."""
        async with self._transaction() as session:
            await attaching.remove_interval(session, tag, type, start, end)

    # --- questions ------------------------------------------------------------------------------------------------

    async def valid_at(self, tag: str, key: Key) -> tuple[TagRevision, Sequence[ValidAt]]:
        """What is valid at a key, by type."""
        async with self._connected() as session:
            return await reading.valid_at(session, tag, key)

    async def content(self, tag: str) -> AsyncIterator[TagRevision | ListContent]:
        """All of a tag as it is at one moment."""
        async with self._transaction(READ) as session:
            found = await session.fetch(
                f"SELECT {TAG_REVISION}, l.id, y.name, l.content FROM {session.tags} t"
                f" LEFT JOIN {session.lists} l ON l.tag = t.id LEFT JOIN {session.types} y ON y.id = l.type"
                f" WHERE t.name = $1",
                tag,
            )
            if not found:
                raise unknown("global_tag", tag)
            *about, _, _, _ = found[0]
            yield reading.revision_of(tag, about)
            lists = (row[len(about) :] for row in found)
            for type_, list_, content in sorted((each[1], each[0], each[2]) for each in lists if each[0] is not None):
                intervals = (await session.points(content)).intervals()
                yield ListContent(list_id=list_, list_name=f"{type_}_{list_}", type=type_, intervals=intervals)

    async def between(self, tag: str, type: str, first: Key, last: Key) -> tuple[TagRevision, Intervals]:  # noqa: A002
        """Intervals of one type of a tag that hold a key from `first` to `last`."""
        async with self._transaction(READ) as session:
            return await reading.between(session, tag, type, first, last)

    async def timeline(self, name: str) -> Intervals:
        """All intervals of one list."""
        async with self._transaction(READ) as session:
            await names.payload_list(session, name)
            text = f"SELECT content FROM {session.lists} WHERE id = $1"
            ((content,),) = await session.fetch(text, list_id(name))
            return (await session.points(content)).intervals()
