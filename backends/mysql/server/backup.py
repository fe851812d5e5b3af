"""Programs of MariaDB and MySQL for operators: the client opens the database, and with the dump program backs it up.

The dump program writes the definitions only. It prints a FLOAT with six digits, so the rows come from the client, which
has the server write them as SQL in one transaction: floats as doubles, bytes and texts as hexadecimal.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from backends.backup import DatabaseTools, SchemaChanged, blocks_of, fed, found, output_of, running
from backends.base import StoreError
from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.server.errors import CHANGED
from schemas.config import DatabaseConfig


@contextmanager
def terminal_of(database: DatabaseConfig, _state_dir: Path, _program: str) -> Iterator[tuple[list[str], str]]:
    """The command, which asks for the password; nothing is to be typed first."""
    assert database.dsn is not None
    parts = urlsplit(database.dsn)
    options = parse_qs(parts.query)
    if "unix_socket" in options:
        place = ["--socket", options["unix_socket"][0]]
    else:
        place = ["-h", parts.hostname or "localhost", *(["-P", str(parts.port)] if parts.port else [])]
    trust = ["--ssl-ca", options["ssl_ca"][0], "--ssl-verify-server-cert"] if "ssl_ca" in options else []
    user = ["-u", unquote(parts.username)] if parts.username else []
    yield ["mariadb", *place, *trust, *user, "-p", database.schema_name], ""


DUMP = "mysql.sql"
PACKAGE = "mariadb-client (or mysql-client)"
STATEMENT_BYTES = 1 << 20
"""Rows are put into statements of about this length; servers take 16 MiB by default."""
TABLE = b"-- table "
TOO_LONG = b"NULL"
"""The result of CONCAT for a row that is longer than max_allowed_packet."""
NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "year")
FLOATS = ("float", "double")
TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json")
BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
BEGINS = """\
SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600;
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ;
START TRANSACTION WITH CONSISTENT SNAPSHOT;
"""
RESTORES = b"SET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO', unique_checks = 0, foreign_key_checks = 0;\n"
DEFINER = re.compile(r"DEFINER=`(?:[^`]|``)*`@`(?:[^`]|``)*` ?")


class _Table(NamedTuple):
    schema: str
    name: str
    columns: tuple[tuple[str, str], ...]

    @property
    def insert(self) -> bytes:
        names = ", ".join(quoted(name) for name, _ in self.columns)
        return f"INSERT INTO {quoted(self.schema, self.name)} ({names}) VALUES\n".encode()

    def select(self, number: int) -> str:
        values = ", ',', ".join(f"COALESCE({_as_sql(name, kind)}, 'NULL')" for name, kind in self.columns)
        return (
            f"SELECT '{TABLE.decode()}{number}';\nSELECT CONCAT('(', {values}, ')') FROM"
            f" {quoted(self.schema, self.name)};\n"
        )


def _as_sql(name: str, kind: str) -> str:
    column = quoted(name)
    if kind in FLOATS:
        # As text: the number -0 would lose its sign.
        return f"CONCAT('''', {column} * 1e0, '''')"
    if kind in NUMBERS:
        return column
    if kind in TEXTS:
        return f"CONCAT('_utf8mb4 x''', HEX(CONVERT({column} USING utf8mb4)), '''')"
    if kind in BYTES:
        return f"CONCAT('x''', HEX({column}), '''')"
    if kind == "bit":
        return f"{column} + 0"
    return f"CONCAT('''', {column}, '''')"  # dates and times


@contextmanager
def backup_tools(
    database: DatabaseConfig, password: str | None, _state_dir: Path, *, restores: bool
) -> Iterator[DatabaseTools]:
    """Give the tools, with a file for the login that is there as long."""
    assert database.dsn is not None
    with tempfile.NamedTemporaryFile("w", prefix="triggerlog-", suffix=".cnf") as options:  # of mode 0600
        options.write("[client]\n" + "".join(_option(*each) for each in _login(database.dsn, password)))
        options.flush()
        yield MysqlTools(Path(options.name), restores=restores)


def _login(dsn: str, password: str | None) -> Iterator[tuple[str, str]]:
    parts = urlsplit(dsn)
    given = dict(parse_qsl(parts.query))
    if "unix_socket" in given:
        yield "socket", given["unix_socket"]
    else:
        yield from (("host", parts.hostname or "localhost"), ("port", str(parts.port or 3306)), ("protocol", "tcp"))
    if parts.username:
        yield "user", unquote(parts.username)
    password = unquote(parts.password or "") if password is None else password
    yield "password", password
    yield "max-allowed-packet", "1G"
    if given.keys() & {"ssl", "ssl_ca", "ssl_cert"}:
        yield "ssl-verify-server-cert", "1"
        yield from (
            (name.replace("_", "-"), given[name]) for name in ("ssl_ca", "ssl_cert", "ssl_key") if name in given
        )


def _option(name: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{escaped}"\n'


class MysqlTools:
    """`DatabaseTools` of a server."""

    at_one_moment = True

    def __init__(self, login: Path, *, restores: bool) -> None:
        login_option = f"--defaults-file={login}"
        self._client = [
            found(("mariadb", "mysql"), PACKAGE, shutil.which),
            login_option,
            "--default-character-set=utf8mb4",
        ]
        # A restore does without it.
        program = "" if restores else found(("mariadb-dump", "mysqldump"), PACKAGE, shutil.which)
        self._dump = [program, login_option, "--no-data", "--single-transaction", "--skip-comments", "--no-tablespaces"]
        self._dump += ["--skip-add-drop-table", "--skip-triggers", "--loose-set-gtid-purged=OFF", "--databases"]
        (((version,),)) = self._ask("SELECT VERSION()")
        self.description = f"{'MariaDB' if 'MariaDB' in version else 'MySQL'} {version}"

    def filled(self, schemas: Sequence[str]) -> list[str]:
        """Return those that have a table or a view."""
        asked = (
            f"SELECT DISTINCT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ({_listed(schemas)})"
        )
        return sorted(name for (name,) in self._ask(asked))

    def nbytes(self, schemas: Sequence[str]) -> int:
        """Sum the tables as the server estimates them."""
        asked = "SELECT COALESCE(SUM(DATA_LENGTH), 0) FROM information_schema.TABLES"
        ((total,),) = self._ask(f"{asked} WHERE TABLE_SCHEMA IN ({_listed(schemas)})")
        return int(total)

    def dumps(self, schemas: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """All in one, which is of one moment."""
        return {DUMP: schemas}

    def dump(self, schemas: Sequence[str]) -> Iterator[bytes]:
        """Write a script: the definitions, then the rows; the definitions must be the same before and after."""
        definitions = self._definitions(schemas)
        yield RESTORES
        yield definitions
        tables = self._tables(schemas)
        script = BEGINS + "".join(table.select(number) for number, table in enumerate(tables))
        try:
            options = ["--batch", "--raw", "--quick", "--skip-column-names"]
            with running([*self._client, *options], stdin=subprocess.PIPE) as client, fed(client, [script.encode()]):
                assert client.stdout is not None
                yield from _statements(client.stdout, tables)
        except StoreError as error:
            if re.search(rf"ERROR ({'|'.join(map(str, CHANGED))}) ", str(error)):
                raise SchemaChanged(str(error)) from None
            raise
        if self._definitions(schemas) != definitions:
            raise SchemaChanged("tables or partitions were changed while they were copied")
        yield self._counters(schemas)

    def restore(self, schemas: Sequence[str], blocks: Iterable[bytes]) -> None:
        """Run the script; it stops at the first error."""
        with running([*self._client, "--batch"], stdin=subprocess.PIPE) as client, fed(client, blocks):
            for _ in blocks_of(client.stdout):
                continue

    def drop(self, schemas: Sequence[str]) -> None:
        """Remove what was made before an error: nothing here is undone by a transaction."""
        self._ask("".join(f"DROP DATABASE IF EXISTS {quoted(schema)};" for schema in schemas))

    def removal(self, schemas: Sequence[str]) -> str:
        """Return the statements."""
        return "; ".join(f"DROP DATABASE {quoted(schema)}" for schema in schemas)

    def _definitions(self, schemas: Sequence[str]) -> bytes:
        """Give the statements that make databases, tables, partitions and views; a view is of whoever restores it."""
        try:
            text = output_of([*self._dump, *schemas]).decode()
        except StoreError as error:
            if "SHOW VIEW" not in str(error):
                raise
            grants = "; ".join(f"GRANT SHOW VIEW ON {quoted(schema)}.* TO" for schema in schemas)
            raise StoreError(f"{error}; let an administrator run `{grants}` the login") from None
        return re.sub(r" AUTO_INCREMENT=\d+", "", DEFINER.sub("", text)).encode()

    def _counters(self, schemas: Sequence[str]) -> bytes:
        """Set what counts up, as it is after the rows were read: no number in them is given out again."""
        found = self._ask(
            "SELECT TABLE_SCHEMA, TABLE_NAME, AUTO_INCREMENT FROM information_schema.TABLES"
            f" WHERE AUTO_INCREMENT IS NOT NULL AND TABLE_SCHEMA IN ({_listed(schemas)})"
        )
        statements = (
            f"ALTER TABLE {quoted(schema, table)} AUTO_INCREMENT = {next_};\n" for schema, table, next_ in found
        )
        return "".join(statements).encode()

    def _tables(self, schemas: Sequence[str]) -> list[_Table]:
        columns: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for schema, table, column, kind in self._ask(
            "SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE FROM information_schema.COLUMNS c"
            " JOIN information_schema.TABLES t USING (TABLE_SCHEMA, TABLE_NAME) WHERE t.TABLE_TYPE = 'BASE TABLE'"
            f" AND COALESCE(c.GENERATION_EXPRESSION, '') = '' AND t.TABLE_SCHEMA IN ({_listed(schemas)})"
            " ORDER BY c.TABLE_SCHEMA, c.TABLE_NAME, c.ORDINAL_POSITION"
        ):
            columns.setdefault((schema, table), []).append((column, kind))
        return [_Table(schema, table, tuple(each)) for (schema, table), each in columns.items()]

    def _ask(self, statement: str) -> list[list[str]]:
        # MySQL tells of a day ago without the first line.
        given = f"/*!80000 SET information_schema_stats_expiry = 0 */;\n{statement}".encode()
        said = output_of([*self._client, "--batch", "--raw", "--skip-column-names"], given=given)
        return [line.split("\t") for line in said.decode().splitlines()]


def _statements(lines: Iterable[bytes], tables: Sequence[_Table]) -> Iterator[bytes]:
    """Gather rows into statements."""
    insert, rows, length = b"", list[bytes](), 0
    for line in lines:
        row = line[:-1]
        begins = row.startswith(TABLE)
        if rows and (begins or length + len(row) > STATEMENT_BYTES):
            yield insert + b",\n".join(rows) + b";\n"
            rows, length = [], 0
        if begins:
            table = tables[int(row.removeprefix(TABLE))]
            insert = table.insert
        elif row == TOO_LONG:
            raise StoreError(
                f"a row of {table.schema}.{table.name} is longer than the server writes;"
                " raise `max_allowed_packet` there to four times what it is"
            )
        else:
            rows.append(row)
            length += len(row)
    if rows:
        yield insert + b",\n".join(rows) + b";\n"


def _listed(schemas: Sequence[str]) -> str:
    return ", ".join(map(literal, schemas))
