"""Heat: what counters say of reading, how it decays, and that it is known by a period's name."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.base import Partition, ReadCounters
from daemon.core.monitoring.events import Events
from daemon.core.outside import Instant, Outside
from daemon.tiers.heat import (
    CACHED,
    DAY_S,
    FILE,
    NO_READS,
    RANDOM_S,
    SCANNED_S,
    Heat,
    HeatFile,
    HeatMemory,
    Reads,
    heat_of,
    memory_of,
    reads_between,
)

LABEL = ("bpm", "20260101")
ROWS, PAGES = 20_000, 128
"""Of a table of 20,000 rows on 128 pages, PostgreSQL 18 has counted what is below."""


def counters(counted_by: int = 1, **counted: int) -> ReadCounters:
    nothing = dict.fromkeys(ReadCounters._fields, 0)
    return ReadCounters(**nothing | {"counted_by": counted_by, "rows": ROWS, "pages": PAGES} | counted)


def missed(**counted: int) -> ReadCounters:
    return counters(pages_missed=counted["pages_asked"], **counted)


def reads(**counted: int) -> Reads:
    return reads_between(counters(), missed(**counted))


@pytest.mark.parametrize(
    ("counted", "scanned", "random"),
    [
        ({"scans": 1, "scanned_rows": ROWS, "pages_asked": PAGES}, PAGES, 0),
        ({"scans": 3, "scanned_rows": ROWS, "pages_asked": PAGES}, PAGES, 0),
        ({"scans": 1, "scanned_rows": 1, "pages_asked": 2}, 1 / 156.25, 0),
        ({"lookups": 1, "fetched_rows": 1, "pages_asked": 1}, 0, 1),
        ({"lookups": 100, "fetched_rows": 100, "pages_asked": 100}, 0, 100),
        ({"lookups": 1, "fetched_rows": 1001, "pages_asked": 7}, 6.4, 0.6),
        ({"lookups": 1, "fetched_rows": 1256, "pages_asked": 8}, 8.04, 0),
    ],
    ids=["scan", "parallel scan", "first row of a scan", "one row", "rows from anywhere", "range", "BRIN"],
)
def test_scans_and_rows_from_anywhere_are_told_apart(counted: dict[str, int], scanned: float, random: float) -> None:
    found = reads(**counted)
    assert (found.scanned, found.random) == (pytest.approx(scanned, abs=0.02), pytest.approx(random, abs=0.02))
    assert found.gain_s == pytest.approx(found.scanned * SCANNED_S + found.random * RANDOM_S)


@pytest.mark.parametrize(
    "counted",
    [
        {"pages_asked": 391, "maintained": 2},
        {"pages_asked": 261},
        {"scanned_rows": 7850, "pages_asked": 50},
        {"pages_asked": 1000, "pages_missed": 1000},
    ],
    ids=["VACUUM and ANALYZE", "VACUUM, whose count is not there yet", "the mover's copy", "writing"],
)
def test_what_readers_do_not_read_does_not_count(counted: dict[str, int]) -> None:
    assert reads_between(counters(), counters(**counted)).gain_s == 0


def test_pages_that_vacuum_asks_for_do_not_make_a_range_random() -> None:
    of_a_range = {"lookups": 1, "fetched_rows": 1001, "pages_asked": 7}
    alone = reads(**of_a_range)
    beside = reads(**{**of_a_range, "pages_asked": 7 + 391, "maintained": 1})
    assert beside.random == pytest.approx(1, abs=0.01)
    assert beside.gain_s <= alone.gain_s


def test_pages_that_were_cached_weigh_less() -> None:
    asked = {"lookups": 100, "fetched_rows": 100, "pages_asked": 100}
    cached = reads_between(counters(), counters(**asked))
    half = reads_between(counters(), counters(pages_missed=50, **asked))
    assert cached.gain_s == pytest.approx(CACHED * reads(**asked).gain_s)
    assert cached.gain_s < half.gain_s < reads(**asked).gain_s


def test_counters_that_were_reset_count_nothing() -> None:
    many = counters(scans=9, scanned_rows=9 * ROWS, pages_asked=9 * PAGES, pages_missed=9 * PAGES)
    few = counters(scans=1, scanned_rows=ROWS, pages_asked=PAGES, pages_missed=PAGES)
    assert reads_between(many, few) == NO_READS


@given(
    before=st.tuples(*[st.integers(0, 10**6)] * 7),
    more=st.tuples(*[st.integers(-10, 10**6)] * 7),
    rows=st.integers(0, 10**6),
    pages=st.integers(0, 10**4),
)
def test_any_counters_give_reads_within_what_was_counted(
    before: tuple[int, ...], more: tuple[int, ...], rows: int, pages: int
) -> None:
    was = ReadCounters(1, rows, pages, *before)
    now = ReadCounters(1, rows, pages, *(a + b for a, b in zip(before, more, strict=True)))
    found = reads_between(was, now)
    grown = ReadCounters(1, rows, pages, *more)
    assert found.scanned >= 0
    assert found.random >= 0
    assert 0 <= found.missed <= 1
    assert found.random <= max(0, grown.fetched_rows) + 1e-6
    a_page = max(1.0, rows / max(1, pages))
    most = (max(0, grown.scanned_rows) + max(0, grown.fetched_rows)) / a_page
    assert found.scanned <= most + 1e-6


# --- over time ------------------------------------------------------------------------------------------------------


def partition(*counted: ReadCounters) -> dict[str, list[Partition]]:
    size: dict[str, Any] = {"rows": ROWS, "size_bytes": 1, "readings_bytes": 1}
    return {LABEL[0]: [Partition(name=LABEL[1], start_ns=0, end_ns=1, counted=counted, **size)]}


def at(seconds: float) -> Instant:
    return Instant(int(1e18 + seconds * 1e9), int(seconds * 1e9))


def scans(number: int, counted_by: int = 1) -> ReadCounters:
    asked = number * PAGES
    return counters(counted_by, scans=number, scanned_rows=number * ROWS, pages_asked=asked, pages_missed=asked)


def test_reading_at_a_steady_rate_is_as_hot_as_what_it_costs_a_day_and_halves_when_it_ends() -> None:
    heat = Heat(DAY_S)
    hours = range(20 * 24)
    for hour in hours:
        heat.look(partition(scans(hour)), at(3600 * hour))
    steady = heat.of(LABEL)
    assert steady == pytest.approx(24 * PAGES * SCANNED_S, rel=0.03)
    heat.look(partition(scans(hours[-1])), at(3600 * hours[-1] + DAY_S))
    assert heat.of(LABEL) == pytest.approx(steady / 2)


def test_a_move_keeps_heat_by_the_name_and_counts_what_the_new_table_serves_and_not_how_it_was_made() -> None:
    heat = Heat(DAY_S)
    heat.look(partition(scans(0)), at(0))
    heat.look(partition(scans(10)), at(1))
    before = heat.of(LABEL)
    heat.look(partition(scans(1, counted_by=2)), at(2))
    assert heat.of(LABEL) == pytest.approx(before, rel=1e-3)
    heat.look(partition(scans(11, counted_by=2)), at(3))
    assert heat.of(LABEL) == pytest.approx(2 * (before or 0), rel=1e-3)


def test_a_crash_of_the_server_takes_counters_and_no_heat() -> None:
    heat = Heat(DAY_S)
    for second, number in enumerate((0, 10, 0, 10)):
        heat.look(partition(scans(number)), at(second))
    assert heat.of(LABEL) == pytest.approx(20 * PAGES * SCANNED_S * 0.6931, rel=1e-3)


def test_what_was_counted_before_anybody_looked_is_of_no_known_time() -> None:
    heat = Heat(DAY_S)
    heat.look(partition(scans(10**6)), at(0))
    assert heat.of(LABEL) == 0
    assert heat.of(("bpm", "20260102")) is None


def test_a_clock_that_is_set_makes_nothing_cold() -> None:
    heat = Heat(DAY_S)
    heat.look(partition(scans(0)), at(0))
    heat.look(partition(scans(10)), at(1))
    before = heat.of(LABEL)
    heat.look(partition(scans(10)), Instant(at(1e9).utc_ns, at(2).monotonic_ns))
    assert heat.of(LABEL) == pytest.approx(before, rel=1e-3)


def test_where_a_server_does_not_count_whoever_asks_can_tell() -> None:
    heat = Heat(DAY_S)
    heat.look(partition(), at(0))
    assert heat.of(LABEL) is None
    heat.look(partition(), at(1), asked={LABEL: Reads(random=100), (LABEL[0], "never"): Reads(random=100)})
    assert heat.of(LABEL) == pytest.approx(100 * RANDOM_S * 0.6931, rel=1e-3)
    assert heat.of((LABEL[0], "never")) is None
    again = heat_of(memory_of(heat, at(1).utc_ns), DAY_S, at(1).utc_ns)
    assert again.of(LABEL) == heat.of(LABEL)


def test_where_those_who_ask_tell_what_nobody_has_read_is_cold_and_not_unknown() -> None:
    heat = Heat(DAY_S)
    heat.look(partition(), at(0), asked={})
    assert heat.of(LABEL) == 0
    assert heat.of((LABEL[0], "never")) is None


def test_heat_is_remembered_over_a_restart_with_what_was_read_meanwhile() -> None:
    heat = Heat(DAY_S)
    heat.look(partition(scans(0)), at(0))
    heat.want({LABEL})
    heat.look(partition(scans(10)), at(60))
    memory = HeatMemory.model_validate_json(memory_of(heat, at(60).utc_ns).model_dump_json())
    again = heat_of(memory, DAY_S, at(60 + DAY_S).utc_ns)
    assert again.of(LABEL) == pytest.approx((heat.of(LABEL) or 0) / 2)
    assert again.all()[LABEL].wanted_s == 60
    again.look(partition(scans(15)), at(0))
    # Of five of the ten scans a half is left; the five others were at some time of that day.
    assert again.of(LABEL) == pytest.approx((5 + 5 * 0.7213) * PAGES * SCANNED_S * 0.6931, rel=1e-3)
    assert again.all()[LABEL].wanted_s == 60, "a restart is no break"


def test_what_was_read_while_nobody_looked_is_as_hot_as_if_somebody_had() -> None:
    heat, begun = Heat(DAY_S), Heat(DAY_S)
    begun.look(partition(scans(0)), at(0))
    restarted = heat_of(memory_of(begun, at(0).utc_ns), DAY_S, at(40 * DAY_S).utc_ns)
    for hour in range(40 * 24 + 1):
        heat.look(partition(scans(hour)), at(3600 * hour))
    for found in (begun, restarted):
        found.look(partition(scans(40 * 24)), at(40 * DAY_S))
        assert found.of(LABEL) == pytest.approx(heat.of(LABEL), rel=0.03)


@pytest.mark.parametrize("days", [365, -365, 1e5])
def test_a_clock_that_is_wrong_at_a_restart_leaves_heat_and_its_order(days: float) -> None:
    heat = Heat(DAY_S)
    heat.look(partition(scans(0)), at(0))
    heat.look(partition(scans(10)), at(60))
    again = heat_of(memory_of(heat, at(60).utc_ns), DAY_S, at(60 + days * DAY_S).utc_ns)
    assert (heat.of(LABEL) or 0) / 4 <= (again.of(LABEL) or 0) <= (heat.of(LABEL) or 0)


def counted_by_hand(**more: int) -> list[int]:
    return [*counters(**more)]


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 1, "at_ns": 5, "gro',
        "",
        '{"version": 2}',
        "null",
        "[" * 100_000,
        '{"at_ns": NaN}',
        f'{{"at_ns": {10**400}}}',
        f'{{"at_ns": -{10**400}}}',
        f'{{"at_ns": {2**63}}}',
        *(
            json.dumps({"groups": {"bpm": {"20260101": {"s_a_day": 1.0, "wanted_s": 0.0, "counted": []} | more}}})
            for more in (
                {"s_a_day": math.nan},
                {"s_a_day": math.inf},
                {"s_a_day": -1.0},
                {"s_a_day": 1.7e308},
                {"wanted_s": 1.7e308},
                {"counted": [counted_by_hand(fetched_rows=-(10**400))]},
                {"counted": [counted_by_hand(pages_asked=10**400)]},
                {"counted": [[1, 2, 3]]},
            )
        ),
    ],
)
async def test_a_file_that_cannot_be_used_is_told_in_one_line_and_all_begins_as_cold(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    events = Events()
    file = HeatFile(tmp_path, Outside.real(), events)
    heat = heat_of(await file.load(), DAY_S, at(0).utc_ns)
    heat.look(partition(scans(0)), at(0))
    assert heat.of(LABEL) == 0
    (told,) = events.newest()
    assert "heat.json cannot be used" in told.text
    assert told.text.endswith("all partitions begin as cold")
    assert "\n" not in told.text
    await file.save(memory_of(heat, at(0).utc_ns))
    assert LABEL[1] in (await file.load()).groups[LABEL[0]]


def test_what_is_wanted_has_to_be_so_without_a_break() -> None:
    heat = Heat(DAY_S)
    heat.look(partition(scans(0)), at(0))
    for second in (1, 2, 3):
        heat.want({LABEL})
        heat.look(partition(scans(0)), at(second))
    assert heat.all()[LABEL].wanted_s == 3
    heat.want(())
    heat.look(partition(scans(0)), at(4))
    assert heat.all()[LABEL].wanted_s == 0


def test_what_lies_out_of_line_does_not_count_where_we_have_copied_it() -> None:
    heat = Heat(DAY_S)

    def rows(number: int, counted_by: int) -> ReadCounters:
        return counters(counted_by, lookups=number, fetched_rows=number, pages_asked=number)

    found = []
    for second, own in enumerate([(), {LABEL}, ()]):
        heat.look(partition(*(rows(100 * second, of) for of in (1, 2))), at(second), own=own)
        found.append(heat.of(LABEL))
    of_100 = 100 * CACHED * RANDOM_S * 0.6931
    assert found == [0, pytest.approx(of_100, rel=1e-2), pytest.approx(3 * of_100, rel=1e-2)]


def test_a_scan_that_is_begun_beside_our_copy_does_not_make_its_rows_a_readers() -> None:
    heat = Heat(DAY_S)
    heat.look(partition(counters()), at(0))
    # A reader had one row, and we had all of them.
    beside = missed(scans=1, scanned_rows=ROWS + 1, pages_asked=PAGES + 2)
    heat.look(partition(beside), at(60), own={LABEL})
    assert heat.of(LABEL) == 0
    heat.look(partition(beside._replace(scans=2, scanned_rows=2 * ROWS + 1)), at(120))
    assert heat.of(LABEL) == pytest.approx(CACHED * PAGES * SCANNED_S * 0.6931, rel=1e-2)


def test_what_is_there_no_more_is_forgotten() -> None:
    heat = Heat(DAY_S)
    heat.look(partition(scans(0)), at(0))
    heat.look({LABEL[0]: []}, at(1))
    assert heat.of(LABEL) is None
