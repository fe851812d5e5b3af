"""schemas.folders.bodies and columns: blocks as bodies, there and back, and bodies that are none."""

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.core.words import cell, text_of
from schemas.conditions.rules import ConditionsRefused, RefusalKind
from schemas.folders.blocks import OPEN
from schemas.folders.bodies import as_csv, as_json, as_npy, block_of, from_npy, from_records
from schemas.folders.folders import Column, Folder, FolderKind, FolderLayout
from schemas.readings import CHANNEL_DTYPES, Array

WIDTH = 9
COLUMNS = (
    *(Column(name=dtype, dtype=dtype) for dtype in CHANNEL_DTYPES),
    Column(name="note", dtype="text", width=WIDTH),
)
FOLDER = Folder(
    path="/all",
    kind=FolderKind.SINGLE,
    layout=FolderLayout.WINDOW,
    columns=COLUMNS,
    description="",
    version=0,
    created_ns=0,
)
TIMES = st.integers(0, OPEN)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=WIDTH).filter(
    lambda text: len(text.encode()) <= WIDTH
)


def numbers(dtype: str) -> st.SearchStrategy[Any]:
    form = np.dtype(CHANNEL_DTYPES[dtype])
    if form.kind == "f":
        return st.floats(width=8 * form.itemsize, allow_nan=False, allow_infinity=False)
    return st.integers(int(np.iinfo(form).min), int(np.iinfo(form).max))


ROWS = st.tuples(
    st.integers(0, 2**31 - 1), TIMES, TIMES, *(numbers(dtype) for dtype in CHANNEL_DTYPES), TEXTS.map(str.encode)
)
BLOCKS = st.lists(ROWS, max_size=3).map(lambda rows: np.array(rows, FOLDER.dtype))


# On a busy machine, blocks of all dtypes take longer to draw than hypothesis likes.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def from_json(body: bytes) -> Array:
    found = json.loads(body)
    return block_of(COLUMNS, found["channel"], found["since"], found["until"], found["values"])


@unhurried
@given(BLOCKS)
def test_every_body_has_the_whole_block(block: Array) -> None:
    assert from_records(block.tobytes(), FOLDER).tobytes() == block.tobytes()
    found = from_npy(as_npy(block))
    assert found.dtype == block.dtype
    assert found.tobytes() == block.tobytes()
    np.testing.assert_array_equal(from_json(as_json(block, COLUMNS)), block)


@unhurried
@given(BLOCKS)
def test_a_csv_has_a_line_an_interval(block: Array) -> None:
    header, *rows = csv.reader(io.StringIO(as_csv(block, COLUMNS, cell).decode(), newline=""))
    assert tuple(header) == FOLDER.dtype.names
    for row, expected in zip(rows, block, strict=True):
        channel, since, until, *values, note = row
        ends = OPEN if until == "" else int(until)
        assert (int(channel), int(since), ends) == tuple(expected[name] for name in ("channel", "since", "until"))
        for value, dtype in zip(values, CHANNEL_DTYPES, strict=True):
            form = np.dtype(CHANNEL_DTYPES[dtype])
            assert (float(value) if form.kind == "f" else int(value)) == expected[dtype]
        assert text_of(note).encode() == expected["note"]


@unhurried
@given(BLOCKS, st.data())
def test_a_damaged_array_is_refused_or_is_another_one(block: Array, data: st.DataObject) -> None:
    body = bytearray(as_npy(block))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = from_npy(bytes(body[: data.draw(st.integers(0, len(body)))]))
    except ConditionsRefused:
        return
    assert not found.dtype.hasobject


@unhurried
@given(st.binary(max_size=200))
def test_bytes_that_are_no_array_are_refused(body: bytes) -> None:
    with pytest.raises(ConditionsRefused) as caught:
        from_npy(body)
    assert (caught.value.kind, caught.value.field) == (RefusalKind.INVALID, "body")
    with pytest.raises(ConditionsRefused):
        from_npy(b"\x93NUMPY\x01\x00" + body)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format_is_read(version: tuple[int, int]) -> None:
    file = io.BytesIO()
    block = np.zeros(2, FOLDER.dtype)
    np.lib.format.write_array(file, block, version=version)
    assert from_npy(file.getvalue()).tobytes() == block.tobytes()
