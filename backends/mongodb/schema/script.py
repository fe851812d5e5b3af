"""What makes a schema in MongoDB, as a script that an administrator can read and feed to mongosh."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from bson import Int64

from backends.mongodb.schema.create import GroupCollections, check_name
from backends.mongodb.server.facts import OLDEST
from schemas.batch import Layout
from schemas.readings import InstrumentGroup


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
