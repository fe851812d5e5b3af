"""Pieces as binary COPY: rows of one variable length, built a piece at a time and not a record at a time."""

import struct

import numpy as np

from backends.postgresql.copy import SIGNATURE, TRAILER
from backends.visit_rows import by_pixel
from schemas.readings import Array

COLUMNS = ("period", "pixel", "visit", "tile", "n", "records")
_HEAD = struct.Struct(">hiiiqiqiiiii")


def encode_pieces(rows: Array, pixels: Array, *, period: int, visit: int, tile: int) -> Array:
    """Lay out one piece a coarse pixel, ascending, of packed rows; uint8.

    rows: structured, shape (rows,); pixels: int64, coarse pixel of each.
    """
    parts: list[bytes | memoryview] = [SIGNATURE]
    for pixel, records in by_pixel(rows, pixels):
        numbers = (4, period, 8, pixel, 8, visit, 4, tile, 4, len(records))
        parts += [_HEAD.pack(len(COLUMNS), *numbers, records.nbytes), records.view(np.uint8).data]
    return np.frombuffer(b"".join([*parts, TRAILER]), np.uint8)
