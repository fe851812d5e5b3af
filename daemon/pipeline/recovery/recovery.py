"""What the last process left of a group: in the database, in the journal, and in the dead letters."""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from backends.base import Decimating, Store
from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.outside import Outside
from daemon.pipeline.assembly import Runs
from daemon.pipeline.closed_blocks import readings_of
from daemon.pipeline.dead_letters import DeadLetters, Found, folder_of
from daemon.pipeline.durable_state import DurableState, States
from daemon.pipeline.journal import Acknowledged, Amount, Journal, JournalError, JournalRecovery
from daemon.pipeline.journal.acknowledged import readings_behind
from daemon.pipeline.journal.segment import NO_RECORDS
from daemon.pipeline.journal.written_with import WrittenWith
from daemon.pipeline.placing import to_place
from daemon.pipeline.recovery.history import heard_last, history_of
from daemon.pipeline.recovery.turned_off import refuse_turned_off
from schemas.batch import Aside, ClosedBlock, Durability, JournalPosition, Stream
from schemas.config import Config
from schemas.ledger import own_rows
from schemas.queries import LedgerTail
from schemas.readings import Array, InstrumentGroup, join
from schemas.retention import Dropped, Period
from schemas.sessions import NO_SESSIONS

_ALL = 2**62
"""Bytes; what is read is what one segment holds."""

LETTERS_BYTES = 64 * 2**20
"""Dead letters whose readings are known when they come again, the newest: older ones were settled long ago."""


LEAST_WINDOW = 1024
"""The window that triggers are taken to have closed in, at least."""


@dataclass(frozen=True, kw_only=True)
class RecoveredGroup:
    """What was left of one group.

    rows: ledger rows of the newest runs, ascending; history: those of them that nothing revises which is not among
    them. is_whole: whether these are all of their runs, or of the last triggers. tail: see `InStore`.
    position: up to where the database has it. journal, dead_letters: opened; no journal where none is kept. amount:
    what the journal has and the database lacks. revocable: what the journal has, and the database too, which may lose
    it again; as `Journal` says. again:
    closed blocks that are no history of it; their readings go through assembly again. letters: readings that
    are dead letters, or are to become some with what the journal has beyond the position; record dtype, shape (n,).
    placing: what is set aside there to be placed.
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
    tail: Array | None = None
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


@dataclass(frozen=True, kw_only=True)
class InStore:
    """What the database has of one group. tail: ledger rows of the newest runs, ascending.

    position, retried: of this logger's journal, and of its dead letters. state: what is kept beside `position`. others:
    epoch and run, of all epochs of this logger's other groups, those that are not configured, too. dropped,
    reduced: periods whose readings were dropped, or reduced, or are being that.
    """

    tail: Array
    position: JournalPosition
    retried: JournalPosition
    state: DurableState
    others: Set[tuple[int, int]] = frozenset()
    dropped: Sequence[Dropped] = ()
    reduced: Sequence[Period] = ()


async def ask_store(store: Store, group: InstrumentGroup, config: Config) -> InStore:
    """Ask the database for what it has of a group; raises StoreUnavailable."""
    position = await store.position(group.name) or JournalPosition(sequence=0)
    retried = await store.position(group.name, Stream.DEAD_LETTERS) or JournalPosition(sequence=0)
    state = DurableState.decode(position.state)
    tail = await _ledger_tail(store, group, config.assembly.window, state.runs.values())
    others = [DurableState.decode(data) for name, data in (await store.states()).items() if name != group.name]
    pairs = {pair for each in others for pair in each.runs.items()}
    dropped = (await store.dropped()).get(group.name, ())
    account = (await store.decimated()).get(group.name, ()) if isinstance(store, Decimating) else ()
    return InStore(
        tail=tail,
        position=position,
        retried=retried,
        state=state,
        others=pairs,
        dropped=dropped,
        reduced=[each.period for each in account],
    )


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
    found = _InJournal(state=stored, states=States(stored, position), lost=_lacking(in_store, noted, ()))
    if config.journal.max_mib:
        own = WrittenWith(durability=durability, window=config.assembly.window)
        found = await _open_journal(group, config, state_dir, in_store, outside, noted=noted, own=own)
    else:
        await outside.workers.call(partial(refuse_turned_off, state_dir, group.name, position, outside.disk))
    if found.recovery is not None:
        _report_journal(group, found.recovery, events)
    _report_lost(group.name, found.lost, events)
    dead_letters = DeadLetters(folder_of(state_dir, group.name), group, outside)
    unreadable, rejected, letters = await outside.workers.call(_open_dead_letters, dead_letters, in_store, found, most)
    _report_dead_letters(group, unreadable, dead_letters.amount, events)
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
        tail=in_store.tail,
        position=position,
        journal=found.journal,
        amount=found.amount,
        dead_letters=dead_letters,
        revocable=NO_RECORDS if found.recovery is None else found.recovery.held,
        again=found.again,
        letters=_readings_in(letters, found.newest, group),
        placing=Aside.joined([block.aside[to_place(block)] for block in found.newest if block.aside is not None]),
        stored=stored,
        state=found.state,
        states=found.states,
        claimed=found.claimed,
        others=in_store.others,
        own_id=0 if found.journal is not None else outside.rng.getrandbits(63) or 1,
        reach=position.sequence if found.recovery is None else found.recovery.reach,
        lost=found.lost,
        acknowledged=acknowledged,
        dropped=in_store.dropped,
        reduced=in_store.reduced,
    )


async def _ledger_tail(store: Store, group: InstrumentGroup, most: int, runs: Collection[int]) -> Array:
    """The newest ledger rows of the newest runs, ascending; ledger dtype.

    runs: those of known epochs, the one heard last at the end.
    """
    newest = await store.ask(LedgerTail(group=group, most=most))
    last = int(newest["run"][-1]) if len(newest) else 1
    others = {run for run in heard_last(runs) if run < last} or ({last - 1} if last > 1 else set())
    tails = [await store.ask(LedgerTail(group=group, most=most, run=run)) for run in sorted(others)]
    return own_rows([*tails, newest], group.size)


@dataclass(kw_only=True)
class _InJournal:
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


async def _open_journal(
    group: InstrumentGroup,
    config: Config,
    state_dir: Path,
    in_store: InStore,
    outside: Outside,
    *,
    noted: JournalPosition,
    own: WrittenWith,
) -> _InJournal:
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

        def look() -> _InJournal:
            before = WrittenWith.read(folder, outside.disk)
            with_all = own.joined(before)
            found = _look_through(journal, states, in_store, noted=noted, written_with=with_all)
            now = own if found.is_empty else with_all
            if now != before:
                now.write(folder, outside.disk)
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
) -> _InJournal:
    """Open the journal, and read what is to be known of it before anything else comes in."""
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
    return _InJournal(
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


def _read_noted(acknowledged: Acknowledged) -> JournalPosition:
    try:
        return acknowledged.read()
    except OSError as error:
        raise CommandFailed(f"{acknowledged.path} cannot be used: {reason_of(error)}") from None


def _lost(in_store: InStore, noted: JournalPosition, journal: Journal) -> int:
    """How many readings the database acknowledged that neither it nor the journal has: at least so many."""
    lacking = _lacking(in_store, noted, journal.ids)
    if not lacking:
        return 0
    held = in_store.position.sequence if in_store.position.journal in journal.ids else 0
    return max(0, lacking - journal.readings_found(held, noted.sequence))


def _lacking(in_store: InStore, noted: JournalPosition, ids: Collection[int]) -> int:
    if not in_store.position.sequence and len(in_store.tail):
        return 0  # the position alone is gone: an operator removed a row
    return readings_behind(noted, in_store.position, ids)


def _open_dead_letters(
    letters: DeadLetters, in_store: InStore, found: _InJournal, most: int
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
        return unreadable, letters.read_last(most), letters.read_newest(LETTERS_BYTES)
    except OSError as error:
        raise CommandFailed(f"the dead letters cannot be used: {error}") from None


def _of_their_runs(letters: Iterable[ClosedBlock], in_store: InStore) -> list[ClosedBlock]:
    """Rejected triggers without those whose run another epoch has in the database.

    Another daemon has given it that number, before this one could commit anything of it.
    """
    pairs = [*in_store.others, *in_store.state.runs.items(), *in_store.tail[["epoch", "run"]].tolist()]
    epochs = {run: epoch for epoch, run in pairs if epoch}

    def is_theirs(block: ClosedBlock) -> bool:
        rows = np.concatenate([block.ledger, block.revised])[["epoch", "run"]].tolist()
        return all(epochs.get(run, epoch) == epoch for epoch, run in rows if epoch)

    return [block for block in letters if is_theirs(block)]


def _readings_in(letters: Iterable[ClosedBlock], blocks: Iterable[ClosedBlock], group: InstrumentGroup) -> Array:
    """The readings of dead letters, and those that blocks set aside, which become some."""
    asides = [block.aside[~to_place(block)].readings for block in blocks if block.aside is not None]
    return join([np.empty(0, group.record), *map(readings_of, letters), *asides])


def _report_dead_letters(group: InstrumentGroup, unreadable: list[Found], amount: Amount, events: Events) -> None:
    for found in unreadable:
        events.error(f"group {group.name}: {found.problem}")
    if amount.blocks:
        events.warning(
            f"group {group.name}: {_words(group, amount)} are in the dead letters; see `triggerlog dead-letters list"
            " FILE`"
        )


def _words(group: InstrumentGroup, amount: Amount) -> str:
    return f"{amount.readings} readings" + ("" if group.reports else f" of {amount.triggers} triggers")


def _report_lost(group: str, readings: int, events: Events) -> None:
    if readings:
        events.error(
            f"group {group}: the database has lost {readings} readings that it had acknowledged before this start, and"
            " the journal does not have them. Was it restored from a copy, is the volume of its data not mounted, or is"
            " it another database? To put the right one in its place, stop the daemon first"
        )


def _report_journal(group: InstrumentGroup, recovery: JournalRecovery, events: Events) -> None:
    amount, name = recovery.amount, group.name
    if amount.blocks:
        events.info(f"group {name}: {_words(group, amount)} were left in the journal, and are committed now")
    foreign = sum(each.amount.readings for each in recovery.foreign)
    if recovery.loose.readings + foreign:
        events.warning(
            f"group {name}: {recovery.loose.readings + foreign} readings in the journal do not lead on from where the"
            " database is (it was put back, another daemon wrote in between, or a record is lost); what of them it"
            " lacks is stored now"
        )
    for damage, copy in zip(recovery.damages, recovery.copies, strict=True):
        where = f"group {name}: {damage.path.name} in the journal, bytes {damage.start} to {damage.end}"
        if damage.is_torn:
            events.info(
                f"{where}: a record was being written when the machine or the daemon stopped; the bytes are kept in"
                f" {copy}"
            )
        else:
            events.error(f"{where}: it is damaged; the bytes are kept in {copy}")
