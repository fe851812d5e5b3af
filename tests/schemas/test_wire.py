"""The wire protocol: round trips of everything valid, and nothing but ProtocolError from anything else."""

import string
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.readings import CHANNEL_DTYPES, Channel, InstrumentGroup, record_dtype
from schemas.wire import (
    ACKNOWLEDGEMENT,
    ANSWER_MAX,
    DATAGRAM_HEADER,
    DATAGRAM_MAX,
    GREETING_MAX,
    NUMBER_MAX,
    RECORD_MAX,
    RECORD_NUMBER_MAX,
    Ack,
    Acknowledgement,
    Answer,
    Datagram,
    Greeting,
    ProtocolError,
    answer_greeting,
    datagram_header,
    fields_text,
    newest_acknowledgement,
    parse_answer,
    parse_datagram,
    parse_fields,
    parse_greeting,
    records_a_datagram,
)

BPM = InstrumentGroup(
    name="bpm",
    instruments=tuple(f"bpm_{i:03d}" for i in range(120)),
    channels=tuple(Channel(name=n, unit="mm", dtype="float64") for n in ("top_in", "bot_in", "bot_out", "top_out")),
)
BPM_ANSWER = (
    b"OK group=bpm record=56 instruments=120 instrument=7 fields=trigger:i8@0,time_ns:i8@8,instrument:u4@16,"
    b"epoch:u4@20,top_in:f8@24,bot_in:f8@32,bot_out:f8@40,top_out:f8@48\n"
)

names = st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True)
senders = st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=64)
instruments = st.text(string.ascii_letters + string.digits + string.punctuation, min_size=1, max_size=64)
numbers = st.integers(0, NUMBER_MAX)
greetings = st.builds(
    Greeting, group=names, sender=st.none() | senders, ack=st.sampled_from(Ack), instrument=st.none() | instruments
) | st.builds(
    Greeting,
    group=names,
    sender=senders,
    ack=st.sampled_from([Ack.COMMITTED, Ack.SPOOLED]),
    instrument=st.none() | instruments,
    session=numbers,
    first=st.integers(0, 1000),
    next=st.none() | st.integers(1000, RECORD_NUMBER_MAX),
)
channels = st.lists(
    st.builds(
        Channel,
        name=names.filter(lambda n: n not in ("trigger", "time_ns", "instrument", "epoch")),
        unit=st.just(""),
        dtype=st.sampled_from(sorted(CHANNEL_DTYPES)),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda channel: channel.name,
)


@given(greetings)
def test_a_greeting_survives_the_wire(greeting: Greeting) -> None:
    line = greeting.line()
    assert len(line) <= GREETING_MAX
    assert line.endswith(b"\n")
    assert parse_greeting(line) == greeting
    assert parse_greeting(line[:-1] + b"\r\n") == greeting


@given(names, channels, st.integers(1, 32_767), st.booleans(), st.none() | numbers)
def test_an_answer_survives_the_wire(
    group: str, parts: list[Channel], size: int, numbered: bool, resume: int | None
) -> None:
    answer = Answer(
        group=group,
        record=record_dtype(parts),
        instruments=size,
        instrument=size - 1 if numbered else None,
        resume=resume,
    )
    assert parse_answer(answer.line()) == answer


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=15))
def test_an_acknowledgement_survives_the_wire(done: int, refused: int, torn: bytes) -> None:
    newest = Acknowledgement(done=done, refused=refused)
    assert newest_acknowledgement(Acknowledgement(done=0, refused=0).frame() + newest.frame() + torn) == newest
    assert newest_acknowledgement(torn) is None
    assert np.frombuffer(newest.frame(), ACKNOWLEDGEMENT).tolist() == [(done, refused)]


@given(names, st.integers(0, 2**64 - 1), st.integers(1, 300), st.integers(3, 27).map(lambda n: 8 * n))
def test_a_datagram_survives_the_wire(group: str, sequence: int, count: int, size: int) -> None:
    records = bytes(range(256)) * (count * size // 256 + 1)
    records = records[: count * size]
    data = datagram_header(group=group, sequence=sequence, count=count, record_size=size) + records
    assert parse_datagram(data) == Datagram(
        group=group, sequence=sequence, count=count, record_size=size, records=memoryview(records)
    )


TROUBLE = """
    TRIGGERLOG/1 TRIGGERLOG/2 OK ERROR group=bpm group= = ack=all ack=spooled sender=a session=1 session=-1 session=
    first=7 first=9223372036854775808 next=0 next=7 next=-1 resume=3 resume=9223372036854775808 resume=x
    instrument=7 record=56 record=8 record=-1 bad-greeting
    instruments=120 fields= fields=trigger:i8@0,trigger:i8@0 \x00 \x7f \xe9
    fields=trigger:i8@0,time_ns:i8@4,instrument:u4@16,epoch:u4@20
"""
words = st.sampled_from([*TROUBLE.split(), BPM_ANSWER.split()[-1].decode(), "\n"])
garbage = st.binary(max_size=2000) | st.lists(words, max_size=8).map(lambda parts: " ".join(parts).encode() + b"\n")


def refusal_of(parse: Callable[[bytes], object], data: bytes) -> ProtocolError | None:
    try:
        parse(data)
    except ProtocolError as error:
        return error
    return None


@given(garbage)
def test_garbage_raises_nothing_but_a_protocol_error(data: bytes) -> None:
    for parse in (parse_greeting, parse_answer, parse_datagram):
        if error := refusal_of(parse, data):
            line = error.line()
            assert line.startswith(f"ERROR {error.code} ".encode())
            assert line.isascii()
            assert line.count(b"\n") == 1
            assert len(line) <= ANSWER_MAX


@given(st.binary(min_size=48, max_size=200), st.integers(0, 3), st.integers(0, 64))
def test_a_damaged_datagram_raises_nothing_but_a_protocol_error(data: bytes, count: int, size: int) -> None:
    header = np.frombuffer(data[:48], DATAGRAM_HEADER).copy()
    header["magic"], header["count"], header["record_size"] = b"TLU1", count, size
    try:
        datagram = parse_datagram(header.tobytes() + data[48:])
    except ProtocolError:
        return
    assert len(datagram.records) == count * size > 0


@given(greetings)
def test_a_refusal_reaches_the_sender(greeting: Greeting) -> None:
    with pytest.raises(ProtocolError) as refusal:
        answer_greeting(Greeting(group="bpx", instrument=greeting.instrument), {"bpm": BPM})
    assert refusal.value.code == "unknown-group"
    assert "bpm" in refusal.value.sentence
    with pytest.raises(ProtocolError) as received:
        parse_answer(refusal.value.line())
    assert (received.value.code, received.value.sentence) == (refusal.value.code, refusal.value.sentence)


def test_the_sizes_are_those_written_down() -> None:
    assert ACKNOWLEDGEMENT.itemsize == 16
    assert DATAGRAM_HEADER.itemsize == 48
    assert [DATAGRAM_HEADER.fields[n][1] for n in ("magic", "count", "record_size", "sequence", "group")] == [
        0,
        4,
        6,
        8,
        16,
    ]
    assert records_a_datagram(56) == (DATAGRAM_MAX - 48) // 56
    widest = record_dtype([Channel(name=f"c{i:031d}", unit="", dtype="float64") for i in range(256)])
    assert widest.itemsize <= RECORD_MAX
    assert len(Answer(group="g" * 32, record=widest, instruments=32_767, instrument=32_766).line()) <= ANSWER_MAX


def test_the_daemon_answers_with_layout_and_number() -> None:
    answer = answer_greeting(parse_greeting(b"TRIGGERLOG/1 group=bpm instrument=bpm_007\n"), {"bpm": BPM})
    assert answer.line() == BPM_ANSWER
    assert parse_answer(BPM_ANSWER).record == BPM.record


@pytest.mark.parametrize(
    ("line", "code", "fix"),
    [
        (b"GET / HTTP/1.1", "bad-greeting", "begin it with TRIGGERLOG/1"),
        (b"", "bad-greeting", "begin it with TRIGGERLOG/1"),
        (b"TRIGGERLOG/2 group=bpm", "unknown-version", "begin it with TRIGGERLOG/1"),
        (b"TRIGGERLOG/1", "bad-greeting", "add group=<name>"),
        (b"TRIGGERLOG/1 group", "bad-greeting", "write key=value"),
        (b"TRIGGERLOG/1 group=BPM", "bad-greeting", "lower-case letters"),
        (b"TRIGGERLOG/1 group=bpm group=bpm", "bad-greeting", "give it once"),
        (
            b"TRIGGERLOG/1 group=bpm colour=red",
            "unknown-key",
            "group, sender, session, first, next, ack, instrument",
        ),
        (b"TRIGGERLOG/1 group=bpm sender=a/b", "bad-greeting", "letters, digits"),
        (b"TRIGGERLOG/1 group=bpm ack=later", "bad-greeting", "use committed, received or none"),
        (b"TRIGGERLOG/1 group=bpm session=1 ack=committed", "bad-greeting", "add sender=<name>"),
        (b"TRIGGERLOG/1 group=bpm sender=a session=1", "bad-greeting", "add ack=committed"),
        (b"TRIGGERLOG/1 group=bpm sender=a session=1 ack=none", "bad-greeting", "add ack=committed"),
        (b"TRIGGERLOG/1 group=bpm sender=a first=0 ack=committed", "bad-greeting", "add session=<number>"),
        (b"TRIGGERLOG/1 group=bpm sender=a session=-1 ack=spooled", "bad-greeting", "session='-1' is not a number"),
        (b"TRIGGERLOG/1 group=bpm sender=a session= ack=spooled", "bad-greeting", "session='' is not a number"),
        (
            b"TRIGGERLOG/1 group=bpm sender=a session=9223372036854775808 ack=spooled",
            "bad-greeting",
            "is not a number from 0 to 9223372036854775807",
        ),
        (b"TRIGGERLOG/1 group=bpm sender=a next=0 ack=committed", "bad-greeting", "add session=<number>"),
        (
            b"TRIGGERLOG/1 group=bpm sender=a session=1 first=3 next=2 ack=spooled",
            "bad-greeting",
            "next= is below first=",
        ),
        (
            b"TRIGGERLOG/1 group=bpm sender=a session=0 first=281474976710656 ack=spooled",
            "bad-greeting",
            "is not a number from 0 to 281474976710655; count the records of a session from 0",
        ),
        (b"TRIGGERLOG/1 group=bpm\nsender=a", "bad-greeting", "printable ASCII"),
        (b"TRIGGERLOG/1 group=bpm sender=\xc3\xa9", "bad-greeting", "printable ASCII"),
        (b"TRIGGERLOG/1 group=bpm sender=" + b"a" * 1024, "bad-greeting", "shorten its names"),
    ],
)
def test_a_bad_greeting_is_told_its_fix(line: bytes, code: str, fix: str) -> None:
    with pytest.raises(ProtocolError) as refusal:
        parse_greeting(line)
    assert refusal.value.code == code
    assert fix in refusal.value.sentence


def test_a_session_is_told_where_it_goes_on() -> None:
    line = b"TRIGGERLOG/1 group=bpm sender=a session=9223372036854775807 first=12 next=12 ack=spooled\n"
    greeting = parse_greeting(line)
    assert (greeting.session, greeting.first, greeting.next) == (NUMBER_MAX, 12, 12)
    assert greeting.line() == line
    answer = replace(answer_greeting(greeting, {"bpm": BPM}), resume=17)
    assert b" resume=17 fields=" in answer.line()
    assert parse_answer(answer.line()).resume == 17


@pytest.mark.parametrize("resume", [b"-1", b"", b"9223372036854775808", b"1e3"])
def test_a_bad_place_to_go_on_at_is_refused(resume: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"bad-answer: .*resume="):
        parse_answer(BPM_ANSWER.replace(b" fields", b" resume=" + resume + b" fields"))


def test_an_unknown_instrument_is_told_what_there_is() -> None:
    with pytest.raises(ProtocolError, match=r"unknown-instrument: group bpm has no instrument 'bpm_120'; .*'bpm_119'"):
        answer_greeting(Greeting(group="bpm", instrument="bpm_120"), {"bpm": BPM})


@pytest.mark.parametrize(
    ("text", "itemsize", "why"),
    [
        ("trigger:i8@0,time_ns:i8@8,instrument:u4@16", 24, "not all there"),
        ("trigger:i8@0,time_ns:i8@4,instrument:u4@16,epoch:u4@20", 24, "overlaps"),
        ("trigger:i8@0,time_ns:i8@8,instrument:u4@16,epoch:u4@20,x:f8@24", 24, "need 32 bytes"),
        ("trigger:i8@0,time_ns:i8@8,instrument:u4@16,epoch:u4@20,x:f2@24", 32, "a type such as f8"),
        ("trigger:i8@0,trigger:i8@8", 24, "twice"),
        ("", 24, "name:type@offset"),
    ],
)
def test_a_bad_layout_is_refused(text: str, itemsize: int, why: str) -> None:
    with pytest.raises(ProtocolError, match=f"bad-answer: .*{why}"):
        parse_fields(text, itemsize)


def test_a_layout_survives_as_text() -> None:
    assert parse_fields(fields_text(BPM.record), BPM.record.itemsize) == BPM.record


def test_keys_of_a_newer_daemon_are_passed_over() -> None:
    assert parse_answer(BPM_ANSWER.replace(b" fields", b" spooled=yes fields")) == parse_answer(BPM_ANSWER)


@pytest.mark.parametrize(("count", "size"), [(0, 56), (1170, 56)])
def test_a_datagram_holds_what_udp_carries(count: int, size: int) -> None:
    with pytest.raises(ProtocolError, match="send 1 to 1168"):
        datagram_header(group="bpm", sequence=0, count=count, record_size=size)
