"""What a process that was killed between two statements leaves in MariaDB: it commits each change of a table."""

import pytest

from backends.mysql.folders import MysqlFoldersStore
from schemas.config import DatabaseConfig
from tests.support.folders import Source, new_folder, rows


async def test_tables_of_no_folder_are_removed(mariadb_dsn: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MysqlFoldersStore(DatabaseConfig(dsn=mariadb_dsn), schema=schema, password=None, connections=2)
    await store.create()
    folder = await store.add_folder(new_folder("/kept"))
    await Source(store).insert(folder, (0, 1, None, 1.0))
    assert len(await tables(store)) == 2

    async def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("backends.sql.folders.tree._insert_node", dies)
        with pytest.raises(KeyboardInterrupt):
            await store.add_folder(new_folder("/half"))
    assert len(await tables(store)) == 4
    assert [each.path for each in await store.folders()] == ["/kept"]
    await store.create()
    assert len(await tables(store)) == 2
    assert rows(await store.snapshot("/kept", 5)) == [(0, 1, None, 1.0)]
    await store.add_folder(new_folder("/half"))
    await store.drop()
    await store.close()


async def tables(store: MysqlFoldersStore) -> list[str]:
    """Names of the tables of folders."""
    async with store._connected() as session:
        found = await session.fetch(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = $1 AND TABLE_NAME LIKE 'f\\\\_%'",
            store._schema,
        )
    return [name for (name,) in found]
