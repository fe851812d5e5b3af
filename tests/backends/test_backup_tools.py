"""`backends.backup.DatabaseTools`: values that a dump must not change, and what is refused."""

import math
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiomysql
import asyncpg
import pymongo
import pytest

from backends.backup import SchemaChanged, reason_in
from backends.base import StoreError
from backends.mongodb import backup_tools as mongodb_tools
from backends.mongodb.server.backup import _for_tools
from backends.mysql import backup_tools as mysql_tools
from backends.postgresql import backup_tools as postgresql_tools
from schemas.config import DatabaseConfig
from tests.support.servers import installed, needs

FLOATS = [16_777_217 / 3, 1.1754943508222875e-38, 1e-45, 3.4e38, -0.0, 0.1, None]
TEXTS = ["", 'it\'s \\ "quoted"', "two\nlines\tand\ttabs\r\0", "µ 🚀", "NULL", "-- table 0", None]
BYTES = [b"", bytes(range(256)), b"-- table 0\n", os.urandom(1_500_000), None]


class Mariadb:
    """A server as its administrator sees it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.port = int(dsn.rpartition(":")[2])

    async def ask(self, *statements: str, values: Sequence[Sequence[Any]] = ()) -> list[tuple[Any, ...]]:
        connection = await aiomysql.connect(host="127.0.0.1", port=self.port, user="root", autocommit=True)
        async with connection.cursor() as cursor:
            for statement in statements:
                if values:
                    await cursor.executemany(statement, values)
                else:
                    await cursor.execute(statement)
            found = list(await cursor.fetchall())
        connection.close()
        return found


def test_a_warning_is_not_why_a_program_failed() -> None:
    warning = b'psql:<stdin>:1: WARNING:  permission denied to analyze "pg_authid", skipping it\n'
    assert reason_in(warning + b"psql:<stdin>:2: ERROR:  disk full\n", 3) == "psql:<stdin>:2: ERROR:  disk full"
    assert reason_in(warning, 3) == warning.decode().strip()
    assert reason_in(b"", 3) == "it ended with 3"


@pytest.fixture
def mariadb(mariadb_dsn: str) -> Mariadb:
    with installed():
        needs("mariadb-dump", "mariadb-client")
    return Mariadb(mariadb_dsn)


async def test_mariadb_gives_back_every_value_as_it_was(mariadb: Mariadb, schema: str, tmp_path: Path) -> None:
    rows = [
        (number, FLOATS[number % 7], FLOATS[number % 7], TEXTS[number % 7], BYTES[number % 5], None)
        for number in range(100)
    ]
    rows[3] = (3, 1.5, -0.0, "x", b"y", "2026-11-28 01:02:03.000004")
    await mariadb.ask(
        f"CREATE DATABASE `{schema}`",
        f"CREATE TABLE `{schema}`.`a$b` (n BIGINT PRIMARY KEY, f FLOAT, d DOUBLE, t TEXT CHARACTER SET utf8mb4,"
        " b MEDIUMBLOB, at DATETIME(6), doubled BIGINT AS (2 * n) VIRTUAL, KEY (at))",
        f"CREATE TABLE `{schema}`.counting (id BIGINT AUTO_INCREMENT PRIMARY KEY)",
        f"INSERT INTO `{schema}`.counting VALUES (41)",
        f"DELETE FROM `{schema}`.counting",
        f"CREATE SQL SECURITY INVOKER VIEW `{schema}`.seen AS SELECT n, doubled FROM `{schema}`.`a$b`",
    )
    await mariadb.ask(f"INSERT INTO `{schema}`.`a$b` VALUES (%s, %s, %s, %s, %s, %s, DEFAULT)", values=rows)
    asked = f"SELECT n, f * 1e0, d, t, b, at, doubled FROM `{schema}`.`a$b` ORDER BY n"
    before, sums = await mariadb.ask(asked), await mariadb.ask(f"CHECKSUM TABLE `{schema}`.`a$b`")
    with mysql_tools(DatabaseConfig(dsn=mariadb.dsn), None, tmp_path, restores=False) as tools:
        assert tools.filled([schema, "not_there"]) == [schema]
        dump = list(tools.dump([schema]))
    await mariadb.ask(f"DROP DATABASE `{schema}`")
    with mysql_tools(DatabaseConfig(dsn=mariadb.dsn), None, tmp_path, restores=True) as tools:
        assert tools.filled([schema]) == []
        tools.restore([schema], dump)
    found = await mariadb.ask(asked)
    assert found == before
    assert [math.copysign(1, row[2]) for row in found if row[2] == 0] == [
        math.copysign(1, row[2]) for row in before if row[2] == 0
    ]
    assert await mariadb.ask(f"CHECKSUM TABLE `{schema}`.`a$b`") == sums
    assert (await mariadb.ask(f"SELECT MAX(doubled) FROM `{schema}`.seen")) == [(198,)]
    ((next_,),) = await mariadb.ask(
        f"SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA='{schema}' AND TABLE_NAME='counting'"
    )
    assert next_ == 42
    await mariadb.ask(f"DROP DATABASE `{schema}`")


async def test_mariadb_begins_again_where_a_table_is_changed_meanwhile(
    mariadb: Mariadb, schema: str, tmp_path: Path
) -> None:
    await mariadb.ask(
        f"CREATE DATABASE `{schema}`",
        f"CREATE TABLE `{schema}`.a (n BIGINT PRIMARY KEY) PARTITION BY RANGE (n) (PARTITION p0 VALUES LESS THAN (10))",
        f"INSERT INTO `{schema}`.a VALUES (1)",
    )
    add = f"ALTER TABLE `{schema}`.a ADD PARTITION (PARTITION p1 VALUES LESS THAN (20))"
    with mysql_tools(DatabaseConfig(dsn=mariadb.dsn), None, tmp_path, restores=False) as tools:
        blocks = tools.dump([schema])
        next(blocks)
        next(blocks)  # the definitions
        await mariadb.ask(add)
        with pytest.raises(SchemaChanged):
            list(blocks)
        assert b"p1" in b"".join(tools.dump([schema]))
    await mariadb.ask(f"DROP DATABASE `{schema}`")


async def test_mariadb_restores_as_the_daemons_login_into_a_database_that_an_administrator_made(
    mariadb: Mariadb, schema: str, tmp_path: Path
) -> None:
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, CREATE VIEW"
    await mariadb.ask(
        f"CREATE DATABASE `{schema}`",
        f"CREATE TABLE `{schema}`.a (n BIGINT PRIMARY KEY)",
        f"CREATE SQL SECURITY INVOKER VIEW `{schema}`.b AS SELECT n FROM `{schema}`.a",
        f"CREATE USER 'l_{schema}'@'%' IDENTIFIED BY 'p\"a#s\\\\'",
        f"GRANT {rights} ON `{schema}`.* TO 'l_{schema}'@'%'",
    )
    database = DatabaseConfig(dsn=mariadb.dsn.replace("root", f"l_{schema}"))
    with mysql_tools(database, 'p"a#s\\', tmp_path, restores=False) as tools:
        with pytest.raises(StoreError, match=rf"^mariadb-dump: [^m].*GRANT SHOW VIEW ON `{schema}`"):
            list(tools.dump([schema]))
        await mariadb.ask(f"GRANT SHOW VIEW ON `{schema}`.* TO 'l_{schema}'@'%'")
        dump = list(tools.dump([schema]))
    await mariadb.ask(f"DROP DATABASE `{schema}`", f"CREATE DATABASE `{schema}`")
    with mysql_tools(database, 'p"a#s\\', tmp_path, restores=True) as tools:
        tools.restore([schema], dump)
        assert tools.filled([schema]) == [schema]
    await mariadb.ask(f"DROP DATABASE `{schema}`", f"DROP USER 'l_{schema}'@'%'")


async def test_postgresql_restores_as_another_login_into_a_schema_that_an_administrator_made(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(postgresql_dsn)
    await connection.execute(
        f"CREATE SCHEMA {schema}; CREATE SEQUENCE {schema}.s; SELECT nextval('{schema}.s');"
        f"CREATE TABLE {schema}.a (f real, t text);"
        f"INSERT INTO {schema}.a VALUES ('NaN', E'a\\n\\\\.\\n'), (0.1, NULL);"
        f"CREATE ROLE l_{schema} LOGIN; GRANT SELECT ON {schema}.a TO l_{schema}"
    )
    with postgresql_tools(DatabaseConfig(dsn=postgresql_dsn), None, tmp_path, restores=False) as tools:
        dump = list(tools.dump([schema]))
    await connection.execute(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema} AUTHORIZATION l_{schema}")
    database = DatabaseConfig(dsn=postgresql_dsn.replace("postgres@", f"l_{schema}@"))
    with postgresql_tools(database, None, tmp_path, restores=True) as tools:
        tools.restore([schema], dump)
    found = await connection.fetch(f"SELECT f::text, t, tableowner FROM {schema}.a, pg_tables WHERE tablename = 'a'")
    assert sorted(map(tuple, found), key=str) == [
        ("0.1", None, f"l_{schema}"),
        ("NaN", "a\n\\.\n", f"l_{schema}"),
    ]
    assert await connection.fetchval(f"SELECT nextval('{schema}.s')") == 2
    analyzed = f"SELECT reltuples FROM pg_class WHERE oid = '{schema}.a'::regclass"
    assert await connection.fetchval(analyzed) == 2
    await connection.execute(f"DROP SCHEMA {schema} CASCADE; DROP ROLE l_{schema}")
    await connection.close()


async def test_postgresql_commits_nothing_of_a_dump_that_cannot_be_read_to_its_end(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(postgresql_dsn)
    await connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.a AS SELECT generate_series(1, 99999) n")
    with postgresql_tools(DatabaseConfig(dsn=postgresql_dsn), None, tmp_path, restores=True) as tools:
        dump = b"".join(tools.dump([schema]))
        await connection.execute(f"DROP SCHEMA {schema} CASCADE")

        def damaged() -> Iterator[bytes]:
            yield dump[: len(dump) // 2]
            raise EOFError("damaged")

        with pytest.raises(EOFError):
            tools.restore([schema], damaged())
        with pytest.raises(StoreError, match=r"pg_restore: .*(end of file|archive)"):
            tools.restore([schema], [dump[: len(dump) // 2]])
        assert tools.filled([schema]) == []
    await connection.close()


STAND_IN = """\
import sys, bson, pymongo, json
options = dict(each.partition("=")[::2] for each in sys.argv[1:])
client = pymongo.MongoClient(json.loads(open(options["--config"]).read().partition(":")[2]))
if "--db" in options:
    database = client[options["--db"]]
    for name in sorted(database.list_collection_names()):
        for document in database[name].find().sort("_id"):
            sys.stdout.buffer.write(bson.encode({"in": name, "document": document}))
else:
    name = options["--nsInclude"].removesuffix(".*")
    for each in bson.decode_iter(sys.stdin.buffer.read()):
        client[name][each["in"]].insert_one(each["document"])
"""


def test_mongodb_has_an_archive_a_database_and_no_password_on_a_command_line(
    mongodb_dsn: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for mongodump and mongorestore, which Debian does not have."""
    for name in ("mongodump", "mongorestore"):
        (tmp_path / name).write_text(f"#!{sys.executable}\n{STAND_IN}")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    schemas = [f"{schema}_one", f"{schema}_two"]
    documents = [{"_id": number, "blob": os.urandom(99)} for number in range(9)]
    with pymongo.MongoClient(mongodb_dsn) as client:
        for name in schemas:
            client[name]["a"].insert_many(documents)
        with mongodb_tools(DatabaseConfig(dsn=mongodb_dsn), None, tmp_path, restores=False) as tools:
            assert not tools.at_one_moment
            assert tools.filled([*schemas, "not_there"]) == schemas
            dumps = {name: list(tools.dump(each)) for name, each in tools.dumps(schemas).items()}
        assert list(dumps) == [f"{name}.archive" for name in schemas]
        with mongodb_tools(DatabaseConfig(dsn=mongodb_dsn), None, tmp_path, restores=True) as tools:
            tools.drop(schemas)
            assert tools.filled(schemas) == []
            for name, each in zip(dumps, schemas, strict=True):
                tools.restore([each], dumps[name])
            assert all(list(client[name]["a"].find().sort("_id")) == documents for name in schemas)
            tools.drop(schemas)


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("mongodb://u@a:1,b:2", "mongodb://u:s%2Ft@a:1,b:2/"),
        ("mongodb://u:old@a/base?tls=true", "mongodb://u:s%2Ft@a/?tls=true&authSource=base"),
        ("mongodb://a/?w=1", "mongodb://a/?w=1"),
    ],
)
def test_what_the_tools_of_mongodb_connect_to(dsn: str, expected: str) -> None:
    assert _for_tools(dsn, "s/t") == expected
