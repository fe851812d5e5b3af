"""The collections of a store in MongoDB: created, or checked that they fit the configuration; written down; removed.

Without transactions the description of a group goes first: what a crash leaves behind it is then known to be ours, and
is made complete at the next start.
"""

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymongo
from bson import Int64
from pymongo.errors import OperationFailure

from backends.base import SchemaMismatch, StoreError
from backends.diagnosis import Stored, difference, gone, mismatch_of
from backends.mongodb.protocol.triggers import LAYOUT, slice_of
from backends.mongodb.server.client import make_client, target_of
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer, translated
from backends.mongodb.server.facts import OLDEST, Database, Server
from schemas.batch import Layout
from schemas.config import DatabaseConfig
from schemas.readings import Channel, InstrumentGroup

log = logging.getLogger(__name__)

NAMESPACE_EXISTS = 48
NEEDED = frozenset(
    {
        *("find", "insert", "update", "remove", "createCollection", "createIndex", "listCollections", "listIndexes"),
        "collStats",
    }
)
"""Actions on the database that a login has to be allowed; the role `readWrite` allows them all."""
OF_THE_SERVER = frozenset({"admin", "config", "local"})
"""Databases of the server itself. `local` is not replicated, and no write concern holds for it."""


@dataclass(frozen=True, kw_only=True)
class GroupCollections:
    """The collection of a group. layout: decides nothing but what counts as stored: readings, or triggers."""

    group: InstrumentGroup
    layout: Layout

    @property
    def data(self) -> str:
        """Name of the collection."""
        return self.group.name

    def indexes(self) -> list[dict[str, Any]]:
        """Return the indexes besides that of `_id`, as `createIndexes` takes them.

        Time series; one ledger row by its trigger in any run; the newest complete trigger, at once even when an
        instrument has been dead for a week; triggers after a gap.
        """
        complete = {"key": {"run": 1, "trigger_id": 1}, "partialFilterExpression": {"complete": True}}
        skipped = {"key": {"time_ns": 1}, "partialFilterExpression": {"skipped": {"$gt": 0}}}
        return [
            {"key": {"time_ns": 1}, "name": f"{self.data}_time"},
            {"key": {"trigger_id": 1, "run": 1}, "name": f"{self.data}_trigger"},
            {**complete, "name": f"{self.data}_complete"},
            {**skipped, "name": f"{self.data}_skipped"},
        ]

    def description(self, logger: str) -> dict[str, Any]:
        """Return the document of `groups` that says what the group is."""
        channels = [{"name": c.name, "unit": c.unit, "dtype": c.dtype} for c in self.group.channels]
        return {
            "_id": self.group.name,
            "logger": logger,
            "layout": self.layout.value,
            "documents": LAYOUT,
            "slice": slice_of(self.group),
            "channels": channels,
            "instruments": list(self.group.instruments),
        }


def check_name(schema: str, section: str = "database") -> None:
    """See that a database can be written.

    Raises:
        SchemaMismatch: it is the server's own.
    """
    if schema in OF_THE_SERVER:
        raise SchemaMismatch(f"database {schema!r} is MongoDB's own; set another `schema` in [{section}]")


@dataclass(frozen=True, kw_only=True)
class Missing:
    """What a server lacks: the database, the collection of marks, the collections of groups."""

    database: bool
    marks: bool
    groups: tuple[GroupCollections, ...]

    def words(self, schema: str) -> list[str]:
        """Say it, a line each; the marks come with the database."""
        return [
            *([f"database `{schema}`"] if self.database else []),
            *(["collection `marks`"] if self.marks and not self.database else []),
            *(f"collection of group `{collections.data}`" for collections in self.groups),
        ]


async def missing_from(database: Database, logger: str, groups: Iterable[GroupCollections], target: str) -> Missing:
    """Find what is not there yet, without changing anything.

    Raises:
        SchemaMismatch: what is there does not fit.
        StoreError: a right is missing.
    """
    check_name(database.name)
    await check_rights(database, target)
    names = set(await database.list_collection_names())
    described = {str(each["_id"]): each for each in await database.get_collection("groups").find().to_list()}
    _check_layout(database.name, described)
    absent, mismatches = [], {}
    for wanted in groups:
        stored = described.get(wanted.data)
        if stored is None:
            if wanted.data in names and "positions" in names and "groups" not in names:
                raise gone(database.name, ["groups"])
            if wanted.data in names:
                raise SchemaMismatch(
                    f"database {database.name!r} has a collection {wanted.data!r} that is not triggerlog's;"
                    " set another `schema` in [database] or rename the group"
                )
            absent.append(wanted)
            continue
        mismatch = difference(_stored(stored), wanted.group, wanted.layout, logger)
        if mismatch is not None:
            mismatches[wanted.data] = mismatch
    if mismatches:
        raise mismatch_of(mismatches, database.name)
    return Missing(database=not names, marks="marks" not in names, groups=tuple(absent))


def _check_layout(schema: str, described: Mapping[str, Mapping[str, Any]]) -> None:
    others = sorted(name for name, each in described.items() if each.get("documents") != LAYOUT)
    if others:
        raise SchemaMismatch(
            f"database {schema!r} has group {others[0]!r} in the layout of another version of triggerlog, which this"
            " one does not read: set another `schema` in [database], and export what is there with the version that"
            " wrote it (`triggerlog export`)"
        )


def _stored(found: Mapping[str, Any]) -> Stored:
    return Stored(
        logger=found["logger"],
        layout=found["layout"],
        channels=tuple(Channel(name=c["name"], unit=c["unit"], dtype=c["dtype"]) for c in found["channels"]),
        instruments=tuple(found["instruments"]),
    )


class SchemaMaker:
    """Makes what is missing; indexes of collections that have documents are built in the background."""

    def __init__(self, logger: str, groups: Sequence[GroupCollections], target: str) -> None:
        self._logger = logger
        self._groups = groups
        self._target = target
        self._building: set[asyncio.Task[None]] = set()

    async def create(self, database: Database, server: Server, concern: dict[str, Any], timeout_s: float) -> None:
        """Create what is missing.

        Raises:
            SchemaMismatch: what is there does not fit; nothing was changed.
            StoreError: a right is missing.
        """
        with pymongo.timeout(timeout_s):
            missing = await missing_from(database, self._logger, self._groups, self._target)
            for wanted in missing.groups:
                description = wanted.description(self._logger)
                answer = await database.command("insert", "groups", documents=[description], writeConcern=concern)
                check_answer(answer, self._target, but=DUPLICATE_KEY)
            # Another daemon may have described one of them in the meantime.
            await missing_from(database, self._logger, self._groups, self._target)
            there = set(await database.list_collection_names())
            for name in {"marks", *(wanted.data for wanted in self._groups)} - there:
                await create_collection(database, {"create": name})
        if not server.uses_indexes:
            return
        for wanted in self._groups:
            await self._index(database, wanted.data, wanted.indexes(), timeout_s)

    async def _index(self, database: Database, name: str, wanted: list[dict[str, Any]], timeout_s: float) -> None:
        with pymongo.timeout(timeout_s):
            there = await database.get_collection(name).index_information()
            is_empty = await database.get_collection(name).find_one({}, {"_id": 1}) is None
        indexes = [index for index in wanted if index["name"] not in there]
        if indexes:
            building = asyncio.create_task(self._build(database, name, indexes), name=f"indexes of {name}")
            self._building.add(building)
            building.add_done_callback(self._building.discard)
            if is_empty:
                await building

    async def _build(self, database: Database, name: str, indexes: list[dict[str, Any]]) -> None:
        try:
            with translated(self._target):
                await database.command("createIndexes", name, indexes=indexes)
        except StoreError as error:
            log.warning("indexes of collection %r are not built, the next start does it: %s", name, error)

    async def close(self) -> None:
        """Stop waiting for indexes; the server goes on with them."""
        for building in self._building:
            building.cancel()
        await asyncio.gather(*self._building, return_exceptions=True)


async def create_collection(database: Database, command: dict[str, Any]) -> None:
    """Run a `create` command; a collection that is there is left as it is."""
    try:
        await database.command(command)
    except OperationFailure as error:
        if error.code != NAMESPACE_EXISTS:
            raise


async def check_rights(database: Database, target: str) -> None:
    """See that a login may do all that is NEEDED in a database.

    Raises:
        StoreError: it lacks a right; the message has the fix.
    """
    status = await database.command({"connectionStatus": 1, "showPrivileges": True})
    info = status.get("authInfo", {})
    users = [user["user"] for user in info.get("authenticatedUsers", [])]
    if not users:
        return
    lacking = lacking_rights(info.get("authenticatedUserPrivileges", []), database.name)
    if lacking:
        raise StoreError(
            f"{target}: user {users[0]!r} may not {', '.join(sorted(lacking))} in database {database.name!r};"
            f' have an administrator grant the role: db.grantRolesToUser("{users[0]}",'
            f' [{{role: "readWrite", db: "{database.name}"}}])'
        )


def lacking_rights(privileges: Sequence[Mapping[str, Any]], database: str) -> set[str]:
    """Return what of NEEDED the privileges of a login (`connectionStatus`, showPrivileges) lack on a database."""
    allowed: set[str] = set()
    for privilege in privileges:
        resource, actions = privilege["resource"], set(privilege["actions"])
        everywhere = resource.get("anyResource", False)
        here = resource.get("db") in ("", database) and resource.get("collection") == ""
        if everywhere or here:
            allowed |= NEEDED if "anyAction" in actions else actions
    return set(NEEDED - allowed)


def schema_statements(
    schema: str, logger: str, groups: Mapping[str, InstrumentGroup], layouts: Mapping[str, Layout]
) -> list[str]:
    """Return what the store would run on an empty server, each with its `;`, and comments; it may be run again."""
    check_name(schema)
    return [*_statements(schema, logger, groups, layouts)]


def _statements(
    schema: str, logger: str, groups: Mapping[str, InstrumentGroup], layouts: Mapping[str, Layout]
) -> Iterator[str]:
    oldest = ".".join(map(str, OLDEST))
    yield (
        f"// triggerlog: database {schema}, written by logger {logger}; MongoDB {oldest} or newer.\n"
        "// Run it with mongosh: mongosh mongodb://user@host:port --file FILE\n"
        "// FerretDB 1 takes no indexes. All times are int64 nanoseconds since 1970-01-01 UTC."
    )
    yield f"db = db.getSiblingDB({_text(schema)});"
    yield "// Marks: events that people noted."
    yield _unless_there("marks")
    for name, group in groups.items():
        wanted = GroupCollections(group=group, layout=layouts[name])
        yield f"// Group {name}: {group.size} instruments. A document a trigger."
        description = _text({"$setOnInsert": wanted.description(logger)})
        yield f"db.groups.updateOne({_text({'_id': name})}, {description}, {{upsert: true}});"
        yield _unless_there(wanted.data)
        yield _indexed(wanted.data, wanted.indexes())
    yield (
        "// The daemon's user, if access control is on, needs the role readWrite there:\n"
        f'//   db.grantRolesToUser("logger", [{{role: "readWrite", db: {_text(schema)}}}])'
    )


def _indexed(collection: str, indexes: list[dict[str, Any]]) -> str:
    return f"db.runCommand({_text({'createIndexes': collection, 'indexes': indexes})});"


def _unless_there(name: str) -> str:
    create = _text({"create": name})
    return f"if (!db.getCollectionNames().includes({_text(name)})) db.runCommand({create});"


def _text(value: Any) -> str:
    """Write a value as mongosh reads it."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(name)}: {_text(each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_text, value)) + "]"
        case Int64():
            return f'NumberLong("{value}")'
        case _:
            return json.dumps(value)


async def drop_schema(database: DatabaseConfig, password: str | None) -> None:
    """Drop the database that a configuration calls its schema; nothing happens when it is not there.

    Raises:
        StoreError: it is still there.
    """
    assert database.dsn is not None
    with translated(target_of(database.dsn)):
        client = make_client(
            database.dsn, password=password, program="triggerlog drill", timeout_s=database.command_timeout_s
        )
        try:
            await client.drop_database(database.schema_name)
        finally:
            await client.close()
