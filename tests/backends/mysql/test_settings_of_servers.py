"""A MariaDB whose own settings keep it from taking rows: a check, an opening and a reconnection say so in one line."""

from collections.abc import Iterator

import numpy as np
import pymysql
import pytest

from backends.base import SchemaMismatch, StoreError, StoreLacks, StoreUnavailable
from backends.mysql import MysqlStore
from backends.throwaway.mariadb import ThrowawayMariadb
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from tests.support.batches import batch_of, by_group, group_of, readings_of
from tests.support.servers import installed, server_folder

GROUP = group_of()
LOGIN = "plain@'127.0.0.1'"


@pytest.fixture(scope="module")
def statements() -> Iterator[ThrowawayMariadb]:
    """A server that logs statements, with a login that may not choose otherwise."""
    with server_folder() as folder:
        options = {"skip_log_bin": 0, "log_bin": "binlog", "server_id": 1, "sync_binlog": 1}
        server = ThrowawayMariadb(folder, **options, binlog_format="STATEMENT")
        with installed():
            server.start()
        try:
            set_there(server, f"CREATE USER {LOGIN}", rf"GRANT ALL ON `test\_%`.* TO {LOGIN}")
            yield server
        finally:
            server.stop()


def set_there(server: ThrowawayMariadb, *texts: str) -> None:
    with pymysql.connect(unix_socket=str(server.socket), user="root") as root, root.cursor() as cursor:
        for text in texts:
            cursor.execute(text)


def store_of(server: ThrowawayMariadb, schema: str, user: str, layout: Layout = Layout.ROWS) -> MysqlStore:
    database = DatabaseConfig(dsn=server.start().replace("root@", f"{user}@"), schema=schema)
    return MysqlStore(database, logger="main", groups=by_group(GROUP), layouts={"bpm": layout})


async def said(store: MysqlStore, error: type[StoreError]) -> str:
    """Return what both a check and an opening say."""
    lines = []
    for call in (store.check, store.open):
        with pytest.raises(error) as refused:
            await call()
        assert not refused.value.is_away
        lines.append(str(refused.value))
    await store.close()
    assert lines[0] == lines[1]
    return lines[0].partition(" takes no rows: ")[2] or lines[0]


@pytest.mark.parametrize("layout", Layout)
async def test_a_login_that_may_has_rows_logged_whatever_the_server_logs(
    statements: ThrowawayMariadb, schema: str, layout: Layout
) -> None:
    store = store_of(statements, schema, "root", layout)
    assert await store.check()
    await store.open()
    times = 1_700_000_000_000_000_000 + np.arange(30) * 1_000_000
    await store.commit(batch_of(GROUP, 1, readings_of(GROUP, np.arange(30), times, np.random.default_rng(1))))
    assert (await store.facts()).rows["bpm"] > 0
    await store.close()


async def test_one_that_may_not_is_told_what_to_set(statements: ThrowawayMariadb, schema: str) -> None:
    assert await said(store_of(statements, schema, "plain"), StoreLacks) == (
        "binlog_format is STATEMENT, and user 'plain' may not set another; set it to MIXED or ROW there"
    )
    set_there(statements, "SET GLOBAL binlog_format = MIXED")
    try:
        store = store_of(statements, schema, "plain")
        await store.open()
        await store.close()
    finally:
        set_there(statements, "SET GLOBAL binlog_format = STATEMENT")


async def test_a_replica_that_is_read_only_is_waited_for(statements: ThrowawayMariadb, schema: str) -> None:
    set_there(statements, "SET GLOBAL binlog_format = MIXED, read_only = 1")
    store = store_of(statements, schema, "plain")
    try:
        for call in (store.check, store.open):
            with pytest.raises(StoreUnavailable, match=r"is read-only now; name the primary in `dsn`, or set"):
                await call()
    finally:
        set_there(statements, "SET GLOBAL binlog_format = STATEMENT, read_only = 0")
        await store.close()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("max_prepared_stmt_count", "0", "max_prepared_stmt_count is 0; set it to 16382, its default, there"),
        ("enforce_storage_engine", "Aria", "makes tables in Aria alone: take enforce_storage_engine away there"),
        ("max_allowed_packet", "1024", "packets of {} (1024 bytes): set max_allowed_packet there to 16M"),
    ],
)
async def test_what_stops_the_writing_is_found_by_the_check(
    statements: ThrowawayMariadb, schema: str, name: str, value: str, words: str
) -> None:
    with pymysql.connect(unix_socket=str(statements.socket), user="root") as root, root.cursor() as cursor:
        cursor.execute(f"SELECT @@GLOBAL.{name}")
        ((before,),) = cursor.fetchall()
    set_there(statements, f"SET GLOBAL {name} = {value}")
    try:
        line = await said(
            store_of(statements, schema, "root"), SchemaMismatch if name == "max_allowed_packet" else StoreLacks
        )
    finally:
        set_there(statements, f"SET GLOBAL {name} = {'NULL' if before is None else before}")
    assert line.endswith(words.format(statements.start()))
