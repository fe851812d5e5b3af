"""Figures from constructed records."""

from typing import Any

import pytest

from daemon.workloads.snapshots.board import figures, rate_between, slipped
from schemas.api.snapshots import SnapshotCycles, SnapshotSample, SnapshotSettings

SETTINGS = SnapshotSettings(clients=2, chunk_s=5, cycles=3, scale=0.1)
"""Cycles of 1 s, clients 0.5 s apart."""


def cycles(*rows: tuple[int, int, float, float, bool, bool]) -> SnapshotCycles:
    """Client, number, due_s, query_s, whether in time, whether failed; each waits and connects for 0.1 s."""
    found = SnapshotCycles()
    for client, number, due_s, query_s, in_time, failed in rows:
        values: dict[str, Any] = {"client": client, "number": number, "due_s": due_s, "wait_s": 0.1, "connect_s": 0.1}
        values |= {"query_s": query_s, "rows": 0 if failed else 100, "bytes": 0 if failed else 1000}
        values |= {"in_time": in_time, "failed": failed}
        for name, value in values.items():
            getattr(found, name).append(value)
    return found


def sample(t_s: float, **values: float | None) -> SnapshotSample:
    given: dict[str, Any] = {"read_rate": None, "hit_rate": None, "server_percent": None, "clients_percent": None}
    zero = dict.fromkeys(("reading", "late", "row_rate", "byte_rate", "in_time", "ended", "machine_percent"), 0)
    return SnapshotSample(t_s=t_s, **zero, **(given | values))


def test_nothing_is_said_of_a_run_without_cycles() -> None:
    found = figures(SETTINGS, SnapshotCycles(), [])
    assert (found.cycles, found.in_time, found.failed, found.slipped_s) == (0, 0, 0, 0.0)
    unknown = ("efficiency", "p50_s", "p90_s", "max_s", "row_rate", "blocks_read", "server_percent", "machine_percent")
    assert [getattr(found, name) for name in unknown] == [None] * len(unknown)


def test_efficiency_is_of_cycles_that_ended_and_failures_are_not_in_time() -> None:
    found = figures(
        SETTINGS,
        cycles(
            (0, 0, 0.0, 0.3, True, False),
            (1, 0, 0.5, 1.8, False, False),
            (0, 1, 1.0, 0.1, False, True),
            (0, 2, 2.0, 0.2, True, False),
            (1, 1, 2.5, 0.4, True, False),
        ),
        [sample(1.0, read_rate=10.0, server_percent=50.0), sample(4.0, read_rate=30.0, server_percent=10.0)],
    )
    assert (found.cycles, found.in_time, found.failed) == (5, 3, 1)
    assert found.efficiency == pytest.approx(0.6)
    # Client 1 was due at 0.5 + 1 s, and came 1 s later.
    assert found.slipped_s == pytest.approx(1.0)
    assert found.p50_s == pytest.approx(0.55)
    assert found.max_s == pytest.approx(2.0)
    # 400 rows until 3.1 s, 100 blocks for 4 answers.
    assert found.row_rate == pytest.approx(400 / 3.1)
    assert found.blocks_read == pytest.approx(25.0)
    assert found.blocks_hit is None
    assert found.server_percent == pytest.approx(20.0)


def test_a_client_has_slipped_as_far_as_its_last_cycle_shows() -> None:
    late = cycles((0, 0, 0.0, 5, False, False), (0, 1, 5.2, 9, False, False), (1, 0, 0.5, 0.1, True, False))
    assert slipped(SETTINGS, late).tolist() == pytest.approx([4.2, 0.0])


def test_growth_is_unknown_where_one_end_is_or_where_the_server_began_again() -> None:
    assert rate_between(1.0, 5.0, 2.0) == 2.0
    assert rate_between(None, 5.0, 2.0) is None
    assert rate_between(1.0, None, 2.0) is None
    assert rate_between(5.0, 1.0, 2.0) is None
