"""Who answers: MongoDB or FerretDB, which version, what it can do, and what a commit survives there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

import pymongo
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure

from backends.base import DurabilityInForce, StoreError, StoreUnavailable
from backends.mongodb.server.client import SELECTION_S
from schemas.api.status import Shortfall
from schemas.batch import Durability

Database = AsyncDatabase[dict[str, Any]]

OLDEST = (5, 0)
"""The oldest MongoDB this is written for."""
COMMIT_INTERVAL_MS, COMMIT_INTERVAL_MOST_MS = 100.0, 500.0
"""Longest time between two writes of WiredTiger's journal by default (storage.journal.commitIntervalMs)."""
UNKNOWN = "unknown"
"""The value of a setting that a login may not see."""
OF_THE_TIME = 0.8
"""So much of the time of a command a server waits for others: it answers before the command is given up."""
MAY_NOT_SAY = frozenset({13, 59, 115, 238})
"""A server need not say it: no right, no such command, not supported, not implemented."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """What a server says of itself.

    product: `mongodb` or `ferretdb`.
    keeps_json: FerretDB 1, which keeps documents as JSON in PostgreSQL or SQLite.
    set_name: of its replica set, or `a sharded cluster`; empty for a standalone.
    settings: what its durability follows from, by name.
    """

    product: str
    version: str
    keeps_json: bool = False
    set_name: str = ""
    is_writable: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def keeps_all_doubles(self) -> bool:
        """Whether NaN, infinities and -0.0 come back as they went: JSON has none of them."""
        return not self.keeps_json

    @property
    def uses_indexes(self) -> bool:
        """Whether an index speeds a question up: FerretDB 1 looks up a single `_id` and else reads all there is."""
        return not self.keeps_json

    def write_concern(self, durability: Durability, timeout_s: float) -> dict[str, Any]:
        """The write concern of a durability; never an unacknowledged one."""
        if durability is Durability.ASYNC:
            return {"w": 1, "j": False}
        if not self.set_name:
            return {"w": 1, "j": True}
        return {"w": "majority", "j": True, "wtimeout": math.ceil(OF_THE_TIME * timeout_s * 1000)}


async def meet_server(database: Database, timeout_s: float) -> Server:
    """Find the server and ask it who it is, with `timeout_s` for each command."""
    # Within a command's time the driver looks for a server for all of it, and not as long as its client says: who shows
    # a certificate that is not trusted would be noticed after half a minute.
    with pymongo.timeout(min(timeout_s, SELECTION_S)):
        await database.command("ping")
    with pymongo.timeout(timeout_s):
        return await ask_server(database)


async def ask_server(database: Database) -> Server:
    """Ask the server who it is."""
    build = await database.command("buildInfo")
    hello = await database.command("hello")
    if "ferretdbVersion" in build:
        ignored = {"writeConcern": "ignored"}
        return Server(
            product="ferretdb", version=_version_of(build["ferretdbVersion"]), keeps_json=True, settings=ignored
        )
    if "ferretdb" in build:
        return Server(product="ferretdb", version=_version_of(build["ferretdb"].get("version")))
    sharded = "a sharded cluster" if hello.get("msg") == "isdbgrid" else ""
    admin = database.client.get_database("admin")
    status = await may_say(admin, {"serverStatus": 1})
    options = await may_say(admin, {"getCmdLineOpts": 1})
    return Server(
        product="mongodb",
        version=build["version"],
        set_name=sharded or hello.get("setName", ""),
        is_writable=bool(hello.get("isWritablePrimary", True)),
        # A router has neither an engine nor a journal.
        settings={} if sharded else _settings(status, options),
    )


async def server_ns(database: Database) -> int:
    """The server's clock, to the second; UTC, ns."""
    local = (await database.command("hello"))["localTime"]
    return int(local.replace(tzinfo=UTC).timestamp()) * 1_000_000_000


def _version_of(version: object) -> str:
    # An embedded FerretDB 1 does not know its own.
    return "1" if version in ("unknown", None) else str(version).removeprefix("v")


async def may_say(admin: Database, command: dict[str, Any]) -> dict[str, Any]:
    """Ask what a server need not tell; an empty answer where it does not, or not to this login."""
    try:
        return await admin.command(command)
    except OperationFailure as error:
        if error.code not in MAY_NOT_SAY:
            raise
        return {}


def _settings(status: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, str]:
    """Return what durability follows from; an empty answer is one that the login may not have."""
    engine = str(status.get("storageEngine", {}).get("name", UNKNOWN))
    if not options:
        return {
            "storageEngine": engine,
            "storage.journal.enabled": UNKNOWN,
            "storage.journal.commitIntervalMs": UNKNOWN,
        }
    journal = options.get("parsed", {}).get("storage", {}).get("journal", {})
    interval = float(journal.get("commitIntervalMs", COMMIT_INTERVAL_MS))
    return {
        "storageEngine": engine,
        **({"storage.journal.enabled": str(journal["enabled"]).lower()} if "enabled" in journal else {}),
        "storage.journal.commitIntervalMs": f"{interval:g}",
    }


def check_server(server: Server, target: str, *, writes: bool = True) -> None:
    """See that the server will do; `writes` says whether it has to take any.

    Raises:
        StoreError: it is too old.
        StoreUnavailable: it takes no writes now.
    """
    if server.product == "mongodb":
        numbers = tuple(int(part) for part in server.version.split(".")[:2] if part.isdigit())
        if numbers < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise StoreError(f"{target} is MongoDB {server.version}; triggerlog needs {oldest} or newer: upgrade it")
    if writes and not server.is_writable:
        raise StoreUnavailable(f"{target} takes no writes now: it is no primary; name the whole replica set in `dsn`")


def held(server: Server) -> dict[Durability, DurabilityInForce]:
    """What holds for each durability.

    https://www.mongodb.com/docs/manual/core/journaling/: the journal is on the disk at the latest after
    commitIntervalMs, at once for a write with `j: true`; what a majority has acknowledged no failover takes back.
    """
    if server.product == "ferretdb":
        return dict.fromkeys(Durability, _ferretdb(server))
    for name, wrong, what in (
        ("storageEngine", "inMemory", "nothing is on a disk"),
        ("storage.journal.enabled", "false", "a crash loses up to a minute"),
    ):
        if server.settings.get(name) == wrong:
            words = f"NOT durable: {name} is {wrong} on the server, {what}"
            shortfall = Shortfall(problem=words, fix="run it with WiredTiger and its journal")
            return dict.fromkeys(Durability, DurabilityInForce(words=words, risk_ms=math.inf, shortfall=shortfall))
    unseen = sorted(name for name, value in server.settings.items() if value == UNKNOWN)
    lacks = _unseen(unseen) if unseen else None
    as_far = f", as far as {', '.join(unseen)} go, which this login may not see" if unseen else ""
    if server.set_name:
        members = f"the majority of {server.set_name}"
        lost = "a failover may lose what the others do not have yet"
        return {
            Durability.SYNC: DurabilityInForce(
                words=f"sync (w: majority, j: true: in the journals of {members}{as_far})",
                risk_ms=0,
                shortfall=lacks,
            ),
            Durability.ASYNC: DurabilityInForce(
                words=f"async (w: 1, j: false: {lost}{as_far})", risk_ms=math.inf, shortfall=lacks
            ),
        }
    told = server.settings.get("storage.journal.commitIntervalMs", UNKNOWN)
    interval = COMMIT_INTERVAL_MOST_MS if told == UNKNOWN else float(told)
    may = f"a crash of the server may lose its last {interval:g} ms"
    return {
        Durability.SYNC: DurabilityInForce(
            words=f"sync (w: 1, j: true: in the journal{as_far})", risk_ms=0, shortfall=lacks
        ),
        Durability.ASYNC: DurabilityInForce(
            words=f"async (w: 1, j: false: {may}{as_far})", risk_ms=interval, shortfall=lacks
        ),
    }


def _unseen(names: Sequence[str]) -> Shortfall:
    return Shortfall(
        problem=f"the login may not see {', '.join(names)} of the server, so nobody here can tell whether a commit"
        " survives a crash",
        fix="have an administrator grant it the role clusterMonitor on admin",
    )


def _ferretdb(server: Server) -> DurabilityInForce:
    name = f"FerretDB {server.version}"
    return DurabilityInForce(
        words=f"sync as far as the database behind {name} is: it commits there before it answers, and ignores `j`",
        risk_ms=0,
        shortfall=Shortfall(
            problem=f"{name} does not tell whether the database behind it flushes a commit, so nobody here can see if "
            "it survives a power cut",
            fix="see that PostgreSQL's fsync and synchronous_commit are on, or SQLite's `synchronous` is FULL",
        ),
    )
