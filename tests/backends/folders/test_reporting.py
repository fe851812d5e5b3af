"""The store that has folders for groups that report on change, over folders in memory."""

from dataclasses import replace

import numpy as np
import pytest

from backends.base import BatchRejected, CommitsLost, SchemaMismatch, StoreError, StoreUnavailable
from backends.folders.reporting import ReportingStore
from schemas.batch import Batch, Durability, JournalPosition, Stream
from schemas.folders.folders import Column, FolderKind, FolderLayout, NewFolder
from schemas.ledger import ledger_dtype
from schemas.queries import LedgerTail, Totals
from schemas.readings import Channel, InstrumentGroup
from tests.support.memory.folders import MemoryFoldersStore
from tests.support.memory.store import MemoryStore
from tests.support.reports import CURRENTS, NAN, PATH, Report, expected, in_folder, readings_of, reporting_to_memory


def batch(number: int, *reports: Report, stream: Stream = Stream.JOURNAL, follows: int | None = None) -> Batch:
    late = readings_of(reports)
    rows = np.zeros(len(late), ledger_dtype(CURRENTS.size))
    return Batch(
        readings=np.empty((0, CURRENTS.size), CURRENTS.record),
        present=np.empty((0, CURRENTS.size), bool),
        ledger=rows[:0],
        late=late,
        late_of=np.arange(len(late)),
        revised=rows,
        group=CURRENTS,
        position=JournalPosition(sequence=number, journal=7, readings=len(late), state=b"sessions"),
        durability=Durability.SYNC,
        stream=stream,
        follows=None if follows is None else JournalPosition(sequence=follows, journal=7),
    )


async def test_a_batch_is_there_once_with_its_whole_position() -> None:
    store, folders = await reporting_to_memory()
    assert await store.position(CURRENTS.name) is None
    for _ in range(2):
        await store.commit(batch(1, (0, 10, 1.0), (1, 10, 2.0), (0, 20, NAN)))
    assert await store.position(CURRENTS.name) == batch(1, (0, 0, 0.0), (0, 0, 0.0), (0, 0, 0.0)).position
    # Dead letters that are retried count for themselves.
    await store.commit(batch(1, (2, 5, 3.0), stream=Stream.DEAD_LETTERS))
    assert await in_folder(folders) == expected([(0, 10, 1.0), (1, 10, 2.0), (0, 20, NAN), (2, 5, 3.0)])
    with pytest.raises(CommitsLost):
        await store.commit(batch(9, (0, 30, 1.0), follows=8))


async def test_a_batch_with_a_conflict_is_rejected_whole_and_a_rehearsal_says_so() -> None:
    store, folders = await reporting_to_memory()
    await store.commit(batch(1, (0, 10, 1.0)))
    bad = batch(2, (0, 10, 2.0), (1, 10, 2.0))
    for what in (store.commit, store.rehearse):
        with pytest.raises(BatchRejected, match="another value of that instrument and time is there") as rejected:
            await what(bad)
        assert rejected.value.detail == "channel 0 has another value since 10"
    await store.rehearse(batch(2, (1, 10, 2.0)))
    assert await in_folder(folders) == expected([(0, 10, 1.0)])
    infinite = batch(2, (1, 10, np.inf))
    with pytest.raises(BatchRejected, match="it is no finite number"):
        await store.commit(infinite)


async def test_a_folder_that_was_removed_is_waited_for() -> None:
    store, folders = await reporting_to_memory()
    await folders.remove(PATH)
    with pytest.raises(StoreUnavailable, match="the folder cannot be reported into: path: folder /magnets/current"):
        await store.commit(batch(1, (0, 10, 1.0)))
    await store.open()
    await store.commit(batch(1, (0, 10, 1.0)))


async def test_a_database_that_went_away_while_it_was_opened_is_opened_again() -> None:
    class Tables(MemoryStore):
        opened = 0

        async def open(self) -> None:
            self.opened += 1

        async def close(self) -> None:
            self.opened -= 1

    tables, folders = Tables({}), MemoryFoldersStore()
    store = ReportingStore(tables, folders, {CURRENTS.name: CURRENTS}, logger="test")
    folders.fail_with(StoreUnavailable("away"))
    with pytest.raises(StoreUnavailable, match="away"):
        await store.open()
    assert tables.opened == 0
    folders.fail_with(None)
    await store.open()
    assert tables.opened == 1


async def test_reports_have_no_ledger_and_are_in_no_table() -> None:
    store, _ = await reporting_to_memory()
    assert not len(await store.ask(LedgerTail(group=CURRENTS, most=10)))
    with pytest.raises(StoreError, match="group current reports on change, into folder /magnets/current"):
        await store.ask(Totals(group=CURRENTS, within_s=1.0))


async def test_instruments_may_be_added_to_a_group() -> None:
    store, folders = await reporting_to_memory()
    more = replace(CURRENTS, instruments=(*CURRENTS.instruments, "Q4"))
    assert await ReportingStore(MemoryStore({}), folders, {more.name: more}, logger="test").check() == []
    await ReportingStore(MemoryStore({}), folders, {more.name: more}, logger="test").open()
    assert await folders.channels(PATH) == dict(enumerate(more.instruments))
    await store.open()


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        (replace(CURRENTS, channels=CURRENTS.channels[:1]), "its columns are ampere float64, volt float32, and the"),
        (
            replace(CURRENTS, channels=(Channel(name="ampere", unit="", dtype="float32"), CURRENTS.channels[1])),
            "its columns are ampere float64, volt float32, and the channels of group current are ampere float32",
        ),
        (replace(CURRENTS, instruments=("Q1", "QX")), "its channel 1 is Q2, and instrument 1 of the group is QX"),
        (replace(CURRENTS, folder="/multi"), "it is a multi-version folder, where no value ends the one before"),
        (replace(CURRENTS, folder="/chunks"), "its layout is arrays, which takes no reports"),
        (replace(CURRENTS, folder="/magnets"), "/magnets"),
        (replace(CURRENTS, folder=f"{PATH}/q1"), f"{PATH} is a folder"),
    ],
)
async def test_a_folder_that_does_not_fit_is_refused_and_nothing_is_changed(
    group: InstrumentGroup, problem: str
) -> None:
    _, folders = await reporting_to_memory()
    columns = (Column(name="ampere", dtype="float64"),)
    await folders.add_folder(NewFolder(path="/multi", columns=columns, kind=FolderKind.MULTI))
    await folders.add_folder(NewFolder(path="/chunks", columns=columns, layout=FolderLayout.ARRAYS))
    before = [(each, await folders.channels(each.path)) for each in await folders.folders()]
    with pytest.raises(SchemaMismatch, match="Give the group another `folder`") as refused:
        await ReportingStore(MemoryStore({}), folders, {group.name: group}, logger="test").open()
    assert f"group current cannot report into folder {group.folder}: " in str(refused.value)
    assert problem in str(refused.value)
    assert [(each, await folders.channels(each.path)) for each in await folders.folders()] == before


async def test_what_is_missing_is_named_before_it_is_made() -> None:
    folders = MemoryFoldersStore()
    store = ReportingStore(MemoryStore({}), folders, {CURRENTS.name: CURRENTS}, logger="test")
    assert f"folder {PATH} of group `current`" in await store.check()
    assert list(await folders.folders()) == []
