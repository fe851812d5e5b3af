"""What the store counts of what its answers have read, on a real MariaDB."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backends.base import AnswerTooLarge
from backends.counting import HOUR_NS
from backends.folders.reporting import ReportingStore
from backends.mysql import MysqlStore
from schemas.batch import Layout
from schemas.queries import (
    Aggregate,
    InstrumentReadings,
    LedgerEnds,
    LedgerTail,
    Means,
    NewestTrigger,
    Query,
    Snapshot,
    Totals,
    TriggerReadings,
    TriggersReadings,
    WindowReadings,
)
from tests.backends.mysql.test_reading import BOTH, GROUP, Make, filled, made
from tests.support.batches import batch_of, readings_of
from tests.support.memory.folders import MemoryFoldersStore
from tests.support.memory.store import MemoryStore

__all__ = ["made"]

OF = {"group": GROUP}
Asked = Callable[[int], Query]


def span(now: int, hours: int) -> dict[str, Any]:
    """That of the newest triggers."""
    end_ns = now + HOUR_NS // 2
    return {**OF, "start_ns": end_ns - hours * HOUR_NS, "end_ns": end_ns}


CASES: dict[str, tuple[Asked, dict[int | None, tuple[int, int]]]] = {
    # By hours ago: starts, and triggers whose rows were read.
    "newest": (lambda now: NewestTrigger(**OF), {0: (1, 1)}),
    "trigger": (lambda now: TriggerReadings(**OF, run=1, trigger=1), {2: (1, 1)}),
    "triggers": (lambda now: TriggersReadings(**OF, run=1, triggers=(3, 0, 1, 9)), {3: (1, 1), 2: (0, 1), 0: (1, 1)}),
    "window": (lambda now: WindowReadings(**span(now, 3)), {2: (1, 1), 1: (0, 1), 0: (0, 1)}),
    "window with room": (lambda now: WindowReadings(**span(now, 2), most=2 * GROUP.size), {1: (1, 1), 0: (0, 1)}),
    "instrument": (lambda now: InstrumentReadings(**span(now, 3), instrument=2, most=2), {1: (1, 1), 0: (0, 1)}),
    "means": (lambda now: Means(**span(now, 2), step_ns=HOUR_NS // 6), {1: (1, 1), 0: (0, 1)}),
    "snapshot": (lambda now: Snapshot(**OF, at_ns=now - HOUR_NS // 2, within_ns=HOUR_NS), {1: (1, 1)}),
    "aggregate": (lambda now: Aggregate(**OF), {None: (0, 0)}),
    "nothing there": (lambda now: InstrumentReadings(**OF, instrument=0, start_ns=0, end_ns=HOUR_NS, most=9), {}),
    "ledger": (lambda now: LedgerTail(**OF, most=9), {}),
    "ends of the ledger": (lambda now: LedgerEnds(**OF), {}),
    "totals": (lambda now: Totals(**OF, within_s=60), {}),
}


async def ready(make: Make, layout: Layout) -> tuple[MysqlStore, int]:
    """A store with four triggers, an hour between them, and the time of the last."""
    store = make(layout=layout)
    now = await filled(store)
    return store, now


@BOTH
@pytest.mark.parametrize("case", CASES)
async def test_an_answer_counts_rows_and_starts_by_the_hour(made: Make, layout: Layout, case: str) -> None:
    store, now = await ready(made, layout)
    assert store.take_read() == (), "committing, and making tables, read nothing"
    asked, expected = CASES[case]
    rows = 1 if layout is Layout.ARRAYS else GROUP.size
    await store.ask(asked(now))
    await store.ask(asked(now))
    found = {each.hour: each[2:] for each in store.take_read()}
    hours = {None if ago is None else now // HOUR_NS - ago: read for ago, read in expected.items()}
    assert found == {hour: (2, 2 * starts, 2 * triggers * rows) for hour, (starts, triggers) in hours.items()}
    assert store.take_read() == ()


@BOTH
async def test_a_question_without_an_answer_counts_nothing(made: Make, layout: Layout) -> None:
    store, now = await ready(made, layout)
    with pytest.raises(AnswerTooLarge):
        await store.ask(WindowReadings(**span(now, 4), most=GROUP.size))
    assert await store.partitions()
    assert store.take_read() == ()


async def test_a_large_answer_counts_as_any_other(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.mysql.store.COUNTED_AT_ONCE", 3)
    store, now = await ready(made, Layout.ROWS)
    assert len(await store.ask(WindowReadings(**span(now, 1)))) == GROUP.size
    assert store.take_read() == ((GROUP.name, now // HOUR_NS, 1, 1, GROUP.size),)


async def test_beside_folders_the_store_of_tables_counts(made: Make) -> None:
    store, now = await ready(made, Layout.ROWS)
    both = ReportingStore(store, MemoryFoldersStore(), {}, logger="main")
    await both.ask(NewestTrigger(**OF))
    assert both.take_read() == ((GROUP.name, now // HOUR_NS, 1, 1, GROUP.size),)
    assert ReportingStore(MemoryStore({}), MemoryFoldersStore(), {}, logger="main").take_read() is None


@BOTH
async def test_instruments_that_are_missing_lie_in_no_row(made: Make, layout: Layout) -> None:
    store, now = await ready(made, layout)
    readings = readings_of(GROUP, np.arange(4, 6), now + np.arange(2) * 1_000_000, np.random.default_rng(2))
    present = np.ones((2, GROUP.size), bool)
    present[0, 0] = present[1, 3] = False
    await store.commit(batch_of(GROUP, 2, readings, present=present))
    await store.ask(Snapshot(**OF, at_ns=now + HOUR_NS // 2, within_ns=HOUR_NS))
    (one,) = store.take_read()
    # Instrument 0 of the last trigger, 3 of the one before.
    assert (one.starts, one.rows) == (1, 2 if layout is Layout.ARRAYS else GROUP.size)
