"""What lies at the edge of what is permitted: times, names, widths, numbers; asked of every store of folders."""

from collections.abc import Callable

import numpy as np
import pytest

from backends import open_folders_store
from backends.folders.base import FoldersStore
from schemas.conditions.rules import RefusalKind
from schemas.folders.blocks import OPEN
from schemas.folders.folders import COLUMNS_MOST, TEXT_MOST, Column, FolderKind
from schemas.readings import SYSTEM_COLUMNS
from tests.support.folders import Source, block, new_folder, refused, rows
from tests.support.memory.folders import MemoryFoldersStore

UNKNOWN, INVALID = RefusalKind.UNKNOWN, RefusalKind.INVALID


@pytest.fixture
def kind_of_store() -> tuple[Callable[[], FoldersStore], Callable[..., FoldersStore]]:
    return MemoryFoldersStore, open_folders_store


@pytest.mark.parametrize("kind", FolderKind)
async def test_the_last_time_is_behind_everything(store: FoldersStore, kind: FolderKind) -> None:
    folder = await store.add_folder(new_folder(kind=kind))
    await Source(store).insert(folder, (0, 0, None, 1.0), (1, OPEN - 1, None, 2.0), (2, 0, OPEN - 1, 3.0))
    assert rows(await store.snapshot(folder.path, OPEN - 1)) == [(0, 0, None, 1.0), (1, OPEN - 1, None, 2.0)]
    assert rows(await store.snapshot(folder.path, OPEN - 2)) == [(0, 0, None, 1.0), (2, 0, OPEN - 1, 3.0)]
    assert rows(await store.snapshot(folder.path, OPEN)) == []
    assert rows(await store.snapshot(folder.path, -1)) == []
    assert rows(await store.changes(folder.path, OPEN - 2, OPEN)) == [(1, OPEN - 1, None, 2.0)]
    assert rows(await store.changes(folder.path, -1, 0)) == [(0, 0, None, 1.0), (2, 0, OPEN - 1, 3.0)]
    assert rows(await store.changes(folder.path, OPEN, OPEN)) == []
    assert rows(await store.history(folder.path, 1, OPEN - 1, OPEN)) == [(1, OPEN - 1, None, 2.0)]
    assert rows(await store.history(folder.path, 0, -1, 1)) == [(0, 0, None, 1.0)]


async def test_reports_at_the_first_and_the_last_time(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    await source.report(folder, (0, OPEN - 1, None), (0, 0, 1.0), (1, 0, None), (1, OPEN - 1, 2.0))
    await source.report(folder, (0, OPEN - 2, 3.0), (1, 1, 4.0))
    assert rows(await store.changes(folder.path, -1, OPEN)) == [
        (0, 0, OPEN - 2, 1.0),
        (0, OPEN - 2, OPEN - 1, 3.0),
        (0, OPEN - 1, OPEN - 1, 0.0),
        (1, 0, 0, 0.0),
        (1, 1, OPEN - 1, 4.0),
        (1, OPEN - 1, None, 2.0),
    ]
    assert rows(await store.snapshot(folder.path, 2**62)) == [(0, 0, OPEN - 2, 1.0), (1, 1, OPEN - 1, 4.0)]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300, "", "a'b\\", "HEAD"], ids=ascii)
async def test_what_has_a_name_that_nothing_can_have_is_not_there(store: FoldersStore, name: str) -> None:
    folder = await store.add_folder(new_folder(kind=FolderKind.MULTI))
    insertion = Source(store).next(block(folder, [(0, 1, 2, 1.0)]))
    for order in (
        store.folder(name),
        store.snapshot(name, 1),
        store.channels(name),
        store.tags(name),
        store.remove(name),
        store.add_tag(name, "t"),
        store.add_channels(name, {9: "n"}),
        store.insert(name, insertion),
    ):
        await refused(order, UNKNOWN, "path")
    await refused(store.snapshot(folder.path, 1, name), UNKNOWN, "tag")
    await refused(store.remove_tag(folder.path, name), UNKNOWN, "tag")
    assert await store.position(folder.path, name) is None


@pytest.mark.parametrize("channel", [-1, 5, 2**31, 2**63, -(2**80)])
async def test_a_channel_of_any_number_is_not_there(store: FoldersStore, channel: int) -> None:
    folder = await store.add_folder(new_folder())
    await refused(store.history(folder.path, channel, 0, 1), UNKNOWN, "channel")


async def test_a_column_that_a_database_has_in_every_table_is_refused(store: FoldersStore) -> None:
    for name in SYSTEM_COLUMNS:
        for column in (Column(name=name, dtype="int8"), Column(name=name.upper(), dtype="int8")):
            await refused(store.add_folder(new_folder(columns=(column,))), INVALID, "columns[0].name")


NAMES = ("fields", "value", "values", "id", "_id", "oid", "select", "table", "folder", "number", "c", "r", "x" * 63)


async def test_a_column_may_be_called_as_what_the_stores_have_themselves(store: FoldersStore) -> None:
    columns = (*(Column(name=name, dtype="int64") for name in NAMES), Column(name="note", dtype="text", width=3))
    folder = await store.add_folder(new_folder(columns=columns))
    given = np.zeros(2, folder.dtype)
    given["channel"], given["since"], given["until"], given["note"] = [0, 1], [1, 2], [5, OPEN], [b"a", b""]
    for number, name in enumerate(NAMES):
        given[name] = number
    assert await store.insert(folder.path, Source(store).next(given))
    assert (await store.snapshot(folder.path, 3)).tolist() == given.tolist()
    assert (await store.changes(folder.path, 0, 3)).tolist() == given.tolist()


@pytest.mark.parametrize("width", [1, 40, TEXT_MOST])
async def test_a_folder_has_as_many_texts_as_it_may(store: FoldersStore, width: int) -> None:
    # Of 40 bytes is what InnoDB has wholly in the row.
    columns = tuple(Column(name=f"t{k}", dtype="text", width=width) for k in range(COLUMNS_MOST))
    folder, source = await store.add_folder(new_folder(columns=columns)), Source(store)
    given = np.zeros(2, folder.dtype)
    given["channel"], given["since"], given["until"] = [0, 1], 1, [5, OPEN]
    for number, column in enumerate(columns):
        given[column.name] = [bytes([ord("!") + number % 90]) * width, b""]
    assert await store.insert(folder.path, source.next(given))
    assert (await store.snapshot(folder.path, 3)).tobytes() == given.tobytes()
    late = given[:1].copy()
    late["since"], late["until"] = 3, OPEN
    assert (await store.report(folder.path, source.next(late))).stored == 1
    assert (await store.history(folder.path, 0, 0, 9))["until"].tolist() == [3, 5]


async def test_numbers_below_the_least_normal_one_and_zero_without_its_sign(store: FoldersStore) -> None:
    columns = (Column(name="a", dtype="float32"), Column(name="b", dtype="float64"))
    folder = await store.add_folder(new_folder(columns=columns))
    tiny = (np.float32(1e-45), 5e-324)
    given = np.array(
        [(0, 1, OPEN, -0.0, -0.0), (1, 1, OPEN, *tiny), (2, 1, OPEN, -tiny[0], -2.2250738585072e-308)], folder.dtype
    )
    source = Source(store)
    assert (await store.report(folder.path, source.next(given))).stored == 3
    found = await store.snapshot(folder.path, 3)
    assert found.tolist() == given.tolist()
    assert not np.signbit([found["a"][0], found["b"][0]]).any()
    assert (await store.report(folder.path, source.next(given))).duplicates == 3


async def test_paths_and_channels_that_differ_in_case(store: FoldersStore) -> None:
    one = await store.add_folder(
        new_folder("/a/F", channels={1: "ß", 2: "ss", 3: "SS", 4: "ss ", 5: "é", 6: "e\u0301"})
    )
    other = await store.add_folder(new_folder("/A/f", channels={1: "x"}))
    third = await store.add_folder(new_folder("/a/f", channels={1: "x"}))
    await Source(store).insert(one, (1, 1, None, 1.0))
    assert rows(await store.snapshot(other.path, 2)) == []
    assert rows(await store.snapshot(third.path, 2)) == []
    await store.remove("/A/f")
    assert rows(await store.snapshot(one.path, 2)) == [(1, 1, None, 1.0)]
    assert [each.path for each in await store.sets()] == ["/A", "/a"]


async def test_a_window_covers_the_longest_interval_after_what_is_cut_and_removed(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    await source.insert(folder, (0, 10, 10**9, 1.0), (1, 5, None, 2.0))
    await source.report(folder, (0, 20, 3.0), (1, 2**40, None))
    assert rows(await store.snapshot(folder.path, 10**8)) == [(0, 20, 10**9, 3.0), (1, 5, 2**40, 2.0)]
    await store.remove(folder.path)
    folder, source = await store.add_folder(new_folder()), Source(store)
    assert rows(await store.snapshot(folder.path, 10**8)) == []
    assert await store.position(folder.path, "test") is None
    await source.insert(folder, (0, 10, 10**6, 1.0))
    await source.insert(folder, (1, 10, 10**6 + 8, 1.0))
    assert rows(await store.snapshot(folder.path, 10**6)) == [(1, 10, 10**6 + 8, 1.0)]
