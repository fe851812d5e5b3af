"""Print what one way or another of inserting into MariaDB takes: `python -m benchmarks.studies.mysql_inserts`.

120 instruments with 4 float64 channels, committed durably (innodb_flush_log_at_trx_commit = 1), into a private server.
Besides triggers a second (median over the commits) the processor time of server and client a trigger is given, which
other work on the machine disturbs less.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import orjson
import psutil

from backends.mysql.protocol.bulk import Insert, Inserter
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import Field, ParameterFormat
from backends.mysql.server.address import address_of
from backends.throwaway.mariadb import ThrowawayMariadb

Rows = np.ndarray
SIZE, CHANNELS = 120, 4
NAMES = ("time_ns", "run", "trigger_id", "instrument", *(f"c{k}" for k in range(CHANNELS)))
FIELDS = [Field(n, d) for n, d in zip(NAMES, ("<i8", "<i4", "<i8", "<i2", *["<f8"] * CHANNELS), strict=True)]
DTYPE = np.dtype([(field.name, field.dtype) for field in FIELDS])
COLUMNS = "time_ns BIGINT NOT NULL, run INT NOT NULL, trigger_id BIGINT NOT NULL, instrument SMALLINT NOT NULL, " + (
    ", ".join(f"c{k} DOUBLE" for k in range(CHANNELS))
)
BY_TIME = "PRIMARY KEY (time_ns, run, trigger_id, instrument)"
BY_TRIGGER = "PRIMARY KEY (run, trigger_id, instrument, time_ns)"
INTO = "INSERT INTO m.r VALUES "
START_NS = 1_790_000_000_000_000_000

rng = np.random.default_rng(1)


def rows_of(first: int, count: int) -> Rows:
    """Readings of `count` triggers."""
    rows = np.zeros((count, SIZE), DTYPE)
    rows["run"], rows["trigger_id"], rows["instrument"] = 1, np.arange(first, first + count)[:, None], np.arange(SIZE)
    rows["time_ns"] = START_NS + rows["trigger_id"] * 10_000_000 + rng.integers(0, 1000, rows.shape)
    for k in range(CHANNELS):
        rows[f"c{k}"] = rng.standard_normal(rows.shape)
    return rows.reshape(-1)


def texts(rows: Rows) -> list[bytes]:
    """Each row as text: integers and floats by orjson, which writes arrays."""
    parts = []
    for names in (NAMES[:4], NAMES[4:]):
        whole = np.stack([rows[name] for name in names], axis=1)
        parts.append(orjson.dumps(whole, option=orjson.OPT_SERIALIZE_NUMPY)[2:-2].split(b"],["))
    return [b"%b,%b" % pair for pair in zip(*parts, strict=True)]


async def by_text(connection: Connection, _: Inserter, rows: Rows) -> None:
    """Insert by statements of text, 50 triggers each."""
    lines = texts(rows)
    for start in range(0, len(lines), 6000):
        await connection.run(INTO + ",".join(f"({line.decode()})" for line in lines[start : start + 6000]))


async def by_load(connection: Connection, _: Inserter, rows: Rows) -> None:
    """Insert by a file that this connection sends from memory."""
    await connection.send_text("LOAD DATA LOCAL INFILE '' INTO TABLE m.r FIELDS TERMINATED BY ','")
    connection._next_seq_id = 1
    await connection._read_packet()
    data = b"\n".join([*texts(rows), b""])
    for start in range(0, len(data), 1 << 20):
        connection.write_packet(data[start : start + (1 << 20)])
    connection.write_packet(b"")
    await connection._read_packet()


def binary(*, indicated: bool) -> Callable[[Connection, Inserter, Rows], Awaitable[None]]:
    """Insert in the binary protocol, as the store does with `bulk` true or false."""
    form = ParameterFormat(FIELDS, indicated=indicated)

    async def insert(connection: Connection, inserter: Inserter, rows: Rows) -> None:
        laid = form.blank(len(rows))
        for name in NAMES:
            laid[name] = rows[name]
        whole = Insert(into=INTO, values=f"({','.join('?' * len(FIELDS))})", form=form, rows=laid)
        await inserter.prepare(whole)
        for _ in range(await inserter.send(whole, ahead=True)):
            await connection.answer()

    return insert


def by_time(rows: Rows) -> Rows:
    """In the order of the key."""
    return rows[np.argsort(rows["time_ns"], kind="stable")]


WAYS = {
    "multi-row INSERT, text": by_text,
    "LOAD DATA LOCAL, text": by_load,
    "prepared multi-row INSERT": binary(indicated=False),
    "COM_STMT_BULK_EXECUTE": binary(indicated=True),
}
KEYS = {
    "no key": ("", False),
    "key by time, as it comes": (BY_TIME, False),
    "key by time, sorted": (BY_TIME, True),
    "key by trigger": (BY_TRIGGER, False),
    "key by trigger, index by time": (f"{BY_TRIGGER}, KEY (time_ns)", False),
}


async def measure(dsn: str, server: psutil.Process, name: str, key: str, sort: bool, way: str, count: int) -> None:
    """Commit for a while into a fresh table, and print what it took."""
    # The store's own connections allow no server to ask for files.
    connection = Connection(host="127.0.0.1", port=address_of(dsn).port, user="root", local_infile=True)
    await connection._connect()
    connection.max_packet = 1 << 24
    columns = f"{COLUMNS}, {key}" if key else COLUMNS
    await connection.run(f"CREATE DATABASE IF NOT EXISTS m; DROP TABLE IF EXISTS m.r; CREATE TABLE m.r ({columns})")
    inserter = Inserter(connection)
    commits = max(8, min(200, 4000 // count))
    took, own = [], 0.0
    before = sum(server.cpu_times()[:2])
    for number in range(commits):
        rows = rows_of(number * count, count)
        began, client = time.perf_counter(), time.process_time()
        await connection.run("START TRANSACTION")
        await WAYS[way](connection, inserter, by_time(rows) if sort else rows)
        await connection.run("COMMIT")
        took.append(time.perf_counter() - began)
        own += time.process_time() - client
    spent = sum(server.cpu_times()[:2]) - before
    ((found,),) = await connection.fetch("SELECT COUNT(*) FROM m.r")
    assert found == commits * count * SIZE
    await connection.ensure_closed()
    each = 1e6 / (commits * count)
    print(  # noqa: T201
        f"{name:<32} {count:>4} triggers a commit: {count / statistics.median(took):>6.0f} triggers/s,"
        f" server {spent * each:>5.0f} us, client {own * each:>5.0f} us a trigger",
        flush=True,
    )


async def main() -> None:
    """Measure all ways with one key, and all keys in one way."""
    with tempfile.TemporaryDirectory() as folder:
        server = ThrowawayMariadb(Path(folder))
        dsn = server.start()
        try:
            assert server.pid is not None
            process = psutil.Process(server.pid)
            for count in (1, 100, 500):
                for way in WAYS:
                    await measure(dsn, process, way, BY_TIME, True, way, count)
            for name, (key, sort) in KEYS.items():
                await measure(dsn, process, name, key, sort, "COM_STMT_BULK_EXECUTE", 500)
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
