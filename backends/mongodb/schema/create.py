"""Create a store's collections in MongoDB, or check that what is there fits the configuration.

Without transactions the description of a group goes first: what a crash leaves behind it is then known to be ours, and
is made complete at the next start.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo.errors import OperationFailure

from backends.base import SchemaMismatch, StoreError
from backends.columns.stored import STORED_DTYPES
from backends.diagnosis.schema import Stored, difference, gone, mismatch_of
from backends.mongodb.accounts import ACCOUNT_INDEXES, ACCOUNTS
from backends.mongodb.protocol.documents import array_bytes, number
from backends.mongodb.schema.views import readings_view
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer
from backends.mongodb.server.facts import Database, Server
from schemas.batch import Layout
from schemas.readings import Channel, InstrumentGroup

NAMESPACE_EXISTS = 48
LARGEST_BYTES = 16 * 1024 * 1024
"""The largest document MongoDB takes."""
NEEDED = frozenset(
    {"find", "insert", "update", "remove", "createCollection", "createIndex", "listCollections", "collStats"}
)
"""Actions on the database that a login has to be allowed; the role `readWrite` allows them all."""


@dataclass(frozen=True, kw_only=True)
class GroupCollections:
    """The collections of a group: its readings, of one layout, their figures where they are reduced, and its ledger."""

    group: InstrumentGroup
    layout: Layout

    @property
    def data(self) -> str:
        """Name of the readings' collection."""
        return self.group.name

    @property
    def ledger(self) -> str:
        """Name of the ledger's collection."""
        return f"{self.group.name}_ledger"

    @property
    def reduced(self) -> str:
        """Name of the collection of figures."""
        return f"{self.group.name}_reduced"

    @property
    def all(self) -> tuple[str, ...]:
        """Names of all its collections."""
        return self.data, self.ledger, self.reduced

    @property
    def view(self) -> str:
        """Name of the view that shows a reading a document in both layouts."""
        return f"{self.group.name}_readings"

    def indexes(self) -> dict[str, list[dict[str, Any]]]:
        """The indexes besides that of `_id`, by collection, as `createIndexes` takes them.

        Time series of an instrument and, by the same index, of all of them; one ledger entry by its trigger in any run;
        the newest complete trigger, at once even when an instrument has been dead for a week; triggers after a gap;
        figures of a stretch of time, and of one instrument without reading those of the others.
        """
        by_time = {"time_ns": 1} if self.layout is Layout.ARRAYS else {"instrument": 1, "time_ns": 1}
        complete = {"key": {"run": 1, "trigger_id": 1}, "partialFilterExpression": {"complete": True}}
        skipped = {"key": {"time_ns": 1}, "partialFilterExpression": {"skipped": {"$gt": 0}}}
        return {
            self.data: [{"key": by_time, "name": f"{self.group.name}_time"}],
            self.ledger: [
                {"key": {"trigger_id": 1, "run": 1}, "name": f"{self.group.name}_trigger"},
                {**complete, "name": f"{self.group.name}_complete"},
                {**skipped, "name": f"{self.group.name}_skipped"},
            ],
            self.reduced: [{"key": {"time_ns": 1, "instrument": 1}, "name": f"{self.group.name}_reduced_time"}],
        }

    def description(self, logger: str) -> dict[str, Any]:
        """The document of `groups` that says what the group is."""
        channels = [{"name": c.name, "unit": c.unit, "dtype": c.dtype} for c in self.group.channels]
        return {
            "_id": self.group.name,
            "logger": logger,
            "layout": self.layout.value,
            "channels": channels,
            "instruments": list(self.group.instruments),
        }


def check_width(wanted: GroupCollections) -> None:
    """See that a document of the group can be stored.

    Raises:
        StoreError: it would be too large.
    """
    group = wanted.group
    # Arithmetic, since the layout of a document of so many elements takes seconds to make.
    elements = [8, *(number(channel.name, STORED_DTYPES[channel.dtype]).width for channel in group.channels)]
    arrays = sum(array_bytes(group.size, each) for each in elements)
    width = arrays if wanted.layout is Layout.ARRAYS else 0
    if width > LARGEST_BYTES:
        raise StoreError(
            f"a trigger of group {wanted.data!r} makes a document of {width / 2**20:.0f} MB, and MongoDB's limit is 16:"
            ' set `layout = "rows"` for it, or divide it into smaller groups'
        )


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
            *(f"collections of group `{collections.data}`" for collections in self.groups),
        ]


async def missing_from(database: Database, logger: str, groups: Iterable[GroupCollections], target: str) -> Missing:
    """Find what is not there yet, without changing anything.

    Raises:
        SchemaMismatch: what is there does not fit.
        StoreError: a right is missing.
    """
    await check_rights(database, target)
    names = set(await database.list_collection_names())
    absent, mismatches = [], {}
    for wanted in groups:
        stored = await _stored(database, wanted.data)
        if stored is None:
            taken = names & {*wanted.all}
            if taken and "positions" in names and "groups" not in names:
                raise gone(database.name, ["groups"])
            if taken:
                raise SchemaMismatch(
                    f"database {database.name!r} has a collection {min(taken)!r} that is not triggerlog's;"
                    " set another `schema` in [database] or rename the group"
                )
            absent.append(wanted)
            continue
        mismatch = difference(stored, wanted.group, wanted.layout, logger)
        if mismatch is not None:
            mismatches[wanted.data] = mismatch
    if mismatches:
        raise mismatch_of(mismatches, database.name)
    return Missing(database=not names, marks="marks" not in names, groups=tuple(absent))


async def create_or_check(
    database: Database, logger: str, groups: Sequence[GroupCollections], target: str, server: Server
) -> None:
    """Create what is missing.

    Raises:
        SchemaMismatch: what is there does not fit; nothing was changed.
        StoreError: a right is missing.
    """
    missing = await missing_from(database, logger, groups, target)
    for wanted in missing.groups:
        description = wanted.description(logger)
        answer = await database.command("insert", "groups", documents=[description], writeConcern={"w": 1, "j": True})
        check_answer(answer, target, but=DUPLICATE_KEY)
    # Another daemon may have described one of them in the meantime.
    await missing_from(database, logger, groups, target)
    there = set(await database.list_collection_names())
    if "marks" not in there:
        await create_collection(database, {"create": "marks"})
    if server.uses_indexes:
        await database.command("createIndexes", ACCOUNTS, indexes=ACCOUNT_INDEXES)
    for wanted in groups:
        await _complete(database, wanted, there, server)


async def _complete(database: Database, wanted: GroupCollections, there: set[str], server: Server) -> None:
    for name in wanted.all:
        if name not in there:
            await create_collection(database, {"create": name})
    if server.uses_indexes:
        for name, indexes in wanted.indexes().items():
            await database.command("createIndexes", name, indexes=indexes)
    if server.has_views and wanted.view not in there:
        await create_collection(database, {"create": wanted.view, **readings_view(wanted.group, wanted.layout)})


async def create_collection(database: Database, command: dict[str, Any]) -> None:
    """Run a `create` command; a collection that is there is left as it is."""
    try:
        await database.command(command)
    except OperationFailure as error:
        if error.code != NAMESPACE_EXISTS:
            raise


async def _stored(database: Database, name: str) -> Stored | None:
    found = await database.get_collection("groups").find_one({"_id": name})
    if found is None:
        return None
    return Stored(
        logger=found["logger"],
        layout=found["layout"],
        channels=tuple(Channel(name=c["name"], unit=c["unit"], dtype=c["dtype"]) for c in found["channels"]),
        instruments=tuple(found["instruments"]),
    )


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
    """Which of NEEDED the privileges of a login (`connectionStatus`, showPrivileges) lack on a whole database."""
    allowed: set[str] = set()
    for privilege in privileges:
        resource, actions = privilege["resource"], set(privilege["actions"])
        everywhere = resource.get("anyResource", False)
        here = resource.get("db") in ("", database) and resource.get("collection") == ""
        if everywhere or here:
            allowed |= NEEDED if "anyAction" in actions else actions
    return set(NEEDED - allowed)
