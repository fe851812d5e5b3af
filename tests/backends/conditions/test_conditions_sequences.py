"""Sequences of orders against a brute-force model, on every store: whatever is done, it holds what the model does."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends import open_conditions_store
from backends.conditions import ConditionsStore
from schemas.conditions.intervals import NewInterval, TagStatus
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.config import DatabaseConfig
from tests.support.conditions import columns, content, held
from tests.support.conditions_model import CELLS, KEYS, TYPES, Model, ModelList, ModelTag
from tests.support.lives import SQL_SERVERS
from tests.support.memory.conditions import MemoryConditionsStore

MORE = int(os.environ.get("TRIGGERLOG_SEQUENCES") or 1)
"""So many times as many sequences."""
IN_MEMORY, IN_A_DATABASE = 1_000 * MORE, 15 * MORE
FEWEST_ORDERS, MOST_ORDERS = 4, 16

_small = st.integers(0, 7)
_spans = st.tuples(st.integers(0, CELLS - 1), st.integers(1, CELLS)).filter(lambda span: span[0] < span[1])
# An open interval of every second one: they are where locked tags and superseded ends matter.
_extents = st.one_of(_spans, st.integers(0, CELLS - 1).map(lambda first: (first, CELLS)))
_orders = st.one_of(
    *[st.tuples(st.just("attach"), _small, _extents)] * 4,
    st.tuples(st.just("attach_again"), _small, _small),
    st.tuples(st.just("insert"), st.lists(st.tuples(_small, st.lists(_extents, max_size=4)), min_size=1, max_size=3)),
    *[st.tuples(st.just("set_status"), _small, st.sampled_from(TagStatus))] * 2,
    st.tuples(st.just("clone"), _small),
    st.tuples(st.just("remove_tag"), _small),
    st.tuples(st.just("remove"), _small, _small),
    st.tuples(st.just("attach_list"), _small, _small),
    st.tuples(st.just("add_list"), st.sampled_from(TYPES)),
    st.tuples(st.just("remove_list"), _small),
)
sequences = st.lists(_orders, min_size=FEWEST_ORDERS, max_size=MOST_ORDERS)


class Player:
    """Gives each order to a store and to the model; the names of its tags begin with `prefix`."""

    def __init__(self, store: ConditionsStore, prefix: str) -> None:
        self.store, self.model, self._prefix = store, Model(), prefix
        self._names = count(1)
        self._ids: dict[int, int] = {}  # of the store, by number of the model
        self._first_id = 0
        self._revisions: dict[str, int] = {}

    async def begin(self) -> None:
        """Make a tag with a list of each type."""
        self._first_id = (await self.store.add_interval(NewInterval(url="first", start=KEYS[0]))).id
        await self._add_tag()
        for type_ in TYPES:
            await self._add_list(type_)
            await self.attach_list(0, -1)

    async def play(self, order: tuple[Any, ...]) -> None:
        """Give one order, and compare what there is then."""
        before = self._answers()
        statuses = {tag: each.status for tag, each in self.model.tags.items()}
        await getattr(self, order[0])(*order[1:])
        self._see_promises(statuses, before)
        await self.compare()

    async def attach(self, to: int, extent: tuple[int, int]) -> None:
        if name := self._list(to):
            stored = await self.store.add_interval(self._interval(extent))
            number = self.model.new(stored.url)
            self._ids[number] = stored.id
            self.model.loose[number] = extent
            await self._attach(name, number)

    async def attach_again(self, which: int, to: int) -> None:
        name = self._list(to)
        if name and self.model.loose:
            await self._attach(name, sorted(self.model.loose)[which % len(self.model.loose)])

    async def _attach(self, name: str, number: int) -> None:
        extent = self.model.loose[number]
        permitted = self.model.may_attach(name, *extent)
        order = self.store.attach_interval(name, self._ids[number])
        if await self._obeyed(order, permitted=permitted, kind=RefusalKind.STATUS):
            self.model.attach(name, number, *extent)

    async def insert(self, many: list[tuple[int, list[tuple[int, int]]]]) -> None:
        by_list = {name: extents for to, extents in many if (name := self._list(to))}
        intervals = {name: [self._interval(extent) for extent in extents] for name, extents in by_list.items()}
        order = self.store.insert({name: columns(each) for name, each in intervals.items()})
        trial, permitted = self.model.copy(), True
        for name, extents in by_list.items():
            for extent, interval in zip(extents, intervals[name], strict=True):
                permitted = permitted and trial.may_attach(name, *extent)
                trial.attach(name, trial.new(interval.url), *extent)
        if await self._obeyed(order, permitted=permitted, kind=RefusalKind.STATUS):
            self.model = trial

    async def set_status(self, which: int, status: TagStatus) -> None:
        tag = self._tag(which)
        permitted = self.model.tags[tag].status is not TagStatus.FROZEN
        if await self._obeyed(self.store.set_status(tag, status), permitted=permitted, kind=RefusalKind.STATUS):
            self.model.tags[tag].status = status

    async def clone(self, which: int) -> None:
        source, tag = self._tag(which), f"{self._prefix}{next(self._names)}"
        await self.store.clone_tag(source, tag)
        lists = await self.store.tag_lists(tag)
        assert set(lists) == set(self.model.tags[source].lists)
        self.model.clone(source, tag, [lists[type_] for type_ in sorted(lists)])

    async def remove_tag(self, which: int) -> None:
        tag = self._tag(which)
        if len(self.model.tags) == 1:
            return
        permitted = self.model.tags[tag].status is TagStatus.UNLOCKED
        if await self._obeyed(self.store.remove_tag(tag), permitted=permitted, kind=RefusalKind.STATUS):
            self.model.remove_tag(tag)

    async def remove(self, which: int, run: int) -> None:
        name = self._list(which)
        if name is None or self.model.lists[name].tag is None:
            return
        of, tag = self.model.lists[name], str(self.model.lists[name].tag)
        runs = list(of.runs())
        permitted = self.model.tags[tag].status is TagStatus.UNLOCKED
        if not runs:
            return
        number, first, after = runs[run % len(runs)]
        order = self.store.remove_interval(tag, of.type, KEYS[first], KEYS[after])
        if await self._obeyed(order, permitted=permitted, kind=RefusalKind.STATUS):
            self.model.remove(name, number)

    async def attach_list(self, which: int, to_attach: int) -> None:
        tag, name = self._tag(which), self._list(to_attach)
        if name is None:
            return
        to, each = self.model.tags[tag], self.model.lists[name]
        if each.tag not in (None, tag):
            await self._obeyed(self.store.attach_list(tag, name), permitted=False, kind=RefusalKind.CONFLICT)
            return
        permitted = to.status is TagStatus.UNLOCKED or (to.status is TagStatus.LOCKED and each.type not in to.lists)
        if await self._obeyed(self.store.attach_list(tag, name), permitted=permitted, kind=RefusalKind.STATUS):
            if each.type in to.lists:
                self.model.lists[to.lists[each.type]].tag = None
            each.tag, to.lists[each.type] = tag, name

    async def add_list(self, type_: str) -> None:
        await self._add_list(type_)

    async def remove_list(self, which: int) -> None:
        name = self._list(which)
        if name is not None:
            tag = self.model.tags.get(str(self.model.lists[name].tag))
            is_frozen = tag is not None and tag.status is TagStatus.FROZEN
            permitted = not is_frozen and not any(self.model.lists[name].runs())
            kind = RefusalKind.STATUS if is_frozen else RefusalKind.CONFLICT
            if await self._obeyed(self.store.remove_list(name), permitted=permitted, kind=kind):
                removed = self.model.lists.pop(name)
                if tag is not None:
                    del tag.lists[removed.type]

    async def compare(self) -> None:
        """See that the store holds what the model does, under ids that stay."""
        extents: dict[int, tuple[int, int]] = {}
        for name, each in reversed(self.model.lists.items()):
            found, runs = await held(self.store, name), list(each.runs())
            assert [(one.url, one.start, one.end) for one in found] == [
                (self.model.urls[number], KEYS[first], KEYS[after]) for number, first, after in runs
            ]
            for one, (number, first, after) in zip(found, runs, strict=True):
                if number not in self._ids:
                    assert one.id not in self._ids.values()
                assert self._ids.setdefault(number, one.id) == one.id
                extents[number] = first, after
        await self._compare_intervals({**extents, **self.model.loose})
        await self._compare_tags()

    async def _compare_intervals(self, extents: dict[int, tuple[int, int]]) -> None:
        holders = self.model.holders()
        every = {each.id: each for each in await self.store.intervals(self._first_id, 100_000)}
        for number in extents.keys() - self._ids.keys():
            # Made and detached by one order: it was never seen in a list.
            what = (self.model.urls[number], None, *(KEYS[cell] for cell in extents[number]))
            known = set(self._ids.values())
            self._ids[number] = next(
                id_
                for id_, each in every.items()
                if id_ not in known and (each.url, each.list, each.start, each.end) == what
            )
        assert {id_: (each.list, each.start, each.end) for id_, each in every.items()} == {
            self._ids[number]: (holders.get(number), KEYS[first], KEYS[after])
            for number, (first, after) in extents.items()
        }

    async def _compare_tags(self) -> None:
        revisions = {each.name: each for each in await self.store.revisions()}
        for tag, each in self.model.tags.items():
            assert dict(await self.store.tag_lists(tag)) == each.lists
            revision, lists = await content(self.store, tag)
            assert revision == revisions[tag]
            assert revision.status is each.status
            assert {name: [one.url for one in found] for name, found in lists.items()} == {
                name: [self.model.urls[number] for number, _, _ in self.model.lists[name].runs()]
                for name in each.lists.values()
            }
            at = len(self.model.urls) % CELLS
            _, valid = await self.store.valid_at(tag, KEYS[at])
            cells = {type_: self.model.lists[name].cells[at] for type_, name in each.lists.items()}
            assert {one.type: one.interval.id for one in valid} == {
                type_: self._ids[number] for type_, number in cells.items() if number is not None
            }

    def _answers(self) -> dict[str, dict[str, list[int | None]]]:
        return {
            tag: {type_: list(self.model.lists[name].cells) for type_, name in each.lists.items()}
            for tag, each in self.model.tags.items()
        }

    def _see_promises(self, statuses: dict[str, TagStatus], before: dict[str, dict[str, list[int | None]]]) -> None:
        """What a locked tag answered it answers again, but where its open interval is superseded; a frozen one all."""
        now = self._answers()
        for tag, status in statuses.items():
            if status is TagStatus.FROZEN:
                assert now[tag] == before[tag]
            if status is TagStatus.LOCKED:
                for type_, cells in before[tag].items():
                    then = now[tag].get(type_, [None] * CELLS)  # an empty list may go
                    changed = [k for k in range(CELLS) if cells[k] not in (None, then[k])]
                    assert {cells[k] for k in changed} <= {cells[-1]}
                    assert changed == list(range(CELLS - len(changed), CELLS))

    async def _obeyed(self, order: Awaitable[object], *, permitted: bool, kind: RefusalKind) -> bool:
        if permitted:
            await order
        else:
            with pytest.raises(ConditionsRefused) as refusal:
                await order
            assert refusal.value.kind is kind
        return permitted

    async def _add_tag(self) -> None:
        tag = f"{self._prefix}{next(self._names)}"
        await self.store.add_tag(tag, TagStatus.UNLOCKED)
        self.model.tags[tag] = ModelTag()

    async def _add_list(self, type_: str) -> None:
        made = await self.store.add_list(type_)
        self.model.lists[made.name] = ModelList(type=type_)

    def _interval(self, extent: tuple[int, int]) -> NewInterval:
        url = f"{self._prefix}{next(self._names)}"
        return NewInterval(url=url, checksum=url[::-1], size=extent[0], start=KEYS[extent[0]], end=KEYS[extent[1]])

    def _tag(self, which: int) -> str:
        return list(self.model.tags)[which % len(self.model.tags)]

    def _list(self, which: int) -> str | None:
        names = list(self.model.lists)
        return names[which % len(names)] if names else None


def play_many(runner: asyncio.Runner, examples: int, open_store: Callable[[], ConditionsStore]) -> None:
    """Play sequences, each with tags of its own."""
    numbers = count(1)

    async def play(orders: list[tuple[Any, ...]]) -> None:
        store = open_store()
        known = {each.name for each in await store.types()}
        for type_ in sorted(set(TYPES) - known):
            await store.add_type(type_)
        player = Player(store, f"t{next(numbers)}_")
        await player.begin()
        for order in orders:
            await player.play(order)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(sequences)
    def play_all(orders: list[tuple[Any, ...]]) -> None:
        runner.run(play(orders))

    play_all()


def test_sequences_of_orders_in_memory() -> None:
    with asyncio.Runner() as runner:
        play_many(runner, IN_MEMORY, MemoryConditionsStore)


@pytest.mark.parametrize("server", SQL_SERVERS)
def test_sequences_of_orders_in_a_database(
    server: str, request: pytest.FixtureRequest, schema: str, tmp_path: Path
) -> None:
    database = DatabaseConfig(dsn=request.getfixturevalue(f"{server}_dsn"))
    with asyncio.Runner() as runner:
        store = open_conditions_store(database, schema=schema, state_dir=tmp_path)
        runner.run(store.create())
        try:
            play_many(runner, IN_A_DATABASE, lambda: store)
        finally:
            runner.run(store.drop())
            runner.run(store.close())
