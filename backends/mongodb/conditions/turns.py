"""Orders one after the other, each of them whole: the turn of a writer, and what an order changes.

Neither FerretDB nor a MongoDB without a replica set has transactions. What both do atomically is to insert a document
under an `_id` that is free. So whoever changes something first inserts the one document of the collection of the turn,
and deletes it at the end; who finds it there waits. MongoDB also updates one document atomically, which FerretDB 1 does
not; it is not needed while each writer stays in his turn.

An order that changes one document is whole by itself. One that changes several is written into the document of the turn
before it is applied: with that it has happened. (What is too long for one document lies in several beside the segments,
which the document of the turn names.) Who finds a turn whose owner is gone takes it over, and applies its
order once more, which changes nothing where it was applied already; then it is his. What an owner wrote before that
(segments that nothing refers to) is not looked at by anybody.

An owner is gone when he was a process of this machine that ended, or when his turn was the same for LAPSES_S: he renews
it while a long order is prepared. One who only slept finds, when he writes his order down, that the turn is another's,
and changes nothing. (FerretDB looks for the turn and then updates it. There, of two that take over one turn within the
same millisecond, or of one that takes it over while its owner wakes up, both may believe to have it.)
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import uuid4

import bson
from bson import ObjectId
from bson.raw_bson import RawBSONDocument

from backends.base import StoreBusy, StoreError
from backends.mongodb.conditions.segments import Document
from backends.mongodb.conditions.session import SEGMENTS, UNJOURNALED, Session
from backends.mongodb.server.owner import is_dead, new_owner
from schemas.conditions.rules import ConditionsRefused

log = logging.getLogger(__name__)

LAPSES_S = 20.0
RENEW_S = 5.0
LOOK_S = 0.005
"""How often to look whether a turn that is waited for has come free, about."""
PART_BYTES = 8 * 1024 * 1024
"""Of an order, about: a document has 16 MB at most."""
WRITER = "writer"
KINDS = ("insert", "update", "delete")
"""In this order: what moves is at both places for a moment, and never at none."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happens to one document, so that doing it again changes nothing.

    kind: one of KINDS. document: that is inserted, the filter of what is deleted, or the update statement.
    """

    kind: str
    collection: str
    document: Document


def inserted(collection: str, document: Document) -> Change:
    """Insert a document."""
    return Change(kind="insert", collection=collection, document=document)


def deleted(collection: str, id_: str) -> Change:
    """Delete a document."""
    return Change(kind="delete", collection=collection, document={"_id": id_})


def edited(collection: str, id_: str, revision: int, fields: Document, gone: Sequence[str] = ()) -> Change:
    """Set fields of a document and remove others, if it is of this revision; it is of the next one then."""
    change: Document = {"$set": {**fields, "revision": bson.Int64(revision + 1)}}
    if gone:
        change["$unset"] = dict.fromkeys(gone, "")
    statement = {"q": {"_id": id_, "revision": bson.Int64(revision)}, "u": change}
    return Change(kind="update", collection=collection, document=statement)


class Turn:
    """The right to change something, once. left: the document of the turn that it took over; None for an own one."""

    def __init__(self, session: Session, mark: str, left: Document | None = None) -> None:
        self.session, self.left = session, left
        self._mark = mark
        self._renewed_s = asyncio.get_running_loop().time()

    async def keep(self) -> None:
        """Renew the turn where it is time; a long order does so after each of its steps.

        Raises:
            StoreBusy: somebody has taken it over.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s - self._renewed_s > RENEW_S:
            await self._write({"$inc": {"renewed": 1}}, UNJOURNALED)
            self._renewed_s = now_s

    async def note(self, what: str) -> None:
        """Write down what is written before the commit: who takes the turn over finds it in `left`, as `writes`.

        A server that crashes has nothing of what was written later if it has not this.

        Raises:
            StoreBusy: somebody has taken the turn over.
        """
        await self._write({"$set": {"writes": what}}, UNJOURNALED)

    async def commit(self, changes: Sequence[Change]) -> None:
        """Do all changes or none; once in a turn.

        Raises:
            StoreBusy: somebody has taken the turn over, and nothing was changed.
            StoreUnavailable: the database does not answer, and the changes are made or not, but never some of them.
        """
        if len(changes) > 1:
            parts = list(_parts(changes))
            order = parts[0] if len(parts) == 1 else await self._beside(parts)
            await self._write({"$set": {"order": order}}, self.session.concern)
        else:
            # FerretDB does not look at the revision of what it edits.
            await self.keep()
        done = await apply(self.session, changes)
        if len(changes) == 1 and not done:
            raise self._taken_over()

    async def _beside(self, parts: Sequence[bytes]) -> list[ObjectId]:
        """Write parts of an order into documents of their own, which the sweep removes when it is over."""
        ids = [ObjectId() for _ in parts]
        for id_, part in zip(ids, parts, strict=True):
            await self.session.insert(SEGMENTS, [{"_id": id_, "order": part}])
            await self.keep()
        return ids

    async def _write(self, change: Document, concern: Mapping[str, Any]) -> None:
        found = await self.session.update(
            self.session.turn, [{"q": {"_id": WRITER, "mark": self._mark}, "u": change}], concern
        )
        if not found:
            raise self._taken_over()

    def _taken_over(self) -> StoreBusy:
        return StoreBusy("another process took over the writing of conditions, since this one was silent for too long")


class Turns:
    """The turns of one store; its own calls wait for each other here, and for those of other processes there.

    clear: removes what the owner of a turn that was taken over has left.
    """

    def __init__(self, clear: Callable[[Turn], Awaitable[None]]) -> None:
        self._clear = clear
        self._here = asyncio.Lock()
        self._owner = new_owner()
        self._seen: tuple[object, float] = (None, 0.0)

    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncIterator[Turn]:
        """Wait for a turn, and give it back at the end.

        Raises:
            StoreBusy: others have held it for as long as a command may take.
        """
        async with self._here:
            mark = uuid4().hex
            turn = Turn(session, mark, await self._take(session, mark))
            if turn.left is not None:
                await self._clear(turn)
            try:
                yield turn
            except ConditionsRefused:
                await self._release(session, mark)
                raise
            # What fails otherwise may have happened in part: the turn stays, and whoever comes next completes it.
            await self._release(session, mark)

    async def complete_abandoned(self, session: Session) -> None:
        """Complete an order whose owner is gone, if there is one."""
        found = await session.one(session.turn, WRITER)
        if found is not None and self._is_abandoned(found) and not self._here.locked():
            async with self.turn(session):
                pass

    async def _take(self, session: Session, mark: str) -> Document | None:
        """Wait for the turn; return the document of the one that was taken over."""
        deadline_s = asyncio.get_running_loop().time() + session.timeout_s
        mine = {"_id": WRITER, "owner": self._owner, "mark": mark, "renewed": 0}
        while True:
            found = await session.one(session.turn, WRITER)
            if found is None:
                if await session.insert(session.turn, [mine], UNJOURNALED):
                    return None
                continue
            if self._is_abandoned(found) and await self._take_over(session, found["mark"], mark):
                return found
            if asyncio.get_running_loop().time() > deadline_s:
                owner = str(found["owner"]).rpartition(":")[0]
                raise StoreBusy(f"another process ({owner}) has been writing conditions for {session.timeout_s:g} s")
            await asyncio.sleep(random.uniform(0, 2 * LOOK_S))  # noqa: S311 - so that nobody always comes second

    async def _take_over(self, session: Session, old: str, mark: str) -> bool:
        mine = {"owner": self._owner, "mark": mark, "renewed": 0}
        await session.update(session.turn, [{"q": {"_id": WRITER, "mark": old}, "u": {"$set": mine}}], UNJOURNALED)
        found = await session.one(session.turn, WRITER)
        if found is None or found["mark"] != mark:
            return False
        if "order" in found:
            await apply(session, await _order(session, found["order"]))
            # Before anything else changes, or it would be applied over that.
            statement = {"q": {"_id": WRITER, "mark": mark}, "u": {"$unset": {"order": ""}}}
            await session.update(session.turn, [statement], session.concern)
        return True

    def _is_abandoned(self, found: Document) -> bool:
        now_s = asyncio.get_running_loop().time()
        state = (found["mark"], found["renewed"])
        if state != self._seen[0]:
            self._seen = state, now_s
        # One of this store's own, since its calls wait for each other here.
        return found["owner"] == self._owner or is_dead(found["owner"]) or now_s - self._seen[1] > LAPSES_S

    async def _release(self, session: Session, mark: str) -> None:
        try:
            await session.delete(session.turn, [{"_id": WRITER, "mark": mark}], UNJOURNALED)
        except StoreError as error:
            # The order has happened, or was refused. The next one finds that the turn was this store's.
            log.debug("the turn of a writer is not given back: %s", error)


def _parts(changes: Sequence[Change]) -> Iterator[bytes]:
    """Changes in parts that a document takes."""
    some: list[RawBSONDocument] = []
    held = 0
    for change in changes:
        encoded = bson.encode(vars(change))
        if some and held + len(encoded) > PART_BYTES:
            yield bson.encode({"changes": some})
            some, held = [], 0
        some.append(RawBSONDocument(encoded))
        held += len(encoded)
    yield bson.encode({"changes": some})


async def _order(session: Session, written: bytes | Sequence[ObjectId]) -> list[Change]:
    """The changes of an order that was written down."""
    if isinstance(written, bytes):
        parts = [written]
    else:
        found = [await session.one(SEGMENTS, id_) for id_ in written]
        parts = [each["order"] for each in found if each is not None]
        assert len(parts) == len(written), "parts go after the turn that names them"
    return [Change(**change) for part in parts for change in bson.decode(part)["changes"]]


async def apply(session: Session, changes: Sequence[Change]) -> int:
    """Do what was not done yet; return how many documents were inserted, deleted, or found to be updated."""
    done = 0
    order = sorted(changes, key=lambda change: (KINDS.index(change.kind), change.collection))
    for (kind, collection), some in groupby(order, key=lambda change: (change.kind, change.collection)):
        documents = [change.document for change in some]
        if kind == "insert":
            done += await session.insert(collection, documents)
        elif kind == "update":
            done += await session.update(collection, [_pushed_down(each, session) for each in documents])
        else:
            done += await session.delete(collection, documents)
    return done


def _pushed_down(statement: Document, session: Session) -> Document:
    """FerretDB 1 uses its index for an `_id` alone, and does not update atomically what it has found."""
    if session.server.uses_indexes:
        return statement
    return {**statement, "q": {"_id": statement["q"]["_id"]}}
