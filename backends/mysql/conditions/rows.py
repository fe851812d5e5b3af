"""All breakpoints of a list in the binary protocol, as columns: texts are padded, so that all rows are alike."""

import numpy as np

from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.records import Field, ResultFormat
from backends.sql.conditions.session import Points
from schemas.conditions.intervals import KEY_DTYPE
from schemas.conditions.line import texts
from schemas.readings import Array

NUMBERS = ("major", "minor", "id", "size", "inserted_ns")


async def selected_points(connection: Connection, table: str, content: int) -> Points:
    """All breakpoints of a content, in a transaction that sees one moment."""
    where = f"FROM {table} WHERE content = {content}"
    ((url, checksum),) = await connection.fetch(
        f"SELECT COALESCE(MAX(LENGTH(url)), 0), COALESCE(MAX(LENGTH(checksum)), 0) {where}"
    )
    widths = {"url": max(1, url), "checksum": max(1, checksum)}
    # A text holds no NUL: it is refused.
    padded = ", ".join(f"RPAD(CAST({name} AS BINARY), {width}, x'00')" for name, width in widths.items())
    text = f"SELECT major, minor, COALESCE(id, 0), COALESCE(size, -1), inserted_ns, {padded} {where}"
    packets = await connection.select(f"{text} ORDER BY major, minor")
    fields = [Field(name, "<i8") for name in NUMBERS] + [Field(name, "u1", width) for name, width in widths.items()]
    columns, _ = ResultFormat(fields).parse(packets)
    keys = np.empty(len(packets), KEY_DTYPE)
    keys["major"], keys["minor"] = columns["major"], columns["minor"]
    return Points(
        keys=keys,
        ids=np.array(columns["id"]),
        urls=_texts(columns["url"]),
        checksums=_texts(columns["checksum"]),
        sizes=np.array(columns["size"]),
        inserted_ns=np.array(columns["inserted_ns"]),
    )


def _texts(padded: Array) -> Array:
    """Texts of bytes, uint8, shape (n, width)."""
    if not len(padded):
        return texts([])
    values = np.ascontiguousarray(padded).view(f"S{padded.shape[1]}")[:, 0].tolist()
    return texts(b"\0".join(values).decode().split("\0"))
