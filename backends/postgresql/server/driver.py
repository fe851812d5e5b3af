"""What the SQL stores need of asyncpg."""

from backends.postgresql.protocol.connection import Connection, give_back, roll_back
from backends.postgresql.server import errors
from backends.postgresql.server.locks import end_holders, prove, release, take
from backends.sql.connection import Driver

DRIVER: Driver[Connection] = Driver(
    translated=errors.translated,
    login_refused=errors.login_refused,
    taken_too_long=errors.taken_too_long,
    is_closed=lambda connection: connection.is_closed(),
    give_back=give_back,
    roll_back=roll_back,
    take_lock=take,
    release_lock=release,
    end_holders=end_holders,
    prove=prove,
)
