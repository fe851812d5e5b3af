"""What a writer that is gone has under way in MongoDB, which has no transactions, and what the next one makes of it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from backends import open_folders_store
from backends.base import CommitsLost, StoreUnavailable
from backends.mongodb.conditions.session import Session
from backends.mongodb.conditions.turns import WRITER, Turn
from backends.mongodb.folders import MongodbFoldersStore
from backends.mongodb.folders.nodes import ROWS
from schemas.batch import JournalPosition
from schemas.config import DatabaseConfig
from schemas.folders.folders import CHANNELS_BYTES, FolderKind
from tests.support.folders import Source, block, everything, new_folder, rows


class Killed(BaseException):
    """A writer is killed."""


@dataclass
class UnderWay:
    """Commands that a writer has sent and that the server has not done yet, when the writer is killed."""

    patch: pytest.MonkeyPatch
    what: str = ""
    commands: list[Any] = field(default_factory=list)

    def kill_at(self, what: str) -> None:
        """Kill whoever sends this kind of command for intervals: `insert` or `update`; or who commits: `commit`."""
        if what == "commit":
            self.patch.setattr(Turn, "commit", self._dies)
            return
        real = getattr(Session, what)

        async def send(session: Session, name: str, *arguments: Any) -> int:
            if not name.startswith(ROWS):
                return int(await real(session, name, *arguments))
            self.commands.append((real, session, name, *arguments))
            raise Killed

        self.patch.setattr(Session, what, send)

    async def arrive(self) -> None:
        """The server does what was under way."""
        for real, session, name, *arguments in self.commands:
            await real(session, name, *arguments)

    @staticmethod
    async def _dies(*_: object) -> None:
        raise Killed


@pytest.fixture
async def stores(
    mongodb_dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[MongodbFoldersStore, MongodbFoldersStore]]:
    """Two stores of one schema, for each of which the other one is a process that is gone when it holds the turn."""
    monkeypatch.setattr("backends.mongodb.conditions.turns.is_dead", lambda _: True)
    one, other = (MongodbFoldersStore(DatabaseConfig(dsn=mongodb_dsn), schema=schema) for _ in range(2))
    await one.create()
    yield one, other
    await one.drop()
    for store in (one, other):
        await store.close()


@pytest.mark.parametrize("what", ["insert", "update", "commit"])
async def test_what_a_killed_writer_has_under_way_never_happens(
    stores: tuple[MongodbFoldersStore, MongodbFoldersStore], what: str
) -> None:
    one, other = stores
    folder = await one.add_folder(new_folder())
    mine, others = Source(one, "mine"), Source(other, "others")
    await mine.insert(folder, (0, 10, None, 1.0), (1, 10, None, 2.0), (2, 10, 30, 3.0))
    with pytest.MonkeyPatch.context() as patch:
        under_way = UnderWay(patch)
        under_way.kill_at(what)
        with pytest.raises(Killed):
            await other.insert(folder.path, others.next(block(folder, [(0, 20, None, 8.0), (1, 21, 22, 9.0)])))
    # The first store knows of nothing that happened since its own insertion; and nothing has.
    await mine.report(folder, (0, 15, 4.0), (2, 20, 5.0))
    expected = [
        *((0, 10, 15, 1.0), (0, 15, None, 4.0)),
        (1, 10, None, 2.0),
        *((2, 10, 20, 3.0), (2, 20, 30, 5.0)),
    ]
    assert rows(await one.changes(folder.path, 0, 100)) == expected
    await under_way.arrive()
    for store in stores:
        assert rows(await store.changes(folder.path, 0, 100)) == expected
        assert rows(await store.snapshot(folder.path, 25)) == [(0, 15, None, 4.0), (1, 10, None, 2.0), (2, 20, 30, 5.0)]
    await others.report(folder, (0, 12, 6.0), (1, 30, None), (2, 25, None))
    assert rows(await one.changes(folder.path, 0, 100)) == [
        *((0, 10, 12, 1.0), (0, 12, 15, 6.0), (0, 15, None, 4.0)),
        *((1, 10, 30, 2.0), (1, 30, 30, 0.0)),
        *((2, 10, 20, 3.0), (2, 20, 25, 5.0), (2, 25, 25, 0.0)),
    ]
    assert (await one.folder(folder.path)).version == 3


async def test_a_tag_shows_nothing_of_what_a_killed_writer_has_under_way(
    stores: tuple[MongodbFoldersStore, MongodbFoldersStore],
) -> None:
    one, other = stores
    folder = await one.add_folder(new_folder(kind=FolderKind.MULTI))
    mine, others = Source(one, "mine"), Source(other, "others")
    await mine.insert(folder, (0, 10, 50, 1.0))
    with pytest.MonkeyPatch.context() as patch:
        under_way = UnderWay(patch)
        under_way.kill_at("insert")
        with pytest.raises(Killed):
            await other.insert(folder.path, others.next(block(folder, [(0, 5, 45, 9.0)])))
    (first,) = await one.add_tag(folder.path, "first")
    await mine.insert(folder, (0, 20, 30, 2.0))
    (second,) = await one.add_tag(folder.path, "second")
    await under_way.arrive()
    await mine.insert(folder, (0, 0, None, 3.0))
    assert [first.version, second.version] == [1, 2]
    assert rows(await other.history(folder.path, 0, 0, 99, "first")) == [(0, 10, 50, 1.0)]
    assert rows(await other.history(folder.path, 0, 0, 99, "second")) == [
        *((0, 10, 20, 1.0), (0, 20, 30, 2.0), (0, 30, 50, 1.0)),
    ]
    assert rows(await other.snapshot(folder.path, 5)) == [(0, 0, None, 3.0)]


async def test_who_finds_that_commits_are_lost_gives_his_turn_back(
    stores: tuple[MongodbFoldersStore, MongodbFoldersStore],
) -> None:
    one, other = stores
    folder = await one.add_folder(new_folder())
    lost = Source(one).next(block(folder, [(0, 1, None, 1.0)]))
    with pytest.raises(CommitsLost):
        await one.insert(folder.path, type(lost)(**{**vars(lost), "follows": JournalPosition(sequence=5)}))
    async with other._session() as session:
        assert await session.one(session.turn, WRITER) is None
    assert await other.insert(folder.path, lost)


async def test_all_channels_of_a_folder_are_in_one_document(
    stores: tuple[MongodbFoldersStore, MongodbFoldersStore],
) -> None:
    names = {number: f"{number:>250}" for number in range(CHANNELS_BYTES // 255)}
    folder = await stores[0].add_folder(new_folder(channels=names))
    assert dict(await stores[1].channels(folder.path)) == names
    assert await stores[1].insert(folder.path, Source(stores[1]).next(block(folder, [(len(names) - 1, 1, 5, 1.0)])))


@pytest.mark.parametrize("what", ["insert", "report"])
async def test_what_another_store_left_unfinished_never_appears(
    mongodb_dsn: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    one, other, third = (
        open_folders_store(DatabaseConfig(dsn=mongodb_dsn), schema=schema, state_dir=tmp_path) for _ in range(3)
    )
    await one.create()
    folder, elsewhere = await one.add_folder(new_folder()), await one.add_folder(new_folder("/other"))
    source = Source(one)
    await source.insert(folder, (0, 10, None, 1.0))
    before = await everything(one)

    async def fails(*_: object) -> None:
        raise StoreUnavailable("as if it were killed here")

    with monkeypatch.context() as patch:
        patch.setattr(Turn, "commit", fails)
        with pytest.raises(StoreUnavailable):
            await getattr(other, what)(folder.path, Source(other, "b").next(block(folder, [(0, 20, None, 2.0)])))
    assert await everything(one) == before
    # The one that takes the turn over changes another folder.
    monkeypatch.setattr("backends.mongodb.conditions.turns.LAPSES_S", 0.0)
    await Source(third, "c").insert(elsewhere, (0, 1, None, 1.0))
    await source.insert(folder, (0, 30, None, 3.0))
    assert rows(await one.changes(folder.path, 0, 100)) == [(0, 10, 30, 1.0), (0, 30, None, 3.0)]
    await one.drop()
    for store in (one, other, third):
        await store.close()
