"""How clients are, by what they said and the time."""

from typing import Any

import pytest

from daemon.workloads.snapshots.board import Board
from daemon.workloads.snapshots.looks import Look
from daemon.workloads.snapshots.messages import Asking, Done, Reading
from schemas.api.snapshots import SnapshotSettings

BEGIN_S = 1000.0
SETTINGS = SnapshotSettings(clients=3, chunk_s=10, cycles=2, scale=0.1, processing_s=10)
"""Cycles of 3 s, of which processing takes 1 s."""


def done(client: int, number: int, due_s: float, **changes: Any) -> Done:
    given = {"wait_s": 0.0, "connect_s": 0.0, "query_s": 0.5, "rows": 10, "bytes": 100, "in_time": True}
    return Done(
        client=client, number=number, due_s=BEGIN_S + due_s, **(given | {"process": client, "cpu_s": 0.1} | changes)
    )


def look(at_s: float, **values: Any) -> Look:
    given: dict[str, Any] = {"read": None, "hit": None, "server_s": None, "busy_s": at_s, "all_s": 2 * at_s}
    return Look(at_s=BEGIN_S + at_s, **(given | values))


def states(board: Board, at_s: float) -> str:
    return board.tick(BEGIN_S + at_s, None).states


def test_a_client_connects_reads_processes_waits_and_ends() -> None:
    board = Board(SETTINGS, BEGIN_S)
    assert states(board, 0) == "nnn"
    board.take(Asking(client=0, due_s=BEGIN_S), BEGIN_S + 0.1)
    assert states(board, 0.1) == "cnn"
    board.take(Reading(client=0, percent=40), BEGIN_S + 0.2)
    tick = board.tick(BEGIN_S + 0.3, None)
    assert (tick.states, tick.progress, tick.read, tick.started) == ("rnn", (10, 0, 0), (40, 0, 0), 1)
    board.take(done(0, 0, 0.0), BEGIN_S + 0.5)
    assert states(board, 0.6) == "pnn"
    assert states(board, 1.6) == "wnn"
    board.take(done(0, 1, 3.0), BEGIN_S + 3.5)
    assert states(board, 4.0) == "enn"
    assert board.ended == 2


def test_a_client_is_late_when_what_is_left_of_its_cycle_is_needed_for_processing() -> None:
    board = Board(SETTINGS, BEGIN_S)
    board.take(Asking(client=1, due_s=BEGIN_S + 1), BEGIN_S + 1)
    board.take(Reading(client=1, percent=0), BEGIN_S + 1)
    assert states(board, 2.9) == "nrn"
    assert states(board, 3.1) == "nln"
    assert board.tick(BEGIN_S + 7, None).progress[1] == 200
    assert board.tick(BEGIN_S + 700, None).progress[1] == 999


def test_a_failure_is_told_for_a_while_and_its_cycle_has_failed() -> None:
    board = Board(SETTINGS, BEGIN_S)
    board.take(done(2, 0, 2.0, problem="the database is away", in_time=False, rows=0, bytes=0), BEGIN_S + 3)
    tick = board.tick(BEGIN_S + 3.5, None)
    assert (tick.states, tick.problem) == ("nnf", "the database is away")
    assert (tick.cycles.failed, tick.cycles.in_time, tick.cycles.due_s) == ([True], [False], [2.0])
    later = board.tick(BEGIN_S + 14, None)
    assert (later.problem, len(later.cycles)) == (None, 0)


def test_samples_have_what_came_between_two_looks() -> None:
    board = Board(SETTINGS, BEGIN_S)
    board.take(done(0, 0, 0.0, cpu_s=0.3), BEGIN_S + 0.5)
    board.take(done(1, 0, 1.0, cpu_s=0.1, in_time=False), BEGIN_S + 1.5)
    board.take(Asking(client=2, due_s=BEGIN_S), BEGIN_S + 1.5)
    first = board.sample(look(0, read=5.0, hit=1.0, server_s=1.0), look(2, read=25.0, hit=2.0, server_s=2.0))
    assert (first.t_s, first.row_rate, first.byte_rate, first.in_time, first.ended) == (2.0, 10.0, 100.0, 1, 2)
    assert (first.read_rate, first.hit_rate, first.server_percent) == (10.0, 0.5, 50.0)
    assert first.clients_percent == pytest.approx(20.0)
    assert first.machine_percent == pytest.approx(50.0)
    assert (first.reading, first.late) == (1, 0)
    board.take(done(0, 1, 3.0, cpu_s=0.4), BEGIN_S + 3.5)
    second = board.sample(look(2, read=25.0), look(4, read=3.0))
    assert second.clients_percent == pytest.approx(5.0)
    assert (second.read_rate, second.server_percent, second.ended, second.late) == (None, None, 1, 1)
