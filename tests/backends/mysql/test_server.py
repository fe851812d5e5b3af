"""Pure functions of the MySQL store: versions, durability, errors, addresses, partitions."""

import math
from collections.abc import Sequence

import pymysql.err
import pytest

from backends.base import BatchRejected, StoreBusy, StoreError, StoreLacks, StoreUnavailable
from backends.columns.partitions import Partition
from backends.mysql.protocol.sql import literal
from backends.mysql.schema.partitions import LEAST, MOST, Range, cut, initial, partition_by, parts_to_cut
from backends.mysql.server.address import address_of
from backends.mysql.server.errors import login_refused, translated
from backends.mysql.server.facts import check_version, held
from schemas.batch import Durability

SETTINGS = {
    "innodb_flush_log_at_trx_commit": "1",
    "innodb_flush_log_at_timeout": "1",
    "innodb_doublewrite": "ON",
    "innodb_flush_method": "O_DIRECT",
    "log_bin": "OFF",
    "sync_binlog": "0",
}


@pytest.mark.parametrize(
    ("settings", "words", "risk_ms", "sync_short", "async_short"),
    [
        ({}, "sync (innodb_flush_log_at_trx_commit 1, doublewrite on)", 0, False, False),
        ({"innodb_flush_log_at_trx_commit": "3"}, "sync (innodb_flush_log_at_trx_commit 3", 0, False, False),
        ({"log_bin": "ON", "sync_binlog": "1"}, "sync (innodb_flush_log_at_trx_commit 1, doublewrite on, sync_bin",
         0, False, False),
        ({"innodb_doublewrite": "DETECT_AND_RECOVER"}, "sync (", 0, False, False),
        ({"innodb_flush_log_at_trx_commit": "2"}, "async (innodb_flush_log_at_trx_commit 2: a crash of the machine may",
         1000, True, False),
        ({"innodb_flush_log_at_trx_commit": "0", "innodb_flush_log_at_timeout": "5"},
         "async (innodb_flush_log_at_trx_commit 0: a crash of the server may lose its last 5000 ms", 5000, True, False),
        ({"log_bin": "ON"}, "async (sync_binlog 0: ", math.inf, True, True),
        ({"log_bin": "ON", "sync_binlog": "100"}, "async (sync_binlog 100: ", math.inf, True, True),
        ({"innodb_doublewrite": "OFF"}, "NOT durable: innodb_doublewrite is OFF on the server", math.inf, True, True),
        ({"innodb_doublewrite": "DETECT_ONLY"}, "NOT durable: innodb_doublewrite is DETECT_ONLY", math.inf, True, True),
        ({"innodb_flush_method": "nosync"}, "NOT durable: innodb_flush_method is nosync", math.inf, True, True),
    ],
)  # fmt: skip
def test_durability_by_the_servers_settings(
    settings: dict[str, str], words: str, risk_ms: float, sync_short: bool, async_short: bool
) -> None:
    found = held({**SETTINGS, **settings})
    for durability, short in ((Durability.SYNC, sync_short), (Durability.ASYNC, async_short)):
        assert found[durability].words.startswith(words)
        assert found[durability].risk_ms == risk_ms
        assert (found[durability].shortfall is not None) == short
        if short:
            assert found[durability].shortfall.fix.startswith("set ")


@pytest.mark.parametrize(
    ("version", "backend", "number"),
    [
        ("10.11.19-MariaDB-0+deb12u1", "mariadb", "10.11.19"),
        ("5.5.5-10.6.12-MariaDB-log", "mariadb", "10.6.12"),
        ("11.4.2-MariaDB", "mariadb", "11.4.2"),
        ("8.0.36", "mysql", "8.0.36"),
        ("8.0.36-0ubuntu0.22.04.1", "mysql", "8.0.36"),
        ("9.1.0-commercial", "mysql", "9.1.0"),
    ],
)
def test_servers_that_are_new_enough(version: str, backend: str, number: str) -> None:
    assert check_version(version, "mysql://h") == (backend, number)


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("10.5.23-MariaDB", "mysql://h is MariaDB 10.5.23; the oldest supported is MariaDB 10.6: upgrade it"),
        ("5.5.5-10.3.39-MariaDB-log", "MariaDB 10.3.39; the oldest supported is MariaDB 10.6"),
        ("5.7.44-log", "MySQL 5.7.44; the oldest supported is MySQL 8.0"),
        ("five", "calls itself 'five'"),
    ],
)
def test_servers_that_are_too_old(version: str, says: str) -> None:
    with pytest.raises(StoreError, match=r"^.+$") as refused:
        check_version(version, "mysql://h")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("error", "kind", "login"),
    [
        (pymysql.err.OperationalError(1213, "Deadlock found"), StoreBusy, False),
        (pymysql.err.OperationalError(2013, "Lost connection"), StoreUnavailable, False),
        (pymysql.err.OperationalError(1045, "Access denied"), StoreUnavailable, True),
        (pymysql.err.OperationalError(1290, "--read-only"), StoreUnavailable, False),
        (pymysql.err.OperationalError(1142, "INSERT command denied"), StoreLacks, True),
        (pymysql.err.ProgrammingError(1146, "Table 'm.bpm' doesn't exist"), StoreLacks, False),
        (pymysql.err.OperationalError(1364, "Field 'added' doesn't have a default value"), StoreLacks, False),
        (pymysql.err.OperationalError(3, "Error writing file '/var/tmp/MLfd=45'"), StoreUnavailable, False),
        (pymysql.err.OperationalError(1036, "Table 'bpm' is read only"), StoreUnavailable, False),
        (pymysql.err.OperationalError(1461, "Can't create more than max_prepared_stmt_count"), StoreUnavailable, False),
        (pymysql.err.OperationalError(1499, "Too many partitions were defined"), StoreUnavailable, False),
        (pymysql.err.OperationalError(4025, "CONSTRAINT `low` failed for `m`.`bpm`"), BatchRejected, False),
        (pymysql.err.InternalError("Packet sequence number wrong"), StoreUnavailable, False),
        (pymysql.err.IntegrityError(1062, "Duplicate\nentry"), BatchRejected, False),
        (pymysql.err.DataError(1264, "Out of range"), BatchRejected, False),
        (ConnectionResetError("reset"), StoreUnavailable, False),
        (TimeoutError(), StoreUnavailable, False),
    ],
)
def test_what_the_driver_raises(error: Exception, kind: type[StoreError], login: bool) -> None:
    with pytest.raises(StoreError) as caught, translated("mysql://h", rejects=BatchRejected):
        raise error
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    # At a start a refused login is no outage, and the message has the fix.
    with pytest.raises(StoreError) as at_start, login_refused(), translated("mysql://h", rejects=BatchRejected):
        raise error
    assert ("; correct the user" in str(at_start.value) or "; let an administrator" in str(at_start.value)) == login
    assert isinstance(at_start.value, StoreUnavailable) == (issubclass(kind, StoreUnavailable) and not login)


def test_addresses() -> None:
    address = address_of("mysql://me:a%2Fb%40c@db.example:3307")
    assert (address.host, address.port, address.user, address.password) == ("db.example", 3307, "me", "a/b@c")
    assert address.target == "mysql://me@db.example:3307"
    assert "a/b@c" not in repr(address)
    assert address_of("mariadb://me:x@h", "of its own").password == "of its own"
    assert address_of("mysql://h").port == 3306
    local = address_of("mysql://me@localhost?unix_socket=/run/my%20sql.sock")
    assert local.unix_socket == "/run/my sql.sock"
    assert local.target == "mysql://me@/run/my sql.sock"
    with pytest.raises(StoreError, match="cannot be understood") as wrong:
        address_of("mysql://me:secret@h:port")
    assert "secret" not in str(wrong.value)


def test_constants_survive_any_session() -> None:
    assert literal("it's") == "'it''s'"
    assert literal("a\\b") == "_utf8mb4 x'615c62'"


def stretch(start: int, label: str | None = None) -> Partition:
    return Partition(start_ns=start, end_ns=start + 10, label=label or str(start))


def after_cuts(starts: Sequence[int]) -> list[Range]:
    ranges = initial([stretch(100), stretch(110)])
    for start in starts:
        for part in parts_to_cut(ranges, stretch(start)):
            of, parts = cut(ranges, part)
            at = ranges.index(of)
            ranges[at : at + 1] = parts
    return ranges


@pytest.mark.parametrize(
    ("starts", "names"),
    [
        ([], "first p100 p110 rest"),
        ([120], "first p100 p110 p120 rest"),
        ([150], "first p100 p110 before_150 p150 rest"),
        ([150, 130], "first p100 p110 before_130 p130 before_150 p150 rest"),
        ([150, 120, 130, 140], "first p100 p110 p120 p130 p140 p150 rest"),
        ([50], "first p50 before_100 p100 p110 rest"),
        ([90, 50], "first p50 before_90 p90 p100 p110 rest"),
        ([50, 70], "first p50 before_70 p70 before_100 p100 p110 rest"),
        ([100, 105], "first p100 p110 rest"),
    ],
)
def test_partitions_are_cut_out_of_what_is_there(starts: list[int], names: str) -> None:
    ranges = after_cuts(starts)
    assert " ".join(of.name for of in ranges) == names
    assert (ranges[0].start_ns, ranges[-1].end_ns) == (LEAST, MOST)
    assert all(one.end_ns == ranges[k + 1].start_ns for k, one in enumerate(ranges[:-1]))
    for of in ranges:
        if of.name.startswith("p"):
            assert of == Range(of.name, int(of.name[1:]), int(of.name[1:]) + 10)


def test_a_table_begins_with_a_first_and_a_last_partition() -> None:
    assert partition_by(initial([stretch(100)])) == (
        "PARTITION BY RANGE (time_ns) (PARTITION `first` VALUES LESS THAN (100), PARTITION `p100` VALUES LESS THAN"
        " (110), PARTITION `rest` VALUES LESS THAN MAXVALUE)"
    )
