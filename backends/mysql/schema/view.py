"""The view of a group's readings: one a row in both layouts, with names and native timestamps (DATETIME(6), UTC).

In the arrays layout numbers are picked out of byte strings. There is no cast for that: integers are read as
hexadecimal, and floats put together from sign, exponent and fraction (IEEE 754), exactly, since each step is a product
or a sum that a double holds. It takes no stored function, so no right to create one.
"""

from backends.columns.stored import MISSING_OFFSET, STORED_DTYPES
from backends.mysql.protocol.sql import literal, quoted
from backends.sql.tables import GroupTables
from schemas.batch import Layout

EPOCH = "TIMESTAMP'1970-01-01 00:00:00'"


def create_view(tables: GroupTables, schema: str) -> str:
    """The statement; in the arrays layout `trigger_time_ns` is there to be compared with: it prunes partitions."""
    group, arrays = tables.group, tables.layout is Layout.ARRAYS
    number = "i.instrument" if arrays else "d.instrument"
    time_ns = f"(d.time_ns + {integer('d.time_offset_ns', number, 8)})" if arrays else "d.time_ns"
    columns = [
        f"d.run, d.trigger_id, {number} AS instrument, i.name",
        # DIV cuts towards zero, and time before 1970 has to be rounded down as all other.
        f"{EPOCH} + INTERVAL ({time_ns} DIV 1000 - ({time_ns} % 1000 < 0)) MICROSECOND AS time",
        f"{time_ns} AS time_ns",
    ]
    for channel in group.channels:
        name = quoted(channel.name)
        value = element(f"d.{name}", number, STORED_DTYPES[channel.dtype]) if arrays else f"d.{name}"
        columns.append(f"{value} AS {name}")
    if arrays:
        columns.append("d.time_ns AS trigger_time_ns")
    join = "" if arrays else f" AND i.instrument = {number}"
    source = (
        f"{quoted(schema, tables.data.name)} d {'' if arrays else 'LEFT '}JOIN {quoted(schema, 'instruments')} i"
        f" ON i.group_name = {literal(group.name)}{join}"
    )
    if arrays:
        missing = (MISSING_OFFSET).to_bytes(8, "little", signed=True).hex()
        source += f" WHERE {picked('d.time_offset_ns', number, 8)} <> x'{missing}'"
    view = quoted(schema, f"{group.name}_readings")
    return f"CREATE OR REPLACE SQL SECURITY INVOKER VIEW {view} AS SELECT {', '.join(columns)} FROM {source}"


def picked(column: str, number: str, width: int) -> str:
    """The bytes of one element."""
    return f"SUBSTR({column}, {width} * {number} + 1, {width})"


def element(column: str, number: str, dtype: str) -> str:
    """One element as a number."""
    width = int(dtype[-1])
    return floating(column, number, width) if "f" in dtype else integer(column, number, width)


def integer(column: str, number: str, width: int) -> str:
    """A signed little-endian integer."""
    digits = f"HEX(REVERSE({picked(column, number, width)}))"
    if width == 8:
        return f"CAST(CONV({digits}, 16, -10) AS SIGNED)"
    # Two's complement: the sign bit flipped, and its worth taken away again.
    sign = 1 << 8 * width - 1
    return f"(CAST(CAST(CONV({digits}, 16, 10) AS UNSIGNED) ^ {sign} AS SIGNED) - {sign})"


def floating(column: str, number: str, width: int) -> str:
    """An IEEE 754 little-endian float as a DOUBLE of the same value; NULL for NaN and infinities."""
    fraction_bits, exponent_bits = (52, 11) if width == 8 else (23, 8)
    largest = (1 << exponent_bits) - 1
    # For the exponent's bias, and since the fraction is taken as a whole number.
    shift = 1 - (1 << exponent_bits - 1) - fraction_bits
    # The last two bytes have the sign, the exponent, and the upper bits of the fraction.
    at = f"{width} * {number}"
    high = f"(ORD(SUBSTR({column}, {at} + {width}, 1)) * 256 + ORD(SUBSTR({column}, {at} + {width - 1}, 1)))"
    upper = fraction_bits - 8 * (width - 2)
    exponent = f"(({high} >> {upper}) & {largest})"
    lower = f"CAST(CONV(HEX(REVERSE(SUBSTR({column}, {at} + 1, {width - 2}))), 16, 10) AS UNSIGNED)"
    fraction = f"(({high} & {(1 << upper) - 1}) * {1 << 8 * (width - 2)} + {lower})"
    sign = f"IF({high} >= 32768, -1e0, 1e0)"
    hidden = f"IF({exponent} = 0, 0, {1 << fraction_bits})"
    scale = f"POW(2e0, CAST(GREATEST({exponent}, 1) AS SIGNED) + ({shift}))"
    return f"IF({exponent} = {largest}, NULL, {sign} * ({hidden} + {fraction}) * {scale})"
