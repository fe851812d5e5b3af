"""What the last process left of a group: in the database, in the journal, and in the dead letters."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.outside import Outside
from daemon.pipeline.assembly import Runs
from daemon.pipeline.closed_blocks import readings_of
from daemon.pipeline.dead_letters import DeadLetters, Found, folder_of
from daemon.pipeline.dead_letters.at_start import read_last, read_newest
from daemon.pipeline.durable_state import DurableState, States, may_have
from daemon.pipeline.journal import Acknowledged, Amount, Journal
from daemon.pipeline.journal.segment import NO_RECORDS
from daemon.pipeline.journal.written_with import WrittenWith
from daemon.pipeline.placing import to_place
from daemon.pipeline.recovery.history import heard_last, history_of
from daemon.pipeline.recovery.in_journal import InJournal, lacking_in, open_journal
from daemon.pipeline.recovery.in_store import InStore
from daemon.pipeline.recovery.reporting import report_dead_letters, report_journal, report_lost
from daemon.pipeline.recovery.turned_off import refuse_turned_off
from daemon.pipeline.revising import find
from schemas.batch import Aside, ClosedBlock, Durability, JournalPosition
from schemas.config import Config
from schemas.readings import Array, InstrumentGroup, join
from schemas.retention import Dropped, Period
from schemas.sessions import NO_SESSIONS
from schemas.states import AsideReason

LETTERS_BYTES = 64 * 2**20
"""Dead letters whose readings are known when they come again, the newest: older ones were settled long ago."""


@dataclass(frozen=True, kw_only=True)
class RecoveredGroup:
    """What was left of one group.

    rows: ledger rows of the newest runs, ascending; history: those of them that nothing revises which is not among
    them. is_whole: whether these are all of their runs, or of the last triggers. position: up to where the database has
    it. journal, dead_letters: opened; no journal where none is kept. amount: what the journal has and the database
    lacks. revocable: what the journal has, and the database too, which may lose it again; as `Journal` says. again:
    closed blocks that are no history of it; their readings go through assembly again. letters: readings that are dead
    letters, or are to become some with what the journal has beyond the position; record dtype, shape (n,). placing:
    what is aside there to be placed.
    own_id: what numbers are of where no journal is kept: no other process has it. reach: up to which number blocks of
    an earlier process are known, in the database or the journal.
    lost: readings that the database acknowledged, and has no more, without what the journal has of them.
    dropped, reduced: periods of which it has the ledger alone, and of which it has not all readings.
    acknowledged: takes what the database acknowledges from now on.
    claimed: sessions as the journal says, without proof that it has all before.
    stored, state: sessions, and runs of epochs, as they are in the database, and after all of that. states: what the
    journal asks for them. others: see `InStore`.
    """

    rows: Array
    position: JournalPosition
    journal: Journal | None
    amount: Amount
    dead_letters: DeadLetters
    history: Array
    is_whole: bool = True
    revocable: Array = field(default_factory=lambda: NO_RECORDS)
    again: Sequence[ClosedBlock] = ()
    letters: Array | None = None
    placing: Aside | None = None
    stored: DurableState = field(default_factory=DurableState)
    state: DurableState = field(default_factory=DurableState)
    states: States = field(default_factory=States)
    claimed: Array = field(default_factory=lambda: NO_SESSIONS)
    others: Set[tuple[int, int]] = frozenset()
    own_id: int = 0
    reach: int = 0
    lost: int = 0
    acknowledged: Acknowledged | None = None
    dropped: Sequence[Dropped] = ()
    reduced: Sequence[Period] = ()

    @property
    def id(self) -> int:
        """The id that the numbers of this process are of."""
        return self.own_id if self.journal is None else self.journal.id

    @property
    def formerly(self) -> frozenset[int]:
        """The ids that numbers of earlier processes are of."""
        return frozenset({self.position.journal}) if self.journal is None else self.journal.ids

    @property
    def was_elsewhere(self) -> bool:
        """Whether a daemon with another state folder, or one without a journal, wrote to the database last.

        What of a sender it never got, and this folder has, it took for lost.
        """
        return self.journal is not None and self.position.sequence > 0 and not self._is_ours

    @property
    def held(self) -> int:
        """Up to which number of the journal the database has the blocks."""
        return self.position.sequence if self._is_ours else 0

    @property
    def _is_ours(self) -> bool:
        return self.journal is None or self.position.journal in self.journal.ids


def runs_of(groups: Iterable[RecoveredGroup]) -> Runs:
    """The runs that all groups know of, those that are not configured, too."""
    found = list(groups)
    newest = [int(group.rows["run"][-1]) for group in found if len(group.rows)]
    known = [pair for group in found for pair in sorted(group.others)]
    # A store that writes in parts may have rows of an epoch that is not beside the position yet.
    known += [row for group in found for row in np.unique(group.rows[["epoch", "run"]]).tolist() if row[0]]
    known += [pair for group in found for pair in group.state.runs.items()]
    return Runs(max([*newest, *(run for _, run in known)], default=None), dict(known))


async def recover_group(
    in_store: InStore,
    group: InstrumentGroup,
    config: Config,
    state_dir: Path,
    events: Events,
    *,
    outside: Outside,
    durability: Durability = Durability.SYNC,
) -> RecoveredGroup:
    """Open the journal and the dead letters, and report what was found.

    durability: of what the database has; while it may lose something of that, the journal keeps it.

    Raises:
        CommandFailed: the journal, or the dead letters, cannot be used, or one that holds something is turned off.
    """
    most = config.assembly.window
    position, stored = in_store.position, in_store.state
    acknowledged = Acknowledged(state_dir / "journal" / group.name, outside)
    noted = await outside.workers.call(_read_noted, acknowledged)
    found = InJournal(state=stored, states=States(stored, position), lost=lacking_in(in_store, noted, ()))
    if config.journal.max_mib:
        own = WrittenWith(durability=durability, window=config.assembly.window)
        found = await open_journal(group, config, state_dir, in_store, outside, noted=noted, own=own)
    else:
        await outside.workers.call(partial(refuse_turned_off, state_dir, group.name, position, outside.disk))
    if found.recovery is not None:
        report_journal(group, found.recovery, events)
    dead_letters = DeadLetters(folder_of(state_dir, group.name), group, outside)
    unreadable, rejected, letters = await outside.workers.call(_open_dead_letters, dead_letters, in_store, found, most)
    lost = found.lost + dead_letters.lost
    report_lost(group.name, lost, events)
    try:
        await dead_letters.note_found(in_store.retried)
    except OSError as error:
        events.error(
            f"group {group.name}: the dead letters cannot be written, and take nothing until they can: {error}; make"
            " room on the disk of the state folder, or repair it"
        )
    report_dead_letters(group, unreadable, dead_letters.amount, events)
    heard = heard_last(found.state.runs.values())
    rejected = _of_their_runs(rejected, in_store)
    rows = history = history_of(in_store.tail, [*rejected, *found.newest], most, heard)
    if not found.is_whole:
        # What lies in the journal before these blocks may revise what the database has, and nobody has read that.
        history = history_of(in_store.tail[:0], found.newest, most, heard)
    return RecoveredGroup(
        rows=rows,
        history=history,
        is_whole=found.is_whole,
        position=position,
        journal=found.journal,
        amount=found.amount,
        dead_letters=dead_letters,
        revocable=NO_RECORDS if found.recovery is None else found.recovery.held,
        again=found.again,
        letters=_readings_in(letters, found.newest, group),
        placing=_to_be_placed(found.newest, rows, most),
        stored=stored,
        state=found.state,
        states=found.states,
        claimed=found.claimed,
        others=in_store.others,
        own_id=0 if found.journal is not None else outside.rng.getrandbits(63) or 1,
        reach=position.sequence if found.recovery is None else found.recovery.reach,
        lost=lost,
        acknowledged=acknowledged,
        dropped=in_store.dropped,
        reduced=in_store.reduced,
    )


def _read_noted(acknowledged: Acknowledged) -> JournalPosition:
    try:
        return acknowledged.read()
    except OSError as error:
        raise CommandFailed(f"{acknowledged.path} cannot be used: {reason_of(error)}") from None


def _open_dead_letters(
    letters: DeadLetters, in_store: InStore, found: InJournal, most: int
) -> tuple[list[Found], list[ClosedBlock], list[ClosedBlock]]:
    """Open them; return what cannot be read, the last that were rejected, and the newest of all.

    What comes late for the rejected ones is to find its trigger.
    """
    try:
        unreadable = letters.open(
            position=in_store.position,
            retried=in_store.retried,
            journal=0 if found.journal is None else found.journal.id,
            formerly=found.formerly,
        )
        return unreadable, read_last(letters, most), read_newest(letters, LETTERS_BYTES)
    except OSError as error:
        raise CommandFailed(f"the dead letters cannot be used: {error}") from None


def _of_their_runs(letters: Iterable[ClosedBlock], in_store: InStore) -> list[ClosedBlock]:
    """Rejected triggers without those of which the database has the run for another epoch, or the epoch in another run.

    Another daemon has given these the numbers, before this one could commit anything of it.
    """
    pairs = (*in_store.state.runs.items(), *in_store.tail[["epoch", "run"]].tolist())
    own = {(epoch, run) for epoch, run in pairs if epoch}  # a run may take an epoch over that it began without

    def is_theirs(block: ClosedBlock) -> bool:
        rows = np.concatenate([block.ledger, block.revised])[["epoch", "run"]].tolist()
        return all(may_have(epoch, run, own, in_store.others) for epoch, run in rows if epoch)

    return [block for block in letters if is_theirs(block)]


def _to_be_placed(blocks: Iterable[ClosedBlock], rows: Array, most: int) -> Aside | None:
    """What blocks set aside to be placed, and what came late in them for triggers of which no row is there.

    As those that were rejected, and discarded since: what came late makes triggers of its own.
    rows: the last `most` of each run, ascending; what is older than all of these may be in the database.
    """
    runs, first, count = np.unique(rows["run"], return_index=True, return_counts=True)
    oldest = dict(zip(runs[count >= most].tolist(), rows["trigger"][first[count >= most]].tolist(), strict=True))
    parts = []
    for block in blocks:
        of = block.revised[block.late_of]
        _, is_there = find(rows, of)
        is_older = of["trigger"] < np.array([oldest.get(run, 0) for run in of["run"].tolist()], np.int64)
        parts.append(Aside.of(block.late, of["run"], AsideReason.OLDER)[~is_there & ~is_older])
        if block.aside is not None:
            parts.append(block.aside[to_place(block)])
    return Aside.joined(parts)


def _readings_in(letters: Iterable[ClosedBlock], blocks: Iterable[ClosedBlock], group: InstrumentGroup) -> Array:
    """The readings of dead letters, and those that blocks set aside, which become some."""
    asides = [block.aside[~to_place(block)].readings for block in blocks if block.aside is not None]
    return join([np.empty(0, group.record), *map(readings_of, letters), *asides])
