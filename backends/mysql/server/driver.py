"""What the SQL stores need of aiomysql."""

from backends.mysql.protocol.connection import Connection, give_back
from backends.mysql.server import errors
from backends.mysql.server.locks import take
from backends.sql.connection import Driver

DRIVER: Driver[Connection] = Driver(
    translated=errors.translated,
    login_refused=errors.login_refused,
    taken_too_long=errors.taken_too_long,
    is_closed=lambda connection: connection.closed,
    give_back=give_back,
    take_lock=take,
)
