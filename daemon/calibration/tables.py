"""What payloads say of the instruments of one group, kept by checksum."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from daemon.calibration.payloads import MOST_BYTES, PayloadFiles, PayloadUnusable, verified
from schemas.checking.problems import Problem
from schemas.conditions.calibration import (
    BpmInstrument,
    BpmPayload,
    PayloadRefused,
    bpm_payload,
    bpm_payload_of_rows,
    table_of,
)
from schemas.readings import MAX_INSTRUMENTS, Array, InstrumentGroup

CACHE_BYTES = 64 * 2**20
"""Calibrations that are kept laid out: of 120 instruments they are 9 kB a payload."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PayloadTable:
    """A payload that was verified.

    checksum: of its content. size: of its content, in bytes. table: BPM_DTYPE, shape (group.size).
    """

    checksum: str
    size: int
    table: Array


class PayloadTables:
    """Reads payloads for a group, and keeps those that were used last.

    They are kept by the checksum of their content: a file that is replaced has another one.
    """

    def __init__(self, group: InstrumentGroup, files: PayloadFiles, cache_bytes: int = CACHE_BYTES) -> None:
        self._group, self._files, self._cache_bytes = group, files, cache_bytes
        self._kept = OrderedDict[str, PayloadTable]()
        self._turn = asyncio.Lock()

    async def table(self, url: str, checksum: str, size: int = -1) -> PayloadTable:
        """The calibrations of an interval by number of the instrument.

        Args:
            url: of the payload.
            checksum: that the interval has; where it is empty, the file is read each time.
            size: that the interval has, in bytes; -1 where nobody said.

        Raises:
            PayloadUnusable: the payload cannot be read, or is not what its interval says.
        """
        async with self._turn:  # many may ask for a payload that nobody has read yet
            found = self._kept.get(checksum.strip().lower()) or await self._read(url, checksum)
            self._keep(found)
        if size not in (-1, found.size):
            raise PayloadUnusable(
                "size",
                f"payload {url!r} has {found.size:,} bytes, and not {size:,}, as its interval says",
                "put back the file that was attached, or attach this one with its size",
            )
        return found

    async def _read(self, url: str, checksum: str) -> PayloadTable:
        content = await self._files.read(url)
        # In a thread: of many instruments it takes long, and readings come meanwhile.
        found = await asyncio.to_thread(verified, content, checksum, url)
        kept = self._kept.get(found)
        if kept is not None:
            return kept
        table = await asyncio.to_thread(self._table, content, url)
        return PayloadTable(checksum=found, size=len(content), table=table)

    def _table(self, content: bytes, url: str) -> Array:
        try:
            return table_of(_payload(content), self._group)
        except PayloadRefused as refused:
            wrong = refused.problem
            raise PayloadUnusable(wrong.field, f"payload {url!r}: {wrong.problem}", wrong.fix) from None

    def _keep(self, found: PayloadTable) -> None:
        self._kept[found.checksum] = found
        self._kept.move_to_end(found.checksum)
        while len(self._kept) > 1 and len(self._kept) * found.table.nbytes > self._cache_bytes:
            self._kept.popitem(last=False)


def _payload(content: bytes) -> BpmPayload:
    if not content.startswith(b"PAR1"):
        return bpm_payload(content)
    if find_spec("pyarrow") is None:
        fix = "install it (pip install 'triggerlog[export]'), or attach the payload as JSON"
        raise PayloadUnusable("url", "a payload in Parquet needs pyarrow, not installed here", fix)
    return bpm_payload_of_rows(_rows(content))


def _rows(content: bytes) -> list[dict[str, Any]]:
    from daemon.calibration.parquet import TableRefused, read_columns  # noqa: PLC0415 - pyarrow is in an extra

    names = list(BpmInstrument.model_fields)
    try:
        table = read_columns(content, names, most_rows=MAX_INSTRUMENTS, most_bytes=MOST_BYTES, others_are_refused=True)
    except TableRefused as refused:
        raise PayloadRefused(Problem(field=refused.field, problem=refused.problem, fix=refused.fix)) from None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
