"""Asks a store about a group, and compares what it answers with what each reading says that was sent."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from backends.base import Decimating, Store
from schemas.decimation import FIGURES, Bucket, Decimated
from schemas.queries import InstrumentReadings, LedgerTail, Means, SkippedTriggers, TriggersReadings, WindowReadings
from schemas.readings import Array
from schemas.retention import Dropped, Span
from tests.support.ninety_days.instruments import HOUR_NS, Instruments
from tests.support.ninety_days.sent import Fate, same

EVER = (-(2**63) + 1, 2**63 - 1)
BUCKET_NS = HOUR_NS
STEPS_HOURS = (24, 1, 6, 24, 24 * 7)
TRENDS = (1, 1_000)
TRIGGERS = 50


class Answers:
    """What a store answers about a group.

    windows: what lies around marks, and stays.
    """

    def __init__(self, store: Store, instruments: Instruments, windows: Sequence[Span]) -> None:
        assert isinstance(store, Decimating)
        self.store: Any = store
        self.sent = instruments.sent
        self.group = instruments.sent.group
        self.rng = instruments.rng
        self.windows = windows

    async def see_all(self) -> None:
        """Ask all that can be asked of what is there, reduced and dropped."""
        name = self.group.name
        dropped, decimated = (await self.store.dropped())[name], (await self.store.decimated())[name]
        gone = {each.period for each in dropped}
        reduced = [each for each in decimated if each.period not in gone]
        left = self.sent.left(gone)
        raw = await self.see_raw(left, reduced)
        self.see_account(dropped, decimated, left & ~raw)
        if all(isinstance(each.how, Bucket) for each in decimated):
            outlives = self.sent.outlives([each.period for each in decimated if each.period in gone], gone)
            await self.see_figures((left & ~raw) | outlives)
            await self.see_means(left | outlives)
        else:
            await self.see_figures(np.zeros(len(raw), bool))
            await self.see_means(raw)
        await self.see_trend(raw)
        await self.see_triggers(raw)
        await self.see_ledger()

    async def see_raw(self, left: Array, reduced: Sequence[Decimated]) -> Array:
        """See that each reading that has to be there is, as it was sent, and none that was dropped; which are there."""
        found = await self.store.ask(WindowReadings(group=self.group, start_ns=EVER[0], end_ns=EVER[1]))
        raw = self.sent.there(found)
        assert not (raw & ~left).any()
        assert not (left & ~raw & ~self.sent.may_be_reduced(reduced, self.windows)).any()
        return raw

    def see_account(self, dropped: Sequence[Dropped], decimated: Sequence[Decimated], reduced: Array) -> None:
        """See that what was dropped and reduced of each period is what was committed, and is there no more."""
        before = {each.period: each.readings for each in decimated}
        told = {each.period: each.readings + before.pop(each.period, 0) for each in dropped} | before
        wanted = {
            period: np.count_nonzero(self.sent.of(period) & (reduced if period in before else True)) for period in told
        }
        assert told == wanted

    async def see_figures(self, reduced: Array) -> None:
        """See the figures of what was reduced."""
        found, wanted = await self.store.reduced(self.group, *EVER), self.sent.figures(reduced, BUCKET_NS)
        for name in ("time_ns", "instrument", "readings"):
            np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
        for channel in self.group.channels:
            for figure in FIGURES:
                here, there = found[channel.name][figure], wanted[channel.name][figure]
                np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9, err_msg=f"{figure} of {channel.name}")

    async def see_means(self, of: Array) -> None:
        """See means of all that there is, and of times that begin and end with a bucket, wherever that is."""
        times = self.sent.readings["time_ns"]
        ends = int(times.min()) // BUCKET_NS, int(times.max()) // BUCKET_NS + 1
        ranges = [ends, *np.sort(self.rng.integers(*ends, (len(STEPS_HOURS) - 1, 2)), axis=1).tolist()]
        for (first, last), hours in zip(ranges, STEPS_HOURS, strict=True):
            query = Means(
                group=self.group,
                start_ns=first * BUCKET_NS,
                end_ns=(last + 1) * BUCKET_NS,
                step_ns=hours * HOUR_NS,
            )
            found, wanted = await self.store.ask(query), self.sent.means(of, query)
            for name in ("instrument", "time_ns", "count"):
                np.testing.assert_array_equal(found[name], wanted[name], err_msg=f"{name} of {query}")
            for channel in self.group.channels:
                np.testing.assert_allclose(found[channel.name], wanted[channel.name], rtol=1e-6, atol=1e-9)

    async def see_trend(self, raw: Array) -> None:
        """See the last readings of an instrument that are there."""
        instrument = int(self.rng.integers(self.group.size))
        mine = self.sent.readings[raw & (self.sent.readings["instrument"] == instrument)]
        mine = mine[np.argsort(mine["time_ns"])]
        for most in TRENDS:
            wanted = mine[-most:]
            query = InstrumentReadings(
                group=self.group,
                instrument=instrument,
                start_ns=int(wanted["time_ns"][0]),
                end_ns=int(wanted["time_ns"][-1]) + 1,
                most=most,
            )
            same(await self.store.ask(query), wanted)

    async def see_triggers(self, raw: Array) -> None:
        """See the readings of some triggers of the newest run, wherever they lie, or were."""
        run = int(self.sent.readings["run"].max())
        of_run = self.sent.readings[raw & (self.sent.readings["run"] == run)]
        numbers = np.unique(self.rng.integers(1, of_run["trigger"].max() + 1, TRIGGERS))
        found = await self.store.ask(TriggersReadings(group=self.group, run=run, triggers=tuple(numbers.tolist())))
        wanted = of_run[np.isin(of_run["trigger"], numbers)]
        same(found, np.sort(wanted, order=("trigger", "instrument")))

    async def see_ledger(self) -> None:
        """See that each trigger has its row, which says what is missing, and how many numbers were skipped."""
        runs, triggers, missing = self.sent.ledger()
        for run in np.unique(runs).tolist():
            found = await self.store.ask(LedgerTail(group=self.group, most=10**7, run=run))
            np.testing.assert_array_equal(found["trigger"], triggers[runs == run])
            np.testing.assert_array_equal(found["missing"], missing[runs == run])
            gaps = await self.store.ask(SkippedTriggers(group=self.group, start_ns=EVER[0], end_ns=EVER[1], most=10**7))
            gaps = gaps[gaps["run"] == run]
            numbers = found["trigger"][-1] - found["trigger"][0] + 1
            # A trigger that is a dead letter has no row, and is no gap: it closed.
            refused = self.sent.readings[(self.sent.fates == Fate.REFUSED) & (self.sent.readings["run"] == run)]
            dead = np.setdiff1d(refused["trigger"], found["trigger"])
            assert gaps["skipped"].sum() + len(dead) + len(found) == numbers
