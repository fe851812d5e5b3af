"""Rows into a table: by COM_STMT_BULK_EXECUTE where the server has it, else by statements of many rows.

Both carry values in the binary protocol. Measured in docs/decisions/0018: against text (multi-row INSERT, LOAD DATA
LOCAL) both are 2 to 4 times as fast, and for single readings the first is a third to a half faster than the second.
"""

from dataclasses import dataclass

from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import ParameterFormat
from schemas.readings import Array

COMMAND_BYTES = 512 * 1024
"""Most values in one command, which keeps the server busy while the next is on its way."""
ROOM = 1024
"""Bytes of a command beside the values, and some to spare."""
MOST_PARAMETERS = 65_535
"""Parameters that a prepared statement may have."""
STATEMENT_ROWS = 1024
"""Rows of the longest statement: longer ones take longer a row."""


@dataclass(frozen=True, kw_only=True)
class Insert:
    """Rows for one table.

    into, values: the INSERT up to its values, and the values of one row, as `insert_into` gives them.
    end: what comes behind the values; so it may be another statement, too, that takes a list of values.
    rows: as `form.blank` makes them.
    nulls: bool, shape (rows, fields), or None.
    """

    into: str
    values: str
    form: ParameterFormat
    rows: Array
    nulls: Array | None = None
    end: str = ""

    def text(self, rows: int) -> str:
        """The statement for so many rows."""
        return self.into + ",".join([self.values] * rows) + self.end

    @property
    def nbytes(self) -> int:
        """About what it takes on the wire."""
        return self.rows.nbytes


class Inserter:
    """Sends inserts over one connection; statements are prepared once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._prepared: dict[str, int] = {}

    async def send(self, insert: Insert, *, ahead: bool) -> int:
        """Send all rows; how many answers are still to come: all of them if `ahead`, else none."""
        form, connection = insert.form, self._connection
        sizes = _sizes(insert, connection)
        waiting = 0
        for chunk in form.chunks(insert.rows, insert.nulls, sizes):
            if form.indicated:
                statement = await self.statement(insert.text(1))
                await connection.send_bulk(statement, form.types, chunk.values)
            else:
                statement = await self.statement(insert.text(chunk.rows))
                await connection.send_execute(statement, form.types * chunk.rows, chunk.nulls, chunk.values)
            if ahead:
                waiting += 1
            else:
                await connection.answer()
        return waiting

    async def prepare(self, insert: Insert) -> None:
        """Prepare what `send` needs, so that it can send ahead of answers."""
        for size in set(_sizes(insert, self._connection)):
            await self.statement(insert.text(1 if insert.form.indicated else size))

    def knows(self, text: str) -> bool:
        """Whether a statement is prepared."""
        return text in self._prepared

    async def statement(self, text: str) -> int:
        """The number of a statement, which is prepared the first time."""
        if text not in self._prepared:
            self._prepared[text] = await self._connection.prepare(text)
        return self._prepared[text]


def _sizes(insert: Insert, connection: Connection) -> list[int]:
    """How many rows go into each command."""
    form, count = insert.form, len(insert.rows)
    most = max(1, min(COMMAND_BYTES, connection.max_packet - ROOM) // form.dtype.itemsize)
    if form.indicated:
        return [min(most, count - start) for start in range(0, count, most)]
    return powers(count, min(most, MOST_PARAMETERS // len(form.fields), STATEMENT_ROWS))


def powers(count: int, most: int) -> list[int]:
    """Sizes that add up to count, each a power of two up to `most`: so few different statements are prepared."""
    sizes = []
    size = 1 << most.bit_length() - 1
    while count:
        sizes += [size] * (count // size)
        count %= size
        size >>= 1
    return sizes
