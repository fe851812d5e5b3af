"""What the last process left of a group: in the database, in the journal, and in the dead letters."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from backends.base import Store
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.outside import Outside
from daemon.pipeline.assembly import Runs
from daemon.pipeline.dead_letters import DeadLetters, Found, folder_of
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.journal import Amount, Journal, JournalError, JournalRecovery
from daemon.pipeline.recovery.history import history_of
from schemas.batch import ClosedBlock, JournalPosition, Stream
from schemas.config import Config
from schemas.ledger import ledger_dtype
from schemas.queries import LedgerTail
from schemas.readings import Array, InstrumentGroup


@dataclass(frozen=True, kw_only=True)
class RecoveredGroup:
    """What was left of one group.

    history: ledger rows of the newest runs, ascending. position: up to where the database has it. journal,
    dead_letters: opened; no journal where none is kept. amount: what the journal has and the database lacks. state:
    sessions, and runs of epochs, as they are after all of that.
    """

    history: Array
    position: JournalPosition
    journal: Journal | None
    amount: Amount
    dead_letters: DeadLetters
    state: DurableState = field(default_factory=DurableState)

    @property
    def held(self) -> int:
        """Up to which number of the journal the database has the blocks."""
        is_ours = self.journal is None or self.position.journal == self.journal.id
        return self.position.sequence if is_ours else 0


def runs_of(groups: Iterable[RecoveredGroup]) -> Runs:
    """The runs that all groups know of."""
    found = list(groups)
    newest = [int(group.history["run"][-1]) for group in found if len(group.history)]
    epochs = {epoch: run for group in found for epoch, run in group.state.runs.items()}
    return Runs(max(newest, default=None), epochs)


async def recover_group(
    store: Store, group: InstrumentGroup, config: Config, state_dir: Path, events: Events, *, outside: Outside
) -> RecoveredGroup:
    """Ask the store, open the journal and the dead letters, and report what was found.

    Raises:
        StoreUnavailable: the database does not answer.
        CommandFailed: the journal, or the dead letters, cannot be used.
    """
    most = config.assembly.window
    found = await store.ask(LedgerTail(group=group, most=most))
    tail = np.zeros(len(found), ledger_dtype(group.size))
    tail[:] = found
    position = await store.position(group.name) or JournalPosition(sequence=0)
    retried = await store.position(group.name, Stream.DEAD_LETTERS) or JournalPosition(sequence=0)
    journal, in_journal, amount = None, list[ClosedBlock](), Amount()
    if config.journal.max_mib:
        journal, in_journal, recovery = await _open_journal(group, config, state_dir, position, outside)
        amount = recovery.amount
        _report_journal(group.name, recovery, events)
    dead_letters = DeadLetters(folder_of(state_dir, group.name), group, outside)
    unreadable, rejected = await asyncio.to_thread(_open_dead_letters, dead_letters, position, retried, journal, most)
    _report_dead_letters(group.name, unreadable, dead_letters.amount, events)
    return RecoveredGroup(
        history=history_of(tail, [*rejected, *in_journal], most),
        position=position,
        journal=journal,
        amount=amount,
        dead_letters=dead_letters,
        state=DurableState.decode(position.state).after(in_journal),
    )


async def _open_journal(
    group: InstrumentGroup, config: Config, state_dir: Path, position: JournalPosition, outside: Outside
) -> tuple[Journal, list[ClosedBlock], JournalRecovery]:
    """Open the journal; return it with its last blocks, for the history, and what was found in it."""
    journal = Journal(
        state_dir / "journal" / group.name,
        group,
        outside,
        max_bytes=int(config.journal.max_mib * 2**20),
        segment_bytes=int(config.journal.segment_mib * 2**20),
    )
    try:
        recovery = await asyncio.to_thread(journal.open, position)
        blocks = await asyncio.to_thread(journal.read_last, config.assembly.window)
    except JournalError as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"the journal under {state_dir} cannot be used: {reason_of(error)}") from None
    return journal, blocks, recovery


def _open_dead_letters(
    letters: DeadLetters, position: JournalPosition, retried: JournalPosition, journal: Journal | None, most: int
) -> tuple[list[Found], list[ClosedBlock]]:
    """Open them; return what cannot be read, and the last ones: what comes late for them is to find its trigger."""
    try:
        number_of = None if journal is None else journal.id
        return letters.open(position=position, retried=retried, journal=number_of), letters.read_last(most)
    except OSError as error:
        raise CommandFailed(f"the dead letters cannot be used: {error}") from None


def _report_dead_letters(group: str, unreadable: list[Found], amount: Amount, events: Events) -> None:
    for found in unreadable:
        events.error(f"group {group}: {found.problem}")
    if amount.blocks:
        events.warning(
            f"group {group}: {amount.readings} readings of {amount.triggers} triggers are in the dead letters; see"
            " `triggerlog dead-letters list FILE`"
        )


def _report_journal(group: str, recovery: JournalRecovery, events: Events) -> None:
    amount = recovery.amount
    if amount.blocks:
        events.info(
            f"group {group}: {amount.readings} readings of {amount.triggers} triggers were left in the journal, and are"
            " committed now"
        )
    for damage, copy in zip(recovery.damages, recovery.copies, strict=True):
        where = f"group {group}: {damage.path.name} in the journal, bytes {damage.start} to {damage.end}"
        if damage.is_torn:
            events.info(
                f"{where}: a record was being written when the machine or the daemon stopped; the bytes are kept in"
                f" {copy}"
            )
        else:
            events.error(f"{where}: it is damaged; the bytes are kept in {copy}")
