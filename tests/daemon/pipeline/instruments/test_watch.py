"""The watch over instruments."""

import numpy as np
import pytest

from daemon.pipeline.instruments.watch import Watch
from schemas.batch import ClosedBlock
from schemas.ledger import ledger_dtype
from schemas.readings import Array
from tests.support.readings import make_block, make_group, whole

GROUP = make_group()
SECOND = 1_000_000_000


def closed(present: Array, late: Array | None = None) -> ClosedBlock:
    triggers = len(present)
    return ClosedBlock(
        readings=whole(GROUP, *range(triggers)).reshape(triggers, GROUP.size),
        present=present,
        ledger=np.zeros(triggers, ledger_dtype(GROUP.size)),
        late=make_block(GROUP, []) if late is None else late,
        late_of=np.empty(0, np.intp),
        revised=np.empty(0, ledger_dtype(GROUP.size)),
    )


def all_but(*absent: int, triggers: int = 10) -> Array:
    present = np.ones((triggers, GROUP.size), bool)
    present[:, list(absent)] = False
    return present


def test_states_tell_what_each_instrument_did_lately() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    assert watch.states(SECOND) == "nnnnn"
    watch.note(closed(all_but(4)), 10 * SECOND)
    assert watch.states(10 * SECOND) == "oooon"
    watch.note(closed(all_but(3, 4)), 11 * SECOND)
    watch.note(closed(all_but(3, 4)[:0], make_block(GROUP, [(t, 2) for t in range(5)])), 11 * SECOND)
    assert watch.states(11 * SECOND) == "oolmn"
    watch.note(closed(all_but(3, 4)), 14 * SECOND)
    assert watch.states(14 * SECOND)[3] == "s"


def test_one_absence_among_many_triggers_is_not_a_state() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    present = all_but(triggers=50)
    present[7, 1] = False
    watch.note(closed(present), SECOND)
    assert watch.states(SECOND) == "ooooo"
    assert watch.missing_a_trigger(SECOND) == 1 / 50


def test_a_machine_at_rest_is_not_a_hundred_broken_instruments() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    watch.note(closed(all_but()), SECOND)
    assert watch.states(6 * SECOND) == "ooooo"
    assert watch.states(7 * SECOND) == "iiiii"
    assert watch.missing_a_trigger(7 * SECOND) is None
    watch.note(closed(all_but(4)), 3600 * SECOND)
    assert watch.states(3600 * SECOND) == "oooos"


def test_who_was_silent_as_the_machine_went_to_rest_stays_so() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    watch.note(closed(all_but(4)), SECOND)
    watch.note(closed(all_but(0, 4)), 4 * SECOND)
    assert watch.states(3600 * SECOND) == "siiin"


def test_how_far_all_clocks_are_ahead_of_the_node_s() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    assert watch.ahead_s(SECOND) is None
    block = closed(all_but(triggers=3))
    block.ledger["first_received_ns"] = 1000 * SECOND
    block.ledger["time_ns"] = [1090 * SECOND, 1086 * SECOND, 0]
    watch.note(block, SECOND)
    assert watch.ahead_s(SECOND) == 86.0
    block.ledger["time_ns"] = 995 * SECOND
    watch.note(block, 2 * SECOND)
    assert watch.ahead_s(2 * SECOND) == -5.0
    block.ledger["time_ns"] = -(2**63)
    watch.note(block, 60 * SECOND)
    assert watch.ahead_s(60 * SECOND) == pytest.approx(-(2**63) / 1e9 - 1000)
    assert watch.ahead_s(70 * SECOND) is None


def test_when_each_and_when_any_was_last_heard_and_how_often_late() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    assert watch.quiet_s(9 * SECOND) is None
    watch.note(closed(all_but(3, 4)), 10 * SECOND)
    watch.note(closed(all_but()[:0], make_block(GROUP, [(t, 3) for t in range(5)])), 12 * SECOND)
    assert watch.quiet_s(15 * SECOND) == 3.0
    assert watch.heard_s(15 * SECOND).tolist()[:4] == [5.0, 5.0, 5.0, 3.0]
    assert np.isnan(watch.heard_s(15 * SECOND)[4])
    assert watch.late.tolist() == [0, 0, 0, 5, 0]


def test_late_readings_are_not_missing() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    watch.note(closed(all_but(2)), SECOND)
    watch.note(closed(all_but()[:0], make_block(GROUP, [(t, 2) for t in range(10)])), SECOND)
    assert watch.missing_a_trigger(SECOND) == 0


def test_who_is_out_of_step_is_shown_so_unless_it_is_silent() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    watch.note(closed(all_but(4)), 10 * SECOND)
    watch.note(closed(all_but(2, 3, 4)), 11 * SECOND)
    assert watch.states(11 * SECOND, out_of_step=[0, 3, 4]) == "domdn"
    watch.note(closed(all_but(3, 4)), 13 * SECOND)
    assert watch.states(13 * SECOND, out_of_step=[0, 3, 4]) == "domsn"


def test_who_only_sends_what_fits_no_trigger_is_heard_all_the_same() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    watch.note(closed(all_but()), 10 * SECOND)
    watch.hear(np.array([3, 3]), 13 * SECOND)
    watch.note(closed(all_but(3)), 13 * SECOND)
    assert watch.states(13 * SECOND)[3] != "s"


def test_falling_silent_and_being_heard_again_is_said_once() -> None:
    watch = Watch(GROUP.size, stale_ns=2 * SECOND)
    watch.note(closed(all_but(4)), 10 * SECOND)
    assert watch.changes(GROUP, 12 * SECOND) == []
    watch.note(closed(all_but(1, 2, 4)), 12 * SECOND + 1)
    (line,) = watch.changes(GROUP, 12 * SECOND + 1)
    assert line == ("warning", "group bpm: bpm_001, bpm_002 are silent, for 2.0 s now")
    assert watch.changes(GROUP, 13 * SECOND) == []
    watch.note(closed(all_but(2, 4)), 14 * SECOND)
    assert watch.changes(GROUP, 14 * SECOND) == [("info", "group bpm: bpm_001 is heard again")]
