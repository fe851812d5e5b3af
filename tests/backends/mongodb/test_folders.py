"""What a writer of folders leaves that did not come to its end, where others have written before and after."""

from pathlib import Path

import pytest

from backends import open_folders_store
from backends.base import StoreUnavailable
from backends.mongodb.conditions.turns import Turn
from schemas.config import DatabaseConfig
from tests.support.folders import Source, block, everything, new_folder, rows


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
