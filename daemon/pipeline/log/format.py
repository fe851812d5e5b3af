"""The format of the log, as `docs/log.md` tells it: readings as they came, with their numbers."""

import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from daemon.core.outside.disk import Buffer
from daemon.pipeline.files.format import BadRecord, Parts, group_checksum, padded, record_header
from schemas.readings import Array, InstrumentGroup

RECORD_MAGIC = 0x52_4C_54_89
"""The first four bytes of a record, 89 54 4C 52."""

COUNTS: np.dtype[Any] = np.dtype([("runs", "<u4"), ("readings", "<u4"), ("received_ns", "<i8")])
"""What a body begins with (16 bytes)."""


class RunKind(IntEnum):
    """What a run tells of its session."""

    JOINED = 0  # a connection of it began, whose sender still holds its records from `first` on
    READINGS = 1  # so many readings came
    ENDED = 2  # its sender said goodbye
    SENT = (
        3  # the sender that joins next has sent its records up to `first` on other connections, and none from there on
    )


RUN: np.dtype[Any] = np.dtype([("session", "<u8"), ("first", "<i8"), ("count", "<u4"), ("kind", "<u4")])
"""Readings of one session in a row (24 bytes). session: `session_key`, or a private one; first: the number of the first
of them; kind: a `RunKind`."""


OVERHEAD = 512
"""Bytes of memory that objects take for a record, beside its readings: with a few readings each that is most of it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Received:
    """What came together.

    number: of the record; they ascend by 1. received_ns: when it came, UTC. runs: RUN, shape (r,), in the order in
    which they came. readings: record dtype, shape (n,), those of the runs one behind the other.
    """

    number: int
    received_ns: int
    runs: Array
    readings: Array

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it takes, nearly."""
        return OVERHEAD + self.runs.nbytes + self.readings.nbytes


def encode(received: Received, group: InstrumentGroup) -> list[Buffer]:
    """Lay it out as a record: buffers to be written one behind the other."""
    counts = np.array([(len(received.runs), len(received.readings), received.received_ns)], COUNTS)
    body = [buffer for part in (counts, received.runs, received.readings) for buffer in padded(part)]
    checksum = length = 0
    for buffer in body:
        checksum, length = zlib.crc32(buffer, checksum), length + len(buffer)
    return [record_header((received.number, 0, 0), length, checksum, group_checksum(group), RECORD_MAGIC), *body]


def decode(number: int, body: bytes | memoryview, group: InstrumentGroup) -> Received:
    """Read it back from a checked body.

    Raises:
        BadRecord: its parts do not add up.
    """
    counts = np.frombuffer(body, COUNTS, 1)[0]
    parts = Parts(body, COUNTS.itemsize)
    runs = parts.take(RUN, int(counts["runs"]))
    # Timestamps of 0 were replaced before; what goes through assembly is changed by nobody, but has to be writable.
    readings = parts.take(group.record, int(counts["readings"])).copy()
    parts.end()
    if int(runs["count"].sum()) != len(readings):
        raise BadRecord("it has not as many readings as its runs say")
    return Received(number=number, received_ns=int(counts["received_ns"]), runs=runs, readings=readings)


def runs_of(body: bytes | memoryview) -> tuple[Array, int, int]:
    """The runs in a checked body, RUN, shape (n,), how many readings it holds, and when these came (UTC, ns)."""
    counts = np.frombuffer(body, COUNTS, 1)[0]
    runs = np.frombuffer(body, RUN, int(counts["runs"]), COUNTS.itemsize).copy()  # the file may be closed before it
    return runs, int(counts["readings"]), int(counts["received_ns"])
