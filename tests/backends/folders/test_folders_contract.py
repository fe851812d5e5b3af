"""What `backends.folders.base.FoldersStore` promises, asked of every store of folders; histories are in `sequences`."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends import open_conditions_store, open_folders_store
from backends.base import CommitsLost, OtherJournal, SchemaMismatch
from backends.folders.base import FoldersStore
from schemas.batch import JournalPosition
from schemas.conditions.rules import RefusalKind
from schemas.config import DatabaseConfig
from schemas.folders.blocks import OPEN, Insertion
from schemas.folders.folders import Column, FolderKind, FolderLayout, NewFolder
from schemas.readings import CHANNEL_DTYPES
from tests.support.folders import CHANNELS, Source, block, everything, new_folder, refused, reports, rows
from tests.support.memory.folders import MemoryFoldersStore

UNKNOWN, EXISTS, CONFLICT, _, INVALID = RefusalKind

BOTH = (FolderLayout.WINDOW, FolderLayout.ARRAYS)
"""Ways to store intervals that have nothing in common."""

Make = Callable[[], FoldersStore]


@pytest.fixture
def kind_of_store() -> tuple[Callable[[], FoldersStore], Callable[..., FoldersStore]]:
    return MemoryFoldersStore, open_folders_store


# --- the schema and the tree -----------------------------------------------------------------------------------------


async def test_a_schema_is_created_once_shared_and_dropped(make: Make) -> None:
    one, other = make(), make()
    await asyncio.gather(one.create(), other.create())
    await one.create()
    folder = await one.add_folder(new_folder())
    assert list(await other.folders()) == [folder]
    await Source(one).insert(folder, (7, 1, 2, 1.0))
    await one.drop()
    await one.create()
    assert list(await one.folders()) == []
    # Nothing is known any more of what was there.
    folder = await one.add_folder(new_folder(channels={1: "x"}))
    source = Source(one)
    await refused(one.insert(folder.path, source.next(block(folder, [(7, 1, 2, 1.0)]))), UNKNOWN, "channel")
    await source.insert(folder, (1, 1, 2, 1.0))


async def test_a_schema_of_conditions_is_refused(make: Make, dsn: str | None, schema: str, tmp_path: Path) -> None:
    if dsn is None:
        return
    store = make()
    await store.create()
    conditions = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=tmp_path)
    with pytest.raises(SchemaMismatch, match="another `schema`"):
        await conditions.create()
    await conditions.close()


async def test_folders_and_sets_make_a_tree(store: FoldersStore) -> None:
    new = replace(new_folder("/magnets/quads/current"), description="A of each quadrupole")
    folder = await store.add_folder(new)
    about = (folder.path, folder.kind, folder.layout, folder.columns, folder.description, folder.version)
    assert about == (new.path, new.kind, new.layout, new.columns, new.description, 0)
    assert folder.dtype == new.dtype
    assert await store.folder(new.path) == folder
    other = await store.add_folder(new_folder("/magnets/bends"))
    made = await store.add_set("/vacuum/gauges", "all of them")
    assert list(await store.folders()) == [other, folder]
    found = await store.sets()
    assert [each.path for each in found] == ["/magnets", "/magnets/quads", "/vacuum", "/vacuum/gauges"]
    assert found[-1] == made
    assert made.description == "all of them"
    await refused(store.remove("/magnets"), CONFLICT, "path")
    await store.remove("/magnets/quads/current")
    await store.remove("/magnets/quads")
    await refused(store.folder("/magnets/quads/current"), UNKNOWN, "path")
    await refused(store.remove("/magnets/quads"), UNKNOWN, "path")
    assert list(await store.folders()) == [other]


@pytest.mark.parametrize("path", ["", "/", "quads", "/a//b", "/a/", "/a b", "/" + "x" * 255])
async def test_a_wrong_path_is_refused(store: FoldersStore, path: str) -> None:
    await refused(store.add_set(path), INVALID, "path")
    await refused(store.add_folder(new_folder(path)), INVALID, "path")


async def test_a_path_is_taken_once_and_a_folder_has_nothing_below(store: FoldersStore) -> None:
    await store.add_folder(new_folder("/a/f"))
    before = await everything(store)
    await refused(store.add_folder(new_folder("/a/f")), EXISTS, "path")
    await refused(store.add_folder(new_folder("/a")), EXISTS, "path")
    await refused(store.add_set("/a"), EXISTS, "path")
    await refused(store.add_folder(new_folder("/a/f/g")), CONFLICT, "path")
    await refused(store.add_set("/a/f/s/t"), CONFLICT, "path")
    assert await everything(store) == before


async def test_one_of_two_that_add_the_same_folder_gets_it(make: Make) -> None:
    one, other = make(), make()
    await one.create()
    results = await asyncio.gather(
        *(store.add_folder(new_folder("/a/f")) for store in (one, other)), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in results) == ["ConditionsRefused", "Folder"]
    assert len(await one.folders()) == 1


WRONG: tuple[tuple[str, NewFolder], ...] = (
    ("columns", new_folder(columns=())),
    ("columns[0].name", new_folder(columns=(Column(name="since", dtype="int8"),))),
    ("columns[0].name", new_folder(columns=(Column(name="a b", dtype="int8"),))),
    ("columns[1].name", new_folder(columns=(Column(name="a", dtype="int8"), Column(name="A", dtype="int8")))),
    ("columns[0].dtype", new_folder(columns=(Column(name="a", dtype="uint64"),))),
    ("columns[0].width", new_folder(columns=(Column(name="a", dtype="text"),))),
    ("columns[0].width", new_folder(columns=(Column(name="a", dtype="text", width=16_001),))),
    ("columns[0].width", new_folder(columns=(Column(name="a", dtype="int8", width=1),))),
    ("layout", new_folder(kind=FolderKind.MULTI, layout=FolderLayout.CHANNEL_MAX)),
    ("channels[-1]", new_folder(channels={-1: "a"})),
    ("channels[2147483648]", new_folder(channels={2**31: "a"})),
    ("channels[2]", new_folder(channels={1: "a", 2: "a"})),
    ("channels[1]", new_folder(channels={1: ""})),
)


@pytest.mark.parametrize(("field", "wrong"), WRONG)
async def test_a_wrong_folder_is_refused(store: FoldersStore, field: str, wrong: NewFolder) -> None:
    await refused(store.add_folder(wrong), INVALID, field)
    assert list(await store.folders()) == list(await store.sets()) == []


async def test_channels_have_numbers_and_names(store: FoldersStore) -> None:
    folder = await store.add_folder(new_folder(channels={}))
    assert dict(await store.channels(folder.path)) == {}
    await store.add_channels(folder.path, {7: "é 'x'\\", 3: "b"})
    await store.add_channels(folder.path, {2**31 - 1: "B"})
    found = await store.channels(folder.path)
    assert list(found.items()) == [(3, "b"), (7, "é 'x'\\"), (2**31 - 1, "B")]
    await refused(store.add_channels(folder.path, {8: "new", 3: "c"}), EXISTS, "channels[3]")
    await refused(store.add_channels(folder.path, {8: "b"}), EXISTS, "channels[8]")
    await refused(store.add_channels("/no", {8: "b"}), UNKNOWN, "path")
    assert await store.channels(folder.path) == found


# --- insertions ------------------------------------------------------------------------------------------------------


async def test_a_new_value_ends_the_open_one_before(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    await source.insert(folder, (0, 10, None, 1.0), (1, 12, None, 5.0))
    await source.insert(folder, (0, 20, None, 2.0), (0, 15, None, 1.5))
    await source.insert(folder, (0, 30, 40, 3.0), (2, 0, 5, 9.0))
    assert rows(await store.history(folder.path, 0, 0, 100)) == [
        (0, 10, 15, 1.0),
        (0, 15, 20, 1.5),
        (0, 20, 30, 2.0),
        (0, 30, 40, 3.0),
    ]
    assert rows(await store.snapshot(folder.path, 19)) == [(0, 15, 20, 1.5), (1, 12, None, 5.0)]
    assert rows(await store.snapshot(folder.path, 20)) == [(0, 20, 30, 2.0), (1, 12, None, 5.0)]
    assert rows(await store.snapshot(folder.path, 40)) == [(1, 12, None, 5.0)]
    assert rows(await store.changes(folder.path, 12, 20)) == [(0, 15, 20, 1.5), (0, 20, 30, 2.0)]
    assert (await store.folder(folder.path)).version == 3


async def test_what_overlaps_is_refused_and_changes_nothing(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    await source.insert(folder, (0, 10, 20, 1.0), (0, 30, None, 2.0), (1, 10, 2**60, 3.0))
    before = await everything(store)
    for wrong in (
        [(0, 19, 21, 0.0)],
        [(0, 5, 11, 0.0)],
        [(0, 0, 100, 0.0)],
        [(0, 30, None, 0.0)],
        [(0, 30, 31, 0.0)],
        [(0, 20, None, 0.0)],
        [(1, 2**60 - 1, 2**60, 0.0)],
        [(2, 1, 3, 0.0), (2, 2, 4, 0.0)],
        [(2, 1, None, 0.0), (2, 1, None, 0.0)],
        [(2, 1, 3, 0.0), (0, 12, 13, 0.0)],
    ):
        refusal = await refused(store.insert(folder.path, source.next(block(folder, wrong))), CONFLICT, "since")
        assert f"channel {wrong[-1][0]}" in str(refusal)
    assert await everything(store) == before
    await source.insert(folder, (0, 20, 30, 4.0), (0, 0, 10, 5.0))


async def test_reports_hold_until_the_next_one_whatever_their_order(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    reported = await source.report(folder, (0, 20, 2.0), (1, 5, 7.0), (0, 30, None))
    assert (reported.stored, reported.duplicates, reported.conflicts) == (3, 0, {})
    # What comes late ends where the next one begins, or the value ended.
    await source.report(folder, (0, 25, 2.5), (0, 10, 1.0), (2, 1, None))
    await source.report(folder, (0, 22, 2.2))
    assert rows(await store.history(folder.path, 0, 0, 100)) == [
        *((0, 10, 20, 1.0), (0, 20, 22, 2.0), (0, 22, 25, 2.2), (0, 25, 30, 2.5)),
    ]
    assert rows(await store.snapshot(folder.path, 29)) == [(0, 25, 30, 2.5), (1, 5, None, 7.0)]
    assert rows(await store.snapshot(folder.path, 30)) == [(1, 5, None, 7.0)]
    assert rows(await store.changes(folder.path, 25, 30)) == [(0, 30, 30, 0.0)]
    await source.report(folder, (0, 35, 3.5))
    assert rows(await store.snapshot(folder.path, 40)) == [(0, 35, None, 3.5), (1, 5, None, 7.0)]
    assert rows(await store.snapshot(folder.path, 31)) == [(1, 5, None, 7.0)]
    assert (await store.folder(folder.path)).version == 4


async def test_a_report_that_conflicts_is_told_and_the_others_are_stored(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    await source.report(folder, (0, 20, 2.0), (1, 20, None))
    given = [(0, 20, 2.5), (0, 21, 3.0), (1, 20, 1.0), (0, 20, 2.0), (1, 20, None), (0, 20, None), (0, 21, 4.0)]
    insertion = source.next(reports(folder, given))
    reported = await store.report(folder.path, insertion)
    assert (reported.stored, reported.duplicates, list(reported.conflicts)) == (1, 2, [0, 2, 5, 6])
    refusal = reported.conflicts[2]
    assert (refusal.kind, refusal.field) == (CONFLICT, "block[2]")
    assert "channel 1 has another value since 20" in str(refusal)
    before = await everything(store)
    # Who has not heard the answer still learns which of them conflict.
    again = await store.report(folder.path, insertion)
    assert (again.stored, again.duplicates, list(again.conflicts)) == (0, 3, [0, 2, 5, 6])
    assert await everything(store) == before
    assert rows(await store.history(folder.path, 0, 0, 100)) == [(0, 20, 21, 2.0), (0, 21, None, 3.0)]


async def test_a_report_that_is_to_be_whole_or_is_rehearsed_stores_nothing_where_one_conflicts(
    store: FoldersStore,
) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    await source.report(folder, (0, 20, 2.0))
    before = await everything(store)
    bad = source.next(reports(folder, [(0, 20, 2.5), (1, 21, 3.0)]))
    good = replace(bad, block=reports(folder, [(1, 21, 3.0), (0, 30, None)]))
    for how in ({"whole": True}, {"rehearse": True}, {"whole": True, "rehearse": True}):
        reported = await store.report(folder.path, bad, **how)
        assert (reported.stored, list(reported.conflicts)) == (0, [0])
    assert not (await store.report(folder.path, good, rehearse=True)).conflicts
    assert await everything(store) == before
    reported = await store.report(folder.path, good, whole=True)
    assert (reported.stored, reported.conflicts) == (2, {})
    assert await store.position(folder.path, good.source) == good.position
    assert (await store.report(folder.path, good, whole=True)).stored == 0
    nothing = source.next(reports(folder, []))
    assert (await store.report(folder.path, nothing, whole=True)).stored == 0
    assert await store.position(folder.path, good.source) == nothing.position
    assert rows(await store.snapshot(folder.path, 40)) == [(1, 21, None, 3.0)]


async def test_reports_go_between_intervals_that_came_with_their_ends(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    await source.insert(folder, (0, 10, 20, 1.0), (0, 30, 40, 3.0), (1, 50, None, 5.0))
    await source.report(folder, (0, 15, 1.5), (0, 25, 2.5), (0, 5, 0.5), (0, 45, 4.5), (1, 40, 4.0))
    await source.report(folder, (0, 35, None), (1, 55, None))
    assert rows(await store.changes(folder.path, 0, 100)) == [
        *((0, 5, 10, 0.5), (0, 10, 15, 1.0), (0, 15, 20, 1.5), (0, 25, 30, 2.5), (0, 30, 35, 3.0)),
        *((0, 35, 35, 0.0), (0, 45, None, 4.5), (1, 40, 50, 4.0), (1, 50, 55, 5.0), (1, 55, 55, 0.0)),
    ]


async def test_an_end_is_inserted_as_an_interval_of_no_length(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    await source.insert(folder, (0, 10, None, 1.0), (1, 10, None, 1.0), (1, 12, 12, 9.0))
    await source.insert(folder, (0, 20, 20, np.nan))
    assert rows(await store.snapshot(folder.path, 19)) == [(0, 10, 20, 1.0)]
    assert rows(await store.snapshot(folder.path, 20)) == []
    assert rows(await store.changes(folder.path, 11, 30)) == [(0, 20, 20, 0.0), (1, 12, 12, 0.0)]
    before = await everything(store)
    for wrong in ((0, 20, None, 2.0), (0, 15, 15, 2.0), (0, 20, 20, 2.0), (1, 11, 13, 2.0), (0, 18, 21, 2.0)):
        await refused(store.insert(folder.path, source.next(block(folder, [wrong]))), CONFLICT, "since")
    assert await everything(store) == before
    await source.insert(folder, (0, 21, None, 2.0), (1, 13, 14, 2.0))
    assert rows(await store.snapshot(folder.path, 100)) == [(0, 21, None, 2.0)]


async def test_wrong_reports_are_refused(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder()), Source(store)
    multi = await store.add_folder(new_folder("/multi", FolderKind.MULTI))
    given = reports(folder, [(0, 1, 1.0), (0, 2, None)])
    await refused(store.report(multi.path, source.next(given)), CONFLICT, "path")
    await refused(store.report("/no", source.next(given)), UNKNOWN, "path")
    arrays = await store.add_folder(new_folder("/arrays", layout=FolderLayout.ARRAYS))
    await refused(store.report(arrays.path, source.next(given)), CONFLICT, "path")
    await refused(store.insert(multi.path, source.next(given)), INVALID, "block[1].until")
    for kind, field, wrong in (
        (UNKNOWN, "channel", (5, 3, None, 1.0)),
        (INVALID, "block[0].until", (0, 3, 4, 1.0)),
        (INVALID, "block[0].since", (0, OPEN, OPEN, 1.0)),
        (INVALID, "block[0].value", (0, 3, None, np.nan)),
    ):
        await refused(store.report(folder.path, source.next(block(folder, [wrong]))), kind, field)
    assert (await store.folder(folder.path)).version == 0
    reported = await store.report(folder.path, source.next(given[:0]))
    assert (reported.stored, reported.duplicates, reported.conflicts) == (0, 0, {})
    lost = replace(source.next(given), follows=JournalPosition(sequence=100))
    with pytest.raises(CommitsLost):
        await store.report(folder.path, lost)
    assert (await source.report(folder, (0, 1, 1.0))).stored == 1


async def test_a_newer_version_hides_an_older_one_which_a_tag_still_shows(store: FoldersStore) -> None:
    folder, source = await store.add_folder(new_folder(kind=FolderKind.MULTI)), Source(store)
    await source.insert(folder, (0, 0, 100, 1.0), (1, 0, None, 7.0))
    (tag,) = await store.add_tag(folder.path, "first")
    assert (tag.path, tag.name, tag.version) == (folder.path, "first", 1)
    await source.insert(folder, (0, 40, 60, 2.0))
    await source.insert(folder, (0, 50, 55, 3.0), (1, 10, None, 8.0))
    assert rows(await store.history(folder.path, 0, 0, 200)) == [
        (0, 0, 40, 1.0),
        (0, 40, 50, 2.0),
        (0, 50, 55, 3.0),
        (0, 55, 60, 2.0),
        (0, 60, 100, 1.0),
    ]
    assert rows(await store.snapshot(folder.path, 57)) == [(0, 40, 60, 2.0), (1, 10, None, 8.0)]
    assert rows(await store.snapshot(folder.path, 57, "first")) == [(0, 0, 100, 1.0), (1, 0, None, 7.0)]
    assert rows(await store.changes(folder.path, 40, 60)) == [
        (0, 50, 55, 3.0),
        (0, 55, 60, 2.0),
        (0, 60, 100, 1.0),
    ]
    assert rows(await store.changes(folder.path, 0, 99, "first")) == []
    await refused(
        store.insert(folder.path, source.next(block(folder, [(0, 1, 3, 0.0), (0, 2, 4, 0.0)]))), CONFLICT, "since"
    )


async def test_tags_of_a_folder_and_of_a_set(store: FoldersStore) -> None:
    multi = [await store.add_folder(new_folder(path, FolderKind.MULTI)) for path in ("/a/f", "/a/b/g", "/h")]
    await store.add_folder(new_folder("/a/single"))
    await store.add_folder(new_folder("/ab/single"))
    await Source(store).insert(multi[1], (0, 1, 2, 1.0))
    made = await store.add_tag("/a", "run 1")
    assert [(each.path, each.version) for each in made] == [("/a/b/g", 1), ("/a/f", 0)]
    assert list(await store.tags("/a/b/g")) == [made[0]]
    assert list(await store.tags("/h")) == []
    await store.add_tag("/h", "run 1")
    before = await everything(store)
    await refused(store.add_tag("/a", "run 1"), EXISTS, "tag")
    await refused(store.add_tag("/a/single", "x"), CONFLICT, "path")
    await refused(store.add_tag("/ab", "x"), CONFLICT, "path")
    await refused(store.add_tag("/no", "x"), UNKNOWN, "path")
    await refused(store.add_tag("/h", "HEAD"), INVALID, "tag")
    await refused(store.remove_tag("/h", "x"), UNKNOWN, "tag")
    await refused(store.snapshot("/h", 1, "x"), UNKNOWN, "tag")
    assert await everything(store) == before
    await store.remove_tag("/a/f", "run 1")
    assert list(await store.tags("/a/f")) == []
    assert len(await store.tags("/h")) == 1


async def test_an_insertion_happens_once(store: FoldersStore) -> None:
    folder = await store.add_folder(new_folder())
    first = Insertion(block=block(folder, [(0, 1, 2, 1.0)]), source="a", position=JournalPosition(sequence=1))
    assert await store.position(folder.path, "a") is None
    assert await store.insert(folder.path, first)
    assert not await store.insert(folder.path, first)
    # Another source counts for itself.
    assert await store.insert(folder.path, replace(first, source="b", block=block(folder, [(1, 1, 2, 1.0)])))
    whole = JournalPosition(sequence=9, triggers=3, readings=2**40, state=bytes(range(256)) * 300)
    last = Insertion(block=block(folder, [(0, 2, 3, 2.0)]), source="a", position=whole)
    assert await store.insert(folder.path, replace(last, follows=first.position))
    assert await store.position(folder.path, "a") == last.position
    assert await store.position(folder.path, "b") == first.position
    assert not await store.insert(folder.path, replace(first, position=JournalPosition(sequence=5)))
    assert len(await store.changes(folder.path, 0, 10)) == 3


async def test_a_database_that_lost_what_it_acknowledged_is_noticed(store: FoldersStore) -> None:
    folder = await store.add_folder(new_folder())
    lost = Insertion(
        block=block(folder, [(0, 1, 2, 1.0)]),
        source="a",
        position=JournalPosition(sequence=2, journal=5),
        follows=JournalPosition(sequence=1, journal=5),
    )
    with pytest.raises(CommitsLost):
        await store.insert(folder.path, lost)
    assert await store.insert(folder.path, replace(lost, follows=None))
    other = JournalPosition(sequence=1, journal=6)
    with pytest.raises(OtherJournal):
        await store.insert(folder.path, replace(lost, position=replace(other, sequence=2), follows=other))
    assert len(await store.changes(folder.path, 0, 10)) == 1


async def test_a_wrong_block_is_refused_by_field(store: FoldersStore) -> None:
    columns = (Column(name="value", dtype="float32"), Column(name="note", dtype="text", width=4))
    folder, source = await store.add_folder(new_folder(columns=columns)), Source(store)
    good = np.array([(0, 1, 2, 1.0, b"a"), (0, 2, 3, 2.0, b"b")], folder.dtype)

    def but(**fields: object) -> Insertion:
        wrong = good.copy()
        for name, value in fields.items():
            wrong[name][1] = value
        return source.next(wrong)

    for kind, field, insertion in (
        (INVALID, "block[1].channel", but(channel=-1)),
        (UNKNOWN, "channel", but(channel=3)),
        (INVALID, "block[1].since", but(since=-1)),
        (INVALID, "block[1].until", but(until=1)),
        (INVALID, "block[1].value", but(value=np.nan)),
        (INVALID, "block[1].value", but(value=np.inf)),
        (INVALID, "block[1].note", but(note=b"a\0b")),
        (INVALID, "block[1].note", but(note=b"\xc3")),
        (INVALID, "block", source.next(good[["channel", "since", "until", "value"]])),
        (INVALID, "source", replace(but(), source="a b")),
        (INVALID, "position.sequence", replace(but(), position=JournalPosition(sequence=0))),
    ):
        await refused(store.insert(folder.path, insertion), kind, field)
    await refused(store.insert("/no", but()), UNKNOWN, "path")
    assert (await store.folder(folder.path)).version == 0
    assert await store.insert(folder.path, source.next(good[:0]))
    assert await store.insert(folder.path, but())


@pytest.mark.parametrize("layout", BOTH)
async def test_every_type_comes_back_as_it_went_in(store: FoldersStore, layout: FolderLayout) -> None:
    numbers = tuple(Column(name=f"c_{dtype}", dtype=dtype) for dtype in CHANNEL_DTYPES)
    texts = (Column(name="Order", dtype="text", width=300), Column(name="_id", dtype="text", width=7))
    folder = await store.add_folder(new_folder(columns=numbers + texts, layout=layout))
    given = np.zeros(3, folder.dtype)
    given["channel"], given["since"], given["until"] = [0, 1, 2], [0, 2**62, OPEN - 1], [1, OPEN - 1, OPEN]
    for column in numbers:
        form = np.dtype(column.form)
        about = np.iinfo(form) if form.kind in "iu" else np.finfo(form)
        given[column.name] = [about.min, about.max, 0]
    given["Order"] = ["é ü 計'\\$1%".encode(), b"", b"x" * 300]
    given["_id"] = [b" a ", b"\t\n", b"abcdefg"]
    assert await store.insert(folder.path, Source(store).next(given[::-1]))
    assert (await store.changes(folder.path, -1, OPEN - 1)).tolist() == given.tolist()
    assert [await store.history(folder.path, k, 0, OPEN) for k in range(3)] == [given[k : k + 1] for k in range(3)]


@pytest.mark.parametrize("layout", BOTH)
async def test_many_intervals_come_back_as_they_went_in(store: FoldersStore, layout: FolderLayout) -> None:
    channels = {k: f"c{k}" for k in range(40)}
    columns = (Column(name="text", dtype="text", width=1_000),)
    folder, source = (
        await store.add_folder(new_folder(columns=columns, channels=channels, layout=layout)),
        Source(store),
    )
    rng = np.random.default_rng(1)
    given = np.zeros(40 * 25, folder.dtype)
    given["channel"] = np.tile(np.arange(40), 25)
    given["since"] = np.repeat(np.arange(25), 40) * 300 + given["channel"] * 3
    given["until"] = given["since"] + 300
    given["text"] = [rng.integers(32, 127, k % 1_001, np.uint8).tobytes() for k in range(len(given))]
    given["text"] = np.char.rstrip(given["text"], b"\0")
    assert await store.insert(folder.path, source.next(rng.permutation(given[:600])))
    assert await store.insert(folder.path, source.next(given[600:]))
    found = await store.snapshot(folder.path, 3_000)
    valid = given[(given["since"] <= 3_000) & (given["until"] > 3_000)]
    assert found.tolist() == valid[np.argsort(valid["channel"])].tolist()
    every = given[np.lexsort((given["since"], given["channel"]))]
    assert (await store.changes(folder.path, -1, 10**6)).tolist() == every.tolist()


async def test_writers_of_one_folder_wait_for_each_other(make: Make) -> None:
    first = make()
    await first.create()
    folder = await first.add_folder(new_folder())
    sources = [Source(store, name) for name, store in (("a", first), ("b", make()))]
    times = itertools.count(1)

    async def report(source: Source, channel: int) -> None:
        for _ in range(8):
            await source.insert(folder, (channel, next(times), None, 1.0), (2 + 5 * channel, next(times), None, 2.0))

    await asyncio.gather(*(report(source, channel) for channel, source in enumerate(sources)))
    assert (await first.folder(folder.path)).version == 16
    for channel in CHANNELS:
        found = rows(await first.history(folder.path, channel, 0, 1000))
        assert len(found) == 8
        assert all(one[2] == other[1] for one, other in itertools.pairwise(found))
        assert found[-1][2] is None


async def test_an_answer_is_of_one_moment(make: Make) -> None:
    one, other = make(), make()
    await one.create()
    folder, source = await one.add_folder(new_folder()), Source(one)
    await source.insert(folder, *((channel, 0, None, 0.0) for channel in CHANNELS))

    async def report() -> None:
        for time in range(1, 40):
            await source.insert(folder, *((channel, time, None, float(time)) for channel in CHANNELS))

    reporting = asyncio.create_task(report())
    last = 0.0
    while not reporting.done():
        found = rows(await other.snapshot(folder.path, 1000))
        assert [each[0] for each in found] == sorted(CHANNELS)
        assert {each[3] for each in found} == {found[0][3]}
        assert found[0][3] >= last
        last = found[0][3]
        every = rows(await other.history(folder.path, 7, 0, 1000))
        assert [each[1:] for each in every] == [
            (k, k + 1 if k < len(every) - 1 else None, float(k)) for k in range(len(every))
        ]
        await asyncio.sleep(0)
    await reporting


@pytest.mark.parametrize("layout", BOTH)
async def test_a_folder_is_removed_while_it_is_used(make: Make, layout: FolderLayout) -> None:
    one, other = make(), make()
    await one.create()

    async def ask(path: str) -> None:
        while True:
            assert rows(await other.snapshot(path, 5)) == [(0, 1, None, 1.0)]
            await asyncio.sleep(0)

    for _ in range(5):
        folder = await one.add_folder(new_folder(layout=layout))
        source = Source(other)
        await source.insert(folder, (0, 1, None, 1.0))
        asking = asyncio.create_task(refused(ask(folder.path), UNKNOWN, "path"))
        await asyncio.sleep(0.02)
        last = other.insert(folder.path, source.next(block(folder, [(1, 10, 12, 1.0)])))
        inserted, _ = await asyncio.gather(last, one.remove(folder.path), return_exceptions=True)
        assert inserted is True or getattr(inserted, "kind", None) is UNKNOWN
        await asking


async def test_what_is_asked_of_what_is_not_there_is_refused(store: FoldersStore) -> None:
    folder = await store.add_folder(new_folder("/a/f"))
    for path in ("/a", "/no"):
        for order in (
            store.snapshot(path, 1),
            store.history(path, 0, 1, 2),
            store.changes(path, 1, 2),
            store.channels(path),
            store.tags(path),
            store.position(path, "a"),
        ):
            await refused(order, UNKNOWN, "path")
    await refused(store.history(folder.path, 5, 1, 2), UNKNOWN, "channel")
    await refused(store.snapshot(folder.path, 2**63), INVALID, "at")
    await refused(store.history(folder.path, 0, 2, 2), INVALID, "until")
    await refused(store.history(folder.path, 0, -2, 2), INVALID, "since")
    await refused(store.changes(folder.path, 2, 2**63), INVALID, "upto")
    assert len(await store.changes(folder.path, 2, 1)) == 0
    for found in (
        await store.snapshot(folder.path, 1),
        await store.history(folder.path, 0, 1, 2),
        await store.changes(folder.path, 1, 2),
    ):
        assert found.dtype == folder.dtype
        assert len(found) == 0
