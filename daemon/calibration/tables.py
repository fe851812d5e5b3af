"""Contents of payloads: what they say of the instruments of one group, kept by checksum."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from daemon.calibration.payloads import MOST_BYTES, PayloadFiles, PayloadUnusable, verified
from daemon.core.outcome import installing
from schemas.checking.problems import Problem
from schemas.conditions.calibration import (
    BPM_DTYPE,
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


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """A payload that cannot be used, whoever asks for it."""

    checksum: str
    problem: Problem


class PayloadTables:
    """Reads payloads for a group, and keeps those that were used last, and what is wrong with those that are refused.

    They are kept by the checksum of their content: a file that is replaced has another one.
    """

    def __init__(self, group: InstrumentGroup, files: PayloadFiles, cache_bytes: int = CACHE_BYTES) -> None:
        self._group, self._files = group, files
        self._most = max(1, cache_bytes // (group.size * BPM_DTYPE.itemsize))
        self._kept = OrderedDict[str, PayloadTable | _Refused]()
        self._under_way: dict[tuple[str, str], asyncio.Task[PayloadTable | _Refused]] = {}
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
        checksum = checksum.strip().lower()
        found = self._kept.get(checksum) or await self._reading(url, checksum)
        self._keep(found)
        if isinstance(found, _Refused):
            wrong = found.problem
            raise PayloadUnusable(wrong.field, f"payload {url!r}: {wrong.problem}", wrong.fix)
        if size not in (-1, found.size):
            raise PayloadUnusable(
                "size",
                f"payload {url!r} has {found.size:,} bytes, and not {size:,}, as its interval says",
                "put back the file that was attached, or attach this one with its size",
            )
        return found

    async def _reading(self, url: str, checksum: str) -> PayloadTable | _Refused:
        """Read a payload, or wait for the reading of it that is under way, which outlives those who wait."""
        key = url, checksum
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(self._read(url, checksum), name=f"payload {url}")
            task.add_done_callback(lambda done: self._is_read(key, done))
        return await asyncio.shield(task)

    def _is_read(self, key: tuple[str, str], done: "asyncio.Task[PayloadTable | _Refused]") -> None:
        del self._under_way[key]
        # Nobody may wait for it any more: then its error is nobody's, and its finding is kept.
        if not done.cancelled() and done.exception() is None:
            self._keep(done.result())

    async def _read(self, url: str, checksum: str) -> PayloadTable | _Refused:
        async with self._turn:
            content = await self._files.read(url)
            # In a thread: of many instruments it takes long, and readings come meanwhile.
            found = await asyncio.to_thread(verified, content, checksum, url)
            kept = self._kept.get(found)
            return kept if kept is not None else await asyncio.to_thread(self._table, content, found, url)

    def _table(self, content: bytes, checksum: str, url: str) -> PayloadTable | _Refused:
        try:
            table = table_of(_payload(content, url), self._group)
        except PayloadRefused as refused:
            return _Refused(checksum=checksum, problem=refused.problem)
        return PayloadTable(checksum=checksum, size=len(content), table=table)

    def _keep(self, found: PayloadTable | _Refused) -> None:
        self._kept[found.checksum] = found
        self._kept.move_to_end(found.checksum)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)


def _payload(content: bytes, url: str) -> BpmPayload:
    if not content.startswith(b"PAR1"):
        return bpm_payload(content)
    if find_spec("pyarrow") is None:
        fix = f"{installing('export')}; or attach the payload as JSON"
        raise PayloadUnusable("url", "a payload in Parquet needs pyarrow, not installed here", fix)
    return bpm_payload_of_rows(_rows(content, url))


def _rows(content: bytes, url: str) -> list[dict[str, Any]]:
    from daemon.calibration.parquet import TableNotDecoded, TableRefused, read_columns  # noqa: PLC0415 - in an extra

    names = list(BpmInstrument.model_fields)
    try:
        table = read_columns(content, names, most_rows=MAX_INSTRUMENTS, most_bytes=MOST_BYTES, others_are_refused=True)
    except TableNotDecoded as error:
        raise PayloadUnusable(error.field, f"payload {url!r}: {error.problem}", error.fix) from None
    except TableRefused as refused:
        raise PayloadRefused(Problem(field=refused.field, problem=refused.problem, fix=refused.fix)) from None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
