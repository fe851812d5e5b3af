"""Insertions: what was there is read under the lock of the folder, and all changes are one transaction."""

from collections.abc import Mapping

import numpy as np

from backends.base import is_committed
from backends.sql.folders.questions import Span, all_fields, find
from backends.sql.folders.session import FoldersSession, StoredFolder
from backends.sql.folders.tables import POSITION
from backends.sql.folders.tree import stored_folder
from schemas.batch import JournalPosition
from schemas.folders.blocks import OPEN, Insertion, checked, see_channels
from schemas.folders.folders import KEY, FolderKind
from schemas.folders.timeline import (
    OPEN_CLASS,
    Changes,
    changes_of_multi,
    changes_of_single,
    length_classes,
    longest_of,
)
from schemas.readings import Array

AT_ONCE = 1_000
"""Channels that one condition names."""


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


async def position_of(session: FoldersSession, folder_id: int, source: str) -> JournalPosition | None:
    """Which insertion of a source was the last."""
    text = f"SELECT {', '.join(POSITION)} FROM {session.positions} WHERE folder = $1 AND source = $2"
    found = await session.fetch(text, folder_id, source)
    return JournalPosition(**dict(zip(POSITION, found[0], strict=True))) if found else None


async def _touched(session: FoldersSession, stored: StoredFolder, block: Array) -> tuple[Array, Array]:
    """Open intervals of a block's channels, and the keys of the others that end after the first of it begins."""
    parts = [np.empty(0, stored.folder.dtype)]
    for channels in _some(np.unique(block["channel"])):
        span = Span(upto=OPEN, among=channels)
        fields = [field for field in all_fields(stored) if field[0] != "version"]
        text = f"SELECT {', '.join(session.selected(*field) for field in fields)} FROM {session.opened(stored)}"
        found = await session.select_block(f"{text} WHERE {span.conditions(None)}", fields)
        parts.append(found.astype(stored.folder.dtype))
    opened = np.concatenate(parts)
    if not stored.lengths or not len(block):
        return opened, np.empty(0, list(KEY))
    least, most = int(block["channel"].min()), int(block["channel"].max())
    span = Span(
        upto=int(block["until"].max()), holds=int(block["since"].min()), among=f"channel BETWEEN {least} AND {most}"
    )
    return opened, await find(session, stored, span, KEY, opened=False)


async def _store(session: FoldersSession, stored: StoredFolder, changes: Changes) -> None:
    for channels in _some(changes.ended["channel"]):
        await session.run(f"DELETE FROM {session.opened(stored)} WHERE {channels}")
    closed = np.concatenate([changes.closed, changes.ended])
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
