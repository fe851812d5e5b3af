"""Sessions: up to where each is settled is said with every closed block, and is true of it and all before it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Origin, Runs
from daemon.pipeline.assembly.outcomes import ReadingSet
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.sessions import ALL, EARLIER_MOST, EARLIER_S, MOST_SESSIONS, Sessions
from daemon.pipeline.durable_state import DurableState
from schemas.batch import ClosedBlock
from schemas.readings import Array, field_bits, words
from schemas.readings import join as join_blocks
from schemas.sessions import GONE, SESSION, session_key
from schemas.states import AsideReason
from schemas.wire import ProtocolError
from tests.support.readings import START_NS, make_block, make_group, whole

TIMEOUT = 1000
GROUP = make_group()
KEY = session_key("crate", 5)


def make(
    sessions: Array | None = None, history: Array | None = None, *, max_open: int = 64, **recovered: Any
) -> Assembly:
    runs = Runs(1, {7: 1}) if history is not None else Runs()
    return Assembly(
        GROUP,
        timeout_ns=TIMEOUT,
        window=256,
        max_open=max_open,
        runs=runs,
        history=history,
        sessions=np.empty(0, SESSION) if sessions is None else sessions,
        **recovered,
    )


def at(tick: int) -> Instant:
    return Instant(START_NS + tick, tick)


def epoch_7(block: Array) -> Array:
    block["epoch"] = 7
    return block


def join(assembly: Assembly, session: int | None = KEY, first: int = 0, tick: int = 0):
    return assembly.sessions.connect(session, first=first, now=at(tick))


def state_of(blocks: list[ClosedBlock]) -> dict[int, tuple[int, int]]:
    table = DurableState().after(blocks).sessions
    return {int(row["session"]): (int(row["settled"]), int(row["received"])) for row in table}


def test_a_session_goes_on_behind_what_was_received() -> None:
    assembly = make()
    joined = join(assembly)
    assert (joined.resume, joined.lost) == (0, 0)
    assembly.receive(epoch_7(whole(GROUP, 1)), Origin.of(joined.column, 0, 5), at(0))
    assembly.receive(epoch_7(make_block(GROUP, [(2, 0)])), Origin.of(joined.column, 5, 1), at(0))
    assembly.sessions.disconnect(joined.column)
    again = join(assembly)
    assert (again.column, again.resume) == (joined.column, 6)
    assembly.receipts.committed(1)
    assert assembly.receipts.acknowledged()[0][again.column] == 5


def test_after_a_crash_it_goes_on_behind_what_is_settled_and_nothing_is_stored_twice() -> None:
    first = make()
    column = join(first).column
    blocks = first.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    blocks += first.receive(epoch_7(make_block(GROUP, [(2, 0), (2, 1)])), Origin.of(column, 5, 2), at(1))
    blocks += first.receive(epoch_7(whole(GROUP, 3)), Origin.of(column, 7, 5), at(2))
    # Trigger 2 is open when the daemon is killed: 5 and 6 are lost with it, 7 to 11 are stored.
    assert state_of(blocks) == {KEY: (5, 12)}
    rows = np.concatenate([block.ledger for block in blocks])
    second = make(DurableState().after(blocks).sessions, rows)
    joined = join(second)
    assert (joined.resume, joined.lost) == (5, 0)
    again = np.concatenate([make_block(GROUP, [(2, 0), (2, 1)]), whole(GROUP, 3), make_block(GROUP, [(4, 0)])])
    second.receive(epoch_7(again.astype(GROUP.record)), Origin.of(joined.column, 5, 8), at(3))
    assert (second.counts.duplicate, second.counts.aside) == (0, {"doubtful": 5})
    assert second.held == 3


@pytest.mark.parametrize(("first", "lost"), [(5, 0), (6, 1), (9, 1), (12, 1), (13, 2), (20, 9)])
def test_what_a_sender_no_longer_has_is_a_loss_with_its_number(first: int, lost: int) -> None:
    """5 is lost, 6 to 11 may be in closed blocks, and those from 12 on never came."""
    table = np.array([(KEY, 5, 12, START_NS // 1_000_000_000)], SESSION)
    joined = join(make(table), first=first)
    assert (joined.resume, joined.lost) == (first, lost)
    table["received"] = ALL
    assert join(make(table), first=first).lost == first - 5


def test_a_reading_that_is_new_and_whose_place_is_taken_is_a_conflict_and_kept() -> None:
    assembly = make()
    column = join(assembly).column
    assembly.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    (block,) = assembly.receive(epoch_7(make_block(GROUP, [(1, 3)])), Origin.of(column, 5, 1), at(1))
    assert block.aside is not None
    assert block.aside.reason.tolist() == [AsideReason.CONFLICT]
    assert not assembly.counts.duplicate


def test_without_a_session_the_epoch_tells_a_double() -> None:
    assembly = make()
    assembly.receive(epoch_7(whole(GROUP, 1)), None, at(0))
    assembly.receive(epoch_7(make_block(GROUP, [(1, 3)], when=lambda _: START_NS)), None, at(1))
    assert (assembly.counts.duplicate, assembly.counts.aside) == (1, {})


def test_a_goodbye_ends_a_session() -> None:
    assembly = make()
    column = join(assembly).column
    blocks = assembly.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    assembly.sessions.disconnect(column, ended=True)
    blocks += assembly.receive(epoch_7(whole(GROUP, 2)), None, at(1))
    assert blocks[-1].sessions["settled"].tolist() == [GONE]
    assert state_of(blocks) == {}


def test_one_that_waits_for_nothing_gives_its_column_back_and_is_remembered() -> None:
    assembly = make()
    column = join(assembly).column
    assembly.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    assembly.sessions.disconnect(column)
    assembly.sessions.tidy(at(1))
    assert assembly.receipts.connect() != column  # not committed yet
    assembly.receipts.committed(1)
    assembly.sessions.tidy(at(2))
    assert assembly.receipts.connect() == column
    assert join(assembly).resume == 5


def test_sessions_are_bounded_and_the_settled_ones_go_first() -> None:
    sessions = np.zeros(4096, SESSION)
    sessions["session"] = np.arange(4096)
    sessions["received"] = 1  # in doubt
    sessions["seen_s"] = START_NS // 1_000_000_000
    sessions["settled"][7] = 1
    assembly = make(sessions)
    join(assembly, 100_000)
    assert join(assembly, 8).resume == 0
    for key in range(100_001, 100_001 + MOST_SESSIONS - 2):
        join(assembly, key)
    with pytest.raises(ProtocolError, match="too-many-connections"):
        join(assembly, 200_000)
    assert len(assembly.sessions) == MOST_SESSIONS


def test_a_session_of_which_nobody_heard_for_a_month_is_forgotten() -> None:
    assembly = make(np.array([(KEY, 5, 5, START_NS // 1_000_000_000 - 40 * 86_400)], SESSION))
    assembly.sessions.tidy(at(0))
    assert not len(assembly.sessions)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_each_closed_block_says_what_is_true_of_the_blocks_up_to_it(data: st.DataObject) -> None:
    """Whatever prefix of the blocks survives: below `settled` all is in it, at or above `received` nothing is."""
    assembly = make()
    columns = [join(assembly, key).column for key in (1, 2, 3)]
    sent: list[list[tuple[int, int]]] = [[], [], []]
    out: list[ClosedBlock] = []
    for tick in range(data.draw(st.integers(1, 25))):
        if data.draw(st.integers(0, 4)) == 0:
            out += assembly.close_due(at(tick * 300))
        which = data.draw(st.integers(0, 2))
        pairs = data.draw(
            st.lists(st.tuples(st.integers(1, 12), st.integers(0, GROUP.size - 1)), min_size=1, max_size=12)
        )
        pairs = [pair for pair in dict.fromkeys(pairs) if all(pair not in mine for mine in sent)]
        if pairs:
            origin = Origin.of(columns[which], len(sent[which]), len(pairs))
            sent[which] += pairs
            out += assembly.receive(epoch_7(make_block(GROUP, pairs)), origin, at(tick * 300))
    out += assembly.flush(at(100_000))
    held: set[tuple[int, int]] = set()
    for k, block in enumerate(out):
        readings = [block.readings[block.present], block.late]
        readings += [] if block.aside is None else [block.aside.readings]
        held |= {(int(r["trigger"]), int(r["instrument"])) for part in readings for r in part}
        for key, (settled, received) in state_of(out[: k + 1]).items():
            mine = sent[key - 1]
            assert set(mine[:settled]) <= held
            assert not set(mine[received:]) & held
    assert held == {pair for mine in sent for pair in mine}


def test_a_sender_that_comes_and_says_goodbye_without_end_fills_no_memory() -> None:
    assembly = make()
    for number in range(1000):
        joined = join(assembly, session_key("crate", number))
        assembly.sessions.disconnect(joined.column, ended=True)
    (block,) = assembly.receive(epoch_7(whole(GROUP, 1)), None, at(1))
    assert len(block.sessions) == 0


def killed(assembly: Assembly, sender: str, number: int, trigger: int, apart_ns: int = 1) -> list[ClosedBlock]:
    """A sender's process from its start with a new session until it is killed, with all of it committed."""
    tick = trigger * apart_ns
    column = join(assembly, session_key(sender, number), tick=tick).column
    blocks = assembly.receive(epoch_7(whole(GROUP, trigger + 1)), Origin.of(column, 0, 5), at(tick))
    assembly.sessions.disconnect(column)
    assembly.receipts.committed(len(blocks))
    assembly.sessions.tidy(at(tick))
    return blocks


@pytest.mark.parametrize(
    ("apart_ns", "left"), [(10**9, EARLIER_MOST), (EARLIER_S * 10**8, 10), (EARLIER_S * 10**9 + 10**9, 0)]
)
def test_a_sender_that_is_killed_and_starts_again_without_end_leaves_few_sessions_behind(
    apart_ns: int, left: int
) -> None:
    """Not one alone: others of its name may be away, with readings acknowledged that they do not know of."""
    assembly, state = make(), DurableState()
    state = state.after(killed(assembly, "other", 0, 0))
    for number in range(1, 500):
        state = state.after(killed(assembly, "crate", number, number, apart_ns))
    kept = {session_key("other", 0), *(session_key("crate", number) for number in range(499 - left, 500))}
    assert kept == {*state.sessions["session"].tolist()} - {
        session_key("crate", 498 - left)  # forgotten, which the next closed block says
    }
    assert len(assembly.sessions) == len(kept)


def test_a_sender_of_the_same_name_has_none_forgotten_that_is_away() -> None:
    """Its last acknowledgement may not have reached it, and it sends everything again."""
    assembly = make()
    killed(assembly, "crate", 1, 0)
    join(assembly, session_key("crate", 2), tick=1)
    assert join(assembly, session_key("crate", 1), tick=2).resume == 5


def test_senders_of_ever_other_names_leave_no_more_sessions_behind_than_are_remembered() -> None:
    assembly, state = make(), DurableState()
    for number in range(MOST_SESSIONS + 100):
        state = state.after(killed(assembly, f"crate-{number}", number, number))
    assert len(assembly.sessions) == MOST_SESSIONS
    assert len(state.sessions) <= MOST_SESSIONS + 1
    assert join(assembly, session_key("crate-5000", 1)).resume == 0


def test_a_new_session_of_a_sender_leaves_its_earlier_one_in_doubt() -> None:
    """Only the numbers of that one tell which of its readings came before."""
    known = [(session_key("crate", 1), 3, 5, 0), (session_key("crate", 2), 5, 5, 0)]
    assembly = make(np.array(known, SESSION))
    join(assembly, session_key("other", 1))
    join(assembly, session_key("crate", 3), tick=(EARLIER_S + 1) * 10**9)
    assert join(assembly, session_key("crate", 1)).resume == 3
    assert len(assembly.sessions) == 3


def test_an_outage_and_a_restart_have_no_session_forgotten_that_was_acknowledged_since() -> None:
    """When its trigger closed is long ago; that it is committed its sender may not know."""
    assembly = make(np.array([(session_key("crate", 1), 5, 5, 0)], SESSION))
    join(assembly, session_key("crate", 2))
    assert join(assembly, session_key("crate", 1), tick=60 * 10**9).resume == 5


@pytest.mark.parametrize("received", [12, ALL])
def test_sessions_in_doubt_that_nobody_goes_on_with_keep_no_new_one_out(received: int) -> None:
    table = np.array([(key, 5, received, key) for key in range(1, MOST_SESSIONS + 1)], SESSION)
    sessions = Sessions(Receipts(), table)
    joined = sessions.connect(MOST_SESSIONS + 1, first=0, now=at(0))
    assert (joined.resume, len(sessions)) == (0, MOST_SESSIONS)
    # The first one is forgotten: what it sends again may have come before.
    again = sessions.connect(1, first=0, now=at(0))
    assert not sessions.is_new(Origin.of(again.column, 0, 1)).any()


def test_what_is_refused_is_acknowledged_only_when_a_restart_would_know_of_it() -> None:
    """Else the sender, which no longer has it, is told after a crash that it was lost."""
    first = make()
    column = join(first).column
    blocks = first.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    blocks += first.receive(epoch_7(make_block(GROUP, [(2, 99)])), Origin.of(column, 5, 1), at(1))
    assert first.receipts.acknowledged()[0][column] == 0
    first.receipts.committed(len(blocks))
    assert first.receipts.acknowledged()[0][column] == 6
    assert first.receipts.acknowledged()[1][column] == 1
    joined = join(make(DurableState().after(blocks).sessions), first=6)
    assert (joined.resume, joined.lost) == (6, 0)


def test_what_a_sender_had_not_sent_when_it_connected_is_not_in_doubt() -> None:
    """Nobody knows what came of the session: the place is taken, and the reading is another one all the same."""
    first = make()
    blocks = first.receive(epoch_7(whole(GROUP, 1)), None, at(0))
    table = np.array([(KEY, 5, ALL, START_NS // 1_000_000_000)], SESSION)
    again = make(table, blocks[0].ledger)
    column = again.sessions.connect(KEY, first=5, upto=7, now=at(1)).column
    readings = epoch_7(make_block(GROUP, [(1, 0), (1, 1), (1, 2)]))
    block = again.receive(readings, Origin.of(column, 5, 3), at(1))[0]
    assert block.aside is not None
    assert block.aside.readings["instrument"].tolist() == [0, 1, 2]
    assert block.aside.reason.tolist() == [AsideReason.DOUBTFUL, AsideReason.DOUBTFUL, AsideReason.CONFLICT]


def test_another_reading_for_a_place_in_an_open_trigger_is_a_conflict_though_its_session_is_in_doubt() -> None:
    assembly = make(np.array([(KEY, 0, 12, START_NS // 1_000_000_000)], SESSION))
    column = join(assembly).column
    assembly.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    readings = epoch_7(make_block(GROUP, [(2, 3), (2, 3), (2, 3)]))
    readings["time_ns"][2] += 1
    other = readings[2:].copy()
    (block,) = assembly.receive(readings, Origin.of(column, 5, 3), at(1))
    assert block.aside is not None
    assert block.aside.readings.tolist() == other.tolist()
    assert (assembly.counts.duplicate, assembly.held) == (1, 1)


def test_what_is_acknowledged_with_closed_blocks_is_settled_by_them() -> None:
    """Else the sender, which no longer has it, is told after a crash that it was lost."""
    assembly = make(max_open=16)
    column = join(assembly).column
    blocks = assembly.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    # More triggers than may be open: some close before the others have their places.
    many = epoch_7(make_block(GROUP, [(number, 0) for number in range(2, 62)]))
    blocks += assembly.receive(many, Origin.of(column, 5, 60), at(1))
    assembly.receipts.committed(len(blocks))
    assert assembly.receipts.acknowledged()[0][column] == 5 + 60 - 16
    assert state_of(blocks) == {KEY: (5 + 60 - 16, 65)}


def test_a_copy_is_one_whatever_the_padding_of_its_record_holds() -> None:
    padding = ~field_bits(GROUP.record)
    assert padding.any()
    assembly = make()
    column = join(assembly).column
    assembly.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    for sequence, bits in ((5, 0), (6, -1)):
        block = epoch_7(make_block(GROUP, [(2, 3)]))
        words(block)[:] = (words(block) & ~padding) | (padding & bits)
        assert not assembly.receive(block, Origin.of(column, sequence, 1), at(1))
    assert assembly.counts.duplicate == 1


def test_a_dead_letter_that_its_session_sends_again_is_a_double() -> None:
    """The session is settled only up to what was open when the daemon was killed."""
    table = np.array([(KEY, 5, 12, START_NS // 1_000_000_000)], SESSION)
    rows = make().receive(epoch_7(whole(GROUP, 1)), None, at(0))[0].ledger
    letters = epoch_7(make_block(GROUP, [(2, 3), (2, 1)]))
    assembly = make(table, rows, letters=letters)
    column = assembly.sessions.connect(KEY, first=0, upto=12, now=at(1)).column
    other = epoch_7(make_block(GROUP, [(2, 0), (2, 1)], when=lambda _: START_NS + 5))
    both = np.concatenate([letters, other]).astype(GROUP.record)
    (block,) = assembly.receive(both, Origin.of(column, 5, 4), at(1))
    assert (assembly.counts.duplicate, assembly.held, block.aside) == (2, 2, None)
    assembly.sessions.committed()
    assert assembly.receipts.acknowledged()[0][column] == 5
    assembly.receipts.committed(1)
    assert assembly.receipts.acknowledged()[0][column] == 7
    assembly.receive(letters[:1], Origin.of(column, 12, 1), at(2))
    assert (assembly.counts.duplicate, assembly.held) == (2, 3)


def test_a_dead_letter_that_came_without_its_time_is_known_when_it_comes_again() -> None:
    """It has the time of its receipt, another one then. With a time of its own, or without an epoch, it is new."""
    letters = np.concatenate([epoch_7(make_block(GROUP, [(2, 3), (2, 2)])), make_block(GROUP, [(2, 1)])])
    letters = letters.astype(GROUP.record)
    assembly = make(letters=letters)
    column = assembly.sessions.connect(KEY, first=0, upto=5, now=at(1)).column
    again = letters.copy()
    again["time_ns"] = [0, START_NS + 77, 0]
    assembly.receive(again, Origin.of(column, 0, 3), at(9))
    assert (assembly.counts.duplicate, assembly.held) == (1, 2)


def test_a_dead_letter_is_known_where_a_power_cut_took_what_its_session_knew() -> None:
    """Journal and table were lost, the letters were not: a reading was stored, and a dead letter as well."""
    letters = epoch_7(make_block(GROUP, [(2, 3)]))
    assembly = make(letters=letters)
    column = assembly.sessions.connect(KEY, first=0, upto=5, now=at(1)).column
    assembly.receive(letters.copy(), Origin.of(column, 0, 1), at(1))
    assert (assembly.counts.duplicate, assembly.held) == (1, 0)


def test_a_letter_is_found_among_many_and_nothing_else() -> None:
    readings = make_block(GROUP, [(trigger, instrument) for trigger in range(200) for instrument in range(5)])
    letters = ReadingSet(readings[:0])
    assert not letters.have(readings).any()
    letters.add(readings[::3].copy())
    letters.add(readings[:1].copy())
    assert letters.have(readings).nonzero()[0].tolist() == list(range(0, 1000, 3))
    readings["time_ns"] += 1
    assert not letters.have(readings).any()


def test_a_copy_is_one_whatever_lies_between_its_fields() -> None:
    """Between the last channel and the end of the record of this group there are 6 bytes."""
    reading = epoch_7(make_block(GROUP, [(2, 3)]))
    other = reading.copy()
    other.view(np.uint8)[-1] ^= 0xFF
    assert ReadingSet(reading).have(other).all()
    assembly = make()
    column = join(assembly).column
    assembly.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    assembly.receive(reading, Origin.of(column, 5, 1), at(0))
    assembly.receive(other, Origin.of(column, 6, 1), at(1))
    assert (assembly.counts.duplicate, assembly.counts.aside) == (1, {})


def test_what_was_taken_without_its_number_is_a_double_when_its_session_sends_it() -> None:
    assembly = make()
    column = join(assembly).column
    assembly.receive(epoch_7(whole(GROUP, 1)), Origin.of(column, 0, 5), at(0))
    readings = epoch_7(whole(GROUP, 2))
    assembly.sessions.doubt(Origin.of(column, 7, 5))
    (block,) = assembly.take_again(readings, at(1))
    assert state_of([block]) == {KEY: (5, 12)}
    sent = np.concatenate([epoch_7(make_block(GROUP, [(3, 0), (3, 1)])), readings]).astype(GROUP.record)
    assembly.receive(sent, Origin.of(column, 5, 7), at(2))
    assert (assembly.counts.duplicate, assembly.counts.aside) == (0, {"doubtful": 5})
    (block,) = assembly.receive(epoch_7(make_block(GROUP, [(2, 3)])), Origin.of(column, 12, 1), at(3))
    assert block.aside is not None
    assert block.aside.reason.tolist() == [AsideReason.CONFLICT]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_was_taken_again_and_is_held_is_a_double_once_it_is_set_aside(is_restarted: bool) -> None:
    """It may be let go only when nothing is taken again any more; its sender may send it later still."""
    assembly = make(np.array([(KEY, 5, ALL, START_NS // 1_000_000_000)], SESSION))
    assembly.receive(epoch_7(whole(GROUP, 1)), None, at(0))
    ahead = epoch_7(make_block(GROUP, [(1000, 3)]))
    assembly.take_again(ahead.copy(), at(1))
    assembly.end_taking_again(at(2))
    if is_restarted:
        assembly.restart_timeouts(at(500))
    (block,) = assembly.close_due(at(600 + TIMEOUT))
    assert block.aside is not None
    assert block.aside.reason.tolist() == [AsideReason.AHEAD]
    column = join(assembly).column
    assembly.receive(ahead.copy(), Origin.of(column, 5, 1), at(1700))
    assert (assembly.counts.duplicate, assembly.held) == (1, 0)
    # What comes from now on is not remembered: the numbers of its session tell.
    later = epoch_7(make_block(GROUP, [(2000, 3)]))
    assembly.receive(epoch_7(whole(GROUP, 2)), None, at(1700))
    assembly.receive(later.copy(), None, at(1700))
    assembly.close_due(at(1700 + TIMEOUT))
    assert assembly.counts.aside == {"ahead": 2}
    assembly.receive(later, Origin.of(column, 6, 1), at(2800))
    assert (assembly.counts.duplicate, assembly.held) == (1, 1)


def test_what_has_the_time_of_its_receipt_cannot_be_compared_and_is_a_double() -> None:
    assembly = make()
    assembly.receive(epoch_7(whole(GROUP, 1)), None, at(0))
    column = join(assembly, first=5).column  # nobody knows what came before
    again = epoch_7(make_block(GROUP, [(1, 0), (1, 1)]))
    again["time_ns"][0] = at(1).utc_ns
    assembly.receive(again, Origin.of(column, 5, 2), at(1))
    assert (assembly.counts.duplicate, assembly.counts.aside) == (1, {"doubtful": 1})


def test_an_older_reading_of_a_session_is_compared_with_what_the_database_has() -> None:
    assembly = make()
    for start in range(1, 1000, 50):
        assembly.receive(epoch_7(whole(GROUP, *range(start, start + 50))), None, at(0))
    column = join(assembly).column
    older = epoch_7(make_block(GROUP, [(1, 0), (1, 1)]))
    older["time_ns"][0] = at(1).utc_ns  # the time of its receipt
    assembly.receive(older, Origin.of(column, 0, 2), at(1))
    assert (assembly.counts.duplicate, assembly.counts.aside) == (0, {"older": 1, "doubtful": 1})


def test_a_session_in_doubt_is_not_forgotten_however_old() -> None:
    table = np.array([(KEY, 0, 5, 1)], SESSION)
    assembly = make(table)
    assembly.sessions.tidy(at(0))
    assert len(assembly.sessions) == 1


def test_what_a_sender_says_it_has_sent_is_in_doubt_though_its_session_is_unknown() -> None:
    assembly = make()
    assembly.receive(epoch_7(whole(GROUP, 1)), None, at(0))
    column = assembly.sessions.connect(KEY, first=0, upto=1, now=at(0)).column
    assembly.receive(epoch_7(make_block(GROUP, [(1, 0), (1, 1)])), Origin.of(column, 0, 2), at(1))
    assert (assembly.counts.duplicate, assembly.counts.aside) == (0, {"doubtful": 1, "conflict": 1})


def test_blocks_of_one_step_are_settled_with_the_last_which_says_so() -> None:
    """Of more triggers than may be open, some close before all readings that came with them have a place."""
    assembly = make(max_open=4)
    column = join(assembly).column
    numbers = [(trigger, instrument) for trigger in range(1, 9) for instrument in range(4)]
    blocks = assembly.receive(epoch_7(make_block(GROUP, numbers)), Origin.of(column, 0, len(numbers)), at(0))
    assert len(blocks) > 1
    for upto in range(1, len(blocks)):
        assembly.receipts.committed(1)
        said = state_of(blocks[:upto]).get(KEY, (0, 0))[0]
        assert assembly.receipts.acknowledged()[0][column] <= said


def test_what_is_held_twice_becomes_one_dead_letter() -> None:
    """The second was held before the first became one."""
    assembly = make()
    ahead = epoch_7(make_block(GROUP, [(300, 0)]))
    assert assembly.take_again(ahead, at(0)) == assembly.take_again(ahead.copy(), at(0)) == []
    near = epoch_7(make_block(GROUP, [(n, i) for n in range(1, 20) for i in range(1, 5)]))
    closed = [*assembly.take_again(near, at(0)), *assembly.flush(at(1))]
    asides = [block.aside.readings for block in closed if block.aside is not None]
    assert join_blocks(asides)[["trigger", "instrument"]].tolist() == [(300, 0)]
    assert assembly.counts.duplicate == 1


def test_up_to_where_a_session_is_in_doubt_is_said_though_it_is_gone_by_then() -> None:
    """Its readings were taken again, and its sender comes only to the next process."""
    assembly = make()
    column = join(assembly).column
    assembly.sessions.doubt(Origin.of(column, 3, 2))
    assembly.take_again(epoch_7(make_block(GROUP, [(1, 0), (1, 1)])), at(0))
    assembly.sessions.disconnect(column)
    assembly.sessions.tidy(at(1))
    assert state_of(assembly.flush(at(2)))[KEY] == (0, 5)
    assembly.sessions.tidy(at(3))
    assert KEY in assembly.sessions._idle
