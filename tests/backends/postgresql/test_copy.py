"""What is laid out for COPY goes through a real PostgreSQL and comes out as it went in."""

import asyncio
from typing import Any

import asyncpg
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.columns.filling import ledger_rows
from backends.columns.stored import MISSING_OFFSET
from backends.postgresql.protocol.copy import (
    NotBinaryCopy,
    arrays_format,
    decode_arrays,
    decode_ledger,
    decode_rows,
    encode_arrays,
    encode_ledger,
    encode_rows,
    ledger_format,
    rows_format,
)
from backends.postgresql.protocol.sql import create_group, create_shared, quoted
from backends.sql.tables import GroupTables, group_tables, shared_tables
from schemas.batch import Batch, Layout
from schemas.readings import CHANNEL_DTYPES
from tests.support.batches import answers, batch_of, group_of, readings_of, with_late

INT64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """A batch with any dtypes, any bytes as values, any times, readings missing, and some of those late."""
    dtypes = draw(st.lists(st.sampled_from(sorted(CHANNEL_DTYPES)), min_size=1, max_size=4))
    group = group_of(size=draw(st.integers(1, 20)), dtypes=dtypes)
    count = draw(st.integers(0, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    first = draw(st.integers(0, 2**62))
    around = draw(st.integers(-(2**62), 2**62))
    readings = readings_of(group, first + np.arange(count), around + np.arange(count), rng, jitter_ns=2**60)
    for channel in group.channels:
        width = np.dtype(CHANNEL_DTYPES[channel.dtype]).itemsize
        noise = rng.integers(0, 256, (*readings.shape, width), dtype=np.uint8)
        readings[channel.name] = noise.view(CHANNEL_DTYPES[channel.dtype])[..., 0]
    present = rng.random(readings.shape) < draw(st.sampled_from([0.5, 0.9, 1.0]))
    present[:, 0] = True
    plain = batch_of(group, 1, readings, present=present, run=draw(st.integers(1, 2**31 - 1)))
    late_at = ~present & (rng.random(present.shape) < draw(st.sampled_from([0.0, 0.5])))
    rows = np.flatnonzero(late_at.any(axis=1))
    revised = np.array(
        [with_late(plain.ledger[k], readings[k, late_at[k]], present[k] | late_at[k]) for k in rows], plain.ledger.dtype
    )
    late_of = np.searchsorted(rows, np.nonzero(late_at)[0])
    return batch_of(
        group,
        1,
        readings,
        present=present,
        run=int(plain.ledger["run"][0]) if count else 1,
        late=readings[late_at],
        late_of=late_of,
        revised=revised,
    )


def stored(batch: Batch) -> Any:
    parts = [(int(row["run"]), mine[there]) for row, mine, there in _triggers(batch)]
    late = [(int(batch.revised["run"][of]), batch.late[k : k + 1]) for k, of in enumerate(batch.late_of)]
    return answers(batch.group, [*parts, *late])


def _triggers(batch: Batch) -> Any:
    return zip(batch.ledger, batch.readings, batch.present, strict=True)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=batches(), layout=st.sampled_from(list(Layout)))
def test_what_goes_in_comes_out(postgresql_dsn: str, schema: str, batch: Batch, layout: Layout) -> None:
    tables = group_tables(schema, batch.group, layout)
    if layout is Layout.ROWS:
        payload, decode = encode_rows(batch, batch.group), decode_rows
    else:
        payload, decode = encode_arrays(batch, batch.group), decode_arrays
    ledger = encode_ledger(ledger_rows(batch), batch.group.size, b"logger")
    data_out, ledger_out = asyncio.run(_through_a_server(postgresql_dsn, schema, tables, payload, ledger))

    readings = np.sort(decode(data_out, batch.group), order=("run", "trigger", "instrument"))
    assert readings.tobytes() == stored(batch).tobytes()
    rows = np.sort(decode_ledger(ledger_out, batch.group.size), order=("run", "trigger"))
    np.testing.assert_array_equal(rows, np.sort(ledger_rows(batch), order=("run", "trigger")))


async def _through_a_server(
    dsn: str, schema: str, tables: GroupTables, payload: Any, ledger: Any
) -> tuple[bytearray, bytearray]:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE; CREATE SCHEMA {quoted(schema)};"
            + ";".join([*create_shared(shared_tables(schema), schema), *create_group(tables, schema)])
        )
        outputs = []
        for table, source in ((tables.data, payload), (tables.ledger, ledger)):
            await connection.copy_to_table(table.name, schema_name=schema, source=source, format="binary")
            names = ", ".join(quoted(column.name) for column in table.c if column.name != "logger")
            out = bytearray()

            async def take(chunk: bytes, out: bytearray = out) -> None:
                out.extend(chunk)

            await connection.copy_from_query(
                f"SELECT {names} FROM {quoted(schema, table.name)}", output=take, format="binary"
            )
            outputs.append(out)
        await connection.execute(f"DROP SCHEMA {quoted(schema)} CASCADE")
    finally:
        await connection.close()
    return outputs[0], outputs[1]


def test_a_time_too_far_from_its_trigger_is_kept_as_far_as_can_be() -> None:
    """An offset is an int64 too, and adding it again must not overflow in the database."""
    group = group_of(size=3, dtypes=("int8",))
    readings = readings_of(group, np.array([1]), np.array([1_800_000_000_000_000_000]), np.random.default_rng(1), 1)
    readings["time_ns"][0, 2] = -(2**63)
    rows = arrays_format(group).parse(bytes(encode_arrays(batch_of(group, 1, readings), group)))
    offsets = rows["time_offset_ns"]["elements"]["value"][0].astype(object)
    assert offsets[2] == MISSING_OFFSET + 1
    assert int(rows["time_ns"][0]) + offsets[2] >= -(2**63)


@pytest.mark.parametrize("damage", [b"", b"\0", b"\0" * 1000])
def test_what_is_no_copy_is_refused(damage: bytes) -> None:
    with pytest.raises(NotBinaryCopy):
        decode_rows(damage, group_of())


def test_a_row_of_another_width_is_refused() -> None:
    group = group_of(size=4)
    whole = bytearray(encode_rows(batch_of(group, 1, _two_triggers(group)), group))
    with pytest.raises(NotBinaryCopy, match="whole rows"):
        rows_format(group).parse(whole[:-3])
    whole[19 + 1] += 1
    with pytest.raises(NotBinaryCopy, match="another fields"):
        rows_format(group).parse(whole)


def _two_triggers(group: Any) -> Any:
    return readings_of(group, np.arange(2), np.arange(2) + 10**18, np.random.default_rng(3))


def test_an_empty_file_has_no_rows() -> None:
    whole, rows = ledger_format(9, None).blank(0)
    assert len(rows) == 0
    assert decode_ledger(bytes(whole), 9).shape == (0,)
