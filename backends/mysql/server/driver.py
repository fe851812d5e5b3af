"""What the SQL stores need of aiomysql."""

from backends.mysql.protocol.connection import Connection, give_back
from backends.mysql.protocol.sql import ROLLBACK
from backends.mysql.server import errors
from backends.mysql.server.locks import end_holders, prove, release, take
from backends.sql.connection import Driver


async def roll_back(connection: Connection) -> None:
    """End the transaction that a connection is in, if it is in one."""
    await connection.run(ROLLBACK)


DRIVER: Driver[Connection] = Driver(
    translated=errors.translated,
    login_refused=errors.login_refused,
    taken_too_long=errors.taken_too_long,
    is_closed=lambda connection: connection.closed,
    give_back=give_back,
    roll_back=roll_back,
    take_lock=take,
    release_lock=release,
    end_holders=end_holders,
    prove=prove,
)
