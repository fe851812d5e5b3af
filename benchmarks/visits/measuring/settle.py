"""Lets a server finish after a turn what the turn left to do, so that it does not run on during the next turn."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing

import psycopg
from psycopg.conninfo import make_conninfo
from pymysql.err import MySQLError

from benchmarks.servers.base import Server
from benchmarks.servers.mysql import connect
from schemas.checking.dsn import Backend

PATIENCE_S = 60.0
POLL_S = 0.02


class NotSettled(Exception):
    """The server was not quiet in time, or went away; the message is one line."""


def settle(server: Server, patience_s: float = PATIENCE_S) -> None:
    """Wait until a server has done what is left to do, and have it do so at once.

    PostgreSQL: its running autovacuums, and a checkpoint. MariaDB: purging old versions of rows, and writing changed
    pages out with a checkpoint. FerretDB has nothing that could be asked for.

    Raises:
        NotSettled: it takes longer, or the server does not answer.
    """
    try:
        SETTLE[server.backend](server.dsn, time.monotonic() + patience_s)
    except (psycopg.Error, MySQLError) as error:
        raise NotSettled(" ".join(str(error).split())) from None


def _postgresql(dsn: str, deadline: float) -> None:
    with psycopg.connect(make_conninfo(dsn, connect_timeout=_left(deadline)), autocommit=True) as connection:
        connection.execute(f"SET statement_timeout = '{_left(deadline)}s'")

        def vacuuming() -> int:
            asked = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"
            ((workers,),) = connection.execute(asked).fetchall()
            return int(workers)

        _wait(vacuuming, deadline, "autovacuum still runs")
        connection.execute("CHECKPOINT")


def _mariadb(dsn: str, deadline: float) -> None:
    patience = _left(deadline)
    with (
        closing(connect(dsn, autocommit=True, connect_timeout=patience, read_timeout=2 * patience)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET SESSION max_statement_time = %s", (patience,))
        # No settings, but commands. The first returns when nothing is left to purge, which changes pages.
        cursor.execute("SET GLOBAL innodb_max_purge_lag_wait = 0")
        cursor.execute("SET GLOBAL innodb_log_checkpoint_now = ON")


def _nothing(dsn: str, deadline: float) -> None:
    return


def _wait(left: Callable[[], int], deadline: float, problem: str) -> None:
    while left():
        if time.monotonic() > deadline:
            raise NotSettled(problem)
        time.sleep(POLL_S)


def _left(deadline: float) -> int:
    """Whole seconds, as servers and drivers want them."""
    return max(1, round(deadline - time.monotonic()))


SETTLE: Mapping[Backend, Callable[[str, float], None]] = {
    Backend.POSTGRESQL: _postgresql,
    Backend.MYSQL: _mariadb,
    Backend.MONGODB: _nothing,
}
