"""A group as the last process left it: in the database, in the log, and in the dead letters."""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from daemon.core.monitoring.events import Events
from daemon.core.outcome import CommandFailed, reason_of
from daemon.core.outside import Disk, Outside
from daemon.pipeline.assembly import Runs
from daemon.pipeline.closed_blocks import readings_of
from daemon.pipeline.dead_letters import DeadLetters, Found, folder_of
from daemon.pipeline.durable_state import DurableState, may_have
from daemon.pipeline.files import Amount
from daemon.pipeline.files.acknowledged import readings_behind
from daemon.pipeline.files.identity import read_ids
from daemon.pipeline.log import Log, readings_in
from daemon.pipeline.log import folder_of as log_folder_of
from daemon.pipeline.recovery.in_store import InStore, heard_last
from daemon.pipeline.recovery.refusing import refuse_earlier_version
from daemon.pipeline.revising import rows_after
from schemas.batch import ClosedBlock, JournalPosition
from schemas.config import Config
from schemas.readings import Array, InstrumentGroup, join
from schemas.retention import Dropped, Period

LETTERS_BYTES = 64 * 2**20
"""Dead letters whose readings are known when they come again, the newest: older ones were settled long ago."""


@dataclass(frozen=True, kw_only=True)
class Recalled:
    """The state that assembly begins with, and begins again with.

    history: ledger rows of the newest runs, ascending. state: sessions, and runs of epochs. letters: the readings of
    dead letters; record dtype, shape (n,).
    """

    history: Array
    state: DurableState
    letters: Array


@dataclass(frozen=True, kw_only=True)
class RecoveredGroup:
    """What was left of one group.

    recalled: what assembly begins with. position: up to where the database has it. dead_letters: opened. id: what the
    numbers of this process are of. formerly: what those of earlier processes with this log were of. others: see
    `InStore`. lost: readings that the database acknowledged, and has no more, without what the log has.
    dropped, reduced: periods of which it has the ledger alone, and of which it has not all readings.
    """

    recalled: Recalled
    position: JournalPosition
    dead_letters: DeadLetters
    id: int
    formerly: frozenset[int]
    others: Set[tuple[int, int]] = frozenset()
    lost: int = 0
    dropped: Sequence[Dropped] = ()
    reduced: Sequence[Period] = ()

    @property
    def was_elsewhere(self) -> bool:
        """Tell whether a daemon with another state folder, or one without a log, wrote to the database last.

        What of a sender it never got, and this folder has, it took for lost.
        """
        return self.position.sequence > 0 and self.position.journal not in self.formerly


def runs_of(groups: Iterable[RecoveredGroup]) -> Runs:
    """The runs that all groups know of, those that are not configured, too."""
    found = list(groups)
    histories = [group.recalled.history for group in found]
    newest = [int(rows["run"][-1]) for rows in histories if len(rows)]
    known = [pair for group in found for pair in sorted(group.others)]
    # A store that writes in parts may have rows of an epoch that is not beside the position yet.
    known += [row for rows in histories for row in np.unique(rows[["epoch", "run"]]).tolist() if row[0]]
    known += [pair for group in found for pair in group.recalled.state.runs.items()]
    return Runs(max([*newest, *(run for _, run in known)], default=None), dict(known))


async def recover_group(
    in_store: InStore,
    group: InstrumentGroup,
    config: Config,
    state_dir: Path,
    events: Events,
    *,
    outside: Outside,
    log: Log | None,
    in_log: int = 0,
) -> RecoveredGroup:
    """Open the dead letters, and report what was found.

    log: open; None where none is kept. in_log: readings that it holds.

    Raises:
        CommandFailed: the dead letters cannot be used, an earlier version left something that this one cannot read, or
            no log is kept, and the one before holds something.
    """
    await outside.workers.call(refuse_earlier_version, state_dir, group.name, outside.disk)
    if log is None:
        await outside.workers.call(_refuse_turned_off, in_store, log_folder_of(state_dir, group.name), outside.disk)
    dead_letters = DeadLetters(folder_of(state_dir, group.name), group, outside)
    own_id = outside.rng.getrandbits(63) or 1 if log is None else log.id

    def look() -> tuple[list[Found], int, Recalled]:
        try:
            unreadable, lost = dead_letters.open(), dead_letters.compare(in_store.retried)
            return unreadable, lost, recall(in_store, group, config, dead_letters)
        except OSError as error:
            raise CommandFailed(f"the dead letters cannot be used: {error}") from None

    unreadable, lost, recalled = await outside.workers.call(look)
    lost += 0 if log is None else max(0, _lacking(in_store, log) - in_log)
    report_lost(group.name, lost, events)
    try:
        await dead_letters.note()
    except OSError as error:
        events.error(
            f"group {group.name}: the dead letters cannot be written, and take nothing until they can: {error}; make"
            " room on the disk of the state folder, or repair it"
        )
    report_dead_letters(group, unreadable, dead_letters.amount, events)
    return RecoveredGroup(
        recalled=recalled,
        position=in_store.position,
        dead_letters=dead_letters,
        id=own_id,
        formerly=frozenset({in_store.position.journal}) if log is None else log.former,
        others=in_store.others,
        lost=lost,
        dropped=in_store.dropped,
        reduced=in_store.reduced,
    )


def recall(in_store: InStore, group: InstrumentGroup, config: Config, dead_letters: DeadLetters) -> Recalled:
    """Return what assembly begins with, by what the database has, and what is a dead letter; raises OSError.

    What comes late for a trigger that was rejected is to find it.
    """
    most = config.assembly.window
    rejected = _of_their_runs(dead_letters.last_blocks(most), in_store)
    letters = [readings_of(block) for block in dead_letters.newest_blocks(LETTERS_BYTES)]
    return Recalled(
        history=history_of(in_store.tail, rejected, most, heard_last(in_store.state.runs.values())),
        state=in_store.state,
        letters=join([np.empty(0, group.record), *letters]),
    )


def _refuse_turned_off(in_store: InStore, folder: Path, disk: Disk) -> None:
    """See that the log of a group that keeps none any more holds nothing that the database lacks; nobody reads it."""
    sessions = in_store.state.sessions
    try:
        id_and_next = read_ids(folder, disk)
        is_ours = in_store.position.journal in (*id_and_next[:1], *id_and_next[2:])
        settled = dict(zip(sessions["session"].tolist(), sessions["settled"].tolist(), strict=True))
        left = readings_in(folder, disk, settled if is_ours else None)
    except OSError as error:
        raise CommandFailed(f"{folder} cannot be read: {reason_of(error)}") from None
    if left:
        raise CommandFailed(
            f"{folder} holds {left:,} readings, and journal.max_mib is 0: give it a value above 0 and run the daemon"
            " until all is committed, and stop it before the journal is turned off; or move the folder away"
        )


def _lacking(in_store: InStore, log: Log) -> int:
    """Count the readings that the database acknowledged, by the note of it, and does not have: at least so many."""
    if not in_store.position.sequence and len(in_store.tail):
        return 0  # the position alone is gone: an operator removed a row
    return readings_behind(log.noted, in_store.position, log.former)


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


RUNS = 2
"""Runs remembered: right after a restart of the timing system readings still come for the run before."""


def history_of(stored: Array, blocks: Iterable[ClosedBlock], most: int, heard: Collection[int]) -> Array:
    """Ledger rows of the newest runs, the last `most` of each, ascending.

    stored: the store's ledger tails; ledger dtype. blocks: dead letters, in order. A row that closes a trigger replaces
    an earlier one of it; a revised one changes it, and is none where it is not there. heard: runs that are remembered
    whatever their numbers; of a machine whose epoch is known the highest number may be that of an instrument with a
    wrong one.
    """
    rows, _ = rows_after(stored, list(blocks))
    runs = np.unique(rows["run"])
    remembered = runs[np.isin(runs, list(heard)) | (np.arange(len(runs)) >= len(runs) - (1 if heard else RUNS))]
    tails = [rows[rows["run"] == run][-most:] for run in remembered]
    return np.concatenate([rows[:0], *tails])


def report_dead_letters(group: InstrumentGroup, unreadable: list[Found], amount: Amount, events: Events) -> None:
    """Tell what dead letters there are, and what of them cannot be read."""
    for found in unreadable:
        events.error(f"group {group.name}: {found.problem}")
    if amount.blocks:
        events.warning(
            f"group {group.name}: {_words(group, amount)} are in the dead letters; see `triggerlog dead-letters list"
            " FILE`"
        )


def _words(group: InstrumentGroup, amount: Amount) -> str:
    return f"{amount.readings} readings" + ("" if group.reports else f" of {amount.triggers} triggers")


def report_lost(group: str, readings: int, events: Events) -> None:
    """Tell what the database has lost."""
    if readings:
        events.error(
            f"group {group}: the database has lost {readings} readings that it had acknowledged before this start, and"
            " neither the log nor the dead letters have them. Was it restored from a copy, is the volume of its"
            " data not mounted, or is it another database? To put the right one in its place, stop the daemon first"
        )
