"""`triggerlog drill`: what it counts, what it refuses, and a short one against real servers."""

import asyncio
import json
import math
import os
import re
import signal
from pathlib import Path

import asyncpg
import numpy as np
import pytest

from backends.throwaway.postgresql import ThrowawayPostgresql
from daemon.tools.drill.command import Result
from daemon.tools.drill.drills import DRILLS
from daemon.tools.drill.machine import ClockStep, DrillFailed, Machine
from daemon.tools.drill.system import Count, Recovery, Tally, Target, running_system, windows
from schemas.ledger import ledger_dtype, pack_missing
from schemas.queries import answer_dtype
from schemas.readings import Array
from tests.support.processes import here, triggerlog

MACHINE = Machine(instruments=4, rate=100.0, start_ns=1_800_000_000_000_000_000)


def found(machine: Machine, *readings: tuple[int, int]) -> Array:
    """Readings (event, instrument) as a store gives them back."""
    sent = np.zeros(len(readings), machine.group.record)
    machine.fill(sent, np.array([t for t, _ in readings]), np.array([i for _, i in readings]))
    answer = np.zeros(len(readings), answer_dtype(machine.group))
    for name in answer.dtype.names:
        if name in sent.dtype.names:
            answer[name] = sent[name]
    return answer


def ledger(**arrived: int) -> Array:
    """Ledger rows: t1=4 is a row of trigger 1 with 4 arrived, the first four."""
    rows = np.zeros(len(arrived), ledger_dtype(4))
    for row, (name, count) in zip(rows, arrived.items(), strict=True):
        row["trigger"], row["arrived"] = int(name[1:]), count
        row["missing"] = pack_missing(np.arange(4) < count)
    return rows


EVERYTHING = [(t, i) for t in (1, 2) for i in range(4)]


class TestCount:
    def tally(self, *readings: tuple[int, int], rows: Array, acknowledged: int = 8, change=None):
        sent = np.zeros((3, 4), bool)
        sent[:2] = True
        acked = np.zeros((3, 4), bool)
        acked.reshape(-1)[:acknowledged] = True
        tally = Tally(MACHINE, sent, acked)
        answer = found(MACHINE, *readings)
        if change is not None:
            change(answer)
        tally.add(answer[:3])
        tally.add(answer[3:])
        return tally.count(rows)

    def test_nothing_wrong(self) -> None:
        count = self.tally(*EVERYTHING, rows=ledger(t1=4, t2=4))
        assert (count.found, count.faults) == (8, {})

    def test_what_was_acknowledged_and_is_not_there_is_lost(self) -> None:
        count = self.tally(*EVERYTHING[:-2], rows=ledger(t1=4, t2=2), acknowledged=7)
        assert (count.found, count.faults) == (6, {"lost": 1})

    def test_doubled_in_another_run_too(self) -> None:
        def other_run(answer: Array) -> None:
            answer["run"][-1] = 2

        count = self.tally(*EVERYTHING, (2, 3), rows=ledger(t1=4, t2=4), change=other_run)
        assert (count.found, count.faults) == (8, {"doubled": 1, "misplaced": 1})

    def test_in_another_run_alone(self) -> None:
        def other_run(answer: Array) -> None:
            answer["run"][-1] = 2

        faults = self.tally(*EVERYTHING, rows=ledger(t1=4, t2=4), change=other_run).faults
        assert faults == {"misplaced": 1}

    @pytest.mark.parametrize("field", ["time_ns", "top_in", "top_out"])
    def test_altered(self, field: str) -> None:
        def alter(answer: Array) -> None:
            answer[field][5] += 1

        assert self.tally(*EVERYTHING, rows=ledger(t1=4, t2=4), change=alter).faults == {"altered": 1}

    @pytest.mark.parametrize("reading", [(0, 1), (4, 1), (3, 0), (-5, 0), (2**40, 0)])
    def test_never_sent(self, reading: tuple[int, int]) -> None:
        rows = ledger(t1=4, t2=4, t3=1) if reading[0] == 3 else ledger(t1=4, t2=4)
        assert self.tally(*EVERYTHING, reading, rows=rows).faults == {"strange": 1}

    @pytest.mark.parametrize(
        "rows",
        [
            ledger(t1=4),
            ledger(t1=4, t2=3),
            ledger(t1=4, t2=4, t9=1),
            np.concatenate([ledger(t1=4, t2=4), ledger(t2=4)]),
        ],
    )
    def test_a_ledger_that_tells_something_else(self, rows: Array) -> None:
        assert self.tally(*EVERYTHING, rows=rows).faults == {"unledgered": 1}


class TestRuns:
    """Three runs of two events each, with the same trigger numbers."""

    def machine(self) -> Machine:
        machine = Machine(instruments=4, rate=100.0, start_ns=1_800_000_000_000_000_000, epochs=True)
        machine.runs.restart(3)
        machine.runs.restart(5)
        return machine

    def tally(self, machine: Machine, runs: list[int]) -> Count:
        """Every reading of all six events; their runs in the store."""
        events = np.repeat(np.arange(1, 7), 4)
        answer = found(machine, *zip(events.tolist(), np.tile(np.arange(4), 6).tolist(), strict=True))
        answer["run"] = np.repeat(runs, 4)
        rows = np.concatenate([ledger(t1=4, t2=4)] * 3)
        rows["run"] = runs
        all_of_it = np.ones((6, 4), bool)
        tally = Tally(machine, all_of_it, all_of_it)
        tally.add(answer)
        return tally.count(rows)

    def test_each_has_a_run_of_its_own(self) -> None:
        machine = self.machine()
        assert machine.runs.trigger(np.arange(1, 7)).tolist() == [1, 2, 1, 2, 1, 2]
        block = np.zeros(1, machine.group.record)
        machine.fill(block, 6, np.array([2]))
        assert (block["trigger"][0], block["epoch"][0]) == (2, 3)
        count = self.tally(machine, [7, 7, 9, 9, 12, 12])
        assert (count.found, count.faults) == (24, {})

    def test_two_in_one_run_of_the_store(self) -> None:
        assert self.tally(self.machine(), [7, 7, 9, 9, 9, 9]).faults["misplaced"] == 8

    def test_one_in_two_runs_of_the_store(self) -> None:
        assert self.tally(self.machine(), [7, 7, 9, 9, 12, 13]).faults == {"misplaced": 4}


def test_some_readings_are_never_taken_and_every_event_has_one() -> None:
    machine = Machine(instruments=8, rate=100.0, start_ns=0, absent=0.3)
    taken = machine.taken(np.arange(1, 2001)[:, None], np.arange(8))
    assert 0.6 < taken.mean() < 0.8
    assert taken.any(axis=1).all()
    assert (taken.mean(axis=0) > 0.6).all()
    assert [machine.taken(event, np.arange(8)).tolist() for event in (1, 17)] == taken[[0, 16]].tolist()
    assert Machine(instruments=8, rate=1.0, start_ns=0).taken(np.arange(9)[:, None], np.arange(8)).all()


def test_windows_are_all_of_time_once() -> None:
    found = list(windows(MACHINE, 50_000))
    assert len(found) == 3
    assert found[0][0] < -(2**62)
    assert found[-1][1] > 2**62
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
    assert len(list(windows(MACHINE, 10))) == 1


def test_a_stepped_clock_is_no_altered_reading() -> None:
    machine = Machine(instruments=4, rate=100.0, start_ns=0, clock_step=ClockStep(instrument=1, event=2, by_ns=500))
    answer = found(machine, *EVERYTHING)
    assert machine.matches(machine.events(answer), answer).all()
    assert (answer["time_ns"] - found(MACHINE, *EVERYTHING)["time_ns"] + MACHINE.start_ns).tolist() == [
        *(0, 0, 0, 0),
        *(0, 500, 0, 0),
    ]


def test_a_drill_that_did_not_end_has_not_passed() -> None:
    assert Result(name="x", title="x", skipped="no server").passed
    assert not Result(name="x", title="x", problem="the daemon does not start").passed
    assert not Result(name="x", title="x", sent=10, acknowledged=9).passed
    assert not Result(name="x", title="x", sent=10, acknowledged=10, refused=1).passed
    assert Result(name="x", title="x", sent=10, acknowledged=10).worst("first_s") is None


def test_a_drill_that_did_not_recover_has_not_passed() -> None:
    recovered = Recovery(first_s=1.0, drained_s=2.0)
    of_two = Result(name="x", title="x", failures=2, recoveries=(recovered,))
    assert of_two.faults == ["1 recoveries after 2 failures"]
    assert Result(name="x", title="x", failures=1, recoveries=(recovered,)).passed


async def test_it_finds_what_somebody_took_out_of_the_database(state_dir: Path, tmp_path: Path) -> None:
    server = ThrowawayPostgresql(state_dir)
    target = Target(settings={"dsn": await asyncio.to_thread(server.start)}, server=server)
    machine = Machine(instruments=4, rate=100.0, start_ns=1_800_000_000_000_000_000)
    try:
        async with running_system(target, machine, tmp_path, schema="drill") as system:
            await system.until(lambda: system.load.acknowledged > 100, "some are acknowledged")
            count = await system.finish()
            assert (count.found, count.faults) == (system.load.sent, {})
            connection = await asyncpg.connect(target.settings["dsn"])
            await connection.execute("DELETE FROM drill.drill WHERE trigger_id = 3 AND instrument = 2")
            await connection.close()
            assert (await system.count()).faults == {"lost": 1, "unledgered": 1}
    finally:
        await asyncio.to_thread(server.stop)


async def test_a_daemon_that_ended_is_noticed_and_explained(tmp_path: Path) -> None:
    async def kill() -> None:
        async with running_system(Target(settings={}), MACHINE, tmp_path, schema="drill") as system:
            await system.until(lambda: system.load.acknowledged > 0, "some are acknowledged")
            os.kill(system.daemon.pid, signal.SIGKILL)
            await system.until(lambda: False, "nothing")

    with pytest.raises(DrillFailed, match="the daemon was ended by SIGKILL") as failed:
        await kill()
    (note,) = failed.value.__notes__
    # Into the journal first, where the database takes more than a second to start.
    assert "INFO    triggerlog: taking readings " in note
    assert '"severity":"info","text":"taking readings ' in note
    sender = r"drill-0: \d+ readings up to event \d+ sent, \d+ acknowledged \(committed\), 0 refused, 0 reconnects; "
    assert re.search(sender, note), note


def test_a_folder_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    ended = triggerlog("drill", TMPDIR=str(folder))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "too long a name for a socket in it; use a shorter one (TMPDIR)" in ended.stderr
    assert not list(folder.iterdir())


@pytest.mark.slow
def test_a_short_drill_on_a_throw_away_server(state_dir: Path) -> None:
    """Kills of one alone are in test_crashes, outages in test_journal_daemon: these are the other rows."""
    names = ["both-killed", "hang", "full-disk", "slow-instrument", "clock-step", "restart", "garbage"]
    assert {drill.name for drill in DRILLS} - set(names) == {"daemon-killed", "database-killed", "outage"}
    options = ["--instruments", "8", "--rate", "40", "--seconds", "0.6", "--json"]
    folder = state_dir.parent
    ended = triggerlog("drill", *options, *(f"--only={name}" for name in names), timeout_s=500, TMPDIR=str(folder))
    assert ended.returncode == 0, ended.stderr
    results = json.loads(ended.stdout)["drills"]
    assert [result["name"] for result in results] == names
    for result in results:
        assert result["passed"], result
        assert result["skipped"] is None
        assert result["sent"] == result["acknowledged"] == result["count"]["found"] > 0
        assert len(result["recoveries"]) == result["failures"]
        for recovery in result["recoveries"]:
            assert 0 < recovery["first_s"] <= recovery["drained_s"] < math.inf
    assert [result["failures"] for result in results] == [1, 1, 1, 0, 3, 3, 0]
    assert not list(folder.iterdir())


def test_a_named_database_is_not_touched_without_a_word(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text('[[groups]]\nname = "bpm"\ncount = 4\nchannels = [{ name = "x" }]\n')
    ended = here("drill", "--config", str(file))
    assert ended.returncode == 1
    assert "database.dsn:" in ended.stderr
    assert "names no database; leave --config out" in ended.stderr
    file.write_text(file.read_text() + '[database]\ndsn = "postgresql://me@db:5432/logs"\n')
    ended = here("drill", "--config", str(file))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "readings would be written into postgresql://me@db:5432/logs" in ended.stderr
    assert "add --yes-i-mean-this-database to confirm" in ended.stderr


def test_a_drill_that_there_is_none_of() -> None:
    ended = here("drill", "--only", "earthquake")
    assert ended.returncode == 1
    assert "--only: there is no drill 'earthquake'; there are daemon-killed, " in ended.stderr
