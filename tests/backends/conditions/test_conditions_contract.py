"""What `backends.conditions.ConditionsStore` promises, asked of every store of conditions."""

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Callable

import pytest

from backends import open_conditions_store
from backends.conditions import ConditionsStore
from schemas.conditions.intervals import END, LARGEST, Key, NewInterval, TagStatus
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from tests.support.conditions import (
    EVERY,
    Span,
    add,
    bpm,
    columns,
    content,
    everything,
    held,
    key,
    loose,
    new,
    refused,
    shown,
    tag_with,
    valid,
)
from tests.support.memory.conditions import MemoryConditionsStore

UNKNOWN, EXISTS, CONFLICT, STATUS, INVALID = RefusalKind

Make = Callable[[], ConditionsStore]

RACES = 20


@pytest.fixture
def kind_of_store() -> tuple[Callable[[], ConditionsStore], Callable[..., ConditionsStore]]:
    return MemoryConditionsStore, open_conditions_store


# --- the schema ------------------------------------------------------------------------------------------------------


async def test_a_schema_is_created_once_shared_and_dropped(make: Make) -> None:
    one, other = make(), make()
    await asyncio.gather(one.create(), other.create())
    name = await bpm(one, ("x", 0, 10))
    await other.create()
    assert await shown(other, name) == [("x", 0, 10)]
    await add(other, name, "y", 10)
    assert await everything(one) == await everything(other)
    await one.drop()
    await one.drop()
    await one.create()
    assert await everything(one) == [[]] * 8


# --- payload types, lists, tags --------------------------------------------------------------------------------------


async def test_payload_types(store: ConditionsStore) -> None:
    before_ns = time.time_ns()
    made = [await store.add_type(name) for name in ("zeta", "alpha", "Alpha")]
    assert [each.name for each in made] == ["zeta", "alpha", "Alpha"]
    assert all(before_ns <= each.created_ns <= time.time_ns() for each in made)
    assert len({each.id for each in made}) == 3
    assert list(await store.types()) == made == sorted(made, key=lambda each: each.id)
    await refused(store, EXISTS, store.add_type("alpha"))
    await refused(store, UNKNOWN, store.remove_type("beta"))
    await store.add_list("zeta")
    await refused(store, CONFLICT, store.remove_type("zeta"))
    await store.remove_type("alpha")
    assert list(await store.types()) == [made[0], made[2]]
    again = await store.add_type("alpha")
    assert again.id not in {each.id for each in made}


async def test_payload_lists(store: ConditionsStore) -> None:
    await store.add_type("bpm")
    await refused(store, UNKNOWN, store.add_list("bpn"))
    before_ns = time.time_ns()
    one, other = await store.add_list("bpm"), await store.add_list("bpm")
    assert one.name == f"bpm_{one.id}" != other.name
    assert (one.type, one.tag, one.intervals) == ("bpm", None, 0)
    assert before_ns <= one.created_ns <= time.time_ns()
    assert list(await store.lists()) == [one, other]
    assert await store.payload_list(one.name) == one
    for name in (
        "bpm",
        "bpm_999999",
        "bpn_1",
        f"bpn_{one.id}",
        "",
        "_",
        str(one.id),
        f"bpm_0{one.id}",
        "bpm_" + "9" * 30,
    ):
        await refused(store, UNKNOWN, store.payload_list(name))
    await refused(store, UNKNOWN, store.remove_list("bpm_999999"))
    await refused(store, UNKNOWN, store.timeline("bpm_999999"))
    assert await shown(store, one.name) == []
    await add(store, one.name, "x", 0)
    assert (await store.payload_list(one.name)).intervals == 1
    refusal = await refused(store, CONFLICT, store.remove_list(one.name))
    assert refusal.problem == f"{one.name} has 1 intervals, which would go with it"
    await store.remove_list(other.name)
    assert [each.name for each in await store.lists()] == [one.name]


async def test_a_list_is_removed_or_gets_an_interval_and_never_both(store: ConditionsStore, make: Make) -> None:
    await store.add_type("bpm")
    remover, outcomes = make(), set()
    for number in range(RACES):
        name = (await store.add_list("bpm")).name
        stored = await store.add_interval(new(f"u{number}", 0))
        attaching, removing = await asyncio.gather(
            store.attach_interval(name, stored.id), remover.remove_list(name), return_exceptions=True
        )
        there = await store.interval(stored.id)
        if isinstance(removing, ConditionsRefused):
            assert (removing.kind, attaching) == (CONFLICT, there)
            assert there.list == name
        else:
            assert removing is None
            assert isinstance(attaching, ConditionsRefused)
            assert (attaching.kind, there) == (UNKNOWN, stored)
        outcomes.add(type(removing))
    assert outcomes


async def test_a_schema_that_another_process_made_anew_counts_its_ids_once(make: Make) -> None:
    one, other = make(), make()
    await one.create()
    await one.add_type("old")
    await one.add_interval(new("old", 0))
    await other.drop()
    await other.create()
    made = [await store.add_interval(new(f"u{k}", k)) for k in range(4) for store in (other, one)]
    assert len({each.id for each in made}) == 8
    assert [each.url for each in await one.intervals(0, EVERY)] == [
        each.url for each in sorted(made, key=lambda each: each.id)
    ]
    types = [await store.add_type(name) for store, name in ((other, "a"), (one, "b"), (other, "c"))]
    assert list(await one.types()) == types


async def test_tags(store: ConditionsStore) -> None:
    before_ns = time.time_ns()
    made = [
        await store.add_tag("z", TagStatus.UNLOCKED, "me"),
        await store.add_tag("a", TagStatus.LOCKED),
        await store.add_tag("A", TagStatus.FROZEN),
    ]
    assert [(each.name, each.status, each.author, each.lists, each.intervals) for each in made] == [
        ("z", TagStatus.UNLOCKED, "me", 0, 0),
        ("a", TagStatus.LOCKED, "", 0, 0),
        ("A", TagStatus.FROZEN, "", 0, 0),
    ]
    assert all(before_ns <= each.created_ns == each.updated_ns <= time.time_ns() for each in made)
    assert list(await store.tags()) == made == sorted(made, key=lambda each: each.id)
    assert await store.tag("a") == made[1]
    assert dict(await store.tag_lists("z")) == {}
    assert [(each.id, each.name, each.status, each.revision) for each in await store.revisions()] == [
        (each.id, each.name, each.status, each.revision) for each in made
    ]
    await refused(store, EXISTS, store.add_tag("a", TagStatus.UNLOCKED))
    for order in (
        store.tag("b"),
        store.tag_lists("b"),
        store.set_status("b", TagStatus.LOCKED),
        store.clone_tag("b", "c"),
        store.remove_tag("b"),
        store.valid_at("b", key(0)),
        content(store, "b"),
        store.remove_interval("b", "bpm", key(0), key(1)),
    ):
        await refused(store, UNKNOWN, order)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b", "\udcff"])
async def test_names_that_cannot_be_stored(name: str, store: ConditionsStore) -> None:
    await store.add_tag("a", TagStatus.UNLOCKED)
    orders = (store.add_type(name), store.add_tag(name, TagStatus.UNLOCKED), store.clone_tag("a", name))
    for order, field in zip(orders, ("payload_type", "global_tag", "global_tag"), strict=True):
        assert (await refused(store, INVALID, order)).field == field
    if name:
        assert (await refused(store, INVALID, store.add_tag("b", TagStatus.UNLOCKED, name))).field == "author"


async def test_names_are_taken_as_they_are(store: ConditionsStore) -> None:
    names = ["x" * 255, "é", "e\u0301", " a", "a ", "a", "$a", "a.b", "b%_/?", "_", "1"]
    for name in names:
        await store.add_tag(name, TagStatus.UNLOCKED, name)
        await store.add_type(name)
        made = await store.attach_list(name, (await store.add_list(name)).name)
        assert made.name == f"{name}_{made.id}"
        await add(store, made.name, "u", 0, 5)
    assert [each.name for each in await store.tags()] == [each.name for each in await store.types()] == names
    for name in names:
        assert await valid(store, name, 3) == {name: "u"}
        assert (await store.tag(name)).author == name


async def test_a_tag_has_one_list_of_a_type(store: ConditionsStore) -> None:
    name, other = await tag_with(store, "a", "bpm", "quad")
    assert dict(await store.tag_lists("a")) == {"bpm": name, "quad": other}
    assert (await store.payload_list(name)).tag == "a"
    await add(store, name, "x", 0, 10)
    second = await store.add_list("bpm")
    await add(store, second.name, "y", 5, 20)
    attached = await store.attach_list("a", second.name)
    assert (attached.tag, attached.intervals) == ("a", 1)
    assert dict(await store.tag_lists("a")) == {"bpm": second.name, "quad": other}
    assert (await store.payload_list(name)).tag is None
    assert await valid(store, "a", 7) == {"bpm": "y"}
    assert (await store.tag("a")).intervals == 1
    # What the tag had is as it was, and can be given back; with an interval it does not go.
    assert await shown(store, name) == [("x", 0, 10)]
    await store.attach_list("a", name)
    assert await valid(store, "a", 7) == {"bpm": "x"}
    await refused(store, CONFLICT, store.remove_list(second.name))
    assert [each.name for each in await store.lists()] == [name, other, second.name]


@pytest.mark.parametrize("status", [TagStatus.UNLOCKED, TagStatus.LOCKED])
async def test_an_empty_list_is_removed_from_its_tag(status: TagStatus, store: ConditionsStore) -> None:
    name, other = await tag_with(store, "a", "bpm", "quad")
    await add(store, other, "x", 0)
    await store.clone_tag("a", "b")
    copy = (await store.tag_lists("b"))["bpm"]
    await store.set_status("a", status)
    before = await store.tag("a")
    await store.remove_list(name)
    assert dict(await store.tag_lists("a")) == {"quad": other}
    after = await store.tag("a")
    assert (after.lists, after.revision) == (1, before.revision + 1)
    assert (await store.payload_list(copy)).tag == "b"
    await refused(store, CONFLICT, store.remove_type("bpm"))
    await store.remove_list(copy)
    await store.remove_type("bpm")
    assert await valid(store, "a", 5) == await valid(store, "b", 5) == {"quad": "x"}


async def test_refused_lists_of_a_tag(store: ConditionsStore) -> None:
    name, _ = await tag_with(store, "a", "bpm", "quad")
    await tag_with(store, "b")
    fresh = await store.add_list("bpm")
    wire = await store.add_list((await store.add_type("wire")).name)
    await refused(store, UNKNOWN, store.attach_list("a", "bpm_999999"))
    await refused(store, UNKNOWN, store.attach_list("c", fresh.name))
    await refused(store, CONFLICT, store.attach_list("b", name))
    await store.set_status("a", TagStatus.LOCKED)
    await refused(store, STATUS, store.attach_list("a", fresh.name))
    await refused(store, STATUS, store.attach_list("a", name))
    await store.attach_list("a", wire.name)
    await store.set_status("a", TagStatus.FROZEN)
    magnet = await store.add_list((await store.add_type("magnet")).name)
    await refused(store, STATUS, store.attach_list("a", magnet.name))


async def test_the_status_of_a_tag(store: ConditionsStore) -> None:
    made = await store.add_tag("a", TagStatus.UNLOCKED)
    locked = await store.set_status("a", TagStatus.LOCKED)
    assert locked.status is TagStatus.LOCKED
    assert locked.revision > made.revision
    assert locked.updated_ns >= made.updated_ns
    assert await store.set_status("a", TagStatus.LOCKED) == locked == await store.tag("a")
    assert (await store.set_status("a", TagStatus.UNLOCKED)).status is TagStatus.UNLOCKED
    await store.set_status("a", TagStatus.FROZEN)
    for status in TagStatus:
        await refused(store, STATUS, store.set_status("a", status))


async def test_a_removed_tag_takes_its_lists_with_it(store: ConditionsStore) -> None:
    name = await bpm(store, ("x", 0, 10), ("y", 20, 30))
    (stays,) = await tag_with(store, "b", "bpm")
    await add(store, stays, "z", 0, 10)
    before = await everything(store)
    for status in (TagStatus.LOCKED, TagStatus.UNLOCKED):
        await store.set_status("a", status)
        if status is TagStatus.LOCKED:
            await refused(store, STATUS, store.remove_tag("a"))
    await store.remove_tag("a")
    await refused(store, UNKNOWN, store.tag("a"))
    await refused(store, UNKNOWN, store.payload_list(name))
    assert [each.url for each in await store.intervals(0, EVERY)] == ["z"]
    assert [each.name for each in await store.lists()] == [stays]
    old = before[2][0]
    assert (await store.add_tag("a", TagStatus.FROZEN)).id != old.id
    await refused(store, STATUS, store.remove_tag("a"))


# --- intervals -------------------------------------------------------------------------------------------------------


async def test_intervals_in_no_list(store: ConditionsStore) -> None:
    before_ns = time.time_ns()
    given = NewInterval(url="gains/é 1.json", checksum="0aff", size=LARGEST, start=Key(1, 2), end=Key(1, 3))
    made = await store.add_interval(given)
    assert {name: getattr(made, name) for name in vars(given)} == vars(given)
    assert made.list is None
    assert before_ns <= made.inserted_ns <= time.time_ns()
    bare = await store.add_interval(NewInterval(url="", start=Key(0, 0)))
    assert (bare.url, bare.checksum, bare.size, bare.end) == ("", "", None, END)
    empty = await store.add_interval(NewInterval(url="e", size=0, start=Key(0, 0)))
    assert made.id < bare.id < empty.id
    assert await store.interval(made.id) == made
    assert await store.interval(empty.id) == empty
    for id_ in (0, -1, empty.id + 1, LARGEST):
        await refused(store, UNKNOWN, store.interval(id_))
    assert list(await store.intervals(0, 2)) == [made, bare]
    assert list(await store.intervals(bare.id, 2)) == [empty]
    assert list(await store.intervals(empty.id, 2)) == []
    assert list(await store.intervals(0, 0)) == []


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"end": Key(5, 5)}, "major_iov_end"),
        ({"end": Key(5, 4)}, "major_iov_end"),
        ({"start": END}, "major_iov_end"),
        ({"start": Key(-1, 0)}, "major_iov"),
        ({"start": Key(0, 2**63)}, "minor_iov"),
        ({"end": Key(2**63, 0)}, "major_iov_end"),
        ({"end": Key(7, -1)}, "minor_iov_end"),
        ({"url": "a\0b"}, "payload_url"),
        ({"checksum": "\ud800"}, "checksum"),
        ({"size": -1}, "size"),
        ({"size": 2**63}, "size"),
        ({"url": "x" * 2049}, "payload_url"),
        ({"checksum": "x" * 256}, "checksum"),
    ],
)
async def test_what_is_wrong_by_itself_is_not_stored(
    wrong: dict[str, object], field: str, store: ConditionsStore
) -> None:
    given = dataclasses.replace(NewInterval(url="x", start=Key(5, 5)), **wrong)  # type: ignore[arg-type]
    assert (await refused(store, INVALID, store.add_interval(given))).field == field


async def test_intervals_are_paged_whether_lists_have_them_or_not(store: ConditionsStore) -> None:
    name = await bpm(store, ("x", 0, 10), ("y", 5, 7))
    free = await store.add_interval(new("z", 0, 1))
    await store.insert({name: columns(new(f"n{k}", 100 + k, 101 + k) for k in range(20))})
    every = list(await store.intervals(0, EVERY))
    assert len(every) == 3 + 1 + 20
    assert [each.id for each in every] == sorted({each.id for each in every})
    assert {each.list for each in every} == {name, None}
    assert [each for each in every if each.list is None] == [free]
    paged, after = [], 0
    while page := list(await store.intervals(after, 7)):
        paged += page
        after = page[-1].id
    assert paged == every
    assert [await store.interval(each.id) for each in every[:6]] == every[:6]
    by_id = {each.id: each for each in every if each.list}
    assert {each.id: each for each in await held(store, name)} == by_id


async def test_however_much_is_detached_it_is_kept(store: ConditionsStore) -> None:
    name, many = await bpm(store), 9_000
    url = "x" * 2_000
    await store.insert({name: columns(NewInterval(url=f"{url}{k}", start=key(k)) for k in range(many))})
    await add(store, name, "over", 0, many - 1)
    count, found = await store.interval_page(0, 2)
    assert count == many + 1
    assert [(each.url, each.list) for each in found] == [(f"{url}0", None), (f"{url}1", None)]
    assert await shown(store, name) == [("over", 0, many - 1), (f"{url}{many - 1}", many - 1, None)]
    free = await loose(store)
    assert [each.start.major for each in free] == list(range(many - 1))


async def test_a_page_of_intervals_is_counted_off_by_id(store: ConditionsStore) -> None:
    assert await store.interval_page(0, 10) == (0, [])
    name = await bpm(store, ("x", 0, 10), ("y", 5, 7))  # y splits x
    await store.insert({name: columns(new(f"n{k}", 100 + k, 101 + k) for k in range(600))})
    for k in range(3):
        await store.add_interval(new(f"free{k}", k))
    await store.clone_tag("a", "b")
    copy = (await store.tag_lists("b"))["bpm"]
    # Detached from one of both, and trimmed there; behind it is a gap.
    await store.insert({copy: columns([new("over", 300, 310)])})
    await store.remove_interval("b", "bpm", key(100), key(101))
    every = list(await store.intervals(0, EVERY))
    assert len(every) == 2 + 1 + 600 + 3 + 1
    for first, most in ((0, 1), (0, 5), (598, 7), (600, 50), (607, 10), (0, 1000), (3, 0)):
        count, found = await store.interval_page(first, most)
        assert (count, list(found)) == (len(every), every[first : first + most])
        count, found = await store.interval_page(first, most, descending=True)
        assert (count, list(found)) == (len(every), every[::-1][first : first + most])


async def test_a_list_takes_an_interval(store: ConditionsStore) -> None:
    (name,) = await tag_with(store, "a", "bpm")
    free = await store.add_interval(new("x", 5, 10))
    assert await valid(store, "a", 5) == {}
    attached = await store.attach_interval(name, free.id)
    assert attached == dataclasses.replace(free, list=name)
    assert await store.interval(free.id) == attached
    assert await held(store, name) == [attached]
    other = await store.add_list("bpm")
    for to in (name, other.name):
        await refused(store, CONFLICT, store.attach_interval(to, free.id))
    await refused(store, UNKNOWN, store.attach_interval(name, free.id + 100))
    second = await store.add_interval(new("y", 5, 10))
    await refused(store, UNKNOWN, store.attach_interval("bpm_999999", second.id))


async def test_a_list_of_no_tag_permits_everything(store: ConditionsStore) -> None:
    await store.add_type("bpm")
    name = (await store.add_list("bpm")).name
    for span in (("x", 0, 10), ("y", 3, 5), ("z", 3, 5)):
        await add(store, name, *span)
    assert await shown(store, name) == [("x", 0, 3), ("z", 3, 5), ("x", 5, 10)]


TRIMS: dict[str, tuple[list[Span], Span, list[Span], list[Span]]] = {
    # What is there; what is attached; what is there then; what is in no list then.
    "beside others": ([("x", 0, 5), ("y", 10, 15)], ("n", 6, 9), [("x", 0, 5), ("n", 6, 9), ("y", 10, 15)], []),
    "touching both": ([("x", 0, 5), ("y", 10, 15)], ("n", 5, 10), [("x", 0, 5), ("n", 5, 10), ("y", 10, 15)], []),
    "over the end of one": ([("x", 0, 5)], ("n", 3, 9), [("x", 0, 3), ("n", 3, 9)], []),
    "over the start of one": ([("x", 5, 10)], ("n", 3, 7), [("n", 3, 7), ("x", 7, 10)], []),
    "between, with a gap": ([("x", 0, 1), ("y", 5, 10)], ("n", 2, 3), [("x", 0, 1), ("n", 2, 3), ("y", 5, 10)], []),
    "the same start, shorter": ([("x", 0, 10)], ("n", 0, 4), [("n", 0, 4), ("x", 4, 10)], []),
    "the same end, shorter": ([("x", 0, 10)], ("n", 6, 10), [("x", 0, 6), ("n", 6, 10)], []),
    "the same": ([("x", 0, 10)], ("n", 0, 10), [("n", 0, 10)], [("x", 0, 10)]),
    "within one": ([("x", 0, 10)], ("n", 3, 5), [("x", 0, 3), ("n", 3, 5), ("x", 5, 10)], []),
    "within an open one": ([("x", 0, None)], ("n", 3, 5), [("x", 0, 3), ("n", 3, 5), ("x", 5, None)], []),
    "over several": (
        [("w", 0, 4), ("x", 4, 6), ("y", 7, 8), ("z", 8, 20)],
        ("n", 2, 10),
        [("w", 0, 2), ("n", 2, 10), ("z", 10, 20)],
        [("x", 4, 6), ("y", 7, 8)],
    ),
    "open over all": ([("x", 4, 6), ("y", 7, None)], ("n", 2, None), [("n", 2, None)], [("x", 4, 6), ("y", 7, None)]),
    "open after an open one": ([("x", 4, None)], ("n", 9, None), [("x", 4, 9), ("n", 9, None)], []),
    "before an open one": ([("x", 4, None)], ("n", 1, 6), [("n", 1, 6), ("x", 6, None)], []),
    "one that was trimmed": (
        [("x", 0, 10), ("y", 4, 8)],
        ("n", 0, 4),
        [("n", 0, 4), ("y", 4, 8), ("x", 8, 10)],
        [("x", 0, 4)],
    ),
}


@pytest.mark.parametrize("case", TRIMS)
async def test_an_interval_trims_and_splits_its_neighbours(case: str, store: ConditionsStore) -> None:
    there, span, then, then_loose = TRIMS[case]
    name = await bpm(store, *there)
    before = {each.id: each for each in await store.intervals(0, EVERY)}
    last = max(before, default=0)
    attached = await add(store, name, *span)
    assert (attached.start, attached.end, attached.list) == (key(span[1]), key(span[2]), name)
    assert attached.id > last
    assert await shown(store, name) == then
    found = await loose(store)
    assert [(each.url, each.start.major, None if each.end == END else each.end.major) for each in found] == then_loose
    for each in (*await held(store, name), *found):
        # All but its extent is as it was, whether under its id or, split off, under a new one.
        old = before.get(each.id) or next((one for one in before.values() if one.url == each.url), attached)
        assert (each.checksum, each.size, each.inserted_ns) == (old.checksum, old.size, old.inserted_ns)
    ids = [each.id for each in await held(store, name)]
    urls = [each.url for each in await held(store, name)]
    assert len(set(ids)) == len(ids)
    # New ids are those of what is attached, and of one more where an interval was split.
    split = len(urls) - len(set(urls))
    assert len(set(ids) - set(before)) == 1 + split
    assert await store.payload_list(name) == dataclasses.replace(
        await store.payload_list(name), intervals=len(then), tag="a"
    )
    for at in range(22):
        expected = [url for url, start, end in then if start <= at and (end is None or at < end)]
        assert list((await valid(store, "a", at)).values()) == expected


async def test_what_is_split_keeps_its_id_before_and_has_a_new_one_behind(store: ConditionsStore) -> None:
    name = await bpm(store, ("x", 0, 10))
    (whole,) = await held(store, name)
    await add(store, name, "n", 3, 5)
    front, _, rest = await held(store, name)
    assert front == dataclasses.replace(whole, end=key(3))
    assert rest == dataclasses.replace(whole, id=rest.id, start=key(5))
    assert rest.id != whole.id
    assert await store.interval(rest.id) == rest


async def test_an_interval_that_was_detached_is_attached_again(store: ConditionsStore) -> None:
    name = await bpm(store, ("x", 0, 10), ("y", 4, 12), ("z", 0, 4))
    (x,) = await loose(store)
    assert (x.url, x.start, x.end) == ("x", key(0), key(4))
    again = await store.attach_interval(name, x.id)
    assert again == dataclasses.replace(x, list=name)
    assert await shown(store, name) == [("x", 0, 4), ("y", 4, 12)]
    assert [each.url for each in await loose(store)] == ["z"]


@pytest.mark.parametrize(
    ("there", "span", "then"),
    [
        ([], ("n", 5, 8), [("n", 5, 8)]),
        ([("x", 0, 5)], ("n", 5, None), [("x", 0, 5), ("n", 5, None)]),
        ([("x", 0, 5)], ("n", 7, 9), [("x", 0, 5), ("n", 7, 9)]),
        ([("x", 0, 5), ("y", 7, 9)], ("n", 5, 7), [("x", 0, 5), ("n", 5, 7), ("y", 7, 9)]),
        ([("y", 7, 9)], ("n", 2, 7), [("n", 2, 7), ("y", 7, 9)]),
        ([("x", 0, None)], ("n", 5, None), [("x", 0, 5), ("n", 5, None)]),
        ([("x", 0, 3), ("y", 3, None)], ("n", 4, None), [("x", 0, 3), ("y", 3, 4), ("n", 4, None)]),
    ],
)
async def test_a_locked_tag_takes_what_conflicts_with_nothing(
    there: list[Span], span: Span, then: list[Span], store: ConditionsStore
) -> None:
    name = await bpm(store, *there, status=TagStatus.LOCKED)
    await add(store, name, *span)
    assert await shown(store, name) == then


@pytest.mark.parametrize(
    ("there", "span"),
    [
        ([("x", 0, 5)], ("n", 0, 5)),
        ([("x", 0, 5)], ("n", 0, 3)),
        ([("x", 0, 5)], ("n", 4, 6)),
        ([("x", 0, 5)], ("n", 4, None)),
        ([("x", 5, 8)], ("n", 4, 6)),
        ([("x", 5, 8)], ("n", 4, None)),
        ([("x", 5, 8)], ("n", 4, 9)),
        ([("x", 0, None)], ("n", 5, 9)),
        ([("x", 3, None)], ("n", 3, None)),
        ([("x", 3, None)], ("n", 2, None)),
        ([("x", 0, 3), ("y", 3, None)], ("n", 1, None)),
    ],
)
async def test_a_locked_tag_refuses_what_changes_an_answer(
    there: list[Span], span: Span, store: ConditionsStore
) -> None:
    name = await bpm(store, *there, status=TagStatus.LOCKED)
    free = await store.add_interval(new(*span))
    await refused(store, STATUS, store.attach_interval(name, free.id))
    await refused(store, STATUS, store.insert({name: columns([new(*span)])}))


async def test_a_frozen_tag_refuses_everything(store: ConditionsStore) -> None:
    name = await bpm(store, ("x", 0, 5))
    (empty,) = await tag_with(store, "e", "quad")
    await store.set_status("a", TagStatus.FROZEN)
    await store.set_status("e", TagStatus.FROZEN)
    free = await store.add_interval(new("n", 5))
    for order in (
        store.remove_list(empty),
        store.attach_interval(name, free.id),
        store.insert({name: columns([new("n", 5)])}),
        store.remove_interval("a", "bpm", key(0), key(5)),
        store.remove_tag("a"),
        store.set_status("a", TagStatus.UNLOCKED),
    ):
        await refused(store, STATUS, order)
    await store.clone_tag("a", "b")
    copy = (await store.tag_lists("b"))["bpm"]
    await store.attach_interval(copy, free.id)
    assert await shown(store, copy) == [("x", 0, 5), ("n", 5, None)]


async def test_an_interval_is_removed_by_its_extent(store: ConditionsStore) -> None:
    name = await bpm(store, ("x", 0, 5), ("y", 5, 8), ("z", 10, None))
    for start, end in ((0, 4), (1, 5), (5, 10), (8, 10), (10, 11), (20, None)):
        await refused(store, UNKNOWN, store.remove_interval("a", "bpm", key(start), key(end)))
    await refused(store, UNKNOWN, store.remove_interval("a", "quad", key(0), key(5)))
    y = (await held(store, name))[1]
    await store.set_status("a", TagStatus.LOCKED)
    refusal = await refused(store, STATUS, store.remove_interval("a", "bpm", key(5), key(8)))
    assert (refusal.field, "it is locked" in refusal.problem) == ("global_tag", True)
    await store.set_status("a", TagStatus.UNLOCKED)
    await store.remove_interval("a", "bpm", key(5), key(8))
    assert await shown(store, name) == [("x", 0, 5), ("z", 10, None)]
    assert [await valid(store, "a", at) for at in (4, 5, 9, 10)] == [{"bpm": "x"}, {}, {}, {"bpm": "z"}]
    await refused(store, UNKNOWN, store.interval(y.id))
    assert await loose(store) == []
    await store.remove_interval("a", "bpm", key(10), END)
    await store.remove_interval("a", "bpm", key(0), key(5))
    assert await shown(store, name) == []
    assert (await store.tag("a")).intervals == 0
    await add(store, name, "n", 3, 7)
    assert await shown(store, name) == [("n", 3, 7)]


# --- bulk insert -----------------------------------------------------------------------------------------------------


async def test_many_intervals_are_as_each_by_itself(store: ConditionsStore) -> None:
    spans: list[Span] = [
        *(("a", 0, 50), ("b", 10, 20), ("c", 12, 14), ("d", 40, None), ("e", 60, 70), ("f", 30, 45), ("g", 0, 2)),
        *((f"h{k}", 100 + 3 * k, None) for k in range(10)),
        *((f"i{k}", 95 - 2 * k, 97 - 2 * k) for k in range(10)),
    ]
    name, other = await tag_with(store, "a", "bpm", "quad")
    for span in spans:
        await add(store, name, *span)
    assert await store.insert({other: columns(new(*span) for span in spans)}) == len(spans)
    assert await shown(store, other) == await shown(store, name)

    def plain(found: list[object]) -> list[tuple[object, ...]]:
        return sorted((each.url, each.checksum, each.size, each.start, each.end) for each in found)  # type: ignore[attr-defined]

    free = await loose(store)
    half = len(free) // 2
    ids = {each.id for each in await held(store, other)}
    assert plain(free[:half]) == plain(free[half:])
    assert len(ids) == len(await held(store, other))
    assert ids.isdisjoint(each.id for each in await held(store, name))


async def test_many_intervals_of_several_lists(store: ConditionsStore) -> None:
    name, other = await tag_with(store, "a", "bpm", "quad")
    (third,) = await tag_with(store, "b", "bpm")
    free = await store.add_list("bpm")
    await add(store, name, "x", 0)
    before_ns = time.time_ns()
    count = await store.insert(
        {each: columns([new("n", 5), new("m", 2, 7)]) for each in (other, name, third, free.name)}
    )
    assert count == 8
    assert await shown(store, name) == [("x", 0, 2), ("m", 2, 7), ("n", 7, None)]
    for each in (other, third, free.name):
        assert await shown(store, each) == [("m", 2, 7), ("n", 7, None)]
    made = (await held(store, third))[0]
    assert (made.checksum, made.size) == ("c-m", 1)
    assert before_ns <= made.inserted_ns <= time.time_ns()
    assert [await valid(store, tag, 3) for tag in "ab"] == [{"bpm": "m", "quad": "m"}, {"bpm": "m"}]
    assert await store.insert({}) == 0
    assert await store.insert({name: columns([])}) == 0


async def test_many_intervals_are_refused_together(store: ConditionsStore) -> None:
    name, other = await tag_with(store, "a", "bpm", "quad")
    (locked,) = await tag_with(store, "b", "bpm")
    await add(store, locked, "x", 0, 5)
    await store.set_status("b", TagStatus.LOCKED)
    good = columns([new("n", 5), new("m", 2, 7)])
    for bad, kind in (
        ({"bpm_999999": good}, UNKNOWN),
        ({locked: columns([new("n", 7), new("m", 4, 6)])}, STATUS),
        ({other: columns([new("n", 7), new("m", 9, 8)])}, INVALID),
        ({other: columns([new("n", 7), dataclasses.replace(new("m", 9), start=Key(-1, 0))])}, INVALID),
    ):
        refusal = await refused(store, kind, store.insert({name: good, **bad}))
        if kind is not UNKNOWN:
            assert refusal.field.startswith(f"{next(iter(bad))}[1]."), refusal
    # A locked tag's own new intervals count: the second one comes where the first one is.
    twice = columns([new("n", 10, 20), new("m", 15, 25)])
    assert (await refused(store, STATUS, store.insert({locked: twice}))).field.startswith(f"{locked}[1].")
    assert await store.insert({locked: columns([new("n", 10, 20), new("m", 20), new("o", 25)])}) == 3
    assert await shown(store, locked) == [("x", 0, 5), ("n", 10, 20), ("m", 20, 25), ("o", 25, None)]


# --- clones ----------------------------------------------------------------------------------------------------------


async def test_a_clone_answers_as_its_source(store: ConditionsStore) -> None:
    name, other = await tag_with(store, "a", "bpm", "quad")
    for span in (("x", 0, 10), ("y", 4, 6)):
        await add(store, name, *span)
    await add(store, other, "q", 3)
    source = await store.set_status("a", TagStatus.FROZEN)
    clone = await store.clone_tag("a", "b")
    assert clone == await store.tag("b")
    assert (clone.status, clone.lists, clone.intervals) == (TagStatus.UNLOCKED, 2, 4)
    assert clone.author == source.author == "me"
    assert clone.id > source.id
    assert await store.tag("a") == source
    lists = await store.tag_lists("b")
    assert set(lists) == {"bpm", "quad"}
    assert set(lists.values()).isdisjoint({name, other})
    assert [(await store.payload_list(each)).tag for each in lists.values()] == ["b", "b"]
    assert await shown(store, lists["bpm"]) == await shown(store, name)
    for at in range(12):
        assert await valid(store, "b", at) == await valid(store, "a", at)
    # One interval in both lists is one interval, and is told of as the older list has it.
    every = await store.intervals(0, EVERY)
    assert len(every) == 4
    assert {each.list for each in every} == {name, other}
    await refused(store, CONFLICT, store.attach_interval(lists["quad"], every[0].id))
    await refused(store, EXISTS, store.clone_tag("a", "b"))
    await refused(store, EXISTS, store.clone_tag("a", "a"))


@pytest.mark.parametrize("changed", ["source", "clone", "clone of the clone"])
async def test_what_clones_share_is_copied_when_one_is_changed(changed: str, store: ConditionsStore) -> None:
    there: list[Span] = [("x", 0, 10), ("y", 10, 20), ("z", 30, None)]
    name = await bpm(store, *there)
    await store.clone_tag("a", "b")
    await store.clone_tag("b", "c")
    lists = {tag: (await store.tag_lists(tag))["bpm"] for tag in "abc"}
    by_what = {"source": "a", "clone": "b", "clone of the clone": "c"}
    changes = lists[by_what[changed]]
    before = {each.url: each.id for each in await held(store, name)}
    revisions = {each.name: each.revision for each in await store.revisions()}
    await add(store, changes, "n", 5, 15)
    assert await shown(store, changes) == [("x", 0, 5), ("n", 5, 15), ("y", 15, 20), ("z", 30, None)]
    assert {each.url: each.id for each in await held(store, changes) if each.url != "n"} == before
    for tag, each in lists.items():
        if each != changes:
            assert await shown(store, each) == there
            assert {one.url: one.id for one in await held(store, each)} == before
        grown = {one.name: one.revision for one in await store.revisions()}[tag] > revisions[tag]
        assert grown is (each == changes)
    # Another change, of another one, and a removal.
    second = lists["b" if changes != lists["b"] else "c"]
    tag = next(tag for tag, each in lists.items() if each == second)
    await store.remove_interval(tag, "bpm", key(10), key(20))
    assert await shown(store, second) == [("x", 0, 10), ("z", 30, None)]
    assert await shown(store, changes) == [("x", 0, 5), ("n", 5, 15), ("y", 15, 20), ("z", 30, None)]
    (third,) = set(lists.values()) - {changes, second}
    assert await shown(store, third) == there


async def test_what_another_list_still_has_is_not_loose(store: ConditionsStore) -> None:
    name = await bpm(store, ("x", 0, 10))
    (x,) = await held(store, name)
    await store.clone_tag("a", "b")
    copy = (await store.tag_lists("b"))["bpm"]
    await add(store, name, "n", 0, 20)
    assert await loose(store) == []
    assert await store.interval(x.id) == dataclasses.replace(x, list=copy)
    await refused(store, CONFLICT, store.attach_interval(name, x.id))
    await add(store, copy, "m", 8, 20)
    await add(store, copy, "m", 0, 8)
    assert await loose(store) == [dataclasses.replace(x, list=None, end=key(8))]
    await store.attach_interval(name, x.id)
    assert await shown(store, name) == [("x", 0, 8), ("n", 8, 20)]


async def test_what_clones_share_outlives_each_of_them(store: ConditionsStore) -> None:
    name = await bpm(store, ("x", 0, 10), ("y", 10, 20))
    await store.clone_tag("a", "b")
    await store.clone_tag("b", "c")
    await store.remove_tag("b")
    assert await shown(store, name) == [("x", 0, 10), ("y", 10, 20)]
    await store.remove_tag("a")
    copy = (await store.tag_lists("c"))["bpm"]
    assert await shown(store, copy) == [("x", 0, 10), ("y", 10, 20)]
    assert {each.list for each in await store.intervals(0, EVERY)} == {copy}
    await store.remove_interval("c", "bpm", key(0), key(10))
    assert await shown(store, copy) == [("y", 10, 20)]
    await store.remove_tag("c")
    assert list(await store.intervals(0, EVERY)) == list(await store.lists()) == list(await store.tags()) == []


# --- revisions -------------------------------------------------------------------------------------------------------


async def test_a_revision_grows_just_when_the_answers_of_its_tag_change(store: ConditionsStore) -> None:
    name, _ = await tag_with(store, "a", "bpm", "quad")
    (other,) = await tag_with(store, "b", "bpm")
    seen = {each.name: each.revision for each in await store.revisions()}

    async def grown() -> set[str]:
        revisions = {each.name: each for each in await store.revisions()}
        now = {name: each.revision for name, each in revisions.items()}
        tags = {each.name: each for each in await store.tags()}
        assert {tag: (each.revision, each.updated_ns) for tag, each in tags.items()} == {
            tag: (each.revision, each.updated_ns) for tag, each in revisions.items()
        }
        for tag in tags:
            assert (await store.valid_at(tag, key(0)))[0] == revisions[tag]
            assert (await content(store, tag))[0] == revisions[tag]
        assert all(now[tag] >= seen[tag] for tag in seen.keys() & now.keys())
        found = {tag for tag in now if now[tag] > seen.get(tag, 0)}
        seen.update(now)
        return found

    free = await store.add_interval(new("x", 0, 5))
    bare = await store.add_list("bpm")
    await add(store, bare.name, "w", 0)
    assert await grown() == set()
    await store.attach_interval(name, free.id)
    assert await grown() == {"a"}
    await store.insert({name: columns([new("y", 3, 8), new("z", 9)]), other: columns([new("y", 3, 8)])})
    assert await grown() == {"a", "b"}
    await store.insert({name: columns([]), other: columns([new("v", 3, 8)])})
    assert await grown() == {"b"}
    await store.attach_list("b", bare.name)
    assert await grown() == {"b"}
    await store.attach_list("b", bare.name)
    assert await grown() == set()
    await add(store, other, "u", 0)  # no tag has it any more
    assert await grown() == set()
    await store.remove_interval("a", "bpm", key(3), key(8))
    assert await grown() == {"a"}
    await store.clone_tag("a", "c")
    assert await grown() == {"c"}
    await add(store, name, "t", 20)
    assert await grown() == {"a"}
    await store.set_status("c", TagStatus.FROZEN)
    assert await grown() == {"c"}
    await refused(
        store,
        STATUS,
        store.insert(
            {
                name: columns([new("s", 0)]),
                **dict.fromkeys((await store.tag_lists("c")).values(), columns([new("s", 0)])),
            }
        ),
    )
    assert await grown() == set()


# --- questions -------------------------------------------------------------------------------------------------------


async def test_what_is_valid_at_a_key(store: ConditionsStore) -> None:
    name, other = await tag_with(store, "a", "quad", "bpm")
    await add(store, name, "q", 5, 8)
    await add(store, other, "x", 5)
    revision, found = await store.valid_at("a", key(5))
    assert revision in await store.revisions()
    assert [(each.type, each.interval) for each in found] == [
        ("bpm", (await held(store, other))[0]),
        ("quad", (await held(store, name))[0]),
    ]
    before = Key(4, LARGEST)
    assert await valid(store, "a", before) == {}
    assert await valid(store, "a", Key(5, 0)) == {"quad": "q", "bpm": "x"}
    assert await valid(store, "a", Key(7, LARGEST)) == {"quad": "q", "bpm": "x"}
    assert await valid(store, "a", Key(8, 0)) == {"bpm": "x"}


async def test_intervals_between_two_keys_are_those_that_hold_one_of_them(store: ConditionsStore) -> None:
    name = await bpm(store, ("a", 0, 10), ("b", 10, 20), ("c", 30, 40), ("d", 50, None), status=TagStatus.LOCKED)
    every = await held(store, name)
    wanted = itertools.combinations_with_replacement(
        [Key(0, 0), Key(9, 7), *map(key, (10, 20, 25, 39, 45, 50)), END], 2
    )
    for first, last in wanted:
        revision, found = await store.between("a", "bpm", first, last)
        expected = [each for each in every if each.start <= last and first < each.end]
        assert [*zip(found.urls, map(tuple, found.starts.tolist()), map(tuple, found.ends.tolist()), strict=True)] == [
            (each.url, each.start, each.end) for each in expected
        ], (first, last)
        assert found.checksums.tolist() == [each.checksum for each in expected]
        assert found.sizes.tolist() == [each.size for each in expected]
        assert found.ids.tolist() == [each.id for each in expected]
        assert [revision] == list(await store.revisions())
    await refused(store, UNKNOWN, store.between("b", "bpm", key(0), END))
    await refused(store, UNKNOWN, store.between("a", "bpn", key(0), END))
    await store.add_type("bpn")
    await refused(store, UNKNOWN, store.between("a", "bpn", key(0), END))


async def test_of_a_long_list_only_what_lies_between_is_read(store: ConditionsStore) -> None:
    (name,) = await tag_with(store, "a", "bpm")
    assert len((await store.between("a", "bpm", key(0), END))[1]) == 0
    await store.insert({name: columns(new(f"u{k}", k, k + 1) for k in range(700))})
    for first, last in ((0, 0), (255, 256), (250, 520), (699, 700), (700, 800)):
        _, found = await store.between("a", "bpm", key(first), key(last))
        assert found.urls.tolist() == [f"u{k}" for k in range(first, min(last + 1, 700))]


async def test_keys_at_their_limits(store: ConditionsStore) -> None:
    name = await bpm(store)
    edges = [Key(0, 0), Key(0, 1), Key(0, LARGEST), Key(1, 0), Key(LARGEST, 0), Key(LARGEST, LARGEST - 1), END]
    news = [NewInterval(url=f"e{k}", start=start, end=end) for k, (start, end) in enumerate(itertools.pairwise(edges))]
    await store.insert({name: columns(reversed(news))})
    assert [(each.url, each.start, each.end) for each in await held(store, name)] == [
        (each.url, each.start, each.end) for each in news
    ]
    for k, edge in enumerate(edges[:-1]):
        assert await valid(store, "a", edge) == {"bpm": f"e{k}"}
    assert await valid(store, "a", Key(LARGEST - 1, LARGEST)) == {"bpm": "e3"}
    # END is behind everything.
    assert await valid(store, "a", END) == {}
    await store.remove_interval("a", "bpm", Key(LARGEST, LARGEST - 1), END)
    assert await valid(store, "a", Key(LARGEST, LARGEST - 1)) == {}
    assert await valid(store, "a", Key(LARGEST, LARGEST - 2)) == {"bpm": "e4"}


async def test_keys_that_a_decimal_would_confuse(store: ConditionsStore) -> None:
    # The reference puts a key into a decimal with 28 digits, in which these three are one.
    name = await bpm(store)
    exact = Key(1732275000123456789, 1)
    earlier, later = exact._replace(minor=0), exact._replace(minor=2)
    for url, at in (("before", earlier), ("exact", exact), ("after", later)):
        free = await store.add_interval(NewInterval(url=url, start=at))
        await store.attach_interval(name, free.id)
    for url, at in (("before", earlier), ("exact", exact), ("after", later)):
        assert await valid(store, "a", at) == {"bpm": url}
    assert await valid(store, "a", exact._replace(major=exact.major - 1, minor=LARGEST)) == {}
    assert [(each.start, each.end) for each in await held(store, name)] == [
        (earlier, exact),
        (exact, later),
        (later, END),
    ]


async def test_all_of_a_tag_is_of_one_moment(store: ConditionsStore, make: Make) -> None:
    name, other = await tag_with(store, "a", "bpm", "quad")
    await store.insert({each: columns([new("old", 0)]) for each in (name, other)})
    changes = make()
    seen, parts = store.content("a"), []
    async for part in seen:
        parts.append(part)
        if len(parts) <= 2:
            await changes.insert({each: columns([new(f"new{len(parts)}", 0)]) for each in (name, other)})
    revision, *lists = parts
    assert [each.intervals.urls.tolist() for each in lists] == [["old"], ["old"]]  # type: ignore[union-attr]
    now = await store.tag("a")
    assert now.revision > revision.revision  # type: ignore[union-attr]
    assert [await valid(store, "a", 0)] == [{"bpm": "new2", "quad": "new2"}]
    empty = await store.add_tag("b", TagStatus.UNLOCKED)
    assert await content(store, "b") == (
        next(each for each in await store.revisions() if each.id == empty.id),
        {},
    )


async def test_calls_that_overlap_are_each_whole(store: ConditionsStore, make: Make) -> None:
    name = await bpm(store)
    others = [store, make(), make()]
    orders = [
        others[k % 3].insert({name: columns([new(f"n{k}", 2 * k, 2 * k + 5), new(f"m{k}", 2 * k + 1, 2 * k + 2)])})
        for k in range(12)
    ]
    first = await store.tag("a")
    assert await asyncio.gather(*orders) == [2] * 12
    assert len(await held(store, name)) > 12
    assert (await store.tag("a")).revision >= first.revision + 12
    made = await asyncio.gather(
        *(others[k % 3].add_tag("same", TagStatus.UNLOCKED) for k in range(4)), return_exceptions=True
    )
    assert sum(not isinstance(each, BaseException) for each in made) == 1
    free = await store.add_interval(new("x", 0, 1))
    tries = await asyncio.gather(*(each.attach_interval(name, free.id) for each in others), return_exceptions=True)
    assert sum(not isinstance(each, BaseException) for each in tries) == 1
