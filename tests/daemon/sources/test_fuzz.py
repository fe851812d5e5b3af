"""The sources under any bytes in any cuts: no exception, nothing left behind, a good sender's readings intact.

What the coverage-guided fuzzer (`make fuzz`) once found is run here again, with its seeds.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.wire import datagram_header
from tests.fuzz.sessions import GROUP, OTHER, Kind, Step, run, tcp_session, udp_session
from tests.fuzz.targets import FINDINGS, TARGETS
from tests.support.readings import make_block, whole

KEPT = [
    pytest.param(name, data, id=f"{name}-seed-{number}")
    for name, target in TARGETS.items()
    for number, data in enumerate(target.seeds())
] + [pytest.param(path.parent.name, path.read_bytes(), id=path.name) for path in sorted(FINDINGS.glob("*/*"))]


@pytest.mark.parametrize(("target", "data"), KEPT)
def test_seeds_and_findings(target: str, data: bytes) -> None:
    TARGETS[target].run(data)


RECORDS = st.one_of(
    st.builds(lambda triggers: whole(OTHER, *triggers).tobytes(), st.lists(st.integers(0, 100), max_size=5)),
    st.builds(
        lambda pairs: make_block(GROUP, pairs).tobytes(),
        st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 5)), max_size=8),
    ),
    st.binary(max_size=200),
)
GREETINGS = st.sampled_from(
    [
        b"",
        b"\n",
        b"TRIGGERLOG/1 group=toroid ack=committed\n",
        b"TRIGGERLOG/1 group=toroid\r\n",
        b"TRIGGERLOG/1 x\n",
        b"TRIGGERLOG/1 group=toroid sender=bad session=7 first=3 ack=committed\n",
    ]
)
DATA = st.builds(
    lambda greeting, records, cut: (greeting + records)[cut:], GREETINGS, RECORDS, st.sampled_from([0, 0, 0, 3, 39])
)
STEPS = st.builds(
    Step, connection=st.integers(0, 3), kind=st.sampled_from([Kind.DATA, *Kind]), opening=st.integers(0, 5), data=DATA
)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_hostile_connections_beside_a_good_one(steps: list[Step]) -> None:
    run(tcp_session(steps))


def _datagram(group: str, sequence: int, count: int, size: int, records: bytes) -> bytes:
    return datagram_header(group=group, sequence=sequence, count=count, record_size=size) + records


DATAGRAMS = st.one_of(
    st.binary(max_size=120),
    st.builds(
        _datagram,
        st.sampled_from(["bpm", "toroid", "x"]),
        st.one_of(st.integers(0, 50), st.integers(0, 2**64 - 1)),
        st.integers(1, 3),
        st.sampled_from([GROUP.record.itemsize, 8]),
        RECORDS,
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 255), DATAGRAMS), max_size=25))
def test_hostile_datagrams_beside_good_ones(datagrams: list[tuple[int, bytes]]) -> None:
    run(udp_session(datagrams))
