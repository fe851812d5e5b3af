"""The questions a store answers, and the shape of each answer.

Every answer is a structured array: readings as `answer_dtype(group)`, ledger rows as `ledger_dtype(group.size)`,
means as `means_dtype(group)`, aggregates as `aggregate_dtype(group)`, counts as `TOTALS`; what was reduced, as
`figures_dtype(group)`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from schemas.decimation import reduced_dtype
from schemas.readings import CHANNEL_DTYPES, InstrumentGroup


@lru_cache
def answer_dtype(group: InstrumentGroup) -> np.dtype[Any]:
    """One stored reading as a store gives it back: identity, the instrument's own timestamp, channel values."""
    return np.dtype(
        [
            ("run", "<i4"),
            ("trigger", "<i8"),
            ("instrument", "<i4"),
            ("time_ns", "<i8"),
            *((channel.name, CHANNEL_DTYPES[channel.dtype]) for channel in group.channels),
        ]
    )


@lru_cache
def means_dtype(group: InstrumentGroup) -> np.dtype[Any]:
    """Means of one instrument over one step of time: start of the step, readings in it, mean of each channel."""
    names = [channel.name for channel in group.channels]
    return np.dtype([("instrument", "<i4"), ("time_ns", "<i8"), ("count", "<i8"), *((name, "<f8") for name in names)])


EXTREMES = ("mean", "least", "greatest")
"""What `aggregate_dtype` has of every channel."""


@lru_cache
def aggregate_dtype(group: InstrumentGroup) -> np.dtype[Any]:
    """All readings of one instrument in one row: how many, and by channel a float64 `(mean, least, greatest)`."""
    of_channel = np.dtype([(name, "<f8") for name in EXTREMES])
    channels = [(channel.name, of_channel) for channel in group.channels]
    return np.dtype([("instrument", "<i4"), ("count", "<i8"), *channels])


@lru_cache
def figures_dtype(group: InstrumentGroup) -> np.dtype[Any]:
    """Readings of one instrument within one step: step_ns, how long it is, and `reduced_dtype(group)` of the step."""
    reduced = reduced_dtype(group)
    return np.dtype([("step_ns", "<i8"), *((name, reduced[name]) for name in reduced.names or ())])


@dataclass(frozen=True, kw_only=True)
class NewestTrigger:
    """All readings of the newest complete trigger of a group, by instrument."""

    group: InstrumentGroup


@dataclass(frozen=True, kw_only=True)
class TriggerReadings:
    """All readings of one trigger, by instrument."""

    group: InstrumentGroup
    run: int
    trigger: int


@dataclass(frozen=True, kw_only=True)
class InstrumentReadings:
    """Readings of one instrument with start_ns <= time_ns < end_ns, by time; at most `most` of them, the newest."""

    group: InstrumentGroup
    instrument: int
    start_ns: int
    end_ns: int
    most: int


@dataclass(frozen=True, kw_only=True)
class WindowReadings:
    """All readings of a group with start_ns <= time_ns < end_ns, by run, trigger and instrument.

    most: the asker has room for so many; of more there is no answer, and they are not all read to find that out. In the
    arrays layout triggers count as whole, also those that are only looked at for a reading that may be in the stretch.

    by_trigger: in the arrays layout, all readings of the triggers with start_ns <= time_ns < end_ns instead. There a
    reading whose clock is wrong by more than some seconds is found in no stretch by its own time.
    """

    group: InstrumentGroup
    start_ns: int
    end_ns: int
    most: int | None = None
    by_trigger: bool = False


@dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """The ledger row of one trigger; of the newest run that has it when `run` is None."""

    group: InstrumentGroup
    trigger: int
    run: int | None = None


@dataclass(frozen=True, kw_only=True)
class LedgerTail:
    """The ledger rows with the highest trigger numbers of a run, at most `most`, in ascending order.

    run: the newest one, if it is None.
    """

    group: InstrumentGroup
    most: int
    run: int | None = None


@dataclass(frozen=True, kw_only=True)
class LedgerEnds:
    """The ledger rows with the lowest and the highest trigger number of the newest run; one where there is only one."""

    group: InstrumentGroup


@dataclass(frozen=True, kw_only=True)
class LedgerRows:
    """The ledger rows of some triggers of a run, in ascending order; a trigger that is not there gives none."""

    group: InstrumentGroup
    run: int
    triggers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SkippedTriggers:
    """The ledger rows that follow a gap, with start_ns <= time_ns < end_ns, newest first, at most `most`.

    `skipped` of them is what is skipped by now. Below the first trigger of a run there is no gap.
    """

    group: InstrumentGroup
    start_ns: int
    end_ns: int
    most: int


@dataclass(frozen=True, kw_only=True)
class TriggersReadings:
    """All readings of some triggers of a run, by trigger and instrument; a trigger that is not there gives none."""

    group: InstrumentGroup
    run: int
    triggers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Every instrument's value valid at a moment: its newest reading with at_ns - within_ns < time_ns <= at_ns.

    By instrument; one that has none in that stretch is absent. Of two readings with one time_ns the one of the higher
    run and trigger counts.
    """

    group: InstrumentGroup
    at_ns: int
    within_ns: int


@dataclass(frozen=True, kw_only=True)
class Means:
    """Means by instrument and step of time of readings with start_ns <= time_ns < end_ns, as `means_dtype`.

    By instrument and time; steps begin at multiples of step_ns since 1970, and one without readings is absent. A NaN
    among a step's values of a channel is left out of its mean, which is NaN where nothing else is there; it counts.

    Where readings were reduced the answer is of their figures and of what stayed: as if nothing had been reduced where
    their bucket divides step_ns, start_ns and end_ns. Else a step there is the next multiple of the bucket, and a
    bucket counts as a whole where it begins.
    """

    group: InstrumentGroup
    start_ns: int
    end_ns: int
    step_ns: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures by step of time of periods within start_ns <= time_ns < end_ns that were reduced, as `figures_dtype`.

    By time and instrument; a step without readings is absent, and one that is partly within that time is there as a
    whole. They are of all readings of a period, of those that stayed as they were, too, and of none of a period that
    was not reduced. Steps are as long as `Means` has them there: step_ns where the bucket divides it.

    instrument: only of this one.
    """

    group: InstrumentGroup
    start_ns: int
    end_ns: int
    step_ns: int
    instrument: int | None = None


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """Everything that is stored of a group, gone through once: `aggregate_dtype`, by instrument.

    NaN is left out of the figures of a channel, which are NaN where nothing else is there; it counts.
    """

    group: InstrumentGroup


@dataclass(frozen=True, kw_only=True)
class Totals:
    """How much is stored of a group, counted: `TOTALS`, a row a run in ascending order, and at least one.

    All of it is from one look: of a server without transactions as `moved_triggers` and `moved_readings` say.

    within_s: how long the counting may take, in seconds; the server gives up, too.
    """

    group: InstrumentGroup
    within_s: float


TOTALS = np.dtype(
    [
        ("run", "<i4"),
        ("stored", "<i8"),
        ("dropped", "<i8"),
        ("triggers", "<i8"),
        ("expected", "<i8"),
        ("arrived", "<i8"),
        ("skipped", "<i8"),
        ("first_ns", "<i8"),
        ("last_ns", "<i8"),
        ("sequence", "<i8"),
        ("account_triggers", "<i8"),
        ("account_readings", "<i8"),
        ("journal_readings", "<i8"),
        ("moved_triggers", "<i8"),
        ("moved_readings", "<i8"),
    ]
)
"""What is stored of a run, and the account of the group, which is the same in every row.

run: 0 where nothing is stored.
stored: rows (documents) of readings: `rows` layout readings, `arrays` layout triggers.
dropped: the same that was dropped by retention, by the account of that; its ledger is there.
triggers, expected, arrived: rows of the ledger, and the sums of these columns.
skipped: numbers between the first and the last trigger of the run that the ledger has no row of.
first_ns, last_ns: its earliest and latest reading, by the ledger (ns since 1970-01-01 UTC); 0 without any.
sequence: the journal position; of several loggers the highest.
account_triggers, account_readings: sums of the accounts of all loggers that wrote the group, `JournalPosition`.
journal_readings: that of the journal's stream alone, without what was retried of dead letters.
moved_triggers, moved_readings: by how much that account grew while it was counted; 0 where it is one snapshot.
"""


Selection = (
    NewestTrigger
    | TriggerReadings
    | InstrumentReadings
    | WindowReadings
    | LedgerRow
    | LedgerTail
    | LedgerEnds
    | LedgerRows
    | SkippedTriggers
    | TriggersReadings
    | Snapshot
)
"""Questions that are answered with readings or ledger rows as they are stored."""

Reduction = Means | Aggregate
"""Questions that are answered with figures made of many readings."""

Query = Selection | Reduction | Totals
