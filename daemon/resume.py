"""Where the daemon before this one left off: what the database has of a group, and what the journal has beyond it."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.base import Store
from daemon.events import Events
from daemon.history import history_of
from daemon.journal import Journal, JournalError, Recovered
from daemon.outcome import CommandFailed, reason_of
from schemas.batch import JournalPosition
from schemas.config import Config
from schemas.ledger import ledger_dtype
from schemas.queries import LedgerTail
from schemas.readings import Array, InstrumentGroup


@dataclass(frozen=True, kw_only=True)
class Left:
    """What was left of one group.

    history: ledger rows of the newest run, ascending. journal: opened; None where none is kept.
    """

    history: Array
    position: JournalPosition | None
    journal: Journal | None
    recovered: Recovered | None

    @property
    def run(self) -> int | None:
        """The newest run; None before the first trigger."""
        return int(self.history["run"][-1]) if len(self.history) else None


async def what_was_left(store: Store, group: InstrumentGroup, config: Config, state_dir: Path, events: Events) -> Left:
    """Ask the store, open the journal, and say what was found.

    Raises:
        StoreUnavailable: the database does not answer.
        CommandFailed: the journal cannot be used.
    """
    most = config.assembly.window // 2
    found = await store.ask(LedgerTail(group=group, most=most))
    tail = np.zeros(len(found), ledger_dtype(group.size))
    tail[:] = found
    position = await store.position(group.name)
    if not config.journal.max_mib:
        return Left(history=tail, position=position, journal=None, recovered=None)
    journal = Journal(
        state_dir / "journal" / group.name,
        group,
        max_bytes=int(config.journal.max_mib * 2**20),
        segment_bytes=int(config.journal.segment_mib * 2**20),
    )
    try:
        recovered = await asyncio.to_thread(journal.open, position.sequence if position else 0)
        pieces = await asyncio.to_thread(journal.read_last, most)
    except JournalError as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"the journal under {state_dir} cannot be used: {reason_of(error)}") from None
    _say(group.name, recovered, events)
    return Left(history=history_of(tail, pieces, most), position=position, journal=journal, recovered=recovered)


def _say(group: str, recovered: Recovered, events: Events) -> None:
    amount = recovered.amount
    if amount.pieces:
        events.say(
            "info",
            f"group {group}: {amount.readings} readings of {amount.triggers} triggers were left in the journal, and are"
            " committed now",
        )
    for damage, kept in zip(recovered.damages, recovered.kept, strict=True):
        what = (
            "a record was being written when the machine or the daemon stopped" if damage.is_torn else "it is damaged"
        )
        events.say(
            "info" if damage.is_torn else "error",
            f"group {group}: {damage.path.name} in the journal, bytes {damage.start} to {damage.end}: {what}; the bytes"
            f" are kept in {kept}",
        )
