"""The position of a group, who may write it, and its runs: documents that are inserted, and never changed.

A position is a document `{group, n}` with n one more than that of the one before. Its `_id` follows from both, so that
of two inserts of the same n one is refused: the insert is the commit and the fence at once. It names its owner.

What a server returns may be lost with a failover, while no majority has it. So a writer begins by inserting the next
position under its own name, at the write concern of its commits: the answer says that a majority has all that was there
before (`take`). It also ends the writing of any other daemon, whose next insert is refused.

An owner proves that it lives by a count in `owners` which it increases. Another daemon watches it by its own clock, and
no clock is compared with another; a process of the same machine that has ended is known at once (`is_dead`). Positions
older than `KEEP_S` are deleted.
"""

import asyncio
import logging
import os
import socket
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pymongo
from bson import Int64
from pymongo import DESCENDING

from backends.base import GroupLocked, StoreError, StoreUnavailable
from backends.columns.stored import POSITION
from backends.diagnosis import gone
from backends.ending import end_tasks
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer, translated
from backends.mongodb.server.facts import Database
from schemas.batch import Batch, JournalPosition, Stream
from schemas.readings import Array

BOOT = Path("/proc/sys/kernel/random/boot_id")


def new_owner() -> str:
    """Name this process as an owner, another each time: `host:pid:mark`."""
    return f"{socket.gethostname()}:{os.getpid()}:{_where()}-{_born(os.getpid())}-{uuid.uuid4().hex[:8]}"


def is_dead(owner: str) -> bool:
    """Whether an owner was a process of this machine, and is gone; False where nobody here can tell.

    A number alone says nothing: another process may have it by now, and a container numbers its own. So the mark has
    the boot of the kernel, the namespace of the numbers, and when the process began.
    """
    _, _, rest = owner.partition(":")
    pid, _, mark = rest.partition(":")
    parts = mark.split("-")
    if not pid.isdecimal() or len(parts) != 3 or not parts[0] or parts[0] != _where():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # somebody else's; and /proc may be hidden from us, unlike whether the number is in use
    return _born(int(pid)) not in (parts[1], None)


def _where() -> str:
    """The boot of the kernel and the namespace of process numbers; empty where it does not say."""
    try:
        return f"{BOOT.read_text().strip().replace('-', '')}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _born(pid: int) -> str | None:
    """When a process began, in ticks of the kernel's clock; `-` when it has ended all but for its number.

    None where that is not known.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name of the program, in brackets, may have any character; the fields behind it are as in proc(5).
    state, *fields = text.rpartition(")")[2].split()
    return "-" if state in "ZX" else fields[18]


log = logging.getLogger(__name__)

LASTS_S = 6.0
"""An owner whose count did not change for so long is dead."""
BEAT_S = 1.5
LOOK_S = 0.2
TRIES = 10
"""So often a position is inserted that others are quicker with."""
KEEP_S = 600.0
"""Far longer than a commit may take: one that is carried out later than this finds its number free."""
SAMPLE_S = 60.0

POSITIONS, OWNERS, RUNS = "positions", "owners", "runs"


class Heartbeat:
    """The proof that the owner of a store's groups lives, and the search for that of others.

    owner: see `backends.mongodb.server.positions`. target: what messages call the server.
    """

    def __init__(self, owner: str, target: str, timeout_s: float) -> None:
        self.owner = owner
        self._target = target
        self._timeout_s = timeout_s
        self._beating: asyncio.Task[None] | None = None
        self._dead: set[str] = set()

    async def start(self, database: Database) -> None:
        """Begin, or go on where the database has lost the count."""
        answer = await database.command("insert", OWNERS, documents=[{"_id": self.owner, "beats": Int64(0)}])
        check_answer(answer, self._target, but=DUPLICATE_KEY)
        if self._beating is None:
            self._beating = asyncio.create_task(self._run(database), name="heartbeat of a MongoDB store")

    async def stop(self, database: Database) -> None:
        """End."""
        beating, self._beating = self._beating, None
        if beating is not None:
            await end_tasks(beating)
            await self._remove(database, self.owner)

    async def is_dead(self, database: Database, owner: str) -> bool:
        """Tell whether an owner has ended, once that is certain."""
        if owner in self._dead or is_dead(owner):
            return True
        clock = asyncio.get_running_loop().time
        until, first = clock() + LASTS_S, await self._beats(database, owner)
        while clock() < until:
            await asyncio.sleep(LOOK_S)
            if await self._beats(database, owner) != first:
                return False
        self._dead.add(owner)
        await self._remove(database, owner)
        return True

    async def _run(self, database: Database) -> None:
        beat = {"q": {"_id": self.owner}, "u": {"$inc": {"beats": Int64(1)}}}
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                with translated(self._target), pymongo.timeout(self._timeout_s):
                    check_answer(await database.command("update", OWNERS, updates=[beat]), self._target)
            except StoreError as error:
                # An outage, which the commits find and report.
                log.debug("no heartbeat: %s", error)

    async def _beats(self, database: Database, owner: str) -> object:
        with pymongo.timeout(self._timeout_s):
            found = await database.get_collection(OWNERS).find_one({"_id": owner})
        return None if found is None else found["beats"]

    async def _remove(self, database: Database, owner: str) -> None:
        with pymongo.timeout(self._timeout_s):
            answer = await database.command("delete", OWNERS, deletes=[{"q": {"_id": owner}, "limit": 1}])
        check_answer(answer, self._target)


class Positions:
    """The positions of one group, as its writer has them; `n` is 0 where it may not write."""

    def __init__(
        self, *, group: str, schema: str, logger: str, target: str, heartbeat: Heartbeat, timeout_s: float
    ) -> None:
        self.n = 0
        self._group = group
        self._schema = schema
        self._logger = logger
        self._target = target
        self._heartbeat = heartbeat
        self._timeout_s = timeout_s
        self._streams: dict[Stream, JournalPosition] = {}
        self._runs: set[int] = set()
        self._samples: deque[tuple[float, int]] = deque()

    def at(self, stream: Stream) -> JournalPosition:
        """Return the position of a stream; at 0 where there is none."""
        return self._streams.get(stream, JournalPosition(sequence=0))

    async def take(self, database: Database, concern: dict[str, Any]) -> None:
        """Become the owner, and read the positions once a majority has them.

        Raises:
            GroupLocked: another daemon that lives is the owner.
            StoreLacks: the group is not described: the database was dropped.
        """
        self.n, self._runs = 0, set()
        self._samples.clear()
        for _ in range(TRIES):
            with pymongo.timeout(self._timeout_s):
                found = await newest_position(database, self._group)
                if not found and await database.get_collection("groups").find_one({"_id": self._group}) is None:
                    raise gone(self._schema, ["groups"])
                await self._heartbeat.start(database)
            await self._check_free(database, found.get("owner"))
            self._streams = {stream: position_in(found, stream) for stream in Stream}
            with pymongo.timeout(self._timeout_s):
                n = int(found.get("n", 0)) + 1
                if await self._insert(database, n, self._streams, concern):
                    self.n = n
                    return
        raise StoreUnavailable(f"the position of group {self._group!r} is being changed by others")

    async def is_there(self, database: Database) -> bool:
        """Tell whether the server still has the position that it acknowledged last."""
        wanted = {"_id": _id(self._group, self.n)}
        return await database.get_collection(POSITIONS).find_one(wanted, {"_id": 1}) is not None

    async def move(self, database: Database, batch: Batch, concern: dict[str, Any]) -> bool:
        """Insert the position of a batch; False where another command was quicker."""
        streams = {**self._streams, batch.stream: batch.position}
        if not await self._insert(database, self.n + 1, streams, concern):
            return False
        self.n, self._streams = self.n + 1, streams
        await self._prune(database)
        return True

    async def release(self, database: Database) -> None:
        """Give up the ownership; the next daemon need not wait."""
        if self.n:
            n, self.n = self.n, 0
            await self._insert(database, n + 1, self._streams, {"w": 1}, owner=None)

    async def check_owner(self, database: Database) -> None:
        """See that nobody else has become the owner.

        Raises:
            GroupLocked: another daemon has.
        """
        found = await newest_position(database, self._group)
        if found.get("owner") != self._heartbeat.owner:
            self.n = 0
            raise GroupLocked(
                f"group {self._group!r} in database {self._schema!r} has been taken over by another daemon"
            )

    async def register_runs(self, database: Database, rows: Array, concern: dict[str, Any]) -> None:
        """Insert the runs of ledger rows with their epochs, so that two daemons never take one number for two.

        Raises:
            StoreUnavailable: another daemon has taken one for another epoch.
        """
        for run in sorted(set(rows["run"].tolist()) - self._runs):
            epoch = int(rows["epoch"][rows["run"] == run].max())
            document = {"_id": f"{self._group}/{run}", "group": self._group, "run": run, "epoch": Int64(epoch)}
            answer = await database.command("insert", RUNS, documents=[document], writeConcern=concern)
            if check_answer(answer, self._target, but=DUPLICATE_KEY):
                found = await database.get_collection(RUNS).find_one({"_id": document["_id"]})
                there = int((found or document)["epoch"])
                if epoch and there and epoch != there:
                    raise StoreUnavailable(
                        f"run {run} of group {self._group!r} in database {self._schema!r} is of epoch {there}, and here"
                        f" of epoch {epoch}: another daemon has written it; stop that one, and start this one again"
                    )
            self._runs.add(run)

    async def _check_free(self, database: Database, owner: str | None) -> None:
        if owner not in (None, self._heartbeat.owner) and not await self._heartbeat.is_dead(database, str(owner)):
            raise GroupLocked(
                f"group {self._group!r} in database {self._schema!r} is being written by another daemon"
                f" ({str(owner).rpartition(':')[0]}); stop that one, or set another `schema`"
            )

    async def _insert(
        self,
        database: Database,
        n: int,
        streams: Mapping[Stream, JournalPosition],
        concern: dict[str, Any],
        **owner: None,
    ) -> bool:
        document = {**position_document(self._group, n, self._logger, streams), "owner": self._heartbeat.owner, **owner}
        answer = await database.command("insert", POSITIONS, documents=[document], writeConcern=concern)
        return not check_answer(answer, self._target, but=DUPLICATE_KEY)

    async def _prune(self, database: Database) -> None:
        now = time.monotonic()
        if not self._samples or now - self._samples[-1][0] >= SAMPLE_S:
            self._samples.append((now, self.n))
        if now - self._samples[0][0] < KEEP_S:
            return
        _, n = self._samples.popleft()
        old = {"_id": {"$gte": _id(self._group, 0), "$lt": _id(self._group, n)}}
        check_answer(await database.command("delete", POSITIONS, deletes=[{"q": old, "limit": 0}]), self._target)


async def newest_position(database: Database, group: str) -> Mapping[str, Any]:
    """Find the newest position of a group; empty where there is none."""
    of_group = {"_id": {"$gte": _id(group, 0), "$lt": f"{group}0"}}  # 0 comes after the slash
    found = await database.get_collection(POSITIONS).find_one(of_group, sort=[("_id", DESCENDING)])
    return found or {}


def position_document(group: str, n: int, logger: str, streams: Mapping[Stream, JournalPosition]) -> dict[str, Any]:
    """Return the document of a position, without its owner."""
    fields = {
        _field(stream, name): value if isinstance(value, bytes) else Int64(value)
        for stream, position in streams.items()
        for name, value in asdict(position).items()
    }
    return {"_id": _id(group, n), "group": group, "n": Int64(n), "logger": logger, **fields}


def position_in(found: Mapping[str, Any], stream: Stream = Stream.JOURNAL) -> JournalPosition:
    """Return the position of a stream in a document; what is not there is 0, or empty."""
    numbers = {name: int(found.get(_field(stream, name), 0)) for name in POSITION if name != "state"}
    return JournalPosition(**numbers, state=bytes(found.get(_field(stream, "state"), b"")))


def _field(stream: Stream, name: str) -> str:
    return name if stream is Stream.JOURNAL else f"{stream}_{name}".replace("-", "_")


def _id(group: str, n: int) -> str:
    return f"{group}/{n:016d}"
