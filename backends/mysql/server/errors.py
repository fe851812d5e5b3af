"""What aiomysql raises, in the words of `backends.base`: the only place that knows both."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from pymysql.err import MySQLError

from backends.base import BatchRejected, StoreBusy, StoreError, StoreUnavailable
from backends.diagnosis import refusals
from backends.mysql.protocol.packets import TooLong
from backends.mysql.protocol.records import NotAsMade

LOCKS = (1205, 1206, 1213, 3572)
"""Locks, deadlock: others are in the way."""
# https://mariadb.com/kb/en/mariadb-error-code-reference/. What passes with time, or when an operator acts:
TEMPORARY = frozenset(
    {
        *(1021, 1030, 1037, 1038, 1041, 1114, 1135),  # disk full, storage engine, out of memory, table full, no thread
        *range(1014, 1028),  # the server cannot read or write a file
        *(1040, 1203, 1226),  # too many connections
        *(1053, 1077, 1079, 1080, 1927, 3169),  # shutdown; connection killed
        *(1152, *range(1156, 1162)),  # the network
        *(1180, 1181, 1196, 1197, 1598, 1637, 3100),  # the commit, the binlog or replication failed; too many at once
        *(1194, 1195, 1712, 1877),  # a table is damaged, which is no reason to throw readings away
        *LOCKS,
        *(1223, 1290, 1792, 1836),  # read-only
        *(1317, 1969, 3024),  # interrupted, took too long
        *(1412, 1615),  # the table was altered under the statement
    }
)
LOGIN = frozenset(
    {
        *(1044, 1045, 1049, 1130, 1131, 1132, 1133, 1251, 1275, 1698, 1820, 1862, 3118, 4151),  # the login
        *(1142, 1143, 1227, 1370, 1419),  # a right is lacking
    }
)
CLIENT = range(2000, 3000)
"""Raised by the driver: the connection is lost, was refused, or is out of step."""

LOCK_WAIT = (1205, 3572)
TOO_LONG = (1969, 3024, *LOCK_WAIT)
"""max_statement_time of MariaDB, max_execution_time of MySQL; a reader waits for a lock as long as for all else."""
GONE_PARTITION = (1735, 1748)
"""No such partition; a row does not fit the one named."""
ALTERED = (1054, 1731, 1736)
"""No such column; a partition and a table that are to be exchanged are not alike."""
CHANGED = (1146, 1412)
"""No such table; it was altered since the snapshot."""
VALUES = rf"(?<=entry )'.*'(?= for key)|(?<=value: )'.*'(?= for column)|(?<=value: )'.*'|{refusals.NUMBER}"
"""What of a message is a value of a row: of `Duplicate entry`, `Incorrect ... value` and the like, and any number."""
NO_RIGHT = (1044, 1142, 1143, 1227)
FIX_LOGIN = "correct the user in `dsn`, or what `password_env` or `password_file` gives"
FIX_RIGHT = "let an administrator run what `triggerlog schema FILE` prints, with the rights at its end"


@contextmanager
def translated(target: str, *, otherwise: type[StoreError] = StoreError) -> Iterator[None]:
    """Turn what the driver raises into StoreUnavailable where trying again can help, else into `otherwise`."""
    try:
        yield
    except StoreError:
        raise
    except MySQLError as error:
        raise _translated(error, target, otherwise) from error
    except TimeoutError as error:
        raise StoreUnavailable(f"{target} does not answer in time") from error
    except OSError as error:
        raise StoreUnavailable(f"{target} is not reachable: {one_line(error)}") from error
    except (NotAsMade, TooLong) as error:
        raise StoreError(f"the tables in {target} are not as this store made them: {error}") from error


def taken_too_long(target: str, give_up_s: float) -> AbstractContextManager[None]:
    """Say so where a question is given up for its time, here or by the server."""
    return refusals.taken_too_long(target, give_up_s, lambda error: number_of(error) in TOO_LONG)


def is_passing(error: MySQLError) -> bool:
    """Whether trying again, on another connection, can help; else the server refuses what it was given."""
    number = number_of(error)
    return number == 0 or number in CLIENT or number in TEMPORARY or number in LOGIN


def number_of(error: BaseException | None) -> int:
    """The number of a server's error; 0 when it has none."""
    number = error.args[0] if isinstance(error, MySQLError) and error.args else 0
    return number if isinstance(number, int) else 0


def _translated(error: MySQLError, target: str, otherwise: type[StoreError]) -> StoreError:
    number = number_of(error)
    if number in CLIENT or number == 0:
        return StoreUnavailable(f"{target} is not reachable: {one_line(error)}")
    if is_passing(error):
        now = StoreBusy if number in LOCKS else StoreUnavailable
        return now(f"{target} cannot do it now: {one_line(error)} ({number})")
    if otherwise is BatchRejected:
        return refusals.rejected(target, one_line(error), number, values=VALUES)
    return otherwise(f"{target} refuses: {one_line(error)} ({number})")


def login_refused() -> AbstractContextManager[None]:
    """Where the server turned the login away or a right is lacking, say so with the fix."""
    return refusals.login_refused("ssl_ca", _login_fix)


def _login_fix(cause: BaseException | None) -> str | None:
    number = number_of(cause)
    if number not in LOGIN:
        return None
    return FIX_RIGHT if number in NO_RIGHT else FIX_LOGIN


def one_line(error: BaseException) -> str:
    """Shorten an error to one line; for a server's error its text without the number."""
    text = str(error.args[1]) if isinstance(error, MySQLError) and len(error.args) > 1 else str(error)
    cause = error.__cause__
    if isinstance(cause, OSError) and number_of(error) in CLIENT:
        text = f"{text} ({cause})"
    return " ".join(text.split()) or type(error).__name__
