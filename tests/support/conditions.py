"""Small conditions for tests of stores: orders in one line each, and all that a store holds as values to compare."""

import itertools
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from backends.conditions import ConditionsStore
from schemas.conditions.intervals import (
    END,
    Interval,
    Intervals,
    Key,
    ListContent,
    NewInterval,
    TagRevision,
    TagStatus,
)
from schemas.conditions.line import columns_of, interval_of, point_of
from schemas.conditions.rules import ConditionsRefused, RefusalKind

EVERY = 100_000
Span = tuple[str, int, int | None]
"""URL of a payload, and the keys (n, 0) of its start and its end; None is open."""


def key(major: int | None) -> Key:
    """The key (major, 0); None is END."""
    return END if major is None else Key(major, 0)


def new(url: str, start: int, end: int | None = None) -> NewInterval:
    """An interval between keys (n, 0)."""
    return NewInterval(url=url, checksum=f"c-{url}", size=len(url), start=key(start), end=key(end))


def columns(intervals: Iterable[NewInterval]) -> Intervals:
    """New intervals in columns, in their order."""
    return columns_of([interval_of(point_of(each, 0, 0), each.end) for each in intervals])


async def add(store: ConditionsStore, name: str, url: str, start: int, end: int | None = None) -> Interval:
    """Store an interval and attach it to a list."""
    stored = await store.add_interval(new(url, start, end))
    return await store.attach_interval(name, stored.id)


async def tag_with(store: ConditionsStore, tag: str, *types: str) -> list[str]:
    """Add an unlocked tag with an empty list of each type, and the types where they lack; return the lists' names."""
    known = {each.name for each in await store.types()}
    await store.add_tag(tag, TagStatus.UNLOCKED, "me")
    names = []
    for type_ in types:
        if type_ not in known:
            await store.add_type(type_)
        made = await store.add_list(type_)
        names.append((await store.attach_list(tag, made.name)).name)
    return names


async def bpm(store: ConditionsStore, *spans: Span, status: TagStatus = TagStatus.UNLOCKED) -> str:
    """Add a tag `a` with a list of the type `bpm` that has these intervals; return the list's name."""
    (name,) = await tag_with(store, "a", "bpm")
    for span in spans:
        await add(store, name, *span)
    await store.set_status("a", status)
    return name


async def shown(store: ConditionsStore, name: str) -> list[Span]:
    """URL, start and end of a list's intervals; keys are (n, 0)."""
    return [
        (each.url, each.start.major, None if each.end == END else each.end.major) for each in await held(store, name)
    ]


async def held(store: ConditionsStore, name: str) -> list[Interval]:
    """A list's intervals, which are seen to be in order, apart, and of the right form."""
    found = rows(await store.timeline(name), name)
    assert all(one.start < one.end for one in found)
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))
    return found


def rows(found: Intervals, name: str) -> list[Interval]:
    """Intervals of a list, taken out of their columns."""
    for numbers in (found.ids, found.sizes, found.inserted_ns):
        assert numbers.dtype == np.int64
    parts = (found.ids, found.urls, found.checksums, found.sizes, found.starts, found.ends, found.inserted_ns)
    assert len({len(part) for part in parts}) == 1
    return [
        Interval(
            id=id_,
            url=url,
            checksum=checksum,
            size=None if size == -1 else size,
            start=Key(*start),
            end=Key(*end),
            list=name,
            inserted_ns=inserted_ns,
        )
        for id_, url, checksum, size, start, end, inserted_ns in zip(*(part.tolist() for part in parts), strict=True)
    ]


async def valid(store: ConditionsStore, tag: str, at: int | Key) -> dict[str, str]:
    """URLs that are valid at a key, by type."""
    _, found = await store.valid_at(tag, at if isinstance(at, Key) else key(at))
    assert [each.type for each in found] == sorted({each.type for each in found})
    return {each.type: each.interval.url for each in found}


async def content(store: ConditionsStore, tag: str) -> tuple[TagRevision, dict[str, list[Interval]]]:
    """All of a tag: its revision, and the intervals by list."""
    first, *rest = [each async for each in store.content(tag)]
    assert isinstance(first, TagRevision)
    lists = [each for each in rest if isinstance(each, ListContent)]
    assert len(lists) == len(rest)
    assert [each.type for each in lists] == sorted(each.type for each in lists)
    return first, {each.list_name: rows(each.intervals, each.list_name) for each in lists}


async def everything(store: ConditionsStore) -> list[Any]:
    """All that a store answers, but for what is valid at single keys."""
    tags = await store.tags()
    return [
        list(await store.types()),
        list(await store.lists()),
        list(tags),
        list(await store.revisions()),
        [dict(await store.tag_lists(tag.name)) for tag in tags],
        [await content(store, tag.name) for tag in tags],
        [await held(store, each.name) for each in await store.lists()],
        list(await store.intervals(0, EVERY)),
    ]


async def refused(store: ConditionsStore, kind: RefusalKind, order: Awaitable[object]) -> ConditionsRefused:
    """See that an order is refused, says why, and changes nothing."""
    before = await everything(store)
    with pytest.raises(ConditionsRefused) as caught:
        await order
    assert caught.value.kind is kind, caught.value
    assert all((caught.value.field, caught.value.problem, caught.value.fix))
    assert str(caught.value) == f"{caught.value.field}: {caught.value.problem}; {caught.value.fix}"
    assert await everything(store) == before
    return caught.value


async def loose(store: ConditionsStore) -> Sequence[Interval]:
    """Intervals that are in no list."""
    return [each for each in await store.intervals(0, EVERY) if each.list is None]
