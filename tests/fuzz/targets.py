"""What is fuzzed: a target takes any bytes, and raises when something is wrong. The seeds come from real encoders."""

import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from daemon.core.outside import SystemDisk
from daemon.core.outside.disk import Contents
from daemon.pipeline.files.format import (
    COUNTS,
    HEAD,
    MAGIC,
    RECORD,
    BadRecord,
    decode,
    encode,
    parse_segment_head,
    segment_head,
)
from daemon.pipeline.files.segment import whole_records
from schemas.batch import ClosedBlock
from schemas.config import ConfigError, parse_config
from schemas.ledger import ledger_dtype
from schemas.wire import (
    Ack,
    Greeting,
    ProtocolError,
    answer_greeting,
    datagram_header,
    parse_answer,
    parse_datagram,
    parse_greeting,
)
from tests.fuzz.sessions import GROUP, OTHER, datagrams_of, run, steps_of, tcp_session, udp_session
from tests.support.readings import make_block, whole

FINDINGS = Path(__file__).parent / "findings"
"""Inputs that once found something, a folder a target; the tests run them all."""

DISK = SystemDisk()
EXAMPLES = Path(__file__).parent.parent.parent / "docs" / "examples"


@dataclass(frozen=True, kw_only=True)
class Target:
    """run: takes an input. seeds: what to begin with. longest: bytes of an input at most. share: of the time."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    longest: int
    share: int = 1


def _greeting(data: bytes) -> None:
    groups = {group.name: group for group in (GROUP, OTHER)}
    try:
        greeting = parse_greeting(data)
        assert parse_greeting(greeting.line()) == greeting
        answer = answer_greeting(greeting, groups)
        if greeting.session is not None:
            answer = replace(answer, resume=greeting.first)
        assert parse_answer(answer.line()) == answer
    except ProtocolError as error:
        _one_line(error)
    try:
        parse_answer(data)
    except ProtocolError as error:
        _one_line(error)


def _one_line(error: ProtocolError) -> None:
    line = error.line()
    assert line.count(b"\n") == 1
    assert len(line) <= 1100
    assert line.decode("ascii").rstrip("\n").isprintable()


def _greetings() -> Iterator[bytes]:
    yield Greeting(group="bpm", sender="crate-07", ack=Ack.COMMITTED, instrument="bpm_001").line()
    yield Greeting(group="toroid", ack=Ack.SPOOLED).line()
    yield Greeting(group="toroid", sender="a", session=2**63 - 1, first=12, next=40, ack=Ack.SPOOLED).line()
    yield b"TRIGGERLOG/2 group=bpm\r\n"
    yield answer_greeting(Greeting(group="bpm", instrument="bpm_002"), {"bpm": GROUP}).line()
    yield ProtocolError("timeout", "no greeting within 5 s; send it first").line()


def _tcp(data: bytes) -> None:
    run(tcp_session(steps_of(data)))


def _sessions() -> Iterator[bytes]:
    def said(connection: int, data: bytes, opening: int = 0) -> bytes:
        return b"".join(
            bytes([connection | opening << 5, len(data[at : at + 255])]) + data[at : at + 255]
            for at in range(0, len(data), 255)
        )

    def done(connection: int, kind: int) -> bytes:
        return bytes([connection | kind << 2, 0])

    turn = done(0, 7)
    toroid = whole(OTHER, 1, 2, 3).tobytes()
    strays = make_block(GROUP, [(1 << 20, 0), (2, 1), (3, 2)]).tobytes()
    yield said(0, toroid, 2) + turn + done(0, 5) + said(1, strays, 1) + done(1, 6)
    yield said(0, Greeting(group="toroid", ack=Ack.COMMITTED).line() + toroid[:50]) + turn + said(0, toroid[50:]) + turn
    again = done(2, 4)
    yield said(0, toroid[:70], 3) + again + said(1, toroid, 3) + turn + again + done(1, 5) + said(3, toroid, 4) + again
    yield b"".join(said(0, toroid[at : at + 7], 2) + turn for at in range(0, len(toroid), 7)) + done(0, 5)
    yield said(0, b"GET / HTTP/1.1\r\n\r\n") + said(1, b"\xff" * 60) + done(2, 5) + done(3, 6)
    yield said(0, Greeting(group="bpm").line() + whole(GROUP, 3, 9, 10, 1).tobytes()) + turn + done(0, 5)


def _udp(data: bytes) -> None:
    for _, datagram in datagrams_of(data):
        try:
            found = parse_datagram(datagram)
            assert len(found.records) == found.count * found.record_size
        except ProtocolError as error:
            _one_line(error)
    run(udp_session(datagrams_of(data)))


def _datagrams() -> Iterator[bytes]:
    def datagram(port: int, group: str, sequence: int, triggers: range) -> bytes:
        block = whole(GROUP, *triggers)
        header = datagram_header(group=group, sequence=sequence, count=len(block), record_size=block.dtype.itemsize)
        data = header + block.tobytes()
        return bytes([port]) + len(data).to_bytes(2, "little") + data

    yield datagram(1, "bpm", 0, range(5, 9)) + datagram(1, "bpm", 4, range(1, 3))
    yield datagram(2, "unknown", 2**64 - 1, range(1, 2)) + datagram(3, "bpm", 2**63, range(40, 42))
    yield bytes([0, 4, 0]) + b"TLU1"


def _segment(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".journal") as file:
        file.write(data)
        file.flush()
        headers = [header for header, _, _ in whole_records(Contents(DISK, Path(file.name)), 0)]
    assert sum(RECORD.itemsize + header.length for header in headers) <= len(data)
    try:
        parse_segment_head(data)
    except BadRecord:
        assert not data.startswith(segment_head(GROUP, 1))
    # Behind the checksums: a body that was written like that, by an older or a newer daemon.
    try:
        block = decode(data, GROUP) if len(data) >= COUNTS.itemsize else None
    except BadRecord:
        return
    if block is not None:
        again = b"".join(bytes(buffer) for buffer in encode(7, block, GROUP)[1:])
        assert np.array_equal(decode(again, GROUP).present, block.present)


def _segments() -> Iterator[bytes]:
    ledger = np.zeros(2, ledger_dtype(GROUP.size))
    ledger["trigger"] = [1, 2]
    block = ClosedBlock(
        readings=whole(GROUP, 1, 2).reshape(2, GROUP.size),
        present=np.array([[True] * GROUP.size, [True, False, True]]),
        ledger=ledger,
        late=whole(GROUP, 1)[:1],
        late_of=np.zeros(1, np.intp),
        revised=ledger[:1],
    )
    record = b"".join(bytes(buffer) for buffer in encode(1, block, GROUP))
    yield segment_head(GROUP, 1, 5, b"state") + record
    yield segment_head(GROUP, 1) + record[:-9] + bytes(8 - len(record[:-9]) % 8) + record
    yield record[RECORD.itemsize :]
    empty = np.array([(MAGIC, 1, 0, 0, 0, 0, 0)], HEAD).tobytes()
    yield empty[:-4] + zlib.crc32(empty[len(MAGIC) : -4]).to_bytes(4, "little")


def _config(data: bytes) -> None:
    try:
        parse_config(data.decode("utf-8", "replace"))
    except ConfigError as error:
        problems = error.problems
    else:
        return
    assert problems
    assert not any("\n" in str(problem) for problem in problems)


def _configs() -> Iterator[bytes]:
    for path in sorted(EXAMPLES.glob("*.toml")):
        yield path.read_bytes()
    group = '[[groups]]\nname = "bpm"\ncount = 3\nchannels = [{ name = "x" }]\n'
    yield (group + '[[sources]]\nkind = "tcp"\nallow = ["::"]\n').encode()


TARGETS: dict[str, Target] = {
    "greeting": Target(run=_greeting, seeds=_greetings, longest=1100),
    "tcp": Target(run=_tcp, seeds=_sessions, longest=2000, share=4),
    "udp": Target(run=_udp, seeds=_datagrams, longest=2000, share=2),
    "segment": Target(run=_segment, seeds=_segments, longest=4000, share=2),
    "config": Target(run=_config, seeds=_configs, longest=2000),
}
