"""How large the tables of visits are.

Exact where the login may see InnoDB's tablespaces (the right PROCESS): their files, of which the indexes are the
server's estimate. Else all of it is an estimate. Rows are always one; those of packs are the server's estimate of the
number of packs of each period, times the mean of some of them: compacted packs hold many times as many as others.
"""

from pymysql.err import MySQLError

from backends.mysql.protocol.sql import literal, quoted
from backends.mysql.server.errors import NO_RIGHT, number_of
from backends.mysql.visits.session import Session
from backends.mysql.visits.tables import packs_of
from schemas.api.visits import TableSize
from schemas.visits.tables import Table

SAMPLE = 200
"""So many packs of a period are looked at."""
TABLESPACES = {"mariadb": "INNODB_SYS_TABLESPACES", "mysql": "INNODB_TABLESPACES"}


async def sizes_of(
    session: Session, schema: str, tables: tuple[Table, ...], *, partitioned: bool
) -> dict[str, TableSize]:
    """Sizes by the names in the paper."""
    answer = await session.fetch(
        "SELECT TABLE_NAME, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {literal(schema)}"
    )
    estimates = {str(name): [int(number or 0) for number in numbers] for name, *numbers in answer}
    files = await _files(session, schema)
    found = {}
    for table in tables:
        name = packs_of(table) if partitioned else table.name
        rows, table_bytes, index_bytes = estimates[name]
        if name in files:
            index_bytes = min(index_bytes, files[name])
            table_bytes = files[name] - index_bytes
        if partitioned:
            rows = await _packed(session, schema, name)
        found[table.name] = TableSize(rows=rows, table_bytes=table_bytes, index_bytes=index_bytes)
    return found


async def _files(session: Session, schema: str) -> dict[str, int]:
    """Bytes of the files of each table, all its partitions together; empty without the right to see them."""
    try:
        answer = await session.fetch(
            f"SELECT NAME, FILE_SIZE FROM information_schema.{TABLESPACES[session.product]}"
            f" WHERE NAME LIKE {literal(schema.replace('_', '|_') + '/%')} ESCAPE '|'"
        )
    except MySQLError as error:
        if number_of(error) not in NO_RIGHT:
            raise
        return {}
    files: dict[str, int] = {}
    for path, size in answer:
        # A partition is TABLE#P#NAME, in MySQL TABLE#p#name.
        name = str(path).split("/", 1)[1].split("#", 1)[0]
        files[name] = files.get(name, 0) + int(size)
    return files


async def _packed(session: Session, schema: str, name: str) -> int:
    """About how many records are packed in a table of packs."""
    answer = await session.fetch(
        "SELECT PARTITION_NAME, TABLE_ROWS FROM information_schema.PARTITIONS"
        f" WHERE TABLE_SCHEMA = {literal(schema)} AND TABLE_NAME = {literal(name)}"
    )
    packs = {str(partition): int(rows or 0) for partition, rows in answer}
    some = (
        f"(SELECT {literal(partition)} AS period, n FROM {quoted(schema, name)} PARTITION ({quoted(partition)})"
        f" LIMIT {SAMPLE})"
        for partition in packs
    )
    means = await session.fetch(f"SELECT period, AVG(n) FROM ({' UNION ALL '.join(some)}) some GROUP BY period")
    return round(sum(packs[str(partition)] * float(mean) for partition, mean in means))
