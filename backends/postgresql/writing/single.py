"""A batch of one trigger in one statement: the way of an idle system, where round trips are most of the latency.

A transaction with COPY takes three round trips, one statement takes one. Its parameters are lists, a Python object a
value, which is cheaper than two round trips for one trigger and much more expensive than COPY for many.
"""

import itertools
from collections.abc import Iterable
from typing import Any

from backends.columns.stored import POSITION, STORED_DTYPES
from backends.postgresql.protocol.copy import arrays_format, rows_format
from backends.postgresql.protocol.sql import leaf_of, literal, quoted
from backends.sql.positions import followed, least_of_ours, move
from backends.sql.tables import GroupTables
from schemas.batch import Batch, Layout, Stream
from schemas.ledger import COUNTS, NUMBERS
from schemas.readings import Array

SQL_TYPES = {"<i2": "int2", "<i4": "int4", "<i8": "int8", "<f4": "float4", "<f8": "float8"}


def is_single(batch: Batch) -> bool:
    """Whether the batch is one trigger of the journal and nothing else."""
    is_one = len(batch.ledger) == 1 and not len(batch.late) and not len(batch.revised)
    return is_one and batch.stream is Stream.JOURNAL


def single_statement(tables: GroupTables, *, schema: str, logger: str, into: str) -> str:
    """The statement: it moves the position, and only if it did writes the ledger row and the readings.

    It is for a trigger that cannot be in the ledger already.

    It answers with the number of positions moved. `into` is the end of the partitions' names, or empty.
    """
    ledger, data = quoted(schema, tables.ledger.name + into), quoted(schema, tables.data.name + leaf_of(into))
    # The position, what it follows, run, trigger, bitmap; then the ledger's numbers, then the data's.
    number = itertools.count(1)

    def parameters(types: Iterable[str]) -> list[str]:
        return [f"${next(number)}::{name}" for name in types]

    to = dict(zip(POSITION, parameters("bytea" if name == "state" else "int8" for name in POSITION), strict=True))
    least, of_journal, of_sequence = parameters(["int8"] * 3)
    run, trigger, missing = parameters(["int4", "int8", "bytea"])
    numbers = parameters([*["int8"] * len(NUMBERS), *["int4"] * len(COUNTS)])
    group = tables.group
    types = [SQL_TYPES[STORED_DTYPES[channel.dtype]] + "[]" for channel in group.channels]
    columns = ", ".join(["run", "trigger_id", *_data_names(tables)])
    if tables.layout is Layout.ROWS:
        values = parameters(["int2[]", "int8[]", *types])
        source = f"SELECT {run}, {trigger}, u.* FROM moved, unnest({', '.join(values)}) AS u"
    else:
        values = parameters(["int8", "int8[]", *types])
        source = f"SELECT {run}, {trigger}, {', '.join(values)} FROM moved"
    names = ", ".join(quoted(name) for name in ("run", "trigger_id", *NUMBERS, *COUNTS, "missing", "logger"))
    key = f"logger = {literal(logger)} AND group_name = {literal(group.name)}"
    moved = move(
        quoted(schema, "positions"), key=key, to=to, least=least, followed=(of_journal, of_sequence), closed=None
    )
    return (
        f"WITH moved AS ({moved} RETURNING 1),"
        f" noted AS (INSERT INTO {ledger} ({names})"
        f" SELECT {run}, {trigger}, {', '.join(numbers)}, {missing}, {literal(logger)} FROM moved),"
        f" put AS (INSERT INTO {data} ({columns}) {source})"
        " SELECT count(*) FROM moved"
    )


def single_parameters(batch: Batch, tables: GroupTables, payload: Array) -> list[Any]:
    """Its parameters, from the batch and its COPY payload (uint8), which already has every value as it is stored."""
    run, trigger, *numbers, _ = batch.ledger[0].item()  # in the order of the ledger's dtype: NUMBERS, COUNTS, missing
    moved = [*(getattr(batch.position, name) for name in POSITION), least_of_ours(batch), *followed(batch)]
    head = [*moved, run, trigger, batch.ledger["missing"].tobytes(), *numbers]
    group, names = tables.group, _data_names(tables, quote=False)
    if tables.layout is Layout.ROWS:
        rows = rows_format(group).rows(payload)
        return [*head, *(rows[name].tolist() for name in names)]
    row = arrays_format(group).rows(payload)[0]
    values = (row[name]["elements"]["value"].tolist() for name in names[1:])
    return [*head, int(row["time_ns"]), *values]


def _data_names(tables: GroupTables, *, quote: bool = True) -> list[str]:
    first = ["instrument", "time_ns"] if tables.layout is Layout.ROWS else ["time_ns", "time_offset_ns"]
    names = [*first, *(channel.name for channel in tables.group.channels)]
    return [quoted(name) for name in names] if quote else names
