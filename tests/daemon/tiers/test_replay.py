"""Weeks of reading in a moment: a given clock, simulated readers and counters, and the plans of each hour carried out.

A read of a page takes `SLOW_S` where it lies on the slow disk, else `FAST_S`. A day of readings is 8 GiB.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import pytest

from backends.base import Partition, ReadCounters
from daemon.core.outside import Instant
from daemon.retention.planner import DAY_NS, GIB, GroupState
from daemon.tiers.heat import DAY_S, SCANNED_S, Heat
from daemon.tiers.planner import PAGE, PAYS, Access, Plan, PlannedMove, Tier, plan

SLOW_S, FAST_S = 0.0142, 0.0002
DAYS, FAST_DAYS = 60, 15
MOVES_AN_HOUR = 6
"""8 GiB at 16 MiB/s last 9 minutes."""
PAGES = 8 * GIB // PAGE
ROWS_A_PAGE = 80
FAST = Tier(name="fast", place=None, max_bytes=FAST_DAYS * 8 * GIB)
COPY_S = PAGES * SCANNED_S

Reading = Callable[[int], float]
"""Reads of pages from anywhere an hour, of a day by its number."""

_tables = count(1)


@dataclass
class Day:
    """One partition: where it lies, and what the server has counted of its table."""

    number: int
    place: str | None
    table: int = field(default_factory=_tables.__next__)
    lookups: int = 0
    scans: int = 0

    def move(self, place: str | None) -> None:
        """Lie elsewhere: another table, of which nothing is counted yet."""
        self.place, self.table, self.lookups, self.scans = place, next(_tables), 0, 0

    def partition(self) -> Partition:
        asked = self.lookups + self.scans * PAGES
        rows = PAGES * ROWS_A_PAGE
        counted = ReadCounters(
            self.table, rows, PAGES, self.scans, self.scans * rows, self.lookups, self.lookups, asked, asked, 0
        )
        return Partition(
            name=str(self.number),
            start_ns=self.number * DAY_NS,
            end_ns=(self.number + 1) * DAY_NS,
            rows=rows,
            size_bytes=8 * GIB,
            readings_bytes=8 * GIB,
            place=self.place,
            may_move=True,
            counted=(counted,),
        )


class Replay:
    """A logger that has run for sixty days, of which the newest lie in the fast tier."""

    def __init__(self, policy: str) -> None:
        self.days = [Day(number, None if number >= DAYS - FAST_DAYS else "slow") for number in range(DAYS)]
        self.hour = DAYS * 24
        self.moves: list[PlannedMove] = []
        self.waited_s = 0.0
        self._policy = policy
        self._slow = Tier(name="slow", place="slow", after_ns=None if policy == "access" else 50 * DAY_NS)
        self._heat = Heat(DAY_S)

    def go_on(self, hours: int, reading: Reading, scans: int = 0) -> float:
        """Read for so long, scan all so often an hour, move what is planned; return the mean latency, in s."""
        reads, waited_s = 0.0, 0.0
        for _ in range(hours):
            if self.hour % 24 == 0:
                self.days.append(Day(len(self.days), None))
            for day in self.days:
                day.lookups += int(reading(day.number))
                day.scans += scans
                reads += reading(day.number)
                waited_s += reading(day.number) * (FAST_S if day.place is None else SLOW_S)
            self.hour += 1
            for _ in range(MOVES_AN_HOUR):
                found = self._planned()
                if not found.moves:
                    break
                self._carry_out(found.moves[0])
        self.waited_s += waited_s
        return waited_s / max(reads, 1)

    def lies_fast(self) -> set[int]:
        """The days in the fast tier."""
        return {day.number for day in self.days if day.place is None}

    def _planned(self) -> Plan:
        partitions = [day.partition() for day in self.days]
        now_ns = self.hour * 3_600_000_000_000
        self._heat.look({"bpm": partitions}, Instant(now_ns, now_ns))
        by = Access(heats=self._heat.all(), half_life_s=DAY_S, with_age=self._policy == "both")
        found = plan(
            [FAST, self._slow],
            [GroupState(name="bpm", partitions=partitions)],
            now_ns,
            None if self._policy == "age" else by,
        )
        self._heat.want(found.wanted)
        return found

    def _carry_out(self, move: PlannedMove) -> None:
        (day,) = (day for day in self.days if str(day.number) == move.period.name)
        day.move(move.target.place)
        self.moves.append(move)


def last_month(number: int) -> float:
    """Days 25 to 34, of sixty, are read much; the others, the last week among them, little."""
    return 2000.0 if 25 <= number < 35 else 40.0


def month_before(number: int) -> float:
    return 2000.0 if 5 <= number < 15 else 40.0


@pytest.mark.parametrize("policy", ["access", "both"])
def test_a_month_that_is_read_more_than_the_last_week_lies_where_it_is_read_fast(policy: str) -> None:
    by_age, by_access = Replay("age"), Replay(policy)
    by_age.go_on(48, last_month)
    by_access.go_on(48, last_month)
    assert set(range(25, 35)) <= by_access.lies_fast()
    assert by_access.go_on(72, last_month) <= by_age.go_on(72, last_month) / 3


def test_another_pattern_is_followed_within_two_half_lives() -> None:
    by_age, by_access = Replay("age"), Replay("access")
    for replay in (by_age, by_access):
        replay.go_on(7 * 24, last_month)
        replay.go_on(2 * 24, month_before)
    assert set(range(5, 15)) <= by_access.lies_fast()
    assert by_access.go_on(24, month_before) <= by_age.go_on(24, month_before) / 3


def test_when_all_is_scanned_only_a_new_day_makes_one_move_and_none_moves_back() -> None:
    replay = Replay("access")
    replay.go_on(14 * 24, lambda number: 0.0, scans=1)
    assert {move.target.name for move in replay.moves} == {"slow"}
    assert len(replay.moves) == len(replay.days) - DAYS
    assert len({move.period for move in replay.moves}) == len(replay.moves)


@pytest.mark.parametrize("reads", [2_000, 40_000])
def test_a_reader_who_walks_through_all_days_has_no_more_copied_than_is_worth_it(reads: int) -> None:
    replay = Replay("access")
    for hour in range(7 * 24):
        replay.go_on(1, lambda number, at=hour: float(reads) if number == at % DAYS else 0.0)  # type: ignore[misc]
    back = [move for move in replay.moves if move.target.name == "fast"]
    assert len(back) * COPY_S <= replay.waited_s / PAYS
    assert (len(back) > 0) is (reads == 40_000)


def test_with_a_pattern_that_stays_nothing_moves_but_what_new_days_make_room_with() -> None:
    replay = Replay("access")
    replay.go_on(4 * 24, last_month)
    before = len(replay.moves)
    replay.go_on(10 * 24, last_month)
    assert len(replay.moves) - before == 10
    assert all(move.target.name == "slow" for move in replay.moves[before:])
