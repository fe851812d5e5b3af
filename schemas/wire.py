"""Wire protocol v1, as `docs/protocol.md` describes it: greeting, answer, acknowledgements, datagrams.

Pure functions between bytes and frozen values, without I/O. What cannot be understood raises `ProtocolError`, never
anything else: its code is for programs, its sentence for people and says what to do.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from schemas.readings import CHANNEL_DTYPES, HEADER, MAX_INSTRUMENTS, InstrumentGroup

VERSION = 1
"""The one version there is; it is part of the first word of the greeting."""

GREETING_MAX = 1024
"""Bytes of a greeting with its newline: its six keys fit several times; who sends more is no sender."""

NUMBER_MAX = 2**63 - 1
"""The highest number of a session."""

RECORD_NUMBER_MAX = 2**48 - 1
"""The highest number that a greeting may give for a record; with a million records a second it takes 9 years.

A garbled number above it would count as lost what was never sent, and cover up what is."""

ANSWER_MAX = 16_384
"""Bytes of an answer with its newline: 256 channels with names of 32 characters need 11 KiB."""

SENDER_MAX = 64
"""Characters of a sender's name."""

SENTENCE_MAX = 1000
"""Characters of a refusal's sentence: a line of a terminal or a log, a few times over."""

RECORD_MAX = 4096
"""Bytes of a record: 256 channels of 8 bytes need 2072."""

DATAGRAM_MAX = 65_507
"""Bytes of a datagram: what UDP over IPv4 carries (65,535 less 20 of IP and 8 of UDP header)."""

GOODBYE = b"goodbye\n"
"""What a sender writes last to end its session, once it has read that everything is acknowledged.

The end of a connection alone does not say so: a network that breaks ends it, too, and a sender that gives it up."""

MAGIC = b"TLU1"
"""The first four bytes of every datagram: triggerlog, UDP, version 1."""

ACKNOWLEDGEMENT: np.dtype[Any] = np.dtype([("done", "<u8"), ("refused", "<u8")])
"""An acknowledgement frame (16 bytes).

done: number of the first record that is not settled, counted from 0 in the session, or on a connection without one.
refused: records that were refused since the connection began.
"""

DATAGRAM_HEADER: np.dtype[Any] = np.dtype(
    [("magic", "S4"), ("count", "<u2"), ("record_size", "<u2"), ("sequence", "<u8"), ("group", "S32")]
)
"""What a datagram begins with (48 bytes); the group's name is padded with NUL."""

_FRAME = struct.Struct("<QQ")  # ACKNOWLEDGEMENT for a single frame
_FIRST_WORD = f"TRIGGERLOG/{VERSION}"
_KEYS = ("group", "sender", "session", "first", "next", "ack", "instrument")
_GROUP = re.compile(r"[a-z][a-z0-9_]{0,31}")
_SENDER = re.compile(rf"[A-Za-z0-9_.-]{{1,{SENDER_MAX}}}")
_INSTRUMENT = re.compile(r"[!-~]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,19}")
_CODE = re.compile(r"[a-z][a-z-]{0,63}")
_FIELD = re.compile(r"([a-z][a-z0-9_]{0,31}):([iuf][1248])@([0-9]{1,5})")
_FORMATS = frozenset(form[1:] for form in CHANNEL_DTYPES.values())
_SHOWN = 80


class ErrorCode(StrEnum):
    """Why a daemon refuses, or why a sender cannot go on. A newer daemon may know further codes."""

    BAD_GREETING = "bad-greeting"
    UNKNOWN_VERSION = "unknown-version"
    UNKNOWN_KEY = "unknown-key"
    UNKNOWN_GROUP = "unknown-group"
    UNKNOWN_INSTRUMENT = "unknown-instrument"
    TOO_MANY_CONNECTIONS = "too-many-connections"
    TIMEOUT = "timeout"
    STOPPING = "stopping"
    CONFIGURATION = "configuration"
    BAD_ANSWER = "bad-answer"  # seen by a sender: what it talks to is no triggerlog daemon
    BAD_DATAGRAM = "bad-datagram"  # counted by the daemon: a datagram is never answered


class ProtocolError(Exception):
    """What the other side sent is not in the protocol, or asks for what is not there.

    code: one of `ErrorCode`, or that of a newer daemon. sentence: one line of ASCII that says what to do.
    """

    def __init__(self, code: str, sentence: str) -> None:
        self.code = str(code)
        self.sentence = _one_line(sentence)
        super().__init__(f"{self.code}: {self.sentence}")

    def line(self) -> bytes:
        """Build the line `ERROR <code> <sentence>` that a daemon answers with before it closes."""
        return f"ERROR {self.code} {self.sentence}\n".encode("ascii")


class Ack(StrEnum):
    """Which acknowledgements a sender wants."""

    COMMITTED = "committed"  # frames as the store acknowledges
    RECEIVED = "received"  # frames as the log has the reading on the disk, its trigger open or not
    SPOOLED = "spooled"  # an earlier word for it, accepted for one more version
    NONE = "none"  # nothing flows back; the default, for a sender that never reads


@dataclass(frozen=True, kw_only=True)
class Greeting:
    """What a sender says first: group, a free name for itself, acknowledgements, the one instrument it serves.

    session: number of the session that this connection begins or resumes; None is no session. first: number of the
    first record of the session that the sender still holds. next: number of the first record that it has not sent on
    any connection yet; None where it does not say.
    """

    group: str
    sender: str | None = None
    ack: Ack = Ack.NONE
    instrument: str | None = None
    session: int | None = None
    first: int = 0
    next: int | None = None

    def line(self) -> bytes:
        """Build the line as sent; raises ProtocolError when it would be refused."""
        pairs = {
            "group": self.group,
            "sender": self.sender,
            "session": self.session,
            "first": self.first or None,
            "next": self.next,
            "ack": self.ack.value,
            "instrument": self.instrument,
        }
        said = {key: str(value) for key, value in pairs.items() if value is not None}
        _greeting_of(said)
        return (" ".join([_FIRST_WORD, *(f"{key}={value}" for key, value in said.items())]) + "\n").encode("ascii")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the daemon accepts: the group, the layout of its records, and the number of the instrument asked for.

    record: structured dtype of one record, little-endian. instruments: how many the group has; they are numbered
    0 ... instruments - 1. resume: number of the record that a session goes on with; None without a session.
    """

    group: str
    record: np.dtype[Any]
    instruments: int
    instrument: int | None = None
    resume: int | None = None

    def line(self) -> bytes:
        """Build the line as sent."""
        words = ["OK", f"group={self.group}", f"record={self.record.itemsize}", f"instruments={self.instruments}"]
        if self.instrument is not None:
            words.append(f"instrument={self.instrument}")
        if self.resume is not None:
            words.append(f"resume={self.resume}")
        words.append(f"fields={fields_text(self.record)}")
        return (" ".join(words) + "\n").encode("ascii")


@dataclass(frozen=True, kw_only=True)
class Acknowledgement:
    """A frame; see ACKNOWLEDGEMENT."""

    done: int
    refused: int

    def frame(self) -> bytes:
        """Build the 16 bytes as sent."""
        return _FRAME.pack(self.done, self.refused)


@dataclass(frozen=True, kw_only=True)
class Datagram:
    """A datagram taken apart; `records` are its `count` records of `record_size` bytes, not copied."""

    group: str
    sequence: int
    count: int
    record_size: int
    records: memoryview


def parse_greeting(line: bytes) -> Greeting:
    """Understand a greeting; `line` with or without its end of line (LF or CR LF).

    Raises:
        ProtocolError: bad-greeting, unknown-version, unknown-key.
    """
    if len(line) > GREETING_MAX:
        raise ProtocolError(
            ErrorCode.BAD_GREETING, f"the greeting is longer than {GREETING_MAX} bytes; shorten its names"
        )
    first, *rest = _words(line, ErrorCode.BAD_GREETING, "the greeting") or [""]
    if first != _FIRST_WORD:
        known = first.startswith("TRIGGERLOG/")
        code = ErrorCode.UNKNOWN_VERSION if known else ErrorCode.BAD_GREETING
        raise ProtocolError(code, f"the greeting begins with {_quoted(first)}; begin it with {_FIRST_WORD}")
    return _greeting_of(_pairs(rest, ErrorCode.BAD_GREETING, "the greeting"))


def answer_greeting(greeting: Greeting, groups: Mapping[str, InstrumentGroup]) -> Answer:
    """Answer for the group and instrument that a greeting names; `groups` by name.

    Raises:
        ProtocolError: unknown-group, unknown-instrument.
    """
    group = groups.get(greeting.group)
    if group is None:
        there = ", ".join(groups)
        raise ProtocolError(
            ErrorCode.UNKNOWN_GROUP, f"there is no group {_quoted(greeting.group)}; name one of: {there}"
        )
    number = None
    if greeting.instrument is not None:
        if greeting.instrument not in group.instruments:
            raise ProtocolError(
                ErrorCode.UNKNOWN_INSTRUMENT,
                f"group {group.name} has no instrument {_quoted(greeting.instrument)}; "
                f"its {group.size} are {_quoted(group.instruments[0])} to {_quoted(group.instruments[-1])}",
            )
        number = group.instruments.index(greeting.instrument)
    return Answer(group=group.name, record=group.record, instruments=group.size, instrument=number)


def parse_answer(line: bytes) -> Answer:
    """Understand the daemon's answer; keys of a newer daemon that are not known here are passed over.

    Raises:
        ProtocolError: what the daemon refused with, or bad-answer when it does not speak the protocol.
    """
    if len(line) > ANSWER_MAX:
        raise _bad_answer(f"it is longer than {ANSWER_MAX} bytes")
    words = _words(line, ErrorCode.BAD_ANSWER, "the answer")
    if words[:1] == ["ERROR"] and len(words) >= 2 and _CODE.fullmatch(words[1]):
        raise ProtocolError(words[1], " ".join(words[2:]) or "the daemon gave no reason")
    if words[:1] != ["OK"]:
        raise _bad_answer(f"it begins with {_quoted(words[0] if words else '')}, not with OK or ERROR")
    pairs = _pairs(words[1:], ErrorCode.BAD_ANSWER, "the answer")
    absent = [key for key in ("group", "record", "instruments", "fields") if key not in pairs]
    if absent:
        raise _bad_answer(f"it lacks {', '.join(absent)}")
    if not _GROUP.fullmatch(pairs["group"]):
        raise _bad_answer(f"group={_quoted(pairs['group'])} is no group name")
    instruments = _number(pairs, "instruments", 1, MAX_INSTRUMENTS)
    return Answer(
        group=pairs["group"],
        record=parse_fields(pairs["fields"], _number(pairs, "record", 1, RECORD_MAX)),
        instruments=instruments,
        instrument=_number(pairs, "instrument", 0, instruments - 1) if "instrument" in pairs else None,
        resume=_number(pairs, "resume", 0, NUMBER_MAX) if "resume" in pairs else None,
    )


def fields_text(record: np.dtype[Any]) -> str:
    """Describe a record as in an answer: `name:type@offset` with commas, e.g. `trigger:i8@0,time_ns:i8@8`."""
    fields: Mapping[str, Any] = record.fields or {}
    return ",".join(f"{name}:{part.str[1:]}@{offset}" for name, (part, offset, *_) in fields.items())


def parse_fields(text: str, itemsize: int) -> np.dtype[Any]:
    """Rebuild the dtype of a record of `itemsize` bytes from its description.

    Raises:
        ProtocolError: bad-answer, when a field is malformed, overlaps another, or one every record has is absent.
    """
    found = [_FIELD.fullmatch(part) for part in text.split(",")]
    fields = [(str(m[1]), f"{m[2]}", int(m[3])) for m in found if m is not None and m[2] in _FORMATS]
    if len(fields) != len(found):
        raise _bad_answer("a field is not of the form name:type@offset with a type such as f8 or u4")
    if len({name for name, _, _ in fields}) != len(fields):
        raise _bad_answer("a field is there twice")
    if not {(name, form[1:]) for name, form in HEADER} <= {(name, form) for name, form, _ in fields}:
        raise _bad_answer(f"the fields {', '.join(f'{n}:{f[1:]}' for n, f in HEADER)} are not all there")
    end = 0
    for name, form, offset in sorted(fields, key=lambda field: field[2]):
        if offset < end:
            raise _bad_answer(f"field {name} overlaps the one before")
        end = offset + int(form[1])
    if end > itemsize:
        raise _bad_answer(f"its fields need {end} bytes, and a record has {itemsize}")
    return np.dtype(
        {
            "names": [name for name, _, _ in fields],
            "formats": [f"<{form}" for _, form, _ in fields],
            "offsets": [offset for _, _, offset in fields],
            "itemsize": itemsize,
        }
    )


def newest_acknowledgement(frames: bytes | bytearray | memoryview) -> Acknowledgement | None:
    """Read whole acknowledgement frames; the last one says it all. A part of a frame at the end is passed over."""
    whole = len(frames) // ACKNOWLEDGEMENT.itemsize
    if not whole:
        return None
    # struct, not numpy: a sender with many connections does this thousands of times a second, one frame at a time.
    done, refused = _FRAME.unpack_from(frames, (whole - 1) * _FRAME.size)
    return Acknowledgement(done=done, refused=refused)


def datagram_header(*, group: str, sequence: int, count: int, record_size: int) -> bytes:
    """Build the 48 bytes before the `count` records of a datagram; `sequence` counts a sender's datagrams from 0."""
    if not _GROUP.fullmatch(group):
        raise ProtocolError(ErrorCode.BAD_DATAGRAM, f"{_quoted(group)} is no group name")
    most = records_a_datagram(record_size)
    if not 1 <= count <= most:
        raise ProtocolError(ErrorCode.BAD_DATAGRAM, f"{count} records do not fit a datagram; send 1 to {most}")
    return np.array((MAGIC, count, record_size, sequence, group.encode("ascii")), DATAGRAM_HEADER).tobytes()


def records_a_datagram(record_size: int, datagram: int = DATAGRAM_MAX) -> int:
    """How many records of that size a datagram of at most `datagram` bytes carries."""
    return (datagram - DATAGRAM_HEADER.itemsize) // record_size


def parse_datagram(data: bytes | bytearray | memoryview) -> Datagram:
    """Take a datagram apart without copying its records.

    Raises:
        ProtocolError: bad-datagram, when it is too short, of another kind, or its length is not what its header says.
    """
    if len(data) < DATAGRAM_HEADER.itemsize:
        raise ProtocolError(ErrorCode.BAD_DATAGRAM, f"{len(data)} bytes; a datagram begins with a header of 48")
    magic, count, record_size, sequence, name = np.frombuffer(data, DATAGRAM_HEADER, count=1)[0].item()
    if magic != MAGIC:
        raise ProtocolError(ErrorCode.BAD_DATAGRAM, f"it begins with {magic!r}; begin it with TLU1")
    group = name.decode("ascii", "replace")
    if not _GROUP.fullmatch(group):
        raise ProtocolError(ErrorCode.BAD_DATAGRAM, f"{_quoted(group)} is no group name")
    payload = memoryview(data)[DATAGRAM_HEADER.itemsize :]
    if count < 1 or record_size < 1 or len(payload) != count * record_size:
        raise ProtocolError(
            ErrorCode.BAD_DATAGRAM,
            f"{len(payload)} bytes follow the header, which says {count} records of {record_size}; send just these",
        )
    return Datagram(group=group, sequence=sequence, count=count, record_size=record_size, records=payload)


def _greeting_of(pairs: Mapping[str, str]) -> Greeting:
    for key in pairs:
        if key not in _KEYS:
            raise ProtocolError(
                ErrorCode.UNKNOWN_KEY, f"the greeting has the key {_quoted(key)}; known are {', '.join(_KEYS)}"
            )
    if "group" not in pairs:
        raise ProtocolError(ErrorCode.BAD_GREETING, "the greeting names no group; add group=<name>")
    _fits(pairs, "group", _GROUP, "lower-case letters, digits and underscores, at most 32")
    _fits(pairs, "sender", _SENDER, "1 to 64 letters, digits, underscores, dots and hyphens")
    _fits(pairs, "instrument", _INSTRUMENT, "the instrument's name, 1 to 64 printable ASCII characters")
    if pairs.get("ack", "none") not in tuple(Ack):
        raise ProtocolError(
            ErrorCode.BAD_GREETING,
            f"ack={_quoted(pairs['ack'])} is not known; use committed, received or none",
        )
    _check_session(pairs)
    return Greeting(
        group=pairs["group"],
        sender=pairs.get("sender"),
        ack=Ack(pairs.get("ack", "none")),
        instrument=pairs.get("instrument"),
        session=int(pairs["session"]) if "session" in pairs else None,
        first=int(pairs.get("first", "0")),
        next=int(pairs["next"]) if "next" in pairs else None,
    )


def _check_session(pairs: Mapping[str, str]) -> None:
    counted = "count the records of a session from 0"
    for key, most, fix in (
        ("session", NUMBER_MAX, "send one"),
        ("first", RECORD_NUMBER_MAX, counted),
        ("next", RECORD_NUMBER_MAX, counted),
    ):
        if key in pairs and not _is_number(pairs[key], 0, most):
            raise ProtocolError(
                ErrorCode.BAD_GREETING, f"{key}={_quoted(pairs[key])} is not a number from 0 to {most}; {fix}"
            )
    if "session" not in pairs:
        for key in ("first", "next"):
            if key in pairs:
                raise ProtocolError(
                    ErrorCode.BAD_GREETING, f"{key}= without a session; add session=<number> and a sender"
                )
        return
    if int(pairs.get("next", NUMBER_MAX)) < int(pairs.get("first", 0)):
        raise ProtocolError(ErrorCode.BAD_GREETING, "next= is below first=; send the number after the last record sent")
    if "sender" not in pairs:
        raise ProtocolError(ErrorCode.BAD_GREETING, "a session needs the name of its sender; add sender=<name>")
    if pairs.get("ack", "none") == Ack.NONE:
        raise ProtocolError(ErrorCode.BAD_GREETING, "a session needs acknowledgements; add ack=committed")


def _fits(pairs: Mapping[str, str], key: str, pattern: re.Pattern[str], rule: str) -> None:
    if key in pairs and not pattern.fullmatch(pairs[key]):
        raise ProtocolError(ErrorCode.BAD_GREETING, f"{key}={_quoted(pairs[key])} cannot be a name; use {rule}")


def _words(line: bytes, code: ErrorCode, what: str) -> list[str]:
    text = line.removesuffix(b"\n").removesuffix(b"\r")
    if any(not 0x20 <= byte <= 0x7E for byte in text):
        raise ProtocolError(code, f"{what} is not one line of printable ASCII; send just that, ended by a newline")
    return text.decode("ascii").split()


def _pairs(words: list[str], code: ErrorCode, what: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ProtocolError(code, f"{what} has the word {_quoted(word)}; write key=value")
        if key in pairs:
            raise ProtocolError(code, f"{what} has the key {_quoted(key)} twice; give it once")
        pairs[key] = value
    return pairs


def _number(pairs: Mapping[str, str], key: str, least: int, most: int) -> int:
    text = pairs[key]
    if not _is_number(text, least, most):
        raise _bad_answer(f"{key}={_quoted(text)} is not a number from {least} to {most}")
    return int(text)


def _is_number(text: str, least: int, most: int) -> bool:
    return _NUMBER.fullmatch(text) is not None and least <= int(text) <= most


def _bad_answer(why: str) -> ProtocolError:
    return ProtocolError(
        ErrorCode.BAD_ANSWER, f"the answer cannot be used: {why}; is this the port of a triggerlog daemon?"
    )


def _quoted(text: str) -> str:
    """Quote what came over the wire so that it cannot break the line or flood a log."""
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _one_line(sentence: str) -> str:
    return "".join(c if " " <= c <= "~" else "?" for c in sentence[:SENTENCE_MAX])
