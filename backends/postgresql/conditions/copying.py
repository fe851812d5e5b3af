"""All breakpoints of a list, taken out by COPY: numbers as fixed rows, texts by splitting, no object a row but texts.

A row of both would have no fixed length. So there are two COPYs, of the same rows in the same order.
"""

import numpy as np

from backends.postgresql.protocol.connection import Connection
from backends.postgresql.protocol.copy import RowFormat
from backends.postgresql.protocol.output import copied_text
from backends.sql.conditions.session import Points
from schemas.conditions.intervals import KEY_DTYPE
from schemas.conditions.line import texts

NUMBERS = RowFormat([(name, "<i8", 0) for name in ("major", "minor", "id", "size", "inserted_ns")])
# int8send would not be needed: COPY in binary sends each as 8 bytes. NULL has none, so there are no NULLs.
SELECT_NUMBERS = "SELECT major, minor, coalesce(id, 0), coalesce(size, -1), inserted_ns"
ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""https://www.postgresql.org/docs/current/sql-copy.html, "Text Format"; any other character stands for itself."""


async def copied_points(connection: Connection, table: str, content: int) -> Points:
    """All breakpoints of a content, in a transaction that sees one moment."""
    source = f"FROM {table} WHERE content = {content} ORDER BY major, minor"
    rows = NUMBERS.parse(await copied_text(connection, f"{SELECT_NUMBERS} {source}"))
    urls, checksums = _texts(await _text_file(connection, f"SELECT url, checksum {source}"))
    keys = np.empty(len(rows), KEY_DTYPE)
    keys["major"], keys["minor"] = rows["major"], rows["minor"]
    return Points(
        keys=keys,
        ids=rows["id"].astype(np.int64),
        urls=texts(urls),
        checksums=texts(checksums),
        sizes=rows["size"].astype(np.int64),
        inserted_ns=rows["inserted_ns"].astype(np.int64),
    )


async def _text_file(connection: Connection, select: str) -> str:
    answer = bytearray()

    async def take(chunk: bytes) -> None:
        answer.extend(chunk)

    await connection.copy_from_query(select, output=take, format="text", encoding="utf-8")
    return answer.decode()


def _texts(lines: str) -> tuple[list[str], list[str]]:
    """Two columns of a COPY file in text format, without NULLs."""
    fields = lines.replace("\t", "\n").split("\n")[:-1]
    if "\\" in lines:
        fields = [_unescaped(field) for field in fields]
    return fields[0::2], fields[1::2]


def _unescaped(field: str) -> str:
    first, *rest = field.split("\\")
    whole, parts = [first], iter(rest)
    # Nothing between two backslashes: the second one stands for itself.
    whole += (ESCAPES.get(part[0], part[0]) + part[1:] if part else "\\" + next(parts, "") for part in parts)
    return "".join(whole)
