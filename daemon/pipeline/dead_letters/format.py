"""Dead-letter segments: the journal's format, with a note before each record that tells why it is there."""

import contextlib
import json
import re
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
    encode,
    framed,
    group_checksum,
    parse_header,
    parse_segment_head,
)
from daemon.pipeline.files.segment import read as read_record
from schemas.batch import ClosedBlock
from schemas.readings import InstrumentGroup

ENDING = ".dead"

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


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A dead letter: one trigger, or what came late for one, which the database rejected; or what assembly set aside.

    serial: its number in the folder; ascending, never used twice. origin: the serial that it had first: a letter that
    has to make way for later ones is written again behind them. Both are 0 until it is kept.
    number: of the journal's block that it was part of; journal: the id of that journal.
    key: run and number of its trigger; of what was set aside ASIDE and the reason.
    detail: what the database said of this one; None of a letter of an earlier version, whose reason has that in it.
    part, parts: its place among the letters that were kept together.
    group: checksum of the group's description. path, start, end: where its record is.
    """

    serial: int
    origin: int
    journal: int
    number: int
    key: Key
    triggers: int
    readings: int
    kept_ns: int
    reason: str
    detail: str | None = None
    part: int = 0
    parts: int = 1
    group: int = 0
    path: Path = Path()
    start: int = 0
    end: int = 0

    @property
    def is_aside(self) -> bool:
        """Whether it holds what assembly set aside: readings of no trigger, which no database takes."""
        return self.key[0] == ASIDE

    @property
    def cause(self) -> str:
        """What letters have in common that are there for the same reason."""
        if self.detail is not None:
            return self.reason
        return re.sub(r"[0-9.]+", "0", re.sub(r" DETAIL: .*(?=\()| entry '.*' (?=for key)", " ", self.reason))


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a segment holds.

    folder: the id in its head, 0 where that is not whole. is_other: it is of a group laid out otherwise; damaged: bytes
    of which nothing is known.
    """

    path: Path
    nbytes: int
    folder: int = 0
    letters: tuple[Letter, ...] = ()
    damaged: int = 0
    is_other: bool = False

    @property
    def problem(self) -> str:
        """What of it cannot be read, and what to do, in one line."""
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
    about = {
        "origin": letter.origin,
        "journal": letter.journal,
        "number": letter.number,
        "run": letter.key[0],
        "trigger": letter.key[1],
        "kept_ns": letter.kept_ns,
        "part": letter.part,
        "parts": letter.parts,
        "reason": letter.reason,
        "detail": letter.detail,
    }
    return [framed(letter.serial, json.dumps(about).encode(), group, NOTE_MAGIC), *encode(letter.serial, block, group)]


def scan(disk: Disk, path: Path, group: InstrumentGroup | None) -> Found:
    """Go through a segment and check every letter; without a group, no letter is of another.

    Letters that were kept together are there together, or the daemon did not go on from them: where the segment ends
    before the last of them, none of them counts.

    Raises:
        OSError: it cannot be read.
    """
    data = Contents(disk, path)
    folder = at = 0
    with contextlib.suppress(BadRecord):
        head = parse_segment_head(data)
        folder, at = head.journal, head.nbytes
    letters: list[Letter] = []
    good_until, damaged = at, 0
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
        folder=folder,
        letters=tuple(_together(letters)),
        damaged=damaged,
        is_other=group is not None and any(letter.group != group_checksum(group) for letter in letters),
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
        origin=about["origin"],
        journal=about["journal"],
        number=about["number"],
        key=(about["run"], about["trigger"]),
        triggers=triggers,
        readings=readings + aside,
        kept_ns=about["kept_ns"],
        reason=about["reason"],
        detail=about.get("detail"),
        part=about["part"],
        parts=about["parts"],
        group=note.group_checksum,
        path=path,
        start=start,
        end=end,
    )


def _together(letters: list[Letter]) -> list[Letter]:
    """Leave out the last ones that were kept together, if the segment ends in the middle of them."""
    if not letters or letters[-1].part + 1 == letters[-1].parts:
        return letters
    first = letters[-1].serial - letters[-1].part
    return [letter for letter in letters if letter.serial < first]


def read(disk: Disk, letter: Letter, group: InstrumentGroup) -> ClosedBlock:
    """Read what a letter holds, checked again.

    Raises:
        BadRecord: it is not whole any more.
        OSError: the segment cannot be read.
    """
    return read_record(disk, letter.path, letter.start, letter.end, group)
