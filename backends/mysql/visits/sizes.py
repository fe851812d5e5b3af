"""How large the tables of visits are.

Exact where the login may see InnoDB's tablespaces (the right PROCESS): their files, of which the indexes are the
server's estimate. Else all of it is an estimate. Rows are always one; those of pieces are the server's estimate of the
number of pieces, times the mean of some of them.
"""

from pymysql.err import MySQLError

from backends.mysql.errors import NO_RIGHT, number_of
from backends.mysql.sql import literal, quoted
from backends.mysql.visits.session import Session
from backends.mysql.visits.tables import pieces_of
from schemas.visits.measures import TableSize
from schemas.visits.tables import Table

SAMPLE = 1000
"""So many pieces are looked at."""
TABLESPACES = {"mariadb": "INNODB_SYS_TABLESPACES", "mysql": "INNODB_TABLESPACES"}


async def sizes_of(
    session: Session, schema: str, tables: tuple[Table, ...], *, partitioned: bool
) -> dict[str, TableSize]:
    """Sizes by the names in the paper."""
    told = await session.fetch(
        "SELECT TABLE_NAME, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES"
        f" WHERE TABLE_SCHEMA = {literal(schema)}"
    )
    estimates = {str(name): [int(number or 0) for number in numbers] for name, *numbers in told}
    files = await _files(session, schema)
    found = {}
    for table in tables:
        name = pieces_of(table) if partitioned else table.name
        rows, table_bytes, index_bytes = estimates[name]
        if name in files:
            index_bytes = min(index_bytes, files[name])
            table_bytes = files[name] - index_bytes
        if partitioned:
            rows = round(rows * await _mean(session, schema, name))
        found[table.name] = TableSize(rows=rows, table_bytes=table_bytes, index_bytes=index_bytes)
    return found


async def _files(session: Session, schema: str) -> dict[str, int]:
    """Bytes of the files of each table, all its partitions together; empty without the right to see them."""
    try:
        told = await session.fetch(
            f"SELECT NAME, FILE_SIZE FROM information_schema.{TABLESPACES[session.product]}"
            f" WHERE NAME LIKE {literal(schema.replace('_', '|_') + '/%')} ESCAPE '|'"
        )
    except MySQLError as error:
        if number_of(error) not in NO_RIGHT:
            raise
        return {}
    files: dict[str, int] = {}
    for path, size in told:
        # A partition is TABLE#P#NAME, in MySQL TABLE#p#name.
        name = str(path).split("/", 1)[1].split("#", 1)[0]
        files[name] = files.get(name, 0) + int(size)
    return files


async def _mean(session: Session, schema: str, name: str) -> float:
    text = f"SELECT AVG(n) FROM (SELECT n FROM {quoted(schema, name)} LIMIT {SAMPLE}) some"
    ((mean,),) = await session.fetch(text)
    return float(mean or 0)
