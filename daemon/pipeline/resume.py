"""Where the daemon before this one left off: what the database has of a group, and what the journal has beyond it."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.base import Store
from daemon.core.events import Events
from daemon.core.outcome import CommandFailed, reason_of
from daemon.pipeline.dead_letters import DeadLetters, Found, folder_of, said_of
from daemon.pipeline.history import history_of
from daemon.pipeline.journal import Amount, Journal, JournalError, Recovered
from schemas.batch import ClosedBlock, JournalPosition, Stream
from schemas.config import Config
from schemas.ledger import ledger_dtype
from schemas.queries import LedgerTail
from schemas.readings import Array, InstrumentGroup


@dataclass(frozen=True, kw_only=True)
class Left:
    """What was left of one group.

    history: ledger rows of the newest run, ascending. journal, dead_letters: opened; no journal where none is kept.
    """

    history: Array
    position: JournalPosition | None
    journal: Journal | None
    recovered: Recovered | None
    dead_letters: DeadLetters

    @property
    def run(self) -> int | None:
        """The newest run; None before the first trigger."""
        return int(self.history["run"][-1]) if len(self.history) else None


async def what_was_left(store: Store, group: InstrumentGroup, config: Config, state_dir: Path, events: Events) -> Left:
    """Ask the store, open the journal, and say what was found.

    Raises:
        StoreUnavailable: the database does not answer.
        CommandFailed: the journal, or the dead letters, cannot be used.
    """
    most = config.assembly.window // 2
    found = await store.ask(LedgerTail(group=group, most=most))
    tail = np.zeros(len(found), ledger_dtype(group.size))
    tail[:] = found
    position = await store.position(group.name)
    dead_letters = DeadLetters(folder_of(state_dir, group.name), group)
    retried = await store.position(group.name, Stream.DEAD_LETTERS)
    held = position.sequence if position else 0, retried.sequence if retried else 0
    unread, buried = await asyncio.to_thread(_open_dead_letters, dead_letters, held, most)
    _say_dead(group.name, unread, dead_letters.amount, events)
    if not config.journal.max_mib:
        history = history_of(tail, buried, most)
        return Left(history=history, position=position, journal=None, recovered=None, dead_letters=dead_letters)
    journal = Journal(
        state_dir / "journal" / group.name,
        group,
        max_bytes=int(config.journal.max_mib * 2**20),
        segment_bytes=int(config.journal.segment_mib * 2**20),
    )
    try:
        recovered = await asyncio.to_thread(journal.open, position.sequence if position else 0)
        blocks = await asyncio.to_thread(journal.read_last, most)
    except JournalError as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"the journal under {state_dir} cannot be used: {reason_of(error)}") from None
    _say(group.name, recovered, events)
    return Left(
        history=history_of(tail, [*buried, *blocks], most),
        position=position,
        journal=journal,
        recovered=recovered,
        dead_letters=dead_letters,
    )


def _open_dead_letters(letters: DeadLetters, held: tuple[int, int], most: int) -> tuple[list[Found], list[ClosedBlock]]:
    """Open them; return what cannot be read, and the last ones: what comes late for them is to find its trigger."""
    try:
        return letters.open(position=held[0], retried=held[1]), letters.read_last(most)
    except OSError as error:
        raise CommandFailed(f"the dead letters cannot be used: {error}") from None


def _say_dead(group: str, unread: list[Found], lying: Amount, events: Events) -> None:
    for found in unread:
        events.say("error", f"group {group}: {said_of(found)}")
    if lying.blocks:
        events.say(
            "warning",
            f"group {group}: {lying.readings} readings of {lying.triggers} triggers lie in the dead letters; see"
            " `triggerlog dead-letters list FILE`",
        )


def _say(group: str, recovered: Recovered, events: Events) -> None:
    amount = recovered.amount
    if amount.blocks:
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
