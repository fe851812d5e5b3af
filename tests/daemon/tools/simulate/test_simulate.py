"""The simulation: the plan as pure arrays, the account, and the client against real sockets and processes."""

import asyncio
import json
import signal
import socket
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.client.sender import SenderError
from daemon.tools.simulate import SettingsError, SimulateSettings, Step, simulate
from daemon.tools.simulate.plan import COPY, LATE, STUCK, SWAPPED, Numbering, chunks, dealt, rounds, shares
from daemon.tools.simulate.report import Account
from daemon.tools.simulate.stream import record_bank
from schemas.ledger import unpack_missing
from schemas.readings import Array
from schemas.wire import Answer, ProtocolError, parse_datagram
from tests.support.listening import BPM, TOROID, eventually, listening
from tests.support.processes import free_port, triggerlog

ALL_FAULTS = {
    "jitter_ms": 12.0,
    "missing": 0.02,
    "late": 0.03,
    "late_by_ms": 150.0,
    "duplicated": 0.04,
    "out_of_order": 0.05,
    "stuck": 5,
    "stuck_from": 20,
}


def planned(wanted: SimulateSettings, instruments: int, connections: int) -> Array:
    return np.concatenate([c.readings for c in chunks(wanted, instruments=instruments, connections=connections)])


def of_connection(readings: Array, connection: int) -> Array:
    return readings[readings["connection"] == connection]


def test_the_same_seed_plans_the_same_and_another_one_differs() -> None:
    first, same, other = (planned(SimulateSettings(triggers=300, seed=s, **ALL_FAULTS), 24, 3) for s in (7, 7, 8))
    assert np.array_equal(first, same)
    assert not np.array_equal(first["due_ns"][:1000], other["due_ns"][:1000])


def test_the_plan_has_the_fractions_that_were_asked_for() -> None:
    readings = planned(SimulateSettings(triggers=2000, rate=1000, **ALL_FAULTS), 50, 5)
    original = readings[readings["kind"] & COPY == 0]
    sent = len(original)
    assert sent == pytest.approx(0.98 * 100_000, rel=0.01)
    assert np.count_nonzero(original["kind"] & LATE) == pytest.approx(0.03 * sent, rel=0.1)
    assert len(readings) - sent == pytest.approx(0.04 * sent, rel=0.1)
    # A pair takes two places, and none begins in another: 0.05 * 0.95, less pairs that would reach past a late one.
    assert np.count_nonzero(readings["kind"] & SWAPPED) == pytest.approx(0.0475 * sent, rel=0.15)
    stuck = original[original["kind"] & STUCK != 0]
    assert set(stuck["instrument"]) == {5}
    assert set(stuck["target"]) == {20}
    assert np.all(stuck["index"] > 20)


@settings(max_examples=40, deadline=None)
@given(
    instruments=st.integers(1, 30),
    connections=st.integers(1, 30),
    triggers=st.integers(1, 120),
    rate=st.sampled_from([0.0, 10.0, 1000.0]),
    jitter=st.sampled_from([0.0, 30.0]),
    late=st.sampled_from([0.0, 0.2]),
    out_of_order=st.sampled_from([0.0, 0.5]),
)
def test_every_reading_is_planned_once_and_in_its_time(
    instruments: int, connections: int, triggers: int, rate: float, jitter: float, late: float, out_of_order: float
) -> None:
    connections = min(connections, instruments)
    wanted = SimulateSettings(
        triggers=triggers, rate=rate, jitter_ms=jitter, late=late, late_by_ms=70, out_of_order=out_of_order
    )
    readings = planned(wanted, instruments, connections)
    assert Counter(zip(readings["index"].tolist(), readings["instrument"].tolist(), strict=True)) == Counter(
        (index, instrument) for index in range(triggers) for instrument in range(instruments)
    )
    assert np.array_equal(readings["connection"], dealt(instruments, connections)[readings["instrument"]])
    delay = readings["due_ns"] - Numbering.of(wanted).time_ns(readings["index"])
    assert np.all(delay >= 0), "nothing is sent before its trigger"
    assert np.all(delay[readings["kind"] & LATE != 0] >= 70e6)
    for connection in range(connections):
        assert np.all(np.diff(of_connection(readings, connection)["due_ns"]) >= 0)


def test_a_swapped_reading_goes_right_after_its_neighbour() -> None:
    readings = planned(SimulateSettings(triggers=500, out_of_order=0.2), 3, 3)
    for connection in range(3):
        mine = of_connection(readings, connection)
        back = np.flatnonzero(np.diff(mine["index"]) < 0)
        assert np.array_equal(back + 1, np.flatnonzero(mine["kind"] & SWAPPED))
        assert np.all(np.diff(mine["index"])[back] == -1)


def test_rounds_and_shares_cover_everything_in_order() -> None:
    readings = planned(SimulateSettings(triggers=50, jitter_ms=8), 12, 4)[:500]
    pieces = [(a + c, a + d) for a, b in rounds(readings) for c, d in shares(readings[a:b])]
    assert [a for a, _ in pieces] == [0, *(b for _, b in pieces[:-1])]
    assert pieces[-1][1] == len(readings)
    assert all(len(set(readings["connection"][a:b])) == 1 for a, b in pieces)
    assert rounds(readings[:0]) == []


def test_numbers_start_again_with_a_new_run() -> None:
    numbering = Numbering.of(SimulateSettings(first_trigger=1000, restart_after=4, restart_pause_ms=5, rate=1000))
    index = np.arange(10)
    assert numbering.trigger(index).tolist() == [1000, 1001, 1002, 1003, 1, 2, 3, 4, 1, 2]
    assert numbering.run(index).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert np.diff(numbering.time_ns(index)).tolist() == [1_000_000] * 3 + [6_000_000] + [1_000_000] * 3 + [
        6_000_000,
        1_000_000,
    ]
    assert not numbering.epoch(index).any()


@pytest.mark.parametrize("faults", [{}, {"duplicated": 0.5}])
async def test_an_epoch_is_sent_and_grows_with_each_restart_of_the_numbers(faults: dict) -> None:
    async with listening(BPM) as listener:
        await simulate(SimulateSettings(port=listener.port, rate=0, triggers=5, restart_after=2, epoch=40, **faults))
    sent = np.unique(listener.records[["epoch", "trigger"]]).tolist()
    assert sent == [(40, 1), (40, 2), (41, 1), (41, 2), (42, 1)]


@pytest.mark.parametrize("sessions", [True, False])
async def test_senders_have_sessions_unless_they_are_not_wanted(sessions: bool) -> None:
    async with listening(BPM) as listener:
        settings = SimulateSettings(port=listener.port, rate=0, triggers=5, connections=2, sessions=sessions)
        report = await simulate(settings)
    assert report.settled
    assert [connection.greeting.session is not None for connection in listener.connections] == [sessions] * 2


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 8)), max_size=300), st.lists(st.integers(0, 400), max_size=5)
)
def test_the_account_agrees_with_counting_by_hand(sendings: list[tuple[int, int]], settlings: list[int]) -> None:
    account = Account(9, keep=True)
    sendings.sort()
    for part in np.array_split(np.array(sendings, int).reshape(-1, 2), 5):
        account.add(part[:, 0], part[:, 1])
        # What is still to come is never before what came, as a plan promises.
        account.settle(min(settlings.pop() if settlings else 0, int(part[0, 0]) if len(part) else 0))
    again = [(sendings[0][0], 3)] if sendings else []
    account.settle(account.triggers)
    for index, instrument in again:
        account.add(np.array([index]), np.array([instrument]))
    rows = account.rows(Numbering.of(SimulateSettings()))
    counts, distinct = Counter(index for index, _ in sendings + again), set(sendings)
    assert rows.sent.tolist() == [counts[index] for index in range(account.triggers)]
    there = ~unpack_missing(rows.missing, 9) if len(rows.sent) else np.zeros((0, 9), bool)
    assert {(int(a), int(b)) for a, b in zip(*np.nonzero(there), strict=True)} == distinct
    assert account.distinct == len(distinct) == rows.distinct.sum()


@pytest.mark.parametrize("group", [BPM, TOROID])
def test_values_are_those_of_a_machine(group) -> None:
    bank = record_bank(Answer(group=group.name, record=group.record, instruments=group.size), seed=3, multiple_of=5)
    assert len(bank) % 5 == 0
    first = bank[group.channels[0].name].astype(float)
    assert 0.2 < np.abs(first).max() < 10
    step, spread = np.abs(np.diff(first, axis=0)).mean(), np.abs(first - first.mean()).mean()
    assert 0 < step < 0.2 * spread, "from one trigger to the next an orbit moves little, but it does move"


def check_account(records: Array, report, name: str, path) -> None:
    """The account file says exactly what the listener received."""
    instruments = next(g.instruments for g in report.groups if g.group == name)
    with np.load(path) as file:
        rows = {key: file[f"{name}.{key}"] for key in ("run", "trigger", "sent", "distinct", "missing")}
    received = Counter(records["trigger"].tolist())
    assert {t: n for t, n in zip(rows["trigger"].tolist(), rows["sent"].tolist(), strict=True) if n} == dict(received)
    trigger, instrument = np.nonzero(~unpack_missing(rows["missing"], instruments))
    accounted = set(zip(rows["trigger"][trigger].tolist(), instrument.tolist(), strict=True))
    assert accounted == set(zip(records["trigger"].tolist(), records["instrument"].tolist(), strict=True))
    assert rows["distinct"].sum() == len(accounted)


@pytest.mark.parametrize("connections", [1, 7, "each"])
async def test_what_is_reported_is_what_arrives(connections, tmp_path) -> None:
    path = tmp_path / "account.npz"
    async with listening(BPM) as listener:
        wanted = SimulateSettings(
            port=listener.port, rate=200, triggers=100, connections=connections, account=path, **ALL_FAULTS
        )
        report = await simulate(wanted)
        (group,) = report.groups
        records = listener.records
    assert len(listener.connections) == group.connections == (120 if connections == "each" else connections)
    assert group.sent == group.acknowledged == len(records)
    assert group.triggers == 100
    assert (group.distinct, group.missing) == (
        len(np.unique(records[["trigger", "instrument"]])),
        12_000 - group.distinct,
    )
    assert group.duplicated == group.sent - group.distinct > group.stuck > 50
    assert group.late > 200
    assert group.out_of_order > 100
    assert 0 < group.triggers_a_second < 240  # never faster than asked; slower where the machine is
    assert report.settled
    assert report.problems == ()
    check_account(records, report, "bpm", path)
    text = report.render()
    assert f"{group.distinct:,}  of 12,000 expected" in text
    assert json.loads(report.to_json())["groups"][0]["sent"] == group.sent


async def test_slips_and_clock_steps_begin_when_asked_and_the_account_stays_exact(tmp_path) -> None:
    path = tmp_path / "account.npz"
    async with listening(BPM) as listener:
        wanted = SimulateSettings(
            port=listener.port,
            rate=200,
            triggers=100,
            slips=(Step(instrument=3, size=-7, from_s=0.1), Step(instrument=4, size=5, from_s=0.2)),
            clock_steps=(Step(instrument=5, size=-37.5, from_s=0.25),),
            account=path,
        )
        report = await simulate(wanted)
        records = listener.records
    by_instrument = {i: records[records["instrument"] == i] for i in range(8)}
    off = {i: (mine["trigger"] - by_instrument[0]["trigger"]).tolist() for i, mine in by_instrument.items()}
    assert off[3] == [0] * 20 + [-7] * 80
    assert off[4] == [0] * 40 + [5] * 60
    assert off[5] == [0] * 100
    stamps = (by_instrument[5]["time_ns"] - by_instrument[0]["time_ns"]) / 1e6
    assert stamps.tolist() == pytest.approx([0.0] * 50 + [-37.5] * 50, abs=0.01)
    (group,) = report.groups
    assert group.slipped == 140
    assert group.sent == len(records) == 12_000
    assert group.distinct == len(np.unique(records[["trigger", "instrument"]]))
    check_account(records, report, "bpm", path)


@pytest.mark.parametrize("text", ["", "7", "7:1", "7:x@5", "-7:1@5", "7:1@-5", "7:1.5@5", "7:-1@0", "7:nan@1"])
def test_a_slip_that_cannot_be_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^slips: give "):
        SimulateSettings(slips=(Step.parse(text, "slips"),))


async def test_as_fast_as_possible_sends_everything_once(tmp_path) -> None:
    path = tmp_path / "account.npz"
    async with listening(BPM, TOROID) as listener:
        wanted = SimulateSettings(port=listener.port, groups=("bpm", "toroid"), rate=0, triggers=5000, account=path)
        report = await simulate(wanted)
        assert [(g.group, g.sent, g.acknowledged, g.missing) for g in report.groups] == [
            ("bpm", 600_000, 600_000, 0),
            ("toroid", 15_000, 15_000, 0),
        ]
        for connection in listener.connections:
            size = listener.groups[connection.greeting.group].size
            assert np.array_equal(connection.records["trigger"], np.repeat(np.arange(1, 5001), size))
            assert np.array_equal(connection.records["instrument"], np.tile(np.arange(size), 5000))
            times = connection.records["time_ns"].reshape(5000, size)
            assert np.all(np.diff(times, axis=0) == 100_000)
            check_account(connection.records, report, connection.greeting.group, path)


async def test_a_duration_ends_it() -> None:
    async with listening(BPM) as listener:
        slow = await simulate(SimulateSettings(port=listener.port, rate=50, duration_s=0.2))
        fast = await simulate(SimulateSettings(port=listener.port, rate=0, duration_s=0.2))
    assert slow.groups[0].triggers == 10
    assert fast.groups[0].triggers > 10
    assert fast.settled


async def test_stopping_ends_it_with_an_exact_report(tmp_path) -> None:
    path = tmp_path / "account.npz"
    async with listening(BPM) as listener:
        stop = asyncio.Event()
        faults = {**ALL_FAULTS, "late_by_ms": 60_000.0}
        running = asyncio.ensure_future(
            simulate(SimulateSettings(port=listener.port, rate=100, connections=3, account=path, **faults), stop=stop)
        )
        await listener.until(lambda: len(listener.connections) == 3 and len(listener.records) > 2000)
        stop.set()
        report = await running
        assert report.settled
        assert report.groups[0].sent == len(listener.records)
        assert report.groups[0].late == 0, "those were still to come"
        check_account(listener.records, report, "bpm", path)


async def test_a_daemon_that_goes_away_gets_again_what_it_did_not_acknowledge() -> None:
    said: list[str] = []
    wanted = {"rate": 200, "triggers": 150, "connections": 4}
    async with listening(BPM, acknowledges=False) as listener:
        running = asyncio.ensure_future(simulate(SimulateSettings(port=listener.port, **wanted), say=said.append))
        await listener.until(lambda: len(listener.connections) == 4 and len(listener.records) > 3000)
    first = listener.records
    await eventually(lambda: said)
    async with listening(BPM, port=listener.port) as second:
        report = await running
        (group,) = report.groups
        assert group.acknowledged == group.sent == group.distinct == 18_000
        assert len(second.records) == 18_000, "nothing was acknowledged before: all of it comes again"
        assert group.reconnects >= 4
        assert group.sent_again >= len(first)
    assert any("lost the connection" in line for line in said)
    assert any("lost the connection" in line for line in report.problems)
    assert sum("connected again" in line for line in said) == 1, "four connections that say the same are one line"


async def test_udp_sends_the_same_readings_in_numbered_datagrams() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind(("127.0.0.1", 0))
        wanted = SimulateSettings(
            port=sock.getsockname()[1],
            protocol="udp",
            layouts=(BPM,),
            triggers=20,
            rate=200,
            missing=0.1,
            duplicated=0.1,
        )
        report = await simulate(wanted)
        (group,) = report.groups
        sock.setblocking(False)
        datagrams = []
        while sum(d.count for d in datagrams) < group.sent:
            datagrams.append(parse_datagram(sock.recv(65_536)))
            assert len(datagrams[-1].records) + 48 <= 1472
        with pytest.raises(BlockingIOError):
            sock.recv(65_536)
    assert [d.sequence for d in datagrams] == list(range(len(datagrams)))
    records = np.concatenate([np.frombuffer(d.records, BPM.record) for d in datagrams])
    assert len(np.unique(records[["trigger", "instrument"]])) == group.distinct == 2400 - group.missing
    assert group.acknowledged is None
    assert report.settled


async def test_udp_to_nobody_is_told() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    report = await simulate(SimulateSettings(port=port, protocol="udp", layouts=(BPM,), triggers=5, rate=100))
    assert report.groups[0].sent == 600
    assert any("no program listens" in line for line in report.problems)


async def test_a_group_that_is_not_there_is_refused() -> None:
    async with listening(BPM, TOROID) as listener:
        with pytest.raises(ProtocolError, match="unknown-group"):
            await simulate(SimulateSettings(port=listener.port, groups=("bpm", "bpx"), triggers=1))
        with pytest.raises(SettingsError, match="stuck: toroid has instruments 0 to 2; give one of these"):
            await simulate(SimulateSettings(port=listener.port, groups=("toroid",), stuck=3))
        slip = Step(instrument=7, size=1, from_s=0)
        with pytest.raises(SettingsError, match="slips: toroid has instruments 0 to 2; give one of these"):
            await simulate(SimulateSettings(port=listener.port, groups=("toroid",), slips=(slip,)))
    with pytest.raises(SenderError, match="cannot reach a daemon"):
        await simulate(SimulateSettings(port=listener.port, triggers=1))


@pytest.mark.parametrize(
    ("wrong", "fix"),
    [
        ({"missing": 1.5}, "missing: give a fraction from 0 to 1"),
        ({"rate": -1}, "rate: give 0 or more"),
        ({"rate": float("nan")}, "rate: give 0 or more"),
        ({"triggers": 0}, "triggers: give 1 or more"),
        ({"connections": 0}, "connections: give 1 or more, or `each`"),
        ({"groups": ()}, "groups: give different names"),
        ({"protocol": "udp"}, "layouts: give the groups as configured"),
        ({"datagram_bytes": 100}, "datagram_bytes: give 256 to 65507"),
        ({"duration_s": 0}, "duration_s: give more than 0 seconds"),
    ],
)
def test_a_wrong_setting_is_told_its_mend(wrong: dict, fix: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        SimulateSettings(**wrong)
    assert fix in str(refusal.value)


PROGRAM = """
import sys
from daemon.tools.simulate import (SimulateSettings, run_simulate)
print(run_simulate(SimulateSettings(port=int(sys.argv[1]), rate=100, connections=5), say=print).to_json())
"""


async def test_ctrl_c_ends_a_process_of_its_own_with_its_report() -> None:
    async with listening(BPM) as listener:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(listener.port), stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(60):
            await listener.until(lambda: len(listener.connections) == 5 and len(listener.records) > 1000)
            process.send_signal(signal.SIGINT)
            out, _ = await process.communicate()
        assert process.returncode == 0
        report = json.loads(out)
        assert report["settled"]
        assert report["groups"][0]["sent"] == len(listener.records)


def test_it_runs_on_uvloop_too() -> None:
    async def run() -> None:
        async with listening(BPM) as listener:
            report = await simulate(SimulateSettings(port=listener.port, rate=0, triggers=2000, **ALL_FAULTS))
            assert report.groups[0].sent == report.groups[0].acknowledged == len(listener.records)

    uvloop.run(run())


def test_a_configuration_says_where_its_daemon_listens(tmp_path: Path) -> None:
    """Nobody listens there: what the command tried is in its error."""
    file, port = tmp_path / "beam.toml", free_port()
    file.write_text(
        f'[[sources]]\nkind = "tcp"\nhost = "0.0.0.0"\nport = {port}\n'
        '[[groups]]\nname = "bpm"\ncount = 2\nchannels = [{ name = "x" }]\n'
    )
    refused = triggerlog("simulate", "--config", str(file), "--triggers", "1")
    assert f"cannot reach a daemon at 127.0.0.1:{port}" in refused.stderr
    other = free_port()
    refused = triggerlog("simulate", "--config", str(file), "--port", str(other), "--triggers", "1")
    assert f"cannot reach a daemon at 127.0.0.1:{other}" in refused.stderr
