"""What a database says of a group it holds, and whether that fits the configuration: the same in every database."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from backends.base import SchemaMismatch, StoreLacks
from backends.columns.stored import POSITION
from schemas.batch import Layout
from schemas.readings import Channel, InstrumentGroup

ADDED = "bigint NOT NULL DEFAULT 0"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What the database says of a group."""

    logger: str
    layout: str
    channels: tuple[Channel, ...]
    instruments: tuple[str, ...]


def difference(stored: Stored, group: InstrumentGroup, layout: Layout, logger: str) -> str | None:
    """Say what differs between the database and the configuration, and the fix; None when nothing does.

    A changed unit is no difference: it changes no stored byte.
    """
    other = "or log into another `schema`"
    if stored.logger != logger:
        return f"it is written by logger {stored.logger!r}, this is {logger!r}; set `logger` to that, {other}"
    if stored.layout != layout:
        return (
            f"its layout is {stored.layout!r}, the configuration says {layout.value!r}; set `layout` to that, {other}"
        )
    channels = _channels_differ(stored.channels, group.channels)
    if channels is not None:
        return f"{channels}; set `channels` to what is there, {other}"
    if len(stored.instruments) != group.size:
        return f"it has {len(stored.instruments)} instruments, the configuration {group.size}; set it to that, {other}"
    for number, (there, here) in enumerate(zip(stored.instruments, group.instruments, strict=True)):
        if there != here:
            return f"instrument {number} is {there!r}, the configuration says {here!r}; name it as it was, {other}"
    return None


def check_positions(schema: str, there: Collection[str], add: str, state: str) -> None:
    """See that the columns of `positions` are `there`; else it is an older triggerlog's, and the error has the fix.

    add: the statement that adds what is missing, up to the columns. state: the type of the column of this name.
    """
    lacking = [name for name in POSITION if name not in there]
    if not lacking:
        return
    columns = ", ".join(f"ADD COLUMN {name} {state if name == 'state' else ADDED}" for name in lacking)
    raise StoreLacks(
        f"table 'positions' in schema {schema!r} was made by an older triggerlog and has no {' and '.join(lacking)};"
        f" let its owner run {add} {columns}"
    )


def gone(schema: str, tables: Collection[str]) -> StoreLacks:
    """The error for a schema that lacks tables which triggerlog made: an operator has taken them away."""
    names = ", ".join(map(repr, sorted(tables)))
    return StoreLacks(f"schema {schema!r} has lost {names}; bring back what was there, or log into another `schema`")


def mismatch_of(found: Mapping[str, str], schema: str) -> SchemaMismatch:
    """The error for groups that are not stored as they are configured: by name, the difference and the fix."""
    return SchemaMismatch(
        "; ".join(f"group {name!r} in schema {schema!r}: {problem}" for name, problem in found.items()),
        groups=tuple(found),
    )


def not_ours(schema: str, table: str) -> str:
    """Say that a shared table is somebody else's, and the fix."""
    return f"schema {schema!r} has a table {table!r} that is not triggerlog's; set another `schema` in [database]"


def _channels_differ(there: Sequence[Channel], here: Sequence[Channel]) -> str | None:
    stored, wanted = {c.name: c.dtype for c in there}, {c.name: c.dtype for c in here}
    for name in stored.keys() - wanted.keys():
        return f"the configuration lacks channel {name!r} ({stored[name]})"
    for name in wanted.keys() - stored.keys():
        return f"it has no channel {name!r} ({wanted[name]})"
    for name, dtype in stored.items():
        if wanted[name] != dtype:
            return f"channel {name!r} is {dtype}, the configuration says {wanted[name]}"
    if [c.name for c in there] != [c.name for c in here]:
        return f"the order of its channels is {', '.join(stored)}"
    return None
