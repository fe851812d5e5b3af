"""How much a count grew lately, on a clock that is moved by hand."""

from daemon.pipeline.losses import Lately
from schemas.api.status import LATELY_S, Recent
from tests.support.disks import StoppedClock


def test_what_a_count_grew_by_is_recent_for_a_while_and_then_forgotten() -> None:
    clock, lately = StoppedClock(), Lately()
    assert lately.recent(clock.now()) == Recent()
    lately.note(0, clock.now())
    clock.move(50)
    began_ns = clock.now().utc_ns
    lately.note(7, clock.now())
    clock.move(LATELY_S / 2)
    lately.note(7, clock.now())
    lately.note(9, clock.now())
    assert lately.recent(clock.now()) == Recent(count=9, since_ns=began_ns)
    clock.move(LATELY_S / 2)
    assert lately.recent(clock.now()) == Recent(count=2, since_ns=began_ns)
    clock.move(LATELY_S / 2)
    assert lately.recent(clock.now()) == Recent()
    lately.note(10, clock.now())
    assert lately.recent(clock.now()) == Recent(count=1, since_ns=clock.now().utc_ns)


def test_what_comes_after_all_is_taken_back_the_newest_first() -> None:
    clock, lately = StoppedClock(), Lately()
    lately.note(5, clock.now())
    clock.move(60)
    lately.note(8, clock.now())
    lately.note(4, clock.now())
    assert lately.recent(clock.now()).count == 4
    clock.move(LATELY_S - 60)
    assert lately.recent(clock.now()) == Recent()
    lately.note(1, clock.now())
    assert lately.recent(clock.now()) == Recent()
    lately.note(3, clock.now())
    assert lately.recent(clock.now()).count == 2


def test_growth_at_every_look_takes_little_memory() -> None:
    clock, lately = StoppedClock(), Lately()
    for total in range(4 * 2000):
        lately.note(total, clock.now())
        clock.move(0.25)
    assert len(lately._slots) <= LATELY_S / 10 + 1
    assert 4 * (LATELY_S - 11) <= lately.recent(clock.now()).count <= 4 * LATELY_S
