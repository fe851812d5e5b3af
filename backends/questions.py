"""Sends each question of `schemas.queries` to the method that answers it."""

from abc import ABC, abstractmethod

import numpy as np

from schemas.queries import (
    Aggregate,
    InstrumentReadings,
    LedgerEnds,
    LedgerRow,
    LedgerRows,
    LedgerTail,
    Means,
    NewestTrigger,
    Query,
    Reduction,
    SkippedTriggers,
    Snapshot,
    Totals,
    TriggerReadings,
    TriggersReadings,
    WindowReadings,
    answer_dtype,
)
from schemas.readings import Array

_OfLedger = LedgerRow | LedgerTail | LedgerEnds | LedgerRows | SkippedTriggers
_OfReadings = NewestTrigger | TriggerReadings | InstrumentReadings | WindowReadings | TriggersReadings | Snapshot


class Questions(ABC):
    """Answers questions about one group; each class in `schemas.queries` says what its answer is."""

    async def answer(self, query: Query) -> Array:
        """Answer a question."""
        match query:
            case Totals():
                return await self._totals(query)
            case Means() | Aggregate():
                return await self._figures(query)
            case LedgerRow() | LedgerTail() | LedgerEnds() | LedgerRows() | SkippedTriggers():
                return await self._of_ledger(query)
            case _:
                return await self._of_readings(query)

    async def _of_ledger(self, query: _OfLedger) -> Array:
        match query:
            case LedgerRow():
                return await self._ledger_row(query.trigger, query.run)
            case LedgerTail():
                return await self._ledger_tail(query.most, query.run)
            case LedgerEnds():
                return await self._ledger_ends()
            case LedgerRows():
                rows = await self._ledger_rows(query.run, np.unique(np.array(query.triggers, np.int64)))
                return np.asarray(rows[np.argsort(rows["trigger"])])
            case SkippedTriggers():
                return await self._skipped(query)

    async def _of_readings(self, query: _OfReadings) -> Array:
        match query:
            case NewestTrigger():
                return await self._of_row(await self._newest_complete(), query)
            case TriggerReadings():
                return await self._of_row(await self._ledger_row(query.trigger, query.run), query)
            case InstrumentReadings():
                return await self._instrument(query)
            case WindowReadings():
                return await self._window(query)
            case TriggersReadings():
                return await self._triggers(query)
            case Snapshot():
                return await self._snapshot(query)

    async def _of_row(self, row: Array, query: NewestTrigger | TriggerReadings) -> Array:
        return await self._trigger(row) if len(row) else np.empty(0, answer_dtype(query.group))

    @abstractmethod
    async def _totals(self, query: Totals) -> Array:
        """How much is stored."""

    @abstractmethod
    async def _figures(self, query: Reduction) -> Array:
        """Means or aggregates."""

    @abstractmethod
    async def _newest_complete(self) -> Array:
        """The ledger row of the newest trigger with every instrument there; none without one."""

    @abstractmethod
    async def _ledger_row(self, trigger: int, run: int | None) -> Array:
        """One trigger's ledger row; of the newest run that has it when `run` is None."""

    @abstractmethod
    async def _ledger_tail(self, most: int, run: int | None) -> Array:
        """The last ledger rows of a run, ascending; of the newest one when it is None."""

    @abstractmethod
    async def _ledger_ends(self) -> Array:
        """The first and the last ledger row of the newest run."""

    @abstractmethod
    async def _ledger_rows(self, run: int, triggers: Array) -> Array:
        """The ledger rows of triggers (int64, ascending, each once), in any order."""

    @abstractmethod
    async def _skipped(self, query: SkippedTriggers) -> Array:
        """The ledger rows of triggers that follow a gap, newest first, with what is skipped by now."""

    @abstractmethod
    async def _trigger(self, row: Array) -> Array:
        """The readings of the trigger of a ledger row, by instrument."""

    @abstractmethod
    async def _instrument(self, query: InstrumentReadings) -> Array:
        """One instrument's newest readings, ascending."""

    @abstractmethod
    async def _window(self, query: WindowReadings) -> Array:
        """All readings of an interval of time."""

    @abstractmethod
    async def _triggers(self, query: TriggersReadings) -> Array:
        """The readings of many triggers."""

    @abstractmethod
    async def _snapshot(self, query: Snapshot) -> Array:
        """Every instrument's value valid at a moment."""
