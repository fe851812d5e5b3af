"""Marks, asked of every store: kept once by their id, withdrawn for good, found by their time."""

import dataclasses
from typing import Any
from uuid import UUID, uuid4

import pytest

from backends.base import Store
from schemas.marks import Mark, MarksWithin
from tests.backends.test_store_contract import EVER, Make, make, make_database, opened, rng
from tests.support.batches import group_of

__all__ = ["make", "make_database", "opened", "rng"]

HOUR_NS = 3600 * 10**9
NOW_NS = 1_764_000_000 * 10**9
ALL = MarksWithin(start_ns=EVER[0], end_ns=EVER[1], most=1000)


def mark(at_ns: int = NOW_NS, text: str = "beam study began", **fields: Any) -> Mark:
    return Mark(id=fields.pop("id", None) or uuid4(), time_ns=at_ns, text=text, **fields)


async def kept(store: Store, *marks: Mark) -> list[Mark]:
    for each in marks:
        assert await store.keep_mark(each)
    return list(marks)


async def test_a_mark_is_found_as_it_was_given(make: Make, opened: Any) -> None:
    store = await opened(make(group_of()))
    assert await store.marks(ALL) == []
    marks = await kept(
        store,
        mark(-5, "before 1970"),
        mark(0, "quotes ' \" `, a backslash \\, percent %s :name ; -- and \\' both", author="Élise\\"),
        mark(NOW_NS, "größer als 5 µm 🚀", group="bpm", until_ns=NOW_NS + HOUR_NS),
        mark(NOW_NS + 1, "x" * 200, author="a" * 60),
        mark(2**63 - 2, "far ahead \u26a0\ufe0f 10\u00a0kV", until_ns=2**63 - 1),
    )
    assert await store.marks(ALL) == marks


async def test_an_id_is_kept_once(make: Make, opened: Any) -> None:
    store = await opened(make(group_of()))
    (first,) = await kept(store, mark())
    assert await store.keep_mark(first)
    assert not await store.keep_mark(mark(text="something else", id=first.id))
    assert await store.marks(ALL) == [first]


async def test_a_withdrawn_mark_does_not_come_back(make: Make, opened: Any) -> None:
    store = await opened(make(group_of()))
    first, second = await kept(store, mark(), mark(NOW_NS + 1))
    assert await store.withdraw_mark(first.id, NOW_NS)
    assert await store.marks(ALL) == [second]
    assert not await store.keep_mark(first)
    assert await store.withdraw_mark(first.id, NOW_NS + 5)
    assert await store.marks(ALL) == [second]
    assert not await store.withdraw_mark(uuid4(), NOW_NS)


async def test_marks_are_found_by_their_time(make: Make, opened: Any) -> None:
    store = await opened(make(group_of()))
    moment, span = await kept(store, mark(100), mark(50, until_ns=80))

    async def within(start_ns: int, end_ns: int, most: int = 10) -> list[Mark]:
        return await store.marks(MarksWithin(start_ns=start_ns, end_ns=end_ns, most=most))

    assert await within(100, 101) == [moment]
    assert await within(99, 100) == []
    assert await within(101, 200) == []
    for start_ns, end_ns in ((0, 51), (60, 61), (80, 90)):
        assert await within(start_ns, end_ns) == [span]
    assert await within(0, 50) == []
    assert await within(81, 100) == []
    assert await within(0, 200) == [span, moment]
    assert await within(0, 200, most=1) == [moment]


async def test_marks_of_one_time_are_in_the_order_of_their_ids(make: Make, opened: Any) -> None:
    store = await opened(make(group_of()))
    marks = await kept(store, *(mark(id=UUID(int=number)) for number in (3, 1, 2)))
    assert await store.marks(ALL) == sorted(marks, key=lambda each: str(each.id))
    newest = await store.marks(dataclasses.replace(ALL, most=2))
    assert [each.id.int for each in newest] == [2, 3]


async def test_each_logger_has_its_own_marks(make_database: Make, opened: Any) -> None:
    one = await opened(make_database(group_of(), logger="one"))
    other = await opened(make_database(group_of("blm"), logger="other"))
    (first,) = await kept(one, mark())
    assert await other.marks(ALL) == []
    assert not await other.withdraw_mark(first.id, NOW_NS)
    assert not await other.keep_mark(first)
    assert await one.marks(ALL) == [first]


async def test_marks_are_still_there_for_the_next_store(make_database: Make, opened: Any) -> None:
    store = await opened(make_database(group_of()))
    first, second = await kept(store, mark(), mark(NOW_NS + 1))
    await store.withdraw_mark(first.id, NOW_NS)
    await store.close()
    again = await opened(make_database(group_of()))
    assert await again.marks(ALL) == [second]
    assert not await again.keep_mark(first)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"text": ""}, "text"),
        ({"text": "   "}, "text"),
        ({"text": "two\nlines"}, "text"),
        ({"text": "x" * 201}, "text"),
        ({"text": "red \x1b[31m"}, "text"),
        ({"author": "\x00"}, "author"),
        ({"until_ns": NOW_NS}, "until_ns"),
        ({"time_ns": 2**63}, "time_ns"),
        ({"id": "none"}, "id"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_no_mark_is_refused_with_its_field(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Mark.model_validate({"id": str(uuid4()), "time_ns": NOW_NS, "text": "fine"} | wrong)
