"""What the journal of a group holds at the start, and whether it leads on from where the database is."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.outside import Outside
from daemon.pipeline.durable_state import DurableState, States
from daemon.pipeline.journal import Amount, Journal, JournalError, JournalRecovery
from daemon.pipeline.journal.acknowledged import readings_behind
from daemon.pipeline.journal.segment import NO_RECORDS
from daemon.pipeline.journal.written_with import WrittenWith
from daemon.pipeline.recovery.in_store import InStore
from schemas.batch import ClosedBlock, Durability, JournalPosition
from schemas.config import Config
from schemas.readings import Array, InstrumentGroup
from schemas.sessions import NO_SESSIONS

_ALL = 2**62
"""Bytes; what is read is what one segment holds."""

LEAST_WINDOW = 1024
"""The window that triggers are taken to have closed in, at least."""


@dataclass(kw_only=True)
class InJournal:
    """What a journal holds.

    newest: its last blocks; is_whole: whether these are all. formerly: the ids that it had. The rest, also `lost` where
    there is no journal, as in RecoveredGroup.
    """

    state: DurableState
    states: States
    claimed: Array = field(default_factory=lambda: NO_SESSIONS)
    journal: Journal | None = None
    recovery: JournalRecovery | None = None
    newest: Sequence[ClosedBlock] = ()
    is_whole: bool = True
    again: Sequence[ClosedBlock] = ()
    formerly: frozenset[int] = frozenset()
    lost: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it held no block of an earlier process."""
        return not self.newest and not self.again and (self.recovery is None or not len(self.recovery.held))

    @property
    def amount(self) -> Amount:
        """What waits for the database."""
        return Amount() if self.recovery is None else self.recovery.amount


async def open_journal(
    group: InstrumentGroup,
    config: Config,
    state_dir: Path,
    in_store: InStore,
    outside: Outside,
    *,
    noted: JournalPosition,
    own: WrittenWith,
) -> InJournal:
    """Open the journal, and read what is to be known of it before anything else comes in.

    noted: what the database acknowledged last. own: what this process writes it with.

    Raises:
        CommandFailed: it cannot be used.
    """
    states = States()
    folder = state_dir / "journal" / group.name
    journal = Journal(
        folder,
        group,
        outside,
        max_bytes=config.journal.max_bytes,
        segment_bytes=config.journal.segment_bytes,
        state=states.before,
    )
    try:

        def look() -> InJournal:
            before = WrittenWith.read(folder, outside.disk)
            with_all = own.joined(before)
            found = _look_through(journal, states, in_store, noted=noted, written_with=with_all)
            now = own if found.is_empty else with_all
            if now != before:
                journal.defer(partial(now.write, folder, outside.disk))
            return found

        return await outside.workers.call(look)
    except JournalError as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"the journal under {state_dir} cannot be used: {reason_of(error)}") from None


def _look_through(
    journal: Journal,
    states: States,
    in_store: InStore,
    *,
    noted: JournalPosition,
    written_with: WrittenWith,
) -> InJournal:
    position, stored = in_store.position, in_store.state
    recovery = journal.open(position, holds=written_with.durability is Durability.ASYNC)
    lost = _lost(in_store, noted, journal)
    in_head = DurableState.decode(recovery.newest_state)
    leads_on = _leads_on(journal.ids, in_head, position)
    state = _state_after(journal, recovery, in_store) if leads_on else stored
    # Another daemon may have given a run, in other groups, that the blocks here have for another epoch.
    leads_on = leads_on and not state.disputed(in_store.others) - stored.runs.keys()
    if recovery.loose.blocks or not leads_on:
        # It would be taken again with the rest.
        recovery = replace(recovery, held=NO_RECORDS)
        journal.drop_held()
    if recovery.amount.blocks and not leads_on:
        recovery = replace(recovery, amount=Amount(), loose=recovery.amount.plus(recovery.loose))
        journal.loosen()
    again = [*journal.read_loose(), *journal.read_foreign()]
    claimed = in_head.further(DurableState().after(again))
    if not leads_on:
        # What it calls settled is so with all the blocks before, and nobody knows of those.
        state = DurableState(stored.sessions, stored.further(claimed, in_store.others).runs)
    formerly = journal.ids
    if recovery.loose.blocks:
        journal.renew()
    states.begin(state, position)
    # Triggers close in another order than that of their numbers, by a window at most.
    newest, is_whole = journal.read_last(2 * max(written_with.window, LEAST_WINDOW))
    return InJournal(
        state=state,
        states=states,
        claimed=claimed.sessions,
        journal=journal,
        recovery=recovery,
        newest=newest,
        is_whole=is_whole,
        again=again,
        formerly=formerly,
        lost=lost,
    )


def _state_after(journal: Journal, recovery: JournalRecovery, in_store: InStore) -> DurableState:
    """The state after the blocks of a journal that leads on."""
    stored, position = in_store.state, in_store.position
    if position.journal in journal.ids and position.sequence >= recovery.state_at:
        return stored.after(block for _, block in journal.read(position.sequence, _ALL))
    noted = DurableState.decode(recovery.state) if recovery.state else stored
    return noted.after(block for _, block in journal.read(recovery.state_at, _ALL))


def _leads_on(journals: Collection[int], noted: DurableState, position: JournalPosition) -> bool:
    """Whether a journal with these ids leads on from where the database is.

    It does not where another journal was written from since, or where the database was known to be further: it was put
    back to an older state then, or is another one.
    """
    if position.journal in journals:
        return noted.database[0] not in journals or noted.database[1] <= position.sequence
    return noted.database == (position.journal, position.sequence)


def _lost(in_store: InStore, noted: JournalPosition, journal: Journal) -> int:
    """How many readings the database acknowledged that neither it nor the journal has: at least so many."""
    lacking = lacking_in(in_store, noted, journal.ids)
    if not lacking:
        return 0
    held = in_store.position.sequence if in_store.position.journal in journal.ids else 0
    return max(0, lacking - journal.readings_found(held, noted.sequence))


def lacking_in(in_store: InStore, noted: JournalPosition, ids: Collection[int]) -> int:
    """How many readings the database acknowledged, by the note of it, that it does not have: at least so many.

    ids: those of the journal.
    """
    if not in_store.position.sequence and len(in_store.tail):
        return 0  # the position alone is gone: an operator removed a row
    return readings_behind(noted, in_store.position, ids)
