"""Stretches of the log: which of its records the database has for good, and of which sessions it may hold something."""

from dataclasses import dataclass, field

from daemon.pipeline.log import Stretches
from daemon.pipeline.log.stretches import STRETCH_S
from schemas.sessions import PRIVATE


@dataclass
class Closing:
    """The words of closed blocks. settled: by session, up to which number."""

    last_block: int = 0
    safe_upto: int = 0
    settled: dict[int, int] = field(default_factory=dict)

    def have_closed(self, upto: dict[int, int]) -> bool:
        return all(self.settled.get(session, 0) >= number for session, number in upto.items())


def gone(stretches: Stretches, upto: int) -> None:
    """The records up to this one were written, and are on the disk no more."""
    stretches.gone(upto, tried=upto, skipped=0)


def test_a_record_is_safe_once_the_block_that_settles_it_is() -> None:
    stretches, closing = Stretches((), 0), Closing()
    stretches.add(1, {7: 5}, 0.0, 280)
    assert stretches.safe(closing) == 0
    closing.last_block, closing.settled = 3, {7: 4}
    assert stretches.safe(closing) == 0
    closing.settled = {7: 5}
    assert stretches.safe(closing) == 0, "the block is not committed"
    closing.last_block, closing.safe_upto = 9, 2
    assert stretches.safe(closing) == 0
    closing.safe_upto = 3
    assert stretches.safe(closing) == 1
    assert stretches.safe(closing) == 0, "it was safe before"


def test_records_of_a_moment_are_safe_together_and_in_order() -> None:
    stretches, closing = Stretches((), 0), Closing(last_block=1, safe_upto=1)
    stretches.add(1, {7: 5}, 0.0, 280)
    stretches.add(2, {8: 5}, STRETCH_S / 2, 280)
    stretches.add(3, {7: 10}, STRETCH_S, 280)
    closing.settled = {7: 10}
    assert stretches.safe(closing) == 0, "what is before it is not safe"
    closing.settled = {7: 5, 8: 5}
    assert stretches.safe(closing) == 2
    closing.settled = {7: 10, 8: 5}
    assert stretches.safe(closing) == 3


def test_a_session_is_pinned_until_its_records_are_gone_from_the_disk() -> None:
    stretches, closing = Stretches((), 0), Closing(last_block=1, safe_upto=1, settled={7: 5})
    stretches.add(1, {7: 5}, 0.0, 280)
    assert stretches.safe(closing) == 1
    assert 7 in stretches
    gone(stretches, 1)
    assert 7 not in stretches
    assert len(stretches) == 0


def test_what_was_never_written_is_gone_when_it_is_skipped() -> None:
    stretches, closing = Stretches((), 0), Closing(last_block=1, safe_upto=1, settled={7: 10})
    stretches.add(1, {7: 5}, 0.0, 280)
    stretches.add(2, {7: 10}, 1.0, 280)
    assert stretches.safe(closing) == 2
    stretches.gone(0, tried=0, skipped=1)
    assert 7 in stretches
    stretches.gone(0, tried=0, skipped=2)
    assert 7 not in stretches


def test_what_an_earlier_process_left_is_pinned_until_all_of_it_was_read() -> None:
    stretches = Stretches([7, 8], 10)
    closing = Closing(last_block=1, safe_upto=1, settled={7: 5, 9: 1})
    stretches.add(11, {9: 1}, 0.0, 56)
    stretches.read(10, [(7, 5)], 0.0)
    assert stretches.safe(closing) == 10
    assert stretches.safe(closing) == 0, "of what came, nothing before all was read"
    gone(stretches, 10)
    assert 7 in stretches
    stretches.end_reading()
    assert (7 in stretches, 8 in stretches, 9 in stretches) == (False, False, True)
    assert stretches.safe(closing) == 11


def test_private_sessions_are_counted_apart() -> None:
    stretches = Stretches((), 0)
    stretches.add(1, {PRIVATE | 1: 5}, 0.0, 280)
    stretches.add(2, {7: 5}, 0.0, 280)
    stretches.add(3, {7: 0}, 1.0, 0)
    assert (stretches.count(private=True), stretches.count(private=False)) == (1, 1)


def test_beginning_again_leaves_all_to_be_read_once_more() -> None:
    """Sessions stay pinned throughout, whatever was read or was leaving by then."""
    stretches, closing = Stretches([6], 2), Closing(last_block=1, safe_upto=1, settled={5: 1, 6: 5, 7: 5, 8: 5})
    stretches.read(2, [(6, 5)], 0.0)
    stretches.end_reading()
    stretches.add(3, {7: 5}, 0.0, 280)
    stretches.add(4, {8: 9}, 1.0, 504)
    assert stretches.safe(closing) == 3
    stretches.begin_again(4)
    assert all(session in stretches for session in (6, 7, 8)), "two are leaving, and one is unread"
    assert stretches.safe(closing) == 0
    stretches.add(5, {5: 1}, 2.0, 56)
    stretches.read(4, [(8, 9)], 2.0)
    closing.settled[8] = 9
    assert stretches.safe(closing) == 4
    stretches.end_reading()
    assert stretches.safe(closing) == 5
    gone(stretches, 5)
    assert len(stretches) == 0


def test_beginning_again_twice_forgets_no_session_that_was_not_read_yet() -> None:
    stretches, closing = Stretches([6, 7], 2), Closing(last_block=1, safe_upto=1, settled={6: 5, 7: 5})
    stretches.read(1, [(6, 5)], 0.0)
    stretches.begin_again(3)
    stretches.begin_again(4)
    assert 6 in stretches
    assert 7 in stretches
    stretches.read(4, [(6, 5), (7, 5)], 0.0)
    stretches.end_reading()
    assert stretches.safe(closing) == 4
    gone(stretches, 4)
    assert len(stretches) == 0
