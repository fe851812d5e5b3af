"""What aiomysql raises, in the words of `backends.base`: the only place that knows both."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from pymysql.err import MySQLError

from backends import diagnosis
from backends.base import BatchRejected, StoreError, StoreLacks, StoreUnavailable
from backends.mysql.protocol.connection import TooLong
from backends.mysql.protocol.records import NotAsMade

LOCKS = (1205, 1206, 1213, 3572)
"""Locks, deadlock: others are in the way."""
# https://mariadb.com/kb/en/mariadb-error-code-reference/
ROW_FAULTS = frozenset(
    {
        *(1048, 1264, 1265, 1292, 1365, 1366, 1367, 1406, 1411, 1690),  # SQLSTATE 22: a value does not fit its column
        *(1022, 1062, 1169, 1216, 1217, 1451, 1452, 1557, 1586, 1761, 1762, 3819, 4025),  # 23: keys and constraints
    }
)
"""Errors that a row itself is at fault for. All others may pass."""
LOGIN = frozenset(
    {
        *(1044, 1045, 1049, 1130, 1131, 1132, 1133, 1251, 1275, 1698, 1820, 1862, 3118, 4151),  # the login
        *(1142, 1143, 1227, 1370, 1419),  # a right is lacking
    }
)
LACKING = frozenset({1054, 1109, 1136, 1142, 1143, 1146, 1227, 1305, 1364, 1370, 1526, 1932})
"""No such table, column or partition; another number of columns, one without a default; no right to it."""
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
VALUES = rf"(?<=entry )'.*'(?= for key)|(?<=value: )'.*'(?= for column)|(?<=value: )'.*'|{diagnosis.NUMBER}"
"""What of a message is a value of a row: of `Duplicate entry`, `Incorrect ... value` and the like, and any number."""
NO_RIGHT = (1044, 1142, 1143, 1227)
FIX_LOGIN = "correct the user in `dsn`, or what `password_env` or `password_file` gives"
FIX_RIGHT = "let an administrator run what `triggerlog schema FILE` prints, with the rights at its end"


@contextmanager
def translated(target: str, *, rejects: type[StoreError] = StoreError) -> Iterator[None]:
    """Turn what the driver raises into `rejects` where a row is at fault, else into StoreUnavailable."""
    try:
        yield
    except StoreError:
        raise
    except MySQLError as error:
        raise _translated(error, target, rejects) from error
    except TimeoutError as error:
        raise StoreUnavailable(f"{target} does not answer in time") from error
    except OSError as error:
        raise StoreUnavailable(f"{target} is not reachable: {one_line(error)}") from error
    except (NotAsMade, TooLong) as error:
        raise StoreLacks(
            f"the tables in {target} are not as this store made them: {error}; {diagnosis.REPAIR}"
        ) from error


def taken_too_long(target: str, give_up_s: float) -> AbstractContextManager[None]:
    """Say so where a question is given up for its time, here or by the server."""
    return diagnosis.taken_too_long(target, give_up_s, lambda error: number_of(error) in TOO_LONG)


def is_row_fault(error: MySQLError) -> bool:
    """Return True if a row is at fault for what the server refuses; all else may pass, on another connection."""
    return number_of(error) in ROW_FAULTS


def number_of(error: BaseException | None) -> int:
    """The number of a server's error; 0 when it has none."""
    number = error.args[0] if isinstance(error, MySQLError) and error.args else 0
    return number if isinstance(number, int) else 0


def _translated(error: MySQLError, target: str, rejects: type[StoreError]) -> StoreError:
    number = number_of(error)
    if number in CLIENT or number == 0:
        return StoreUnavailable(f"{target} is not reachable: {one_line(error)}")
    if not is_row_fault(error):
        return diagnosis.passing(target, one_line(error), number, is_busy=number in LOCKS, is_lacking=number in LACKING)
    if rejects is BatchRejected:
        return diagnosis.rejected(target, one_line(error), number, values=VALUES)
    return rejects(f"{target} refuses: {one_line(error)} ({number})")


def login_refused() -> AbstractContextManager[None]:
    """Where the server turned the login away or a right is lacking, say so with the fix."""
    return diagnosis.login_refused("ssl_ca", _login_fix)


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
