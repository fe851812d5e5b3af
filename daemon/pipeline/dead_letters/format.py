"""Files of dead letters: segments in the log's format, with a note before each record that has the reason."""

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from backends.base import BatchRejected
from daemon.core.outside import Disk
from daemon.core.outside.disk import Buffer, Contents
from daemon.pipeline.closed_blocks import ASIDE, Key
from daemon.pipeline.files.format import (
    RECORD,
    BadRecord,
    check_body,
    counted,
    decode,
    encode,
    framed,
    group_checksum,
    parse_header,
)
from daemon.pipeline.files.segment import checked, head_of, paths_in
from schemas.batch import ClosedBlock
from schemas.readings import InstrumentGroup

ENDING = ".dead"

LetterId = tuple[int, int]

_ID = struct.Struct("<qQ")

NOTE_MAGIC = 0x4E_4C_54_89
"""The first four bytes of a note, 89 54 4C 4E. Header and checksums are those of a record; the body is JSON."""


@dataclass(frozen=True)
class Reason:
    """Why something is a dead letter.

    text: in one line, the same for all that one cause rejects. detail: what the database said of this one; may be
    empty.
    """

    text: str
    detail: str = ""

    @classmethod
    def of(cls, error: BatchRejected) -> Self:
        """The reason that a store gave."""
        return cls(error.reason, error.detail)


@dataclass(kw_only=True, eq=False)
class Letter:
    """A dead letter: one trigger, or what came late for one, which the database rejected; or what assembly set aside.

    serial: its number in the folder, ascending in the order of keeping; 0 until it is kept.
    key: run and number of its trigger; of what was set aside ASIDE and the reason.
    reason, detail: see `Reason`.
    number: the closed block that it was part of, of those of this process; 0 where it was read from the disk.
    group: checksum of the group's description. path, start, end: where it is; they change when its file is rewritten.
    """

    serial: int = 0
    key: Key
    triggers: int
    readings: int
    kept_ns: int
    reason: str
    detail: str
    number: int = 0
    group: int = 0
    path: Path = Path()
    start: int = 0
    end: int = 0

    @property
    def id(self) -> LetterId:
        """The identity under which the database notes that it has it; the same in a copy of the folder."""
        return self.kept_ns, self.serial

    @property
    def is_aside(self) -> bool:
        """Whether it holds what assembly set aside: readings of no trigger, which no database takes."""
        return self.key[0] == ASIDE


@dataclass(frozen=True, kw_only=True)
class Found:
    """The contents of a file.

    head: bytes before the first letter. damaged: bytes that are no whole letter. is_other: it is of a group laid out
    otherwise. is_earlier: an earlier version wrote it, which noted elsewhere what of it was retried and discarded.
    """

    path: Path
    nbytes: int
    head: int = 0
    letters: tuple[Letter, ...] = ()
    damaged: int = 0
    is_other: bool = False
    is_earlier: bool = False

    @property
    def problem(self) -> str:
        """What of it cannot be read, and what to do, in one line."""
        if self.is_earlier:
            return (
                f"{self.path} holds dead letters that an earlier version of triggerlog wrote; retry, export or discard"
                " them with that version, or move the file away"
            )
        if self.is_other:
            return (
                f"{self.path} holds dead letters of other instruments or channels than the configuration has; retry or"
                " export them with the configuration of then, or move the file away"
            )
        return (
            f"{self.damaged} bytes of {self.path} are no whole dead letter: it is damaged, or the daemon was killed"
            " while it wrote; the file stays until you remove it"
        )


def encode_letter(letter: Letter, block: ClosedBlock, group: InstrumentGroup) -> list[Buffer]:
    """Lay out a letter: the note, then the record, with the serial as the number of both."""
    note = {
        "run": letter.key[0],
        "trigger": letter.key[1],
        "kept_ns": letter.kept_ns,
        "reason": letter.reason,
        "detail": letter.detail,
    }
    return [framed(letter.serial, json.dumps(note).encode(), group, NOTE_MAGIC), *encode(letter.serial, block, group)]


def scan(disk: Disk, path: Path, group: InstrumentGroup | None) -> Found:
    """Go through a file and check every letter; without a group, no letter is of another.

    Raises:
        OSError: it cannot be read.
    """
    data = Contents(disk, path)
    folder = at = 0
    head = head_of(data)
    if head is not None:
        folder, at = head.journal, head.nbytes
    letters: list[Letter] = []
    begin = good_until = at
    damaged = 0
    while at < len(data):
        letter = _whole(path, data, at)
        if letter is None:
            found = data.find(NOTE_MAGIC.to_bytes(4, "little"), at + 8)
            at = found if found >= 0 else len(data)
            continue
        damaged += at - good_until
        letters.append(letter)
        at = good_until = letter.end
    damaged += len(data) - good_until
    return Found(
        path=path,
        nbytes=len(data),
        head=begin,
        letters=tuple(letters),
        damaged=damaged,
        is_other=group is not None and any(letter.group != group_checksum(group) for letter in letters),
        is_earlier=folder != 0,
    )


def _whole(path: Path, data: Contents, at: int) -> Letter | None:
    """The letter that begins there; None where there is no whole one."""
    try:
        note = parse_header(data[at : at + RECORD.itemsize], NOTE_MAGIC)
        start = at + RECORD.itemsize + note.length
        text = data[at + RECORD.itemsize : start]
        check_body(note, text)
        header = parse_header(data[start : start + RECORD.itemsize])
        end = start + RECORD.itemsize + header.length
        body = data[start + RECORD.itemsize : end]
        check_body(header, body)
    except BadRecord:
        return None
    about = json.loads(bytes(text))
    triggers, readings, aside = counted(body)
    return Letter(
        serial=note.sequence,
        key=(about["run"], about["trigger"]),
        triggers=triggers,
        readings=readings + aside,
        kept_ns=about["kept_ns"],
        reason=about["reason"],
        detail=about["detail"] or "",
        group=note.group_checksum,
        path=path,
        start=at,
        end=end,
    )


def read(disk: Disk, letter: Letter, group: InstrumentGroup) -> ClosedBlock:
    """Read what a letter holds, checked again.

    Raises:
        BadRecord: it is not whole any more, or another one is there.
        OSError: its file cannot be read.
    """
    data = memoryview(disk.read(letter.path, letter.start, letter.end))
    note = parse_header(data[: RECORD.itemsize], NOTE_MAGIC)
    if note.sequence != letter.serial:
        raise BadRecord("another letter is there")
    _, body = checked(data[RECORD.itemsize + note.length :])
    return decode(body, group)


def pending_readings(folder: Path, disk: Disk) -> int:
    """How many readings the letters in a folder hold; raises OSError."""
    found = (scan(disk, path, None) for path in paths_in(disk, folder, ENDING))
    return sum(letter.readings for each in found for letter in each.letters)


def ids_as_bytes(letters: Iterable[Letter]) -> bytes:
    """The identities of letters, for the database to keep with the position of a retry."""
    return b"".join(_ID.pack(*letter.id) for letter in letters)


def ids_in(state: bytes) -> set[LetterId]:
    """Read them back; of anything else, none."""
    return {(kept_ns, serial) for kept_ns, serial in _ID.iter_unpack(state)} if len(state) % _ID.size == 0 else set()
