"""The binary protocol laid out and read with numpy, against struct, a value at a time."""

import struct
from collections.abc import Iterator

import numpy as np
import pytest

from backends.mysql.protocol.connection import Packets, TooLong, _extended_capabilities
from backends.mysql.protocol.records import Field, NotAsMade, ParameterFormat, ResultFormat, length_prefix
from schemas.readings import Array

FIELDS = (Field("n", "<i4"), Field("x", "<f8"), Field("b", "<i2", 200), Field("y", "<f4"))
COUNT = 50


def packet(payload: bytes, number: int = 0) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([number % 256]) + payload


def values(rng: np.random.Generator, count: int = COUNT) -> tuple[Array, Array]:
    rows = np.zeros(count, [("n", "<i4"), ("x", "<f8"), ("b", "<i2", 200), ("y", "<f4")])
    rows["n"] = rng.integers(-(2**31), 2**31, count)
    rows["x"], rows["y"] = rng.standard_normal(count), rng.standard_normal(count)
    rows["b"] = rng.integers(-(2**15), 2**15, (count, 200))
    return rows, rng.random((count, 4)) < 0.2


def encoded(row: Array, null: Array) -> Iterator[bytes]:
    for name, missing in zip(("n", "x", "b", "y"), null, strict=True):
        if not missing:
            yield (b"\xfc" + struct.pack("<H", 400) if name == "b" else b"") + row[name].tobytes()
        else:
            yield b""


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize("with_nulls", [False, True])
@pytest.mark.parametrize("indicated", [False, True])
def test_parameters(rng: np.random.Generator, with_nulls: bool, indicated: bool) -> None:
    rows, nulls = values(rng)
    form = ParameterFormat(FIELDS, indicated=indicated)
    laid = form.blank(COUNT)
    for name in ("n", "x", "b", "y"):
        laid[name] = rows[name]
    nulls &= with_nulls
    start = 0
    for chunk in form.chunks(laid, nulls if with_nulls else None, [13, 30, 7]):
        expected = b""
        part = slice(start, start + chunk.rows)
        for row, null in zip(rows[part], nulls[part], strict=True):
            for value, missing in zip(encoded(row, null), null, strict=True):
                expected += (bytes([int(missing)]) if indicated else b"") + value
        assert bytes(chunk.values) == expected
        bits = np.unpackbits(np.frombuffer(chunk.nulls, np.uint8), bitorder="little")
        if not indicated:
            np.testing.assert_array_equal(bits[: chunk.rows * 4].reshape(-1, 4), nulls[part])
            assert len(chunk.nulls) == -(-chunk.rows * 4 // 8)
        start += chunk.rows
    assert start == COUNT
    assert form.types == bytes([3, 0, 5, 0, 252, 0, 4, 0])


def result(rows: Array, nulls: Array) -> bytes:
    answer = b""
    for number, (row, null) in enumerate(zip(rows, nulls, strict=True)):
        bitmap = sum(1 << k + 2 for k, missing in enumerate(null) if missing)
        answer += packet(b"\0" + bytes([bitmap]) + b"".join(encoded(row, null)), number)
    return answer + packet(b"\xfe\0\0\2\0")


@pytest.mark.parametrize("how", ["none", "some", "one column", "one row"])
@pytest.mark.parametrize("chunk", [1, 7, 500, 10**6])
def test_results(rng: np.random.Generator, how: str, chunk: int) -> None:
    rows, nulls = values(rng)
    if how != "some":
        nulls[:] = False
    if how == "one column":
        nulls[:, 1] = True
    if how == "one row":
        nulls[20, 2] = True
    data = result(rows, nulls) + b"next"
    packets = Packets()
    for start in range(0, len(data), chunk):
        packets.feed(data[start : start + chunk])
    assert packets.ended
    assert packets.rest() == b"next"
    assert len(packets) == COUNT
    columns, found = ResultFormat(FIELDS).parse(packets)
    for number, name in enumerate(("n", "x", "b", "y")):
        missing = nulls[:, number]
        np.testing.assert_array_equal(found.get(name, np.zeros(COUNT, bool)), missing)
        np.testing.assert_array_equal(columns[name][~missing], rows[name][~missing])
        assert not columns[name][missing].any()


def test_a_result_without_rows() -> None:
    packets = Packets()
    packets.feed(packet(b"\xfe\0\0\2\0"))
    columns, nulls = ResultFormat(FIELDS).parse(packets)
    assert {name: len(column) for name, column in columns.items()} == dict.fromkeys(("n", "x", "b", "y"), 0)
    assert not nulls


def test_an_error_among_the_rows(rng: np.random.Generator) -> None:
    rows, nulls = values(rng, 3)
    data = result(rows, nulls & False)[:-9] + packet(b"\xff\x25\x05#70100interrupted")
    packets = Packets()
    packets.feed(data)
    assert packets.ended
    assert packets.error == b"\xff\x25\x05#70100interrupted"


def test_rows_that_are_not_as_made(rng: np.random.Generator) -> None:
    rows, nulls = values(rng, 3)
    packets = Packets()
    packets.feed(result(rows, nulls & False))
    for other in (FIELDS[:3], (*FIELDS[:3], Field("y", "<f8")), (FIELDS[0], FIELDS[1], Field("b", "<i2", 201))):
        with pytest.raises(NotAsMade):
            ResultFormat(other).parse(packets)
    # The same width in all, in another form: a byte string with another length before it.
    damaged = bytearray(result(rows, nulls & False))
    damaged[4 + 2 + 12 + 1] ^= 1
    packets = Packets()
    packets.feed(bytes(damaged))
    with pytest.raises(NotAsMade, match="b has not 400 bytes"):
        ResultFormat(FIELDS).parse(packets)


def test_a_row_longer_than_a_packet() -> None:
    with pytest.raises(TooLong):
        Packets().feed(b"\xff\xff\xff\0" + bytes(10))


@pytest.mark.parametrize(
    ("length", "prefix"),
    [(0, b"\0"), (250, b"\xfa"), (251, b"\xfc\xfb\0"), (65_535, b"\xfc\xff\xff"), (65_536, b"\xfd\0\0\1"),
     (1 << 24, b"\xfe\0\0\0\1\0\0\0\0")],
)  # fmt: skip
def test_lengths(length: int, prefix: bytes) -> None:
    assert length_prefix(length) == prefix


@pytest.mark.parametrize(
    ("lower", "extended", "found"), [(0xF7FE, 0x1D, 0x1D), (0xF7FF, 0x1D, 0), (0xF7FE, 0, 0)]
)  # fmt: skip
def test_what_a_server_says_it_can(lower: int, extended: int, found: int) -> None:
    greeting = (
        b"\n10.11.19-MariaDB\0" + struct.pack("<I", 7) + b"saltsalt\0" + struct.pack("<HBHHB", lower, 45, 2, 0x81FF, 21)
    )
    assert _extended_capabilities(greeting + bytes(6) + struct.pack("<I", extended) + b"more") == found
    assert _extended_capabilities(greeting[:-6]) == 0
