"""What a server says of its own work: what it counts, what its sessions wait for, and the partitions of a group.

https://www.postgresql.org/docs/current/monitoring-stats.html. Any login may ask; one without pg_read_all_stats sees of
others' sessions only that they wait for locks.
"""

import re
from dataclasses import replace

from backends.base import Partition, ReadCounters, ServerView
from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.sql import quoted
from backends.sql.tables import GroupTables
from schemas.decimation import figure_bytes

OF_DATABASE = """
    SELECT sum(blks_hit)::float8 AS cache_hits, sum(blks_read)::float8 AS cache_misses,
           sum(temp_bytes)::float8 AS temp_bytes, sum(deadlocks)::float8 AS deadlocks,
           sum(xact_commit)::float8 AS commits, sum(xact_rollback)::float8 AS rollbacks
    FROM pg_stat_database WHERE datname = current_database()
"""
"""A session reports it, too, only when its statement has ended."""
OF_LOG = "SELECT wal_bytes::float8 AS wal_bytes, wal_buffers_full::float8 AS wal_buffers_full FROM pg_stat_wal"
FSYNCS = {
    18: "SELECT sum(fsyncs)::float8 AS fsyncs FROM pg_stat_io",
    16: "SELECT wal_sync + (SELECT sum(fsyncs) FROM pg_stat_io)::float8 AS fsyncs FROM pg_stat_wal",
    14: "SELECT wal_sync::float8 AS fsyncs FROM pg_stat_wal",
}
"""By the first version that counts it so: up to 15 of the log alone."""
CHECKPOINTS = {
    17: """
        SELECT (num_timed + num_requested)::float8 AS checkpoints, buffers_written::float8 AS checkpoint_pages
        FROM pg_stat_checkpointer
    """,
    14: """
        SELECT (checkpoints_timed + checkpoints_req)::float8 AS checkpoints,
               buffers_checkpoint::float8 AS checkpoint_pages
        FROM pg_stat_bgwriter
    """,
}
WAITS = """
    SELECT wait_event_type || ':' || wait_event AS what, count(*) AS sessions
    FROM pg_stat_activity
    WHERE state = 'active' AND wait_event_type <> 'Lock' AND pid <> pg_backend_pid() AND backend_type = 'client backend'
    GROUP BY 1
    UNION ALL
    SELECT 'Lock:' || locktype, count(DISTINCT pid) FROM pg_locks WHERE NOT granted GROUP BY 1
"""
COUNTERS = """
    SELECT array_agg(ARRAY[
        (floor(extract(epoch FROM pg_postmaster_start_time()))::int8 & 2147483647) << 32 | o.oid::int8,
        CASE WHEN o.reltuples > 0 AND o.relpages > 0 THEN (o.reltuples / o.relpages * size.pages)::int8
             ELSE greatest(pg_stat_get_live_tuples(o.oid), 0) END,
        size.pages, pg_stat_get_numscans(o.oid), pg_stat_get_tuples_returned(o.oid),
        coalesce(i.lookups, 0), pg_stat_get_tuples_fetched(o.oid) + coalesce(i.fetched, 0),
        pg_stat_get_blocks_fetched(o.oid), pg_stat_get_blocks_fetched(o.oid) - pg_stat_get_blocks_hit(o.oid),
        pg_stat_get_vacuum_count(o.oid) + pg_stat_get_autovacuum_count(o.oid)
        + pg_stat_get_analyze_count(o.oid) + pg_stat_get_autoanalyze_count(o.oid)
    ] ORDER BY o.oid <> l.oid) AS counted
    FROM pg_class o CROSS JOIN LATERAL (
        SELECT sum(pg_stat_get_numscans(indexrelid))::int8 AS lookups,
               sum(pg_stat_get_tuples_fetched(indexrelid))::int8 AS fetched
        FROM pg_index WHERE indrelid = o.oid
    ) AS i
    CROSS JOIN LATERAL (SELECT pg_relation_size(o.oid) / current_setting('block_size')::int8 AS pages) AS size
    WHERE o.oid IN (l.oid, l.reltoastrelid)
"""
"""Of a table, and of what it has out of line, in the order of `ReadCounters`. The same table of a replica, which may be
the primary by now, has counters of its own: what tells them apart is when the server was started. Rows that a plain
scan of an index finds are counted with the index, those of a bitmap with the table."""
PARTITIONS = f"""
    SELECT c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bounds,
           greatest(l.reltuples, s.n_live_tup, least(pg_relation_size(l.oid), 1))::int8 AS rows,
           coalesce(pg_total_relation_size(l.oid), 0)::int8 AS size_bytes,
           coalesce(pg_indexes_size(l.oid), 0)::int8 AS index_bytes, t.spcname AS place,
           p.level > 1 AS has_leaf, r.counted
    FROM pg_partition_tree(to_regclass($1)) AS p
    JOIN pg_class l ON l.oid = p.relid
    JOIN pg_class c ON c.oid = CASE p.level WHEN 1 THEN p.relid ELSE p.parentrelid END
    LEFT JOIN pg_stat_user_tables s ON s.relid = l.oid
    LEFT JOIN pg_tablespace t ON t.oid = l.reltablespace
    LEFT JOIN LATERAL ({COUNTERS}) AS r ON $2
    WHERE p.isleaf AND p.level <= 2
"""
"""A crash takes the estimates away: where there are pages there is a row at least. Only periods of the readings have a
leaf below them."""
REDUCED = """
    SELECT least(pg_total_relation_size(c.oid),
                 CASE WHEN s.n_live_tup > 0 THEN s.n_live_tup ELSE greatest(c.reltuples, 0) END * $2)::int8
    FROM pg_class c LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid WHERE c.oid = to_regclass($1)
"""
"""What figures take, by their number: the table stays as large when retention removes some, and has room for others."""
BOUNDS = re.compile(r"FROM \('?(-?\d+|MINVALUE)'?\) TO \('?(-?\d+|MAXVALUE)'?\)")
ENDS_NS = {"MINVALUE": -(2**63), "MAXVALUE": 2**63 - 1}


async def view(connection: Connection) -> ServerView:
    """Ask what the server counts, and what sessions wait for now; without this connection's own."""
    version = connection.get_server_version().major
    counters: dict[str, float] = {}
    for statement in (OF_DATABASE, OF_LOG, _for_version(version, FSYNCS), _for_version(version, CHECKPOINTS)):
        row = await connection.fetchrow(statement)
        counters |= {name: value for name, value in (row or {}).items() if value is not None}
    waits = {row["what"]: row["sessions"] for row in await connection.fetch(WAITS)}
    return ServerView(counters=counters, waits=waits)


def _for_version(version: int, statements: dict[int, str]) -> str:
    return next(statement for since, statement in statements.items() if version >= since)


async def partitions_of(connection: Connection, of: GroupTables) -> tuple[Partition, ...]:
    """The partitions of a group, in order of time; rows are the server's estimate."""
    found: dict[tuple[int, int], Partition] = {}
    for table in (of.ledger, of.data):
        for row in await connection.fetch(PARTITIONS, quoted(str(table.schema), table.name), table is of.data):
            ends = ends_of(row["bounds"])
            # A partition of the ledger has the bounds of one of the readings, unless an operator took that away.
            before = found.get(ends)
            found[ends] = Partition(
                name=row["name"].removeprefix(f"{table.name}$"),
                start_ns=ends[0],
                end_ns=ends[1],
                rows=row["rows"] if table is of.data else 0,
                size_bytes=row["size_bytes"] + (before.size_bytes if before else 0),
                readings_bytes=row["size_bytes"] if table is of.data else None,
                place=row["place"] if table is of.data else None,
                index_bytes=row["index_bytes"] if table is of.data else 0,
                may_move=table is of.data and row["has_leaf"],
                may_reduce=table is of.data and row["has_leaf"],
                counted=tuple(ReadCounters(*each) for each in row["counted"] or ()),
            )
    others = found.get((ENDS_NS["MINVALUE"], ENDS_NS["MAXVALUE"]))
    if others is not None:
        # What was reduced has no partitions, and counts with what takes all times.
        name = quoted(str(of.data.schema), of.reduced.name)
        size = await connection.fetchval(REDUCED, name, figure_bytes(of.group))
        found[others.start_ns, others.end_ns] = replace(others, size_bytes=others.size_bytes + (size or 0))
    return tuple(sorted(found.values(), key=lambda partition: (partition.start_ns, -partition.end_ns)))


def ends_of(bounds: str) -> tuple[int, int]:
    """Read the ends of a partition as the server writes them; those of all times for the default one."""
    found = BOUNDS.search(bounds)
    if found is None:  # DEFAULT
        return ENDS_NS["MINVALUE"], ENDS_NS["MAXVALUE"]
    first, last = (int(ENDS_NS.get(end, end)) for end in found.groups())
    return first, last
