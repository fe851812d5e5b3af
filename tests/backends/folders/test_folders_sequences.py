"""Random histories against a brute-force model, on every store: snapshots, histories and changes are the same."""

import asyncio
import os
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends import open_folders_store
from backends.folders.base import FoldersStore
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.config import DatabaseConfig
from schemas.folders.blocks import OPEN
from schemas.folders.folders import Folder, FolderKind, FolderLayout
from tests.support.folders import CHANNELS, Report, Row, Source, block, new_folder, reports, rows
from tests.support.folders_model import TIMES, Model, of_reports
from tests.support.memory.folders import MemoryFoldersStore

MORE = int(os.environ.get("TRIGGERLOG_SEQUENCES") or 1)
"""So many times as many histories."""
IN_MEMORY, IN_A_DATABASE = 500 * MORE, 10 * MORE
LAYOUTS = {
    "postgresql": tuple(FolderLayout),
    "mariadb": (FolderLayout.WINDOW, FolderLayout.ARRAYS, FolderLayout.CHANNEL_MAX),
}

_times = st.integers(0, len(TIMES) - 1)
_channels = st.sampled_from(sorted(CHANNELS))
_values = st.integers(0, 10**9).map(float)
_closed = st.tuples(_channels, st.tuples(_times, _times).filter(lambda span: span[0] < span[1]), _values)
_open = st.tuples(_channels, st.tuples(_times, st.none()), _values)
_blocks = st.lists(st.one_of(_closed, _closed, _open), max_size=5)
# Reports on change in order of time, beside what may be refused.
_reports = st.tuples(_channels, st.lists(_times, unique=True, max_size=4).map(sorted)).map(
    lambda report: [(report[0], (since, None), float(since)) for since in report[1]]
)
histories = st.lists(
    st.one_of(*[st.tuples(st.just("insert"), st.one_of(_blocks, _reports))] * 4, st.tuples(st.just("tag"))),
    max_size=8,
)


class Player:
    """Does all to a folder and to its model."""

    def __init__(self, store: FoldersStore, folder: Folder) -> None:
        self._store, self._folder = store, folder
        self._source, self._model = Source(store), Model(folder.kind)
        self._versions: dict[str | None, int] = {}

    async def insert(self, given: list[tuple[int, tuple[int, int | None], float]]) -> None:
        """Insert intervals, twice: the second time changes nothing."""
        intervals = [
            (channel, TIMES[since], None if until is None else TIMES[until], value)
            for channel, (since, until), value in given
        ]
        insertion = self._source.next(block(self._folder, intervals))
        if self._model.insert(intervals):
            assert await self._store.insert(self._folder.path, insertion)
            assert not await self._store.insert(self._folder.path, insertion)
        else:
            with pytest.raises(ConditionsRefused) as refusal:
                await self._store.insert(self._folder.path, insertion)
            assert refusal.value.kind is RefusalKind.CONFLICT

    async def tag(self) -> None:
        """Tag a multi-version folder."""
        if self._folder.kind is FolderKind.MULTI:
            name = f"tag {len(self._versions)}"
            await self._store.add_tag(self._folder.path, name)
            self._versions[name] = self._model.version

    async def compare(self) -> None:
        """See that the store answers as the model, for HEAD and for each tag."""
        assert (await self._store.folder(self._folder.path)).version == self._model.version
        for tag, version in {**self._versions, None: self._model.version}.items():
            await self._compare(tag, version)

    async def _compare(self, tag: str | None, version: int) -> None:
        path, channels, store = self._folder.path, sorted(CHANNELS), self._store
        for time in TIMES:
            assert rows(await store.snapshot(path, time, tag)) == self._model.snapshot(channels, time, version), time
        seen = {channel: self._model.pieces(channel, version) for channel in channels}
        for channel in channels:
            for since, until in ((TIMES[0], TIMES[-1]), TIMES[3:5], TIMES[6:10:3]):
                held = [each for each in seen[channel] if each[1] < until and (each[2] is None or each[2] > since)]
                assert rows(await store.history(path, channel, since, until, tag)) == held
        for after, upto in (*pairwise(TIMES[::3]), (-1, TIMES[-1])):
            changed = rows(await store.changes(path, after, upto, tag))
            every = [each for channel in channels for each in self._model.pieces(channel, version, upto)]
            assert changed == [each for each in every if after < each[1] <= upto]
            if after >= 0:
                await self._see_applied(tag, after, upto, changed)

    async def _see_applied(self, tag: str | None, after: int, upto: int, changed: list[Any]) -> None:
        """Who applies changes to a snapshot has the later one."""
        snapshot = rows(await self._store.snapshot(self._folder.path, after, tag))
        held = {each[0]: each for each in (*snapshot, *changed)}
        valid = {channel: each[3] for channel, each in held.items() if each[2] is None or each[2] > upto}
        later = rows(await self._store.snapshot(self._folder.path, upto, tag))
        assert valid == {each[0]: each[3] for each in later}


def play_many(
    runner: asyncio.Runner, examples: int, store: FoldersStore, kinds: list[tuple[FolderKind, FolderLayout]]
) -> None:
    """Play histories, each in a folder of its own."""
    numbers = count(1)

    async def play(history: list[tuple[Any, ...]], kind: FolderKind, layout: FolderLayout) -> None:
        folder = await store.add_folder(new_folder(f"/{kind}/f{next(numbers)}", kind, layout))
        player = Player(store, folder)
        for order, *arguments in history:
            await getattr(player, order)(*arguments)
        await player.compare()
        await store.remove(folder.path)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(histories, st.sampled_from(kinds))
    def play_all(history: list[tuple[Any, ...]], how: tuple[FolderKind, FolderLayout]) -> None:
        runner.run(play(history, *how))

    play_all()


BASES: tuple[list[Row], ...] = ([], [(0, 2, 300, 1.0), (0, 300, 10**6, 2.0), (1, 9, None, 3.0)])
"""What a folder has before reports come."""


@st.composite
def reporting(draw: st.DrawFn) -> tuple[list[Row], list[Report], list[list[Report]]]:
    """What is there before; reports, each once; and the same in any order, some again, in several insertions."""
    base = draw(st.sampled_from(BASES))
    times = _times.map(TIMES.__getitem__)
    found = draw(st.dictionaries(st.tuples(_channels, times), st.one_of(st.none(), _values), min_size=1, max_size=10))
    given = [
        (channel, since, value) for (channel, since), value in found.items() if _may_be(base, channel, since, value)
    ]
    again = draw(st.lists(st.sampled_from(given), max_size=4)) if given else []
    blocks: list[list[Report]] = [[]]
    for each in draw(st.permutations([*given, *again])):
        blocks[-1].append(each)
        if draw(st.booleans()):
            blocks.append([])
    return base, given, blocks


def _may_be(base: list[Row], channel: int, since: int, value: float | None) -> bool:
    """Not where an interval begins; and no end in the midst of an interval that came with its end."""
    return not any(
        number == channel and (since == first or (value is None and until is not None and first < since < until))
        for number, first, until, _ in base
    )


def report_many(runner: asyncio.Runner, examples: int, store: FoldersStore, layouts: tuple[FolderLayout, ...]) -> None:
    """Report, each time into a folder of its own, and compare with what all reports together are."""
    numbers = count(1)

    async def play(base: list[Row], given: list[Report], blocks: list[list[Report]], layout: FolderLayout) -> None:
        folder = await store.add_folder(new_folder(f"/reports/f{next(numbers)}", layout=layout))
        source, stored, seen = Source(store), 0, 0
        await source.insert(folder, *base)
        for some in blocks:
            insertion = source.next(reports(folder, some))
            reported = await store.report(folder.path, insertion)
            stored, seen = stored + reported.stored, seen + reported.stored + reported.duplicates
            assert not reported.conflicts
            repeated = await store.report(folder.path, insertion)
            assert (repeated.stored, repeated.duplicates, repeated.conflicts) == (0, len(some), {})
        assert (stored, seen) == (len(given), sum(map(len, blocks)))
        await see(folder, base, given)
        others = [(channel, since, 1.5 if value is None else None) for channel, since, value in given]
        others += [(channel, since, value + 1) for channel, since, value in given if value is not None]
        reported = await source.report(folder, *others)
        assert (reported.stored, reported.duplicates, list(reported.conflicts)) == (0, 0, list(range(len(others))))
        await see(folder, base, given)
        await store.remove(folder.path)

    async def see(folder: Folder, base: list[Row], given: list[Report]) -> None:
        expected = [each for channel in sorted(CHANNELS) for each in of_reports(base, given, channel)]
        assert rows(await store.changes(folder.path, -1, OPEN - 1)) == expected
        held = [each for each in expected if each[1] != each[2]]
        for channel in CHANNELS:
            every = await store.history(folder.path, channel, 0, OPEN)
            assert rows(every) == [each for each in held if each[0] == channel]
        for time in TIMES:
            valid = [each for each in held if each[1] <= time and (each[2] is None or time < each[2])]
            assert rows(await store.snapshot(folder.path, time)) == valid

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(reporting(), st.sampled_from(layouts))
    def play_all(all_: tuple[list[Row], list[Report], list[list[Report]]], layout: FolderLayout) -> None:
        runner.run(play(*all_, layout))

    play_all()


def _kinds(layouts: tuple[FolderLayout, ...]) -> list[tuple[FolderKind, FolderLayout]]:
    multi = [layout for layout in layouts if layout.by_window]
    return [(FolderKind.SINGLE, each) for each in layouts] + [(FolderKind.MULTI, each) for each in multi]


def test_histories_in_memory() -> None:
    with asyncio.Runner() as runner:
        play_many(runner, IN_MEMORY, MemoryFoldersStore(), _kinds((FolderLayout.WINDOW,)))


def test_reports_in_memory() -> None:
    with asyncio.Runner() as runner:
        report_many(runner, IN_MEMORY, MemoryFoldersStore(), (FolderLayout.WINDOW,))


@pytest.mark.parametrize("server", LAYOUTS)
def test_histories_and_reports_in_a_database(
    server: str, request: pytest.FixtureRequest, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that an insertion has several chunks.
    monkeypatch.setattr("backends.sql.folders.session.CHUNK_BYTES", 100)
    database = DatabaseConfig(dsn=request.getfixturevalue(f"{server}_dsn"))

    with asyncio.Runner() as runner:
        store = open_folders_store(database, schema=schema, state_dir=tmp_path)
        runner.run(store.create())
        try:
            play_many(runner, len(_kinds(LAYOUTS[server])) * IN_A_DATABASE, store, _kinds(LAYOUTS[server]))
            layouts = tuple(layout for layout in LAYOUTS[server] if layout is not FolderLayout.ARRAYS)
            report_many(runner, len(layouts) * IN_A_DATABASE, store, layouts)
        finally:
            runner.run(store.drop())
            runner.run(store.close())
