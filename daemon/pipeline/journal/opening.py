"""Opening a journal: its folder is looked through, and what it holds is taken over."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from daemon.core.outside import Disk
from daemon.pipeline.journal.chain import Chain, follow
from daemon.pipeline.journal.deferred import Deferred
from daemon.pipeline.journal.errors import JournalError
from daemon.pipeline.journal.format import group_checksum
from daemon.pipeline.journal.found import JournalRecovery, amount_of, foreign, journal_of
from daemon.pipeline.journal.identity import Identity
from daemon.pipeline.journal.others import Others
from daemon.pipeline.journal.sealed import Sealed, SealedSegment
from daemon.pipeline.journal.segment import ENDING, NO_RECORDS, Scan, copy_of, paths_in, scan, set_aside
from schemas.batch import JournalPosition
from schemas.readings import Array, InstrumentGroup


@dataclass(frozen=True, kw_only=True)
class Opened:
    """What a journal goes on with.

    recovery: what was found, without its `problem`: it is not made durable here. next: the next number. held_upto: what
    was found up to this number, the database has. synced: what has a number up to this one is on the disk.
    """

    recovery: JournalRecovery
    next: int
    held_upto: int
    synced: int


def open_folder(
    disk: Disk,
    folder: Path,
    group: InstrumentGroup,
    position: JournalPosition | None,
    *,
    holds: bool,
    identity: Identity,
    sealed: Sealed,
    others: Others,
    deferred: Deferred,
) -> Opened:
    """Look through the segments, set aside what is damaged, and remove what is wanted no more.

    position, holds: as `Journal.open` says. identity: loaded here; the journal gets another id. sealed, others: take
    over the segments. deferred: takes what the disk does not take now.

    Raises:
        JournalError: a segment holds readings of a group laid out otherwise.
        OSError: the folder cannot be used.
    """
    identity.load()
    for path in paths_in(disk, folder, f"{ENDING}.partial"):
        deferred.do(partial(disk.remove, path))
    found = _scan(disk, folder, group)
    damages = [damage for each in found for damage in each.damages]
    for damage in damages:
        deferred.do(partial(set_aside, disk, folder, damage), damage.path)
    ids = identity.ids
    own = [each for each in found if journal_of(each) in ids]
    identity.succeed({journal_of(each) for each in own} | {0 if position is None else position.journal})
    others.take([each for each in found if each not in own and (each.head is not None or len(each.records))])
    chain = follow(own, ids, position)
    number = _next_number(found, identity, position)
    deferred.do(partial(identity.take, number))
    held = chain.held if holds else [records[:0] for records in chain.held]
    wanted = [*_seal(disk, own, chain, held, sealed), *others]
    deferred.do(partial(_remove_all_but, {each.path for each in wanted}, found, disk, folder))
    recovery = JournalRecovery(
        amount=amount_of(chain.whole),
        held=np.concatenate([NO_RECORDS, *held]),
        damages=tuple(damages),
        copies=tuple(copy_of(folder, damage) for damage in damages),
        loose=amount_of(chain.loose),
        hole=chain.hole,
        foreign=tuple(map(foreign, others)),
        reach=chain.reach,
        state=chain.state,
        state_at=chain.state_at,
        newest_state=next((each.head.state for each in reversed(own) if each.head is not None), b""),
        problem=None,
    )
    return Opened(
        recovery=recovery,
        next=number,
        held_upto=max((int(records["sequence"].max(initial=0)) for records in held), default=0),
        synced=max((each.synced for each in own), default=0),
    )


def _scan(disk: Disk, folder: Path, group: InstrumentGroup) -> list[Scan]:
    """Look through all segments of a folder, in the order of their numbers.

    Raises:
        JournalError: one holds readings of a group laid out otherwise.
        OSError: the disk failed.
    """
    found = []
    for path in paths_in(disk, folder):
        found.append(scan(disk, path))
        _check_group(found[-1], group)
    return found


def _check_group(found: Scan, group: InstrumentGroup) -> None:
    if found.groups - {group_checksum(group)}:
        raise JournalError(
            f"{found.path} holds readings of group {group.name!r} with other instruments or channels than"
            " the configuration has; run the daemon with those until all is committed (where the database refuses"
            " them, with another `schema`), or move the file away"
        )


def _next_number(found: Sequence[Scan], identity: Identity, position: JournalPosition | None) -> int:
    """Begin with a number, and a name of a segment, that never was."""
    held = position.sequence if position is not None else 0
    numbers = [int(each.records["sequence"].max(initial=int(each.path.stem))) for each in found]
    return max(identity.next, *(number + 1 for number in (held, *numbers)))


def _seal(disk: Disk, own: Sequence[Scan], chain: Chain, held: Sequence[Array], sealed: Sealed) -> list[Scan]:
    """Take over the segments of this journal in which something is wanted; return these."""
    kept = []
    for each, has, lacks, loose in zip(own, held, chain.whole, chain.loose, strict=True):
        whole = np.concatenate([has, lacks])
        if len(whole) or len(loose):
            kept.append(each)
            head = disk.read(each.path, 0, each.head.nbytes if each.head else 0)
            sealed.add(SealedSegment(path=each.path, head=head, nbytes=each.nbytes, records=whole, loose=loose))
    return kept


def _remove_all_but(wanted: Collection[Path], found: Sequence[Scan], disk: Disk, folder: Path) -> None:
    for each in found:
        if each.path not in wanted:
            disk.remove(each.path)
    disk.sync_folder(folder)
