"""The questions a store answers, and the shape of each answer.

Every answer is a structured array: readings as `answer_dtype(group)`, ledger rows as `ledger_dtype(group.size)`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

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
    """All readings of a group with start_ns <= time_ns < end_ns, by run, trigger and instrument."""

    group: InstrumentGroup
    start_ns: int
    end_ns: int


@dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """The ledger row of one trigger; of the newest run that has it when `run` is None."""

    group: InstrumentGroup
    trigger: int
    run: int | None = None


@dataclass(frozen=True, kw_only=True)
class LedgerTail:
    """The ledger rows with the highest trigger numbers of the newest run, at most `most`, in ascending order."""

    group: InstrumentGroup
    most: int


Query = NewestTrigger | TriggerReadings | InstrumentReadings | WindowReadings | LedgerRow | LedgerTail
