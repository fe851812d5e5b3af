"""Trigger counters of a few bits: whole numbers by time, through the intake, and over a restart."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.core.monitoring.events import Events
from daemon.sources.counters import Counter, Counters
from daemon.sources.tcp import TcpSource
from schemas.config import TcpSource as TcpConfig
from schemas.readings import Array
from tests.daemon.sources.tcp.test_tcp import Client
from tests.support.disks import REAL
from tests.support.pipelines import logging_to_memory
from tests.support.readings import START_NS, make_group

GROUP = make_group(5)
MS = 1_000_000


def times_of(gaps_ms: list[float], triggers: int) -> Array:
    """Times of triggers, with these gaps in turn: int64 ns."""
    return START_NS + np.cumsum(np.resize(gaps_ms, triggers) * MS).astype(np.int64)


def readings(
    times: Array, triggers: Array, instruments: Array, *, first: int = 0, bits: int = 8, epoch: int = 0
) -> Array:
    """Readings of triggers by their index, numbered from `first` by a counter of so many bits."""
    block = np.zeros(len(triggers), GROUP.record)
    block["trigger"] = (np.asarray(triggers) + first) % (1 << bits)
    block["time_ns"] = times[triggers]
    block["instrument"], block["epoch"] = instruments, epoch
    return block


def whole(times: Array, begin: int, upto: int, **numbering: int) -> Array:
    """All readings of these triggers."""
    return readings(times, np.repeat(np.arange(begin, upto), 5), np.tile(np.arange(5), upto - begin), **numbering)


def counters(folder: Path, bits: int = 8) -> Counters:
    return Counters(GROUP, bits, folder, REAL, Events())


@given(
    gaps_ms=st.sampled_from([[10.0], [2.0] * 299 + [30_000.0], [1.0, 40.0, 7.0], [100.0] * 20 + [5_000.0]]),
    blocks=st.sampled_from([1, 7, 50, 400]),
    lag=st.sampled_from([0, 1, 100, 250, 700]),
    first=st.sampled_from([0, 1, 17, 200, 255]),
    bits=st.sampled_from([8, 16]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=10, deadline=None)
def test_numbers_go_on_whatever_comes_together_and_however_late(gaps_ms, blocks, lag, first, bits, seed) -> None:
    """One instrument of five is `lag` triggers late, and others are late now and then."""
    rng = np.random.default_rng(seed)
    times = times_of(gaps_ms, 1200)
    counter = Counter(1 << bits)
    offsets = set()
    for begin in range(0, 1200, blocks):
        upto = min(1200, begin + blocks)
        triggers = np.repeat(np.arange(begin, upto), 4)
        late = np.arange(max(0, begin - lag), max(0, upto - lag))
        again = rng.integers(max(0, begin - 600), begin + 1, 3)
        sent = rng.permutation(np.concatenate([triggers, late, again]))
        stamps = times[sent] + rng.integers(-MS // 4, MS // 4, len(sent))
        numbers = counter.number(
            stamps, (sent + first) % (1 << bits), rng.integers(0, 5, len(sent)), int(times[upto - 1])
        )
        offsets |= set((numbers - sent).tolist())
    # Of a counter that was not just started readings of the round before may come.
    assert offsets == {first + ((1 << bits) if 1 < first < (1 << bits) // 4 else 0)}


def test_a_wrong_number_or_clock_shifts_nobody_else() -> None:
    times, rng = times_of([10.0], 1200), np.random.default_rng(3)
    counter = Counter(256)
    for k in range(1200):
        wrapped, stamps = np.full(5, k % 256), np.full(5, times[k])
        wrapped[1] = rng.integers(0, 256)
        stamps[2] += 5_000 * MS
        stamps[3] -= 400 * MS
        order = rng.permutation(5)
        numbers = np.empty(5, np.int64)
        numbers[order] = counter.number(stamps[order], wrapped[order], order, int(times[k]))
        assert numbers[[0, 2, 3, 4]].tolist() == [k] * 4


def test_after_an_outage_no_number_is_used_again() -> None:
    times = times_of([10.0], 40_000)
    for away in range(200, 1000, 57):
        counter = Counter(256)
        everyone = np.arange(5)
        before = [
            counter.number(times[[k] * 5], np.full(5, k % 256), everyone, int(times[k])).max() for k in range(300)
        ]
        k = 300 + away
        after = counter.number(times[[k] * 5], np.full(5, k % 256), everyone, int(times[k]))
        assert len(set(after.tolist())) == 1
        assert after[0] > max(before)
        assert after[0] % 256 == k % 256


def test_each_epoch_has_its_own_numbers_and_odd_ones_push_none_out(tmp_path: Path) -> None:
    times, found = times_of([10.0], 900), counters(tmp_path)
    found._save_soon = lambda: None  # type: ignore[method-assign]
    for begin in range(0, 900, 30):
        block = whole(times, begin, begin + 30, epoch=7)
        found.unwrap(block)
        assert block["trigger"].tolist() == np.repeat(np.arange(begin, begin + 30), 5).tolist()
        for odd in range(10):
            found.unwrap(whole(times, begin, begin + 1, first=odd, epoch=1000 + begin + odd))
    again = whole(times, 0, 3, epoch=8)
    found.unwrap(again)
    assert again["trigger"].tolist() == [0] * 5 + [1] * 5 + [2] * 5


@pytest.mark.parametrize("is_killed", [False, True])
async def test_numbers_go_on_after_a_restart(tmp_path: Path, is_killed: bool) -> None:
    times, first = times_of([10.0], 3000), counters(tmp_path)
    for k in range(0, 900, 10):
        first.unwrap(whole(times, k, k + 10))
    if is_killed:
        assert first._saving is not None
        await first._saving
    else:
        await first.close()
    second = counters(tmp_path)
    await second.load()
    again = whole(times, 860, 1200)  # what was not acknowledged, and what came meanwhile
    second.unwrap(again)
    assert again["trigger"].tolist() == np.repeat(np.arange(860, 1200), 5).tolist()
    late = readings(times, np.arange(600, 900, 7), np.zeros(43, int))
    second.unwrap(late)
    assert late["trigger"].tolist() == list(range(600, 900, 7))
    await second.close()


async def test_a_file_that_is_damaged_is_reported(tmp_path: Path) -> None:
    (tmp_path / "counters-bpm.json").write_text("{")
    found = counters(tmp_path)
    await found.load()
    assert "it is damaged" in found._events.newest()[-1].text


async def test_bursts_of_a_counter_of_eight_bits_through_a_socket_are_one_run_without_conflict(tmp_path: Path) -> None:
    times, found = times_of([2.0] * 299 + [3_000.0], 3000), counters(tmp_path)
    async with logging_to_memory(GROUP) as logger:
        ways = {"bpm": found.into(logger.intakes["bpm"])}
        source = TcpSource(TcpConfig.model_validate({"kind": "tcp", "port": 0}), ways)
        await source.start()
        port = int(source.status().address.rpartition(":")[2])
        client = Client(*await asyncio.open_connection("127.0.0.1", port))
        await client.greet()
        for begin in range(0, 3000, 300):
            client.send(whole(times, begin, begin + 300))
        assert await client.acknowledged(15_000) == 0
        stored = await logger.stored(GROUP)
        assert set(stored["run"].tolist()) == {1}
        assert stored["trigger"].tolist() == np.repeat(np.arange(3000), 5).tolist()
        assert stored["time_ns"].tolist() == np.repeat(times, 5).tolist()
        await client.close()
        await source.stop()
        await source.close()
        await found.close()
