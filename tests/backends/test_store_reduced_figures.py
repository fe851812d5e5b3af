"""Questions about what was reduced, asked of every store that can, against a computation from all readings."""

from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from backends.columns.figuring import Figuring
from schemas.decimation import FIGURES, Bucket
from schemas.marks import Mark
from schemas.queries import Figures, Means, figures_dtype
from schemas.readings import Array
from tests.backends.test_store_contract import Make
from tests.backends.test_store_decimation import (
    BUCKET,
    EVER_ROUND,
    EVERY_NS,
    GROUP,
    Filled,
    filled,
    kind,
    make,
    opened,
    rng,
    small_steps,
)
from tests.backends.test_store_retention import DAY_NS, noon
from tests.support.batches import answers, readings_of
from tests.support.reduced import computed

__all__ = ["Make", "filled", "kind", "make", "opened", "rng", "small_steps"]


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was reduced of a day is read in two parts, with two seconds of the readings in the first."""
    monkeypatch.setattr("backends.sql.reading.ROWS", (DAY_NS // 2 // BUCKET.ns + 2) * GROUP.size)


def all_readings(filled: Filled, *runs: int) -> Array:
    return np.concatenate([answers(GROUP, [(run, filled.written[run])]) for run in runs])


def see_same(found: Array, readings: Array, step_ns: int) -> None:
    """See that figures are those of all these readings."""
    assert found.dtype == figures_dtype(GROUP)
    assert set(found["step_ns"].tolist()) <= {step_ns}
    wanted = computed(readings, step_ns, GROUP)
    assert [*zip(found["time_ns"].tolist(), found["instrument"].tolist(), strict=True)] == list(wanted)
    assert found["readings"].tolist() == [count for count, _ in wanted.values()]
    for channel in GROUP.channels:
        here = [[float(row[channel.name][name]) for name in FIGURES] for row in found]
        there = [channels[channel.name] for _, channels in wanted.values()]
        np.testing.assert_allclose(here, there, rtol=1e-5, atol=1e-9, err_msg=channel.name)


def asked(step_ns: int, start_ns: int = EVER_ROUND[0], end_ns: int = EVER_ROUND[1], **more: Any) -> Figures:
    return Figures(group=GROUP, start_ns=start_ns, end_ns=end_ns, step_ns=step_ns, **more)


async def test_nothing_is_told_of_what_was_not_reduced(filled: Filled) -> None:
    assert isinstance(filled.store, Figuring)
    assert len(await filled.store.figures(asked(BUCKET.ns))) == 0


@pytest.mark.parametrize("factor", [1, 3, 86_400])
async def test_figures_are_those_of_all_readings_also_of_those_that_stayed(
    filled: Filled, rng: np.random.Generator, factor: int
) -> None:
    await filled.store.keep_mark(Mark(id=uuid4(), time_ns=noon(3) + BUCKET.ns, text="it trips"))
    await filled.reduce(window_ns=BUCKET.ns // 3)
    assert 0 < len(await filled.raw()) < len(filled.written[1])
    see_same(await filled.store.figures(asked(factor * BUCKET.ns)), all_readings(filled, 1), factor * BUCKET.ns)
    await filled.late(rng)
    await filled.reduce(day=2)
    see_same(await filled.store.figures(asked(factor * BUCKET.ns)), all_readings(filled, 1, 2), factor * BUCKET.ns)


async def test_steps_that_the_bucket_does_not_divide_are_longer_and_say_so(filled: Filled) -> None:
    await filled.reduce()
    for step_ns in (1, BUCKET.ns // 4, BUCKET.ns - 1):
        see_same(await filled.store.figures(asked(step_ns)), all_readings(filled, 1), BUCKET.ns)
    see_same(await filled.store.figures(asked(5 * BUCKET.ns // 2)), all_readings(filled, 1), 3 * BUCKET.ns)


async def test_periods_with_other_buckets_have_their_own_steps(filled: Filled) -> None:
    await filled.reduce()
    await filled.reduce(Bucket(4 * BUCKET.ns), day=2)
    found = await filled.store.figures(asked(BUCKET.ns))
    is_first = found["time_ns"] < noon(3) + DAY_NS // 2
    see_same(found[is_first], all_readings(filled, 1), BUCKET.ns)
    see_same(found[~is_first], all_readings(filled, 2), 4 * BUCKET.ns)


async def test_one_instrument_alone_and_a_part_of_the_time(filled: Filled) -> None:
    await filled.store.keep_mark(Mark(id=uuid4(), time_ns=noon(3), text="it trips"))
    await filled.reduce(window_ns=9 * EVERY_NS)
    start_ns = (noon(3) // BUCKET.ns + 1) * BUCKET.ns
    end_ns = start_ns + 2 * BUCKET.ns
    readings = all_readings(filled, 1)
    is_asked = (readings["instrument"] == 2) & (readings["time_ns"] >= start_ns) & (readings["time_ns"] < end_ns)
    found = await filled.store.figures(asked(BUCKET.ns, start_ns, end_ns, instrument=2))
    assert len(found) == 2
    see_same(found, readings[is_asked], BUCKET.ns)


async def test_a_store_that_is_killed_in_the_middle_of_reducing_answers_as_before(filled: Filled) -> None:
    class Stopped(Exception):
        pass

    steps = 0

    async def stop(done: float) -> None:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise Stopped

    with pytest.raises(Stopped):
        await filled.store.decimate(await filled.period(), BUCKET, window_ns=0, at_ns=77, pace=stop, patience_s=5)
    assert 0 < len(await filled.raw()) < len(filled.written[1])
    see_same(await filled.store.figures(asked(BUCKET.ns)), all_readings(filled, 1), BUCKET.ns)


async def test_infinite_values_are_among_the_least_and_the_greatest_also_of_longer_steps(
    filled: Filled, rng: np.random.Generator
) -> None:
    """DOUBLE of MariaDB holds none: there they follow from what is not there."""
    begin = (noon(3) // (60 * BUCKET.ns) + 1) * 60 * BUCKET.ns
    readings = readings_of(GROUP, np.arange(700, 712), begin + np.arange(12) * BUCKET.ns // 2, rng)
    readings["ch0"][0, :2], readings["ch1"][1, :2] = (np.inf, -np.inf), (-np.inf, np.inf)
    await filled.commit(readings, run=1)
    await filled.reduce()
    for step_ns in (BUCKET.ns, 6 * BUCKET.ns):
        wanted = computed(answers(GROUP, [(1, readings.ravel())]), step_ns, GROUP)
        found = await filled.store.figures(asked(step_ns, begin, begin + 6 * BUCKET.ns))
        means = await filled.store.ask(
            Means(group=GROUP, start_ns=begin, end_ns=begin + 6 * BUCKET.ns, step_ns=step_ns)
        )
        assert len(found) == len(means) == len(wanted)
        for row, (_, channels) in zip(found, wanted.values(), strict=True):
            at = (means["time_ns"] == row["time_ns"]) & (means["instrument"] == row["instrument"])
            for name in ("ch0", "ch1"):
                _, mean, _, least, greatest = channels[name]
                assert (row[name]["least"], row[name]["greatest"]) == (least, greatest)
                np.testing.assert_allclose([row[name]["mean"], means[at][name][0]], mean, rtol=1e-6)
