"""Packs as binary COPY: rows of one variable length, built a pack at a time and not a record at a time."""

import struct
from collections.abc import Iterable

import numpy as np

from backends.postgresql.protocol.copy import SIGNATURE, TRAILER
from backends.visits.compaction import Part
from schemas.readings import Array

COLUMNS = ("period", "pixel", "visit", "tile", "n", "records")
_HEAD = struct.Struct(">hiiiqiqiiiii")


def encode_packs(packs: Iterable[Part], *, period: int, visit: int) -> Array:
    """Lay out packs in the order they come in; uint8."""
    parts: list[bytes | memoryview] = [SIGNATURE]
    for pixel, tile, records in packs:
        numbers = (4, period, 8, pixel, 8, visit, 4, tile, 4, len(records))
        parts += [_HEAD.pack(len(COLUMNS), *numbers, records.nbytes), records.view(np.uint8).data]
    return np.frombuffer(b"".join([*parts, TRAILER]), np.uint8)
