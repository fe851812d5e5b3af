"""A store of conditions in memory, for tests: it keeps every promise of `ConditionsStore` but to last.

A list's breakpoints are never changed but replaced, so that clones share them, and what is read is of one moment.
"""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from backends.base import StoreError
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
from schemas.conditions.line import Line, columns_of, interval_of, point_of, rows_of
from schemas.conditions.rules import (
    ConditionsRefused,
    check_changes_list_of,
    check_interval,
    check_name,
    check_not_frozen,
    check_removal,
    check_status_change,
    check_tag,
    check_takes_interval,
    exists,
    has_intervals,
    in_use,
    no_list,
    unknown,
)


@dataclass(kw_only=True)
class _List:
    id: int
    type: str
    created_ns: int
    line: Line
    tag: str | None = None

    @property
    def name(self) -> str:
        return f"{self.type}_{self.id}"


@dataclass(kw_only=True)
class _Tag:
    id: int
    name: str
    author: str
    status: TagStatus
    created_ns: int
    updated_ns: int
    revision: int = 1
    lists: dict[str, _List] = field(default_factory=dict)


class MemoryConditionsStore:
    """A store of conditions that forgets everything with its process; its methods are those of `ConditionsStore`."""

    def __init__(self) -> None:
        self._failure: Exception | None = None
        self._clear()

    def _clear(self) -> None:
        self._types: dict[str, PayloadType] = {}
        self._lists: dict[str, _List] = {}
        self._tags: dict[str, _Tag] = {}
        self._loose: dict[int, Interval] = {}
        self._ids = {name: count(1) for name in ("type", "list", "tag", "interval")}

    def fail_with(self, error: StoreError | None) -> None:
        """Make every call raise this, until it is called with None."""
        self._failure = error

    async def create(self) -> None:
        """There is nothing to create."""
        self._check()

    async def check(self) -> None:
        """There is nothing to create."""
        self._check()

    async def close(self) -> None:
        """There is nothing to give back."""

    async def drop(self) -> None:
        """Forget everything."""
        self._check()
        self._clear()

    # --- payload types, lists, tags --------------------------------------------------------------------------------

    async def add_type(self, name: str) -> PayloadType:
        """Add a payload type."""
        self._check()
        check_name("payload_type", name)
        if name in self._types:
            raise exists("payload_type", name)
        self._types[name] = made = PayloadType(id=next(self._ids["type"]), name=name, created_ns=time.time_ns())
        return made

    async def types(self) -> Sequence[PayloadType]:
        """All payload types, by id."""
        self._check()
        return list(self._types.values())

    async def remove_type(self, name: str) -> None:
        """Remove a payload type."""
        self._see_type(name)
        found = next((each for each in self._lists.values() if each.type == name), None)
        if found is not None:
            raise in_use("payload_type", name, f"payload list {found.name}")
        del self._types[name]

    async def add_list(self, type: str) -> PayloadList:  # noqa: A002 - the field's name
        """Add an empty list of a type."""
        self._see_type(type)
        return _told(self._new_list(type, Line()))

    async def lists(self) -> Sequence[PayloadList]:
        """All lists, by id."""
        self._check()
        return [_told(each) for each in self._lists.values()]

    async def payload_list(self, name: str) -> PayloadList:
        """One list."""
        return _told(self._list(name))

    async def remove_list(self, name: str) -> None:
        """Remove an empty list."""
        found = self._list(name)
        check_not_frozen(self._status(found))
        if found.line.count:
            raise has_intervals(name, found.line.count)
        del self._lists[name]
        if found.tag is not None:
            del self._tags[found.tag].lists[found.type]
            _touch(self._tags[found.tag])

    async def attach_list(self, tag: str, name: str) -> PayloadList:
        """Give a list to a tag."""
        to, found = self._tag(tag), self._list(name)
        if found.tag not in (None, tag):
            raise in_use("payload_list", name, f"global tag {found.tag}")
        earlier = to.lists.get(found.type)
        check_changes_list_of(to.status, has_type=earlier is not None)
        if earlier is not found:
            if earlier is not None:
                earlier.tag = None
            found.tag, to.lists[found.type] = tag, found
            _touch(to)
        return _told(found)

    async def add_tag(self, name: str, status: TagStatus, author: str = "") -> GlobalTag:
        """Add a tag without lists."""
        self._check()
        return self._described(self._new_tag(name, status, author))

    async def tags(self) -> Sequence[GlobalTag]:
        """All tags, by id."""
        self._check()
        return [self._described(each) for each in self._tags.values()]

    async def tag(self, name: str) -> GlobalTag:
        """One tag."""
        return self._described(self._tag(name))

    async def tag_lists(self, tag: str) -> Mapping[str, str]:
        """Name of a tag's list by type."""
        return {type_: each.name for type_, each in self._tag(tag).lists.items()}

    async def set_status(self, tag: str, status: TagStatus) -> GlobalTag:
        """Change a tag's status."""
        found = self._tag(tag)
        check_status_change(found.status)
        if found.status is not status:
            found.status = status
            _touch(found)
        return self._described(found)

    async def clone_tag(self, source: str, name: str) -> GlobalTag:
        """Make an unlocked tag whose lists share their breakpoints with those of another."""
        found = self._tag(source)
        made = self._new_tag(name, TagStatus.UNLOCKED, found.author)
        for each in found.lists.values():
            made.lists[each.type] = self._new_list(each.type, each.line, tag=name)
        return self._described(made)

    async def remove_tag(self, name: str) -> None:
        """Remove a tag with its lists."""
        found = self._tag(name)
        check_removal(found.status)
        for each in found.lists.values():
            del self._lists[each.name]
        del self._tags[name]

    async def revisions(self) -> Sequence[TagRevision]:
        """Revision and status of every tag."""
        self._check()
        return [_revision(each) for each in self._tags.values()]

    # --- intervals ---------------------------------------------------------------------------------------------------

    async def add_interval(self, interval: NewInterval) -> Interval:
        """Store an interval that is in no list."""
        self._check()
        check_interval(interval)
        made = interval_of(point_of(interval, next(self._ids["interval"]), time.time_ns()), interval.end)
        self._loose[made.id] = made
        return made

    async def interval(self, id: int) -> Interval:  # noqa: A002 - the field's name
        """One interval, in a list or not."""
        self._check()
        found = self._every_interval().get(id)
        if found is None:
            raise unknown("piov_id", id)
        return found

    async def intervals(self, after_id: int, most: int) -> Sequence[Interval]:
        """Intervals with id > after_id, by id."""
        self._check()
        every = self._every_interval()
        return [every[id_] for id_ in sorted(id_ for id_ in every if id_ > after_id)[:most]]

    async def interval_page(self, first: int, most: int, *, descending: bool = False) -> tuple[int, Sequence[Interval]]:
        """How many intervals there are, and some of them."""
        self._check()
        every = self._every_interval()
        return len(every), [every[id_] for id_ in sorted(every, reverse=descending)[first : first + most]]

    async def attach_interval(self, name: str, id: int) -> Interval:  # noqa: A002 - the field's name
        """Attach an interval to a list."""
        to = self._list(name)
        found = self._loose.get(id)
        if found is None:
            has_it = (await self.interval(id)).list
            raise in_use("piov_id", id, f"payload list {has_it}")
        line = to.line.copy()
        detached = line.attach(point_of(found, id, found.inserted_ns), found.end, self._status(to), self._next_id)
        del self._loose[id]
        self._replace({to.name: line}, detached)
        return _in(found, to)

    async def insert(self, intervals: Mapping[str, Intervals]) -> int:
        """Attach many new intervals, all or none."""
        lines = {name: self._list(name).line.copy() for name in intervals}
        detached: list[Interval] = []
        now_ns = time.time_ns()
        for name, many in intervals.items():
            status = self._status(self._list(name))
            for k, new in enumerate(rows_of(many)):
                try:
                    check_interval(new)
                    point = point_of(new, self._next_id(), now_ns)
                    detached += lines[name].attach(point, new.end, status, self._next_id)
                except ConditionsRefused as refusal:
                    raise refusal.within(f"{name}[{k}]") from None
        self._replace({name: line for name, line in lines.items() if len(intervals[name])}, detached)
        return sum(map(len, intervals.values()))

    async def remove_interval(self, tag: str, type: str, start: Key, end: Key) -> None:  # noqa: A002 - the field's name
        """Remove the interval of a tag that has exactly this start and end."""
        found = self._tag(tag)
        check_takes_interval(found.status)
        if type not in found.lists:
            raise unknown("payload_type", type)
        line = found.lists[type].line.copy()
        if line.remove(start, end) is None:
            raise unknown("major_iov", f"an interval from {tuple(start)} to {tuple(end)}")
        self._replace({found.lists[type].name: line}, [])

    # --- questions ---------------------------------------------------------------------------------------------------

    async def valid_at(self, tag: str, key: Key) -> tuple[TagRevision, Sequence[ValidAt]]:
        """What is valid at a key, by type."""
        found = self._tag(tag)
        valid = [(each, each.line.at(key)) for _, each in sorted(found.lists.items())]
        return _revision(found), [ValidAt(type=each.type, interval=_in(one, each)) for each, one in valid if one]

    async def content(self, tag: str) -> AsyncIterator[TagRevision | ListContent]:
        """All of a tag as it is at one moment."""
        found = self._tag(tag)
        lines = [(each, each.line) for _, each in sorted(found.lists.items())]
        yield _revision(found)
        for each, line in lines:
            intervals = columns_of(line.intervals())
            yield ListContent(list_id=each.id, list_name=each.name, type=each.type, intervals=intervals)

    async def between(self, tag: str, type: str, first: Key, last: Key) -> tuple[TagRevision, Intervals]:  # noqa: A002
        """Intervals of one type of a tag that hold a key from `first` to `last`."""
        found = self._tag(tag)
        if type not in found.lists:
            raise no_list(tag, type)
        return _revision(found), columns_of(found.lists[type].line.intervals()).between(first, last)

    async def timeline(self, name: str) -> Intervals:
        """All intervals of one list."""
        return columns_of(self._list(name).line.intervals())

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _see_type(self, name: str) -> None:
        self._check()
        if name not in self._types:
            raise unknown("payload_type", name)

    def _list(self, name: str) -> _List:
        self._check()
        if name not in self._lists:
            raise unknown("payload_list", name)
        return self._lists[name]

    def _tag(self, name: str) -> _Tag:
        self._check()
        if name not in self._tags:
            raise unknown("global_tag", name)
        return self._tags[name]

    def _status(self, of: _List) -> TagStatus | None:
        return None if of.tag is None else self._tags[of.tag].status

    def _next_id(self) -> int:
        return next(self._ids["interval"])

    def _new_list(self, type_: str, line: Line, tag: str | None = None) -> _List:
        made = _List(id=next(self._ids["list"]), type=type_, created_ns=time.time_ns(), line=line, tag=tag)
        self._lists[made.name] = made
        return made

    def _new_tag(self, name: str, status: TagStatus, author: str) -> _Tag:
        check_tag(name, author)
        if name in self._tags:
            raise exists("global_tag", name)
        now_ns = time.time_ns()
        made = _Tag(
            id=next(self._ids["tag"]), name=name, author=author, status=status, created_ns=now_ns, updated_ns=now_ns
        )
        self._tags[name] = made
        return made

    def _described(self, tag: _Tag) -> GlobalTag:
        return GlobalTag(
            id=tag.id,
            name=tag.name,
            author=tag.author,
            status=tag.status,
            revision=tag.revision,
            created_ns=tag.created_ns,
            updated_ns=tag.updated_ns,
            lists=len(tag.lists),
            intervals=sum(each.line.count for each in tag.lists.values()),
        )

    def _replace(self, lines: Mapping[str, Line], detached: Sequence[Interval]) -> None:
        """Give lists other breakpoints, and keep what was detached from them, unless a list still has it."""
        for name, line in lines.items():
            self._lists[name].line = line
        if detached:
            held = {point.id for each in self._lists.values() for point in each.line.points}
            self._loose |= {each.id: each for each in detached if each.id not in held}
        for tag in {self._lists[name].tag for name in lines} - {None}:
            _touch(self._tags[str(tag)])

    def _every_interval(self) -> dict[int, Interval]:
        """All intervals by id, each as the list with the smallest id has it."""
        every = dict(self._loose)
        for each in reversed(self._lists.values()):
            every |= {one.id: _in(one, each) for one in each.line.intervals()}
        return every


def _in(interval: Interval, of: _List) -> Interval:
    return replace(interval, list=of.name)


def _touch(tag: _Tag) -> None:
    tag.revision += 1
    tag.updated_ns = time.time_ns()


def _revision(tag: _Tag) -> TagRevision:
    return TagRevision(id=tag.id, name=tag.name, status=tag.status, revision=tag.revision, updated_ns=tag.updated_ns)


def _told(each: _List) -> PayloadList:
    return PayloadList(
        id=each.id,
        name=each.name,
        type=each.type,
        tag=each.tag,
        created_ns=each.created_ns,
        intervals=each.line.count,
    )
