"""One writer a group, without sessions that hold locks: a lease in the group's position document.

The owner renews it while it runs, by the server's clock; whoever finds it lapsed may take it, and at once where it was
that of a process of the same machine that is gone: a daemon that is started again does not wait. Taking and renewing
are single updates of one document that name the owner they expect, which MongoDB does atomically. FerretDB 1 does not
quite: of two that take a lapsed lease within the same millisecond one finds at its next renewal that it has lost, and
until then both may write documents, which are the same under the same `_id` or refused.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, NoReturn

import pymongo
from bson import Binary, Int64

from backends.base import GroupLocked, StoreError, StoreUnavailable
from backends.columns.stored import POSITION
from backends.diagnosis.schema import gone
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer, translated
from backends.mongodb.server.facts import Database
from backends.mongodb.server.owner import is_dead, new_owner
from schemas.batch import Batch, JournalPosition, Stream

log = logging.getLogger(__name__)

LASTS_S = 6.0
RENEW_S = 1.5
LOOK_S = 0.2
"""How often to look whether a lease that is waited for has come free."""


NOTE = "unfinished"
"""The field of a batch that is being written."""
MARK, GIVEN_UP = f"{NOTE}.mark", f"{NOTE}.given_up"
"""What of it tells one batch from another, and that it is being taken out."""
NOTICE = "dropping"
"""The field of a period that is being dropped."""


class PositionGone(StoreUnavailable):
    """The position document was not there, and has been made again."""


class Lease:
    """The right to write one group, and its position, which is kept in the same document."""

    def __init__(self, *, group: str, schema: str, logger: str, target: str, timeout_s: float) -> None:
        self._group = group
        self._schema = schema
        self._logger = logger
        self._target = target
        self._timeout_s = timeout_s
        self._owner = new_owner()
        self.is_held = False
        self._renewed_at = 0.0
        self._turn = asyncio.Lock()

    @property
    def owner(self) -> str:
        """Who has it while it is held: nobody else is called so."""
        return self._owner

    async def take(self, database: Database) -> None:
        """Take the lease, waiting for one of a daemon that died elsewhere to lapse.

        Raises:
            GroupLocked: another daemon holds it.
        """
        deadline = asyncio.get_running_loop().time() + LASTS_S + 2 * LOOK_S
        while True:
            with pymongo.timeout(self._timeout_s):
                found = await self._found(database)
                if found is None:
                    await self.put_new(database)
                    continue
                now = (await database.command("hello"))["localTime"]
                if _is_free(found, now, self._owner) and await self._update(
                    database, {"owner": found.get("owner"), "seen": found.get("seen")}, {"owner": self._owner}
                ):
                    self.is_held = True
                    return
            if asyncio.get_running_loop().time() > deadline:
                raise GroupLocked(
                    f"group {self._group!r} in database {self._schema!r} is being written by another daemon"
                    f" ({str(found.get('owner')).rpartition(':')[0]}); stop that one, or set another `schema`"
                )
            await asyncio.sleep(LOOK_S)

    async def document(self, database: Database) -> dict[str, Any]:
        """Read the document: positions (`position_in`), and what a batch that did not end has left (`NOTE`).

        Raises:
            GroupLocked: another daemon has taken the lease.
            PositionGone: the document was not there.
        """
        found = await self._found(database)
        if found is None or found.get("owner") != self._owner:
            await self._lost(database)
        return found

    async def keep(self, database: Database) -> None:
        """See that the lease has not lapsed since it was last renewed.

        Raises:
            GroupLocked: another daemon has taken it.
        """
        if asyncio.get_running_loop().time() - self._renewed_at >= LASTS_S:
            await self.renew(database)

    async def renew(self, database: Database) -> None:
        """Renew the lease."""
        if not await self._update(database, {"owner": self._owner}, {}):
            await self._lost(database)

    async def note(
        self, database: Database, stream: Stream, found: JournalPosition, note: dict[str, Any]
    ) -> JournalPosition | None:
        """Write down what a batch is about to change, where nothing else is noted; the answer as `move`."""
        # Without waiting for its log: what is written after it stands behind it there.
        return await self._replace(database, stream, found, noted={NOTE: None}, values={NOTE: note}, concern={"w": 1})

    async def give_up(self, database: Database, mark: int) -> bool:
        """Give a batch up, by the mark of its note: from now on it moves no position. False where its note is gone.

        Before it is taken out: a command that moved the position, and that had no answer, may still be on its way.
        """
        return await self._update(database, {"owner": self._owner, MARK: Int64(mark)}, {GIVEN_UP: True})

    async def end_note(self, database: Database, mark: int) -> None:
        """Write down that nothing of a batch is left, unless its note is gone."""
        await self._update(database, {"owner": self._owner, MARK: Int64(mark)}, {NOTE: None})

    async def move(
        self, database: Database, batch: Batch, found: JournalPosition, mark: int, concern: dict[str, Any]
    ) -> JournalPosition | None:
        """Write the position, and take the note away, which has this mark; the answer is None.

        Unless it is another by now than the one that was found, or the note is gone or given up: then nothing is
        written, and the answer is the position that is there. So a command that was given up and comes late does
        nothing, whether its batch is there by then, was taken out, or is written again.

        Raises:
            GroupLocked: another daemon has taken the lease.
            PositionGone: the document was not there.
        """
        values: dict[str, Any] = {
            _field(batch.stream, name): _stored(value) for name, value in asdict(batch.position).items()
        }
        noted = {MARK: Int64(mark), GIVEN_UP: None}
        values |= {NOTE: None}
        return await self._replace(database, batch.stream, found, noted=noted, values=values, concern=concern)

    async def _replace(
        self,
        database: Database,
        stream: Stream,
        found: JournalPosition,
        *,
        noted: dict[str, Any],
        values: dict[str, Any],
        concern: dict[str, Any],
    ) -> JournalPosition | None:
        expected = {"owner": self._owner, **_expected(stream, found), **noted}
        if await self._update(database, expected, values, concern):
            return None
        return position_in(await self.document(database), stream)

    async def begin_dropping(self, database: Database, notice: dict[str, Any], concern: dict[str, Any]) -> None:
        """Write down which period is dropped from now on.

        Raises:
            GroupLocked, PositionGone: as `move`.
            StoreUnavailable: one is being dropped already.
        """
        if not await self._update(database, {"owner": self._owner, NOTICE: None}, {NOTICE: notice}, concern):
            await self.document(database)
            raise StoreUnavailable(f"another period of group {self._group!r} is being dropped")

    async def keep_documents(self, database: Database, begun_ns: int, ids: Binary, concern: dict[str, Any]) -> None:
        """Write down which documents are none of the period that is being dropped; as often as one likes.

        Each command adds some: one that was given up and comes late takes nothing away.

        Raises:
            GroupLocked, PositionGone: as `move`.
            StoreUnavailable: that period is not being dropped any more.
        """
        expected = {"owner": self._owner, f"{NOTICE}.begun_ns": Int64(begun_ns)}
        if not await self._update(database, expected, {}, concern, push={f"{NOTICE}.kept": ids}):
            await self.document(database)
            raise StoreUnavailable(f"no period of group {self._group!r} is being dropped any more")

    async def end_dropping(self, database: Database, begun_ns: int) -> None:
        """Take the notice away, unless it is gone."""
        await self._update(database, {"owner": self._owner, f"{NOTICE}.begun_ns": Int64(begun_ns)}, {NOTICE: None})

    async def release(self, database: Database) -> None:
        """Give the lease back."""
        if self.is_held:
            self.is_held = False
            await self._update(database, {"owner": self._owner}, {"owner": None})

    async def run(self, database: Database) -> None:
        """Renew the lease until cancelled; the writing of an idle group renews nothing."""
        while True:
            await asyncio.sleep(RENEW_S)
            if not self.is_held:
                continue
            try:
                with translated(self._target), pymongo.timeout(self._timeout_s):
                    await self.renew(database)
            except (GroupLocked, PositionGone) as error:
                log.warning("%s", error)
            except StoreError as error:
                # An outage, which the commits find and tell.
                log.debug("the lease of group %r is not renewed: %s", self._group, error)

    async def put_new(self, database: Database) -> None:
        """Make the position document, at 0 and free.

        Raises:
            StoreLacks: the group is not described: the database was dropped, and the server would make collections
                without their indexes.
        """
        if await database.get_collection("groups").find_one({"_id": self._group}) is None:
            raise gone(self._schema, ["groups"])
        answer = await database.command(
            "update",
            "positions",
            updates=[{"q": {"_id": self._group}, "u": first_position(self._logger), "upsert": True}],
        )
        check_answer(answer, self._target, but=DUPLICATE_KEY)

    async def _lost(self, database: Database) -> NoReturn:
        self.is_held = False
        found = await self._found(database)
        if found is None:
            await self.put_new(database)
            raise PositionGone(f"the position of group {self._group!r} was gone from the database")
        raise GroupLocked(f"group {self._group!r} in database {self._schema!r} has been taken over by another daemon")

    async def _found(self, database: Database) -> dict[str, Any] | None:
        return await database.get_collection("positions").find_one({"_id": self._group})

    async def _update(
        self,
        database: Database,
        expected: dict[str, Any],
        values: dict[str, Any],
        concern: dict[str, Any] | None = None,
        *,
        push: dict[str, Any] | None = None,
    ) -> bool:
        change: dict[str, Any] = {"$currentDate": {"seen": True}}
        if values:
            change["$set"] = values
        if push:
            change["$push"] = push
        update = {"q": {"_id": self._group, **expected}, "u": change}
        # One at a time: FerretDB reads the document, changes it and writes it back, so that a renewal beside a move
        # would write the position back that it read.
        async with self._turn:
            started = asyncio.get_running_loop().time()
            answer = await database.command("update", "positions", updates=[update], writeConcern=concern or {"w": 1})
        check_answer(answer, self._target)
        if answer["n"]:
            self._renewed_at = started
        return bool(answer["n"])


def first_position(logger: str) -> dict[str, Any]:
    """The update that makes a group's position document where there is none, at 0 and free."""
    nothing = {name: Int64(0) for name in POSITION if name != "state"}
    return {"$setOnInsert": {"logger": logger, **nothing, "owner": None, "seen": None}}


def position_in(found: Mapping[str, Any], stream: Stream = Stream.JOURNAL) -> JournalPosition:
    """The position in a document; what is not there is 0, or empty."""
    numbers = {name: int(found.get(_field(stream, name), 0)) for name in POSITION if name != "state"}
    return JournalPosition(**numbers, state=bytes(found.get(_field(stream, "state"), b"")))


def _stored(value: int | bytes) -> Int64 | bytes:
    return value if isinstance(value, bytes) else Int64(value)


def _expected(stream: Stream, found: JournalPosition) -> dict[str, Any]:
    """What a document has that is at a position; streams begin without one."""
    if not found.sequence and stream is not Stream.JOURNAL:
        return {_field(stream, "sequence"): {"$exists": False}}
    return {_field(stream, name): Int64(getattr(found, name)) for name in ("sequence", "journal")}


def _field(stream: Stream, name: str) -> str:
    """The field of a position's part: all streams of a group are in one document, under one lease."""
    return name if stream is Stream.JOURNAL else f"{stream}_{name}".replace("-", "_")


def _is_free(found: Mapping[str, Any], now: datetime, owner: str) -> bool:
    if found.get("owner") in (None, owner) or found.get("seen") is None or is_dead(str(found["owner"])):
        return True
    # Either way: a server whose clock is put back would else keep a dead daemon's lease for as long.
    seen: datetime = found["seen"]
    return abs((now - seen).total_seconds()) > LASTS_S
