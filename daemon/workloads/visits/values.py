"""Numbers for the columns that a physicist would fill in: of plausible size, and as little compressible as real ones.

A row is a row of 32-bit words. Its bits are drawn at random, and then those that say how large a number is are set to
what its column has: floats lie between one power of two and the next. So it costs a fraction of a microsecond a row.
"""

from functools import lru_cache

import numpy as np

from schemas.readings import Array
from schemas.visits.tables import Column, Table

_SIZES: tuple[tuple[tuple[str, ...], tuple[str, ...], int, bool], ...] = (
    # beginnings, endings, a power of two that is the least magnitude, either sign
    ((), ("_Cov",), -30, True),
    ((), ("raSigma", "declSigma", "RaSigma", "DeclSigma"), -17, False),  # degrees: 0.03 seconds of arc
    (("ps", "trail", "dip"), ("Ra",), 7, False),  # degrees
    (("pmRa", "pmDecl", "parallax"), ("pmRa", "pmDecl", "parallax"), 3, True),  # milliseconds of arc
    ((), ("LnL", "LnP"), 4, True),
    ((), ("Chi2",), 5, False),
    (("x", "y"), ("x", "y"), 11, False),  # pixels
    (("extendedness", "spuriousness"), (), -2, False),
    (("ixx", "iyy", "ixy"), (), 1, False),  # pixels squared
    ((), ("Sigma", "Err"), 4, False),
    ((), ("Flux", "FluxMean", "FluxDiff", "fpBkgd"), 10, True),  # nJy
    ((), ("snr",), 3, False),
)
_OTHERWISE = (2, False)
_COUNT = np.int64(0xFF)
"""Counts of data points are below 256."""
_ID = np.int64(0xFFFF_FFFF)
"""Ids of objects near by are below 2^32."""


def filled(table: Table, count: int, seed: tuple[int, ...]) -> Array:
    """Rows of a table: its filled columns set at random, the others 0.

    Args:
        table: of schemas.visits.tables.
        count: rows.
        seed: non-negative integers; the same ones give the same rows.

    Returns:
        `table.dtype`, shape (count,).

    """
    random, fixed = _words(table)
    size = count * len(random)
    # The fastest generator of numpy, and whole words of it: twice as fast as uint32 of the default one.
    words = np.random.SFC64(seed).random_raw((size + 1) // 2).view(np.uint32)[:size].reshape(count, len(random))
    words &= random
    words |= fixed
    return words.view(table.dtype).reshape(count)


@lru_cache
def _words(table: Table) -> tuple[Array, Array]:
    """Of a row as uint32 words: which bits are random, and which are set."""
    random, fixed = np.zeros(1, table.dtype), np.zeros(1, table.dtype)
    for column in table.columns:
        if column.filled:
            kind = np.dtype(column.dtype)
            bits, value = _bits(column, kind)
            whole = np.dtype(f"<i{kind.itemsize}")
            random[column.name] = bits.astype(whole).view(kind)
            fixed[column.name] = value
    return random.view(np.uint32), fixed.view(np.uint32)


def _bits(column: Column, kind: np.dtype[np.generic]) -> tuple[Array, Array]:
    """Of one column: the bits that are random as an integer, and a value that the others are set to."""
    if kind.kind == "i":
        return np.array([_COUNT if kind.itemsize == 4 else _ID]), np.zeros(1, kind)
    power, signed = _size(column.name)
    mantissa, sign = (2**23 - 1, 2**31) if kind.itemsize == 4 else (2**52 - 1, 2**63)
    bits = np.array([mantissa | (sign if signed else 0)], np.uint64)
    value = -(2.0**5) if column.name.endswith("Decl") and kind.itemsize == 8 else 2.0**power
    return bits, np.array([value], kind)


def _size(name: str) -> tuple[int, bool]:
    for beginnings, endings, power, signed in _SIZES:
        if name.startswith(beginnings or "") and name.endswith(endings or ""):
            return power, signed
    return _OTHERWISE
