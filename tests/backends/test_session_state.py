"""Whatever a server, a database or a role gives a new session, a store is as it promises.

Some of the contracts once more, over a login and against a server whose defaults are turned the wrong way; each kind of
session says of itself that they are not in force; and each kind of commit says that it is synchronous.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import numpy as np
import pymysql
import pytest

from backends import drop_schema, open_conditions_store, open_folders_store, open_visit_store
from backends.base import ReadOnly, Store
from backends.mysql import MysqlStore
from backends.postgresql import PostgresqlStore
from backends.throwaway.mariadb import ThrowawayMariadb
from schemas.batch import Layout, Stream
from schemas.config import DatabaseConfig
from schemas.marks import Mark
from schemas.readings import InstrumentGroup
from schemas.retention import Rule
from tests.backends import test_store_contract as readings
from tests.backends import test_store_marks as marks
from tests.backends import test_store_retention as retention
from tests.backends.conditions import test_conditions_contract as conditions
from tests.backends.folders import test_folders_contract as folders
from tests.backends.test_store_contract import opened, rng
from tests.backends.visits import test_store_contract as visits
from tests.support.batches import batch_of, by_group, group_of, readings_of, with_late
from tests.support.conditions import bpm
from tests.support.folders import Source, new_folder
from tests.support.servers import installed, server_folder
from tests.support.visits import run_visits, visits_config

__all__ = ["opened", "rng"]

ROLE = "turned"
WRONG_POSTGRESQL = {
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "statement_timeout": "2s",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "2s",
    "idle_session_timeout": "2s",
    "transaction_timeout": "2s",
    "search_path": "nowhere",
    "client_encoding": "LATIN1",
    "TimeZone": "Pacific/Chatham",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
    "xmloption": "document",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "quote_all_identifiers": "on",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "row_security": "on",
    "check_function_bodies": "off",
    "enable_partition_pruning": "off",
    "synchronous_commit": "off",
    "session_replication_role": "replica",
    "restrict_nonsystem_relation_kind": "view, foreign-table",
    "default_tablespace": "pg_global",
    "exit_on_error": "on",
}
WRONG_MARIADB = {
    "autocommit": "0",
    "tx_isolation": "'SERIALIZABLE'",
    "tx_read_only": "1",
    "completion_type": "'CHAIN'",
    "sql_mode": "'ANSI,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION'",
    "time_zone": "'+09:00'",
    "character_set_client": "latin1",
    "character_set_results": "latin1",
    "character_set_connection": "latin1",
    "collation_connection": "latin1_german2_ci",
    "character_set_server": "latin1",
    "max_statement_time": "0.05",
    "foreign_key_checks": "0",
    "unique_checks": "0",
    "check_constraint_checks": "0",
    "sql_select_limit": "1",
    "sql_safe_updates": "1",
    "sql_big_selects": "0",
    "max_join_size": "2",
    "sql_auto_is_null": "1",
    "auto_increment_increment": "7",
    "auto_increment_offset": "3",
    "big_tables": "1",
    "div_precision_increment": "0",
    "lc_messages": "'de_DE'",
    "max_sort_length": "64",
    "low_priority_updates": "1",
    "default_storage_engine": "Aria",
    "wait_timeout": "1",
    "net_read_timeout": "1",
    "net_write_timeout": "1",
    "lock_wait_timeout": "1",
    "innodb_lock_wait_timeout": "1",
    "idle_transaction_timeout": "1",
    "alter_algorithm": "'INSTANT'",
    "innodb_snapshot_isolation": "1",
}
MAY_STAY = {"max_join_size", "character_set_server"}
"""Nothing relies on them: sql_big_selects lifts the limit, and a table has its own character set."""
INIT_CONNECT = (
    "SET NAMES latin1; SET autocommit = 0, sql_mode = 'ANSI', foreign_key_checks = 0, sql_select_limit = 1;"
    " SET SESSION TRANSACTION READ ONLY; START TRANSACTION"
)


@pytest.fixture(scope="module")
def turned_postgresql_dsn(postgresql_dsn: str) -> Iterator[str]:
    """A login that every default is turned the wrong way for."""

    async def run(statements: str) -> None:
        connection = await asyncpg.connect(postgresql_dsn)
        await connection.execute(statements)
        await connection.close()

    turned = ";".join(f"ALTER ROLE {ROLE} SET {name} = '{value}'" for name, value in WRONG_POSTGRESQL.items())
    asyncio.run(
        run(
            f"CREATE ROLE {ROLE} LOGIN; {turned}; GRANT CREATE ON DATABASE postgres TO {ROLE};"
            f" GRANT SET ON PARAMETER session_replication_role TO {ROLE}"
        )
    )
    yield postgresql_dsn.replace("postgres@", f"{ROLE}@")
    asyncio.run(run(f"DROP OWNED BY {ROLE} CASCADE; DROP ROLE {ROLE}"))


@pytest.fixture(scope="module")
def turned_mariadb_dsn() -> Iterator[str]:
    """A server that every default is turned the wrong way of, and a login that its init_connect is for."""

    login = f"{ROLE}@'127.0.0.1'"
    with server_folder() as folder:
        server = ThrowawayMariadb(folder)
        with installed():
            dsn = server.start()
        try:
            with pymysql.connect(unix_socket=str(server.socket), user="root") as root, root.cursor() as cursor:
                cursor.execute(f"CREATE USER {login}")
                cursor.execute(rf"GRANT ALL ON `test\_%`.* TO {login}")
                for name, value in WRONG_MARIADB.items():
                    cursor.execute(f"SET GLOBAL {name} = {value}")
                cursor.execute("SET GLOBAL init_connect = %s", (INIT_CONNECT,))
            yield dsn.replace("root@", f"{ROLE}@")
        finally:
            server.stop()


# --- the contracts ----------------------------------------------------------------------------------------------------

STORES: dict[str, Callable[..., Store]] = {"postgresql": PostgresqlStore, "mariadb": MysqlStore}


@pytest.fixture(params=STORES)
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def dsn(server: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"turned_{server}_dsn"))


@pytest.fixture(params=Layout)
def make(server: str, dsn: str, schema: str, request: pytest.FixtureRequest) -> readings.Make:
    """Makes stores of readings."""

    def made(*groups: InstrumentGroup, logger: str = "main", **settings: Any) -> Store:
        layouts = {group.name: request.param for group in groups}
        database = DatabaseConfig(dsn=dsn, schema=schema, **settings)
        return STORES[server](database, logger=logger, groups=by_group(*groups), layouts=layouts)

    return made


@pytest.fixture
async def opens(dsn: str, schema: str, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Opens a store of what lies beside readings, with its function of `backends`."""
    async with AsyncExitStack() as stack:

        def made(of: Callable[..., Any], *settings: Any, **named: Any) -> Any:
            store = of(DatabaseConfig(dsn=dsn), *settings, **named, state_dir=tmp_path)
            stack.push_async_callback(store.close)
            return store

        yield made
    await drop_schema(DatabaseConfig(dsn=dsn, schema=schema), None)


@pytest.mark.parametrize(
    "contract",
    [
        readings.test_what_is_committed_is_read_back,
        readings.test_triggers_that_come_one_by_one,
        readings.test_late_readings_of_an_earlier_batch,
        readings.test_a_store_is_found_as_it_was_left,
        marks.test_a_mark_is_found_as_it_was_given,
        marks.test_marks_are_found_by_their_time,
    ],
)
async def test_readings_and_marks(
    contract: Callable[..., Any], make: readings.Make, opened: Any, rng: np.random.Generator
) -> None:
    await contract(make, opened, *([rng] if contract.__module__ == readings.__name__ else []))


@pytest.mark.parametrize(
    "contract",
    [
        conditions.test_payload_lists,
        conditions.test_a_removed_tag_takes_its_lists_with_it,
        conditions.test_many_intervals_of_several_lists,
        conditions.test_a_clone_answers_as_its_source,
        conditions.test_what_is_valid_at_a_key,
    ],
)
async def test_conditions(contract: Callable[..., Any], opens: Callable[..., Any], schema: str) -> None:
    store = opens(open_conditions_store, schema=schema)
    await store.create()
    await contract(store)


@pytest.mark.parametrize(
    "contract",
    [
        folders.test_folders_and_sets_make_a_tree,
        folders.test_reports_hold_until_the_next_one_whatever_their_order,
        folders.test_a_newer_version_hides_an_older_one_which_a_tag_still_shows,
        folders.test_an_insertion_happens_once,
    ],
)
async def test_folders(contract: Callable[..., Any], opens: Callable[..., Any], schema: str) -> None:
    store = opens(open_folders_store, schema=schema)
    await store.create()
    await contract(store)


@pytest.mark.parametrize("mode", ["baseline", "last-upsert", "partitioned"])
async def test_visits(mode: str, opens: Callable[..., Any], schema: str) -> None:
    def make(**settings: object) -> Any:
        return opens(open_visit_store, visits_config(schema, visits.MODES[mode], **settings))

    await visits.test_a_mode_holds_and_answers_as_the_model_does(f"/{mode}", make)


# --- the sessions -----------------------------------------------------------------------------------------------------


def sessions(server: str, dsn: str, state_dir: Path) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Make a session of each kind, by its name."""
    database, group = DatabaseConfig(dsn=dsn), group_of()
    reading = ReadOnly(give_up_s=60, connections=1)
    of = {"logger": "main", "groups": by_group(group), "layouts": {"bpm": Layout.ROWS}}
    beside = {"schema": "test_beside", "state_dir": state_dir}
    in_visits = visits_config("test_beside", visits.MODES["baseline"])
    store: Any = STORES[server]
    made: dict[str, Any] = {
        "readings": store(database, **of)._connect,
        "questions": store(database, **of, read_only=reading)._connect,
        "conditions": open_conditions_store(database, **beside)._connect,
        "folders": open_folders_store(database, **beside)._connect,
        "visits": open_visit_store(database, in_visits, state_dir=state_dir)._connection._make_one,
    }
    return made


async def asked(server: str, session: Any, names: Iterable[str]) -> dict[str, str]:
    """Values of settings in a session."""
    connection = getattr(session, "connection", session)
    if server == "postgresql":
        rows = await connection.fetch(
            "SELECT name, setting FROM pg_settings WHERE lower(name) = ANY($1)", [name.lower() for name in names]
        )
    else:
        listed = ",".join(f"'{name}'" for name in names)
        rows = await connection.fetch(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({listed})")
    session.terminate()
    return dict(rows)


@pytest.mark.parametrize("kind", ["readings", "questions", "conditions", "folders", "visits"])
async def test_no_default_is_in_force_in_any_session(
    kind: str, server: str, dsn: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    names = WRONG_POSTGRESQL if server == "postgresql" else WRONG_MARIADB.keys() - MAY_STAY
    plain = request.getfixturevalue(f"{server}_dsn")
    found, expected = [
        await asked(server, await sessions(server, each, tmp_path)[kind](), names) for each in (dsn, plain)
    ]
    assert len(expected) >= len(names) - 1  # transaction_timeout is not in all servers
    assert found == expected


# --- the commits ------------------------------------------------------------------------------------------------------

SAYS = """
    CREATE TABLE {schema}.said (name text, value text);
    CREATE FUNCTION {schema}.says() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
            INSERT INTO {schema}.said VALUES (split_part(TG_TABLE_NAME, '$', 1), current_setting('synchronous_commit'));
            RETURN NULL;
        END $$;
    DO $$
        DECLARE name text;
        BEGIN
            FOR name IN SELECT relname FROM pg_class
                WHERE relnamespace = '{schema}'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
                AND relname <> 'said'
            LOOP
                EXECUTE format('CREATE CONSTRAINT TRIGGER says AFTER INSERT OR UPDATE OR DELETE ON {schema}.%I
                    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.says()', name);
            END LOOP;
        END $$;
"""
"""Each table says at the end of a transaction, as it commits, whether the commit is synchronous."""


@pytest.fixture
async def listening(postgresql_dsn: str, schema: str) -> AsyncIterator[Callable[..., Awaitable[set[str]]]]:
    """Has tables say how they commit from now on; then gives the names of those that did, all synchronously."""
    connection = await asyncpg.connect(postgresql_dsn)

    async def said(begin: bool = False) -> set[str]:
        if begin:
            await connection.execute(SAYS.format(schema=schema))
            return set()
        rows = await connection.fetch(f"SELECT DISTINCT name, value FROM {schema}.said")
        await connection.execute(f"TRUNCATE {schema}.said")
        assert {value for _, value in rows} == {"on"}, rows
        return {name for name, _ in rows}

    yield said
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.close()


@pytest.mark.parametrize("server", ["postgresql"])
async def test_every_commit_of_readings_is_synchronous(
    make: readings.Make, opened: Any, rng: np.random.Generator, listening: Callable[..., Awaitable[set[str]]]
) -> None:
    group = group_of()
    store = await opened(make(group))
    await listening(begin=True)
    stored = {"bpm", "bpm_ledger", "positions"}
    values = readings_of(group, np.arange(9), retention.noon(3) + np.arange(9), rng)
    present = np.ones(values.shape, bool)
    present[0, 5] = False

    await store.commit(batch_of(group, 1, values[:1], present=present[:1]))
    assert await listening() == stored, "one trigger"
    first = batch_of(group, 2, values[1:8])
    await store.commit(first)
    assert await listening() == stored, "many triggers"
    row = batch_of(group, 1, values[:1], present=present[:1]).ledger[0]
    revised = np.array([with_late(row, values[0, 5:6], np.ones(group.size, bool))])
    late = batch_of(group, 3, values[:0], late=values[0, 5:6], late_of=np.zeros(1, np.intp), revised=revised)
    await store.commit(late)
    assert await listening() == stored, "a late reading"
    await store.commit(replace(batch_of(group, 1, values[8:]), stream=Stream.DEAD_LETTERS))
    assert await listening() == stored, "what was in the dead letters"
    await store.commit(batch_of(group, 4, values[:0]))
    assert await listening() == {"positions"}, "a position alone"

    mark = Mark(id=uuid4(), time_ns=1, text="a mark")
    assert await store.keep_mark(mark)
    assert await listening() == {"marks"}
    assert await store.withdraw_mark(mark.id, 2)
    assert await listening() == {"marks"}

    await store.drop(await retention.period_of(store, group, retention.noon(3)), Rule.AGE, at_ns=1, patience_s=5)
    assert await listening() == {"dropped"}


@pytest.mark.parametrize("server", ["postgresql"])
async def test_every_commit_beside_readings_is_synchronous(
    opens: Callable[..., Any], schema: str, listening: Callable[..., Awaitable[set[str]]]
) -> None:
    of_conditions = opens(open_conditions_store, schema=schema)
    await of_conditions.create()
    await listening(begin=True)
    await bpm(of_conditions, ("x", 0, 10), ("y", 10, None))
    assert await listening() >= {"tags", "lists", "breakpoints"}
    await of_conditions.drop()

    of_folders = opens(open_folders_store, schema=schema)
    await of_folders.create()
    folder = await of_folders.add_folder(new_folder())
    await listening(begin=True)
    await Source(of_folders).insert(folder, (1, 1, 2, 1.0))
    assert len(await listening()) >= 2
    await of_folders.drop()

    config = visits_config(schema, visits.MODES["last-upsert"], durability="sync")
    of_visits = opens(open_visit_store, config)
    await of_visits.create()
    await listening(begin=True)
    await run_visits(of_visits, range(2))
    assert await listening() >= {"Visits", "VisitSteps", "DIAObject", "DIASource"}
