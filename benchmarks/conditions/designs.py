"""Tables of other designs with the content of a store, in the store's own schema of PostgreSQL.

`reference` is that of the reference conditions database: ends and a `comb_iov` in each row, and an index of `comb_iov`
beside one of the key. `covering` has the same rows, and an index of the key that holds all that a read gives.
"""

import psycopg
from psycopg import sql

REFERENCE = (
    """
    CREATE TABLE {0}.reference (
        id bigint PRIMARY KEY, payload_list bigint NOT NULL, major_iov bigint NOT NULL, minor_iov bigint NOT NULL,
        major_end bigint NOT NULL, minor_end bigint NOT NULL, comb_iov decimal(38, 19) NOT NULL,
        payload_url text NOT NULL, checksum text NOT NULL, size bigint)
    """,
    # The product is exact; in floating point, or with 28 digits as in Python, minor would be rounded away.
    """
    INSERT INTO {0}.reference
    SELECT row_number() OVER (), l.id, b.major, b.minor,
           coalesce(b.next_major, 9223372036854775807), coalesce(b.next_minor, 9223372036854775807),
           b.major + b.minor * 0.0000000000000000001::decimal(38, 19), b.url, b.checksum, b.size
    FROM (SELECT *, lead(major) OVER following AS next_major, lead(minor) OVER following AS next_minor
          FROM {0}.breakpoints WINDOW following AS (PARTITION BY content ORDER BY major, minor)) b
    JOIN {0}.lists l ON l.content = b.content JOIN {0}.tags t ON t.id = l.tag
    WHERE b.id IS NOT NULL AND t.name = ANY(%s)
    """,
    "CREATE INDEX ON {0}.reference (payload_list, comb_iov)",
    "CREATE INDEX ON {0}.reference (payload_list, major_iov, minor_iov)",
)
COVERING = (
    "CREATE TABLE {0}.covering AS SELECT * FROM {0}.reference",
    """
    CREATE INDEX ON {0}.covering (payload_list, major_iov, minor_iov)
    INCLUDE (payload_url, checksum, size, major_end, minor_end)
    """,
)
SIZES = """
    SELECT c.relname, pg_table_size(c.oid)::int8, pg_indexes_size(c.oid)::int8
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname IN ('breakpoints', 'reference', 'covering')
    """


def make_designs(dsn: str, schema: str, tags: list[str]) -> None:
    """Fill the tables of all designs with what some tags of a store hold; the planner knows their contents then."""
    name = sql.Identifier(schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text in (*REFERENCE, *COVERING):
            connection.execute(sql.SQL(text).format(name), [tags] if "ANY(%s)" in text else None)
        # VACUUM sets the bits of pages without which no read is of the index alone.
        for table in ("reference", "covering", "breakpoints", "lists", "tags", "types"):
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(schema, table)))


def sizes(dsn: str, schema: str) -> dict[str, tuple[int, int]]:
    """Bytes of the table and of the indexes of each design, by the name of its table."""
    with psycopg.connect(dsn) as connection:
        return {name: (table, indexes) for name, table, indexes in connection.execute(SIZES, [schema])}
