"""What makes a schema in MongoDB, as a script that an administrator can read and feed to mongosh."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bson import Int64

from backends.mongodb.accounts import ACCOUNT_INDEXES, ACCOUNTS
from backends.mongodb.schema.create import GroupCollections
from backends.mongodb.schema.views import readings_view
from backends.mongodb.server.facts import OLDEST
from backends.mongodb.server.lease import first_position
from schemas.batch import Layout
from schemas.readings import InstrumentGroup


def schema_statements(
    schema: str, logger: str, groups: Mapping[str, InstrumentGroup], layouts: Mapping[str, Layout]
) -> list[str]:
    """What the store would run on an empty server, each with its `;`, and comments; to run it again does no harm."""
    return [*_statements(schema, logger, groups, layouts)]


def _statements(
    schema: str, logger: str, groups: Mapping[str, InstrumentGroup], layouts: Mapping[str, Layout]
) -> Iterator[str]:
    oldest = ".".join(map(str, OLDEST))
    yield (
        f"// triggerlog: database {schema}, written by logger {logger}; MongoDB {oldest} or newer.\n"
        "// Run it with mongosh: mongosh mongodb://user@host:port --file FILE\n"
        "// FerretDB 1 takes neither the indexes nor the view. All times are int64 nanoseconds since 1970-01-01 UTC."
    )
    yield f"db = db.getSiblingDB({_text(schema)});"
    yield "// Marks: events that people noted."
    yield _unless_there("marks", {})
    yield "// Accounts of periods that were dropped or reduced."
    yield _indexed(ACCOUNTS, ACCOUNT_INDEXES)
    for name, group in groups.items():
        wanted = GroupCollections(group=group, layout=layouts[name])
        of = f"{group.size} instruments, layout {wanted.layout}"
        yield f"// Group {name}: {of}. Readings, ledger, figures, view, position."
        yield _upsert("groups", name, {"$setOnInsert": wanted.description(logger)})
        for collection in wanted.all:
            yield _unless_there(collection, {})
        for collection, indexes in wanted.indexes().items():
            yield _indexed(collection, indexes)
        yield _unless_there(wanted.view, readings_view(group, wanted.layout))
        yield _upsert("positions", name, first_position(logger))
    yield (
        "// The daemon's user, if access control is on, needs the role readWrite there:\n"
        f'//   db.grantRolesToUser("logger", [{{role: "readWrite", db: {_text(schema)}}}])'
    )


def _upsert(collection: str, name: str, update: dict[str, Any]) -> str:
    return f"db.{collection}.updateOne({_text({'_id': name})}, {_text(update)}, {{upsert: true}});"


def _indexed(collection: str, indexes: list[dict[str, Any]]) -> str:
    return f"db.runCommand({_text({'createIndexes': collection, 'indexes': indexes})});"


def _unless_there(name: str, options: dict[str, Any]) -> str:
    create = _text({"create": name, **options})
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
