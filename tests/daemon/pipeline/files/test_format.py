"""Blocks as records: whatever a block holds is read back from its record."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.pipeline.files.format import (
    RECORD,
    BadRecord,
    counted,
    counted_of,
    decode,
    encode,
    parse_header,
    parse_segment_head,
    segment_head,
)
from schemas.batch import Aside, ClosedBlock
from schemas.readings import InstrumentGroup, words
from schemas.sessions import SESSION
from tests.support.batches import batch_of, group_of, readings_of, with_late

GROUP = group_of(size=5, dtypes=("float64", "int8"))


def block_of(number: int, group: InstrumentGroup = GROUP, triggers: int = 3) -> ClosedBlock:
    """A block with missing readings, late ones and revised rows, told by its number."""
    rng = np.random.default_rng(number)
    readings = readings_of(group, number * 100 + np.arange(triggers), number * 10**9 + np.arange(triggers), rng)
    present = rng.random(readings.shape) < (1.0 if number % 3 == 0 else 0.7)
    present[:, 0] = True
    words(readings)[~present] = 0  # what is missing is not kept
    if number % 2 or not triggers:
        return batch_of(group, 1, readings, present=present)
    plain = batch_of(group, 1, readings, present=np.ones_like(present))
    late = readings[:1, 1]
    revised = np.array([with_late(plain.ledger[0], late, present[0])])
    return batch_of(group, 1, readings, present=present, late=late, late_of=np.array([0]), revised=revised)


def same(one: ClosedBlock, other: ClosedBlock) -> bool:
    mine, theirs = one.parts, other.parts
    assert (one.aside is None) == (other.aside is None)
    if one.aside is not None and other.aside is not None:
        mine |= {f"aside {name}": part for name, part in vars(one.aside).items()}
        theirs |= {f"aside {name}": part for name, part in vars(other.aside).items()}
    return all(
        mine[name].shape == theirs[name].shape and mine[name].tobytes() == theirs[name].tobytes()
        for name in mine
        if isinstance(mine[name], np.ndarray)
    )


@st.composite
def blocks(draw: st.DrawFn) -> ClosedBlock:
    """Blocks with any of their parts, or none of them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    parts = block_of(draw(st.integers(1, 50)), triggers=draw(st.integers(0, 4))).parts
    count = draw(st.integers(0, 7))
    if count:
        readings = np.zeros(count, GROUP.record)
        words(readings)[:] = words(readings_of(GROUP, rng.integers(-(2**40), 2**40, count), np.arange(count), rng))[
            :, 0
        ]
        run = rng.integers(0, 2**31, count).astype(np.int32)
        parts["aside"] = Aside(readings=readings, run=run, reason=rng.integers(1, 6, count).astype(np.uint8))
    parts["sessions"] = np.frombuffer(rng.bytes(SESSION.itemsize * draw(st.integers(0, 5))), SESSION)
    return ClosedBlock(**parts)


NUMBERS = st.integers(0, 2**63 - 1)


@given(block=blocks(), number=NUMBERS, follows=NUMBERS, synced=NUMBERS)
def test_a_block_is_read_back(block: ClosedBlock, number: int, follows: int, synced: int) -> None:
    data = b"".join(bytes(part) for part in encode(number, block, GROUP, follows=follows, synced=synced))
    assert len(data) % 8 == 0
    header, body = parse_header(data), data[RECORD.itemsize :]
    assert (header.sequence, header.follows, header.synced, header.length) == (number, follows, synced, len(body))
    assert same(decode(body, GROUP), block)
    assert sum(counted(body)[1:]) == counted_of(block)


@given(journal=NUMBERS, follows=NUMBERS, state=st.binary(max_size=200_000), behind=st.binary(max_size=20))
def test_a_head_is_read_back(journal: int, follows: int, state: bytes, behind: bytes) -> None:
    data = segment_head(GROUP, journal, follows, state)
    assert len(data) % 8 == 0
    head = parse_segment_head(data + behind)
    assert (head.journal, head.follows, head.state, head.nbytes) == (journal, follows, state, len(data))
    assert head.description["group"] == GROUP.name


@given(spot=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), state=st.binary(max_size=20))
def test_a_head_that_is_damaged_is_none(spot: float, bit: int, state: bytes) -> None:
    # The padding behind the state is part of what is checked.
    data = bytearray(segment_head(GROUP, 7, 8, state))
    data[int(spot * len(data))] ^= 1 << bit
    with pytest.raises(BadRecord):
        parse_segment_head(bytes(data))


@given(bit=st.integers(0, RECORD.itemsize * 8 - 1))
def test_a_header_that_is_damaged_is_none(bit: int) -> None:
    data = bytearray(encode(5, block_of(1), GROUP, follows=4, synced=3)[0])
    data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadRecord):
        parse_header(bytes(data))
