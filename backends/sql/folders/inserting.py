"""Insertions: what was there is read under the lock of the folder, and all changes are one transaction."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from backends.base import is_committed
from backends.sql.folders.questions import Span, find, near, opened_of
from backends.sql.folders.session import POSITION, FoldersSession, StoredFolder
from backends.sql.folders.tree import stored_folder
from schemas.batch import JournalPosition
from schemas.folders.blocks import SOURCE, Insertion, checked, checked_reports, joined, see_channels
from schemas.folders.folders import KEY, FolderKind, FolderLayout
from schemas.folders.timeline import (
    OPEN_CLASS,
    Changes,
    Reported,
    changes_of_multi,
    changes_of_reports,
    changes_of_single,
    length_classes,
    longest_of,
    spans_before,
)
from schemas.readings import Array

AT_ONCE = 1_000
"""Channels, or intervals, that one condition names."""
QUESTIONS_AT_ONCE = 100
"""Channels whose intervals are asked for each by a question of its own, together."""


class KnownChannels:
    """Numbers of the channels that folders are known to have; none is ever taken away while its folder is there."""

    def __init__(self) -> None:
        self._numbers: dict[str, Array] = {}

    async def see(self, session: FoldersSession, stored: StoredFolder, block: Array) -> None:
        """See that a folder has the channels of a block; asks the database where it is not known.

        Raises:
            ConditionsRefused: one of them is not there.
        """
        known = self._numbers.get(stored.token)
        if known is None or not np.isin(block["channel"], known).all():
            found = await session.fetch(f"SELECT number FROM {session.channels} WHERE folder = $1", stored.id)
            known = self._numbers[stored.token] = np.array(sorted(number for (number,) in found), np.int32)
            see_channels(block, known, stored.folder.path)


async def insert(session: FoldersSession, known: KnownChannels, path: str, insertion: Insertion) -> bool:
    """Insert intervals, and move the position of their source; False where that was done before."""
    stored = await stored_folder(session, path, lock=True)
    block = checked(stored.folder, insertion)
    there = await position_of(session, stored.id, insertion.source)
    if is_committed(there or JournalPosition(sequence=0), insertion):
        return False
    await known.see(session, stored, block)
    if stored.folder.kind is FolderKind.SINGLE:
        changes = changes_of_single(block, *await _touched(session, stored, block))
    else:
        changes = changes_of_multi(block)
    await _store(session, stored, changes)
    await _move(session, stored, insertion, is_first=there is None)
    return True


async def report(
    session: FoldersSession, known: KnownChannels, path: str, insertion: Insertion, *, whole: bool, rehearse: bool
) -> Reported:
    """Insert reports, and move the position of their source; nothing changes where that was done before."""
    stored = await stored_folder(session, path, lock=True)
    reports = checked_reports(stored.folder, insertion)
    there = await position_of(session, stored.id, insertion.source)
    is_there = is_committed(there or JournalPosition(sequence=0), insertion)
    await known.see(session, stored, reports)
    changes, reported = changes_of_reports(reports, await _near(session, stored, reports))
    if is_there or rehearse or (whole and reported.conflicts):
        return replace(reported, stored=0)
    await _store(session, stored, changes)
    await _move(session, stored, insertion, is_first=there is None)
    return reported


async def position_of(session: FoldersSession, folder_id: int, source: str) -> JournalPosition | None:
    """Which insertion of a source was the last."""
    if not SOURCE.fullmatch(source):
        return None
    text = f"SELECT {', '.join(POSITION)} FROM {session.positions} WHERE folder = $1 AND source = $2"
    found = await session.fetch(text, folder_id, source)
    return JournalPosition(**dict(zip(POSITION, found[0], strict=True))) if found else None


async def _touched(session: FoldersSession, stored: StoredFolder, block: Array) -> tuple[Array, Array]:
    """Open intervals of a block's channels, and the keys of the others that end after the first of it begins."""
    opened = await _opened(session, stored, block)
    if not stored.lengths or not len(block):
        return opened, np.empty(0, list(KEY))
    least, most = int(block["channel"].min()), int(block["channel"].max())
    # What ends where the first one begins, too: it may be an end.
    span = Span(
        upto=int(block["until"].max()), holds=int(block["since"].min()) - 1, among=f"channel BETWEEN {least} AND {most}"
    )
    return opened, await find(session, stored, span, KEY, opened=False)


async def _near(session: FoldersSession, stored: StoredFolder, reports: Array) -> Array:
    """Intervals that decide where reports go: most are behind an open one, which is all there is to know."""
    opened = await _opened(session, stored, reports)
    late = spans_before(reports, opened)
    cut = (late[first : first + QUESTIONS_AT_ONCE] for first in range(0, len(late), QUESTIONS_AT_ONCE))
    return joined([opened, *[await near(session, stored, some) for some in cut]], stored.folder.dtype)


async def _opened(session: FoldersSession, stored: StoredFolder, block: Array) -> Array:
    """Open intervals of a block's channels."""
    named = _some(np.unique(block["channel"]))
    return joined([await opened_of(session, stored, each) for each in named], stored.folder.dtype)


async def _store(session: FoldersSession, stored: StoredFolder, changes: Changes) -> None:
    for channels in _some(changes.ended["channel"]):
        await session.run(f"DELETE FROM {session.opened(stored)} WHERE {channels}")
    for first in range(0, len(changes.shortened), AT_ONCE):
        some = changes.shortened[["channel", "since"]][first : first + AT_ONCE].tolist()
        keys = ", ".join(f"({channel}, {since})" for channel, since in some)
        await session.run(f"DELETE FROM {session.closed(stored)} WHERE (channel, since) IN ({keys})")
    closed = joined([changes.closed, changes.replaced], stored.folder.dtype)
    if stored.folder.layout is FolderLayout.ARRAYS:
        closed = await session.store_chunks(stored, closed)
    else:
        by = ("since", "channel") if stored.folder.layout.by_channel else ("channel", "since")
        closed = closed[np.lexsort([closed[name] for name in by])]
        await session.store(stored, block=closed, classes=length_classes(closed), is_open=False)
    classes = np.full(len(changes.opened), OPEN_CLASS, np.int16)
    await session.store(stored, block=changes.opened, classes=classes, is_open=True)
    await _note_lengths(session, stored, longest_of(closed))
    await session.after_insert(stored)


async def _note_lengths(session: FoldersSession, stored: StoredFolder, longest: Mapping[int, int]) -> None:
    new = [each for each in longest if each not in stored.lengths]
    columns = ("folder", "length_class", "longest")
    if new:
        await session.insert_rows("lengths", columns, [(stored.id, each, longest[each]) for each in new])
    for each, length in longest.items():
        if each in stored.lengths and length > stored.lengths[each]:
            text = f"UPDATE {session.lengths} SET longest = $3 WHERE folder = $1 AND length_class = $2"
            await session.run(text, stored.id, each, length)


async def _move(session: FoldersSession, stored: StoredFolder, insertion: Insertion, *, is_first: bool) -> None:
    id_, to = stored.id, tuple(getattr(insertion.position, name) for name in POSITION)
    if is_first:
        await session.insert_rows("positions", ("folder", "source", *POSITION), [(id_, insertion.source, *to)])
    else:
        changed = ", ".join(f"{name} = ${k}" for k, name in enumerate(POSITION, 3))
        text = f"UPDATE {session.positions} SET {changed} WHERE folder = $1 AND source = $2"
        await session.run(text, id_, insertion.source, *to)
    await session.run(f"UPDATE {session.nodes} SET version = version + 1 WHERE id = $1", id_)


def _some(channels: Array) -> list[str]:
    """Conditions that name channels, some at once."""
    cut = (channels[first : first + AT_ONCE].tolist() for first in range(0, len(channels), AT_ONCE))
    return [f"channel IN ({', '.join(map(str, some))})" for some in cut]
