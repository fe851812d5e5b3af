"""The store of conditions: what each database implements.

Like a `Store` it only writes and reads: no retry, no sleep, no memory of what it read. Each method that changes
something is one transaction, all of it or none, at durability `sync`; two that change the same list, or the same tag,
wait for each other. What they decide is in `schemas.conditions`: `rules` are the same for every database.

Every method raises StoreUnavailable (backends.base) when the database does not answer in time, after which the store is
still usable; and ConditionsRefused (schemas.conditions.rules) where what is named is not there, is taken, or where a
rule does not permit it. A method that was refused has changed nothing.

Several processes may use one schema at the same time, with a store each; calls of one store may overlap.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from schemas.conditions.intervals import (
    GlobalTag,
    Interval,
    Intervals,
    Key,
    ListContent,
    NewInterval,
    PayloadList,
    PayloadType,
    TagRevision,
    TagStatus,
    ValidAt,
)


class ConditionsStore(Protocol):
    """Conditions in one schema of a database."""

    async def create(self) -> None:
        """Create the schema and the tables, or check those that are there.

        Raises:
            SchemaMismatch: they are not as this store makes them.
        """

    async def check(self) -> None:
        """See that `create` would do, and change nothing.

        Raises:
            StoreError: it would not; the message names the problem and the fix.
        """

    async def close(self) -> None:
        """Give back the connections."""

    async def drop(self) -> None:
        """Remove the schema with everything in it; nothing happens when it is not there."""

    # --- payload types, lists, tags --------------------------------------------------------------------------------

    async def add_type(self, name: str) -> PayloadType:
        """Add a payload type. Refused: it is there, or `rules.check_name` does not permit the name."""

    async def types(self) -> Sequence[PayloadType]:
        """All payload types, by id."""

    async def remove_type(self, name: str) -> None:
        """Remove a payload type. Refused: unknown, or a list is of this type."""

    async def add_list(self, type: str) -> PayloadList:  # noqa: A002 - the field's name
        """Add an empty list of a type, in no tag; its name is TYPE_ID. Refused: unknown type."""

    async def lists(self) -> Sequence[PayloadList]:
        """All lists, by id."""

    async def payload_list(self, name: str) -> PayloadList:
        """One list. Refused: unknown."""

    async def remove_list(self, name: str) -> None:
        """Remove an empty list, also from its tag. Refused: unknown, it has intervals, or its tag is frozen."""

    async def attach_list(self, tag: str, name: str) -> PayloadList:
        """Give a list to a tag; a list of the same type that the tag had is in no tag afterwards.

        Where the tag has just this list, nothing changes, its revision neither; the status has to permit it though.
        Refused: unknown, another tag has it, or the tag's status does not permit it.
        """

    async def add_tag(self, name: str, status: TagStatus, author: str = "") -> GlobalTag:
        """Add a tag without lists. Refused: it is there, or `rules.check_tag` does not permit it."""

    async def tags(self) -> Sequence[GlobalTag]:
        """All tags, by id."""

    async def tag(self, name: str) -> GlobalTag:
        """One tag. Refused: unknown."""

    async def tag_lists(self, tag: str) -> Mapping[str, str]:
        """Name of a tag's list by type. Refused: unknown."""

    async def set_status(self, tag: str, status: TagStatus) -> GlobalTag:
        """Change a tag's status; to the one that it has is no change. Refused: unknown, or it is frozen."""

    async def clone_tag(self, source: str, name: str) -> GlobalTag:
        """Make an unlocked tag that answers as another one does, in a time that follows from its types alone.

        It has the author of the source, and lists of its own, which share their intervals with those of the source
        until one of both is changed; the ids stay the same in both.
        Refused: the source is unknown, or the name is taken or not permitted.
        """

    async def remove_tag(self, name: str) -> None:
        """Remove a tag with its lists and their intervals. Refused: unknown, locked or frozen."""

    async def revisions(self) -> Sequence[TagRevision]:
        """Revision and status of every tag, in one short question: it is asked every second."""

    # --- intervals ---------------------------------------------------------------------------------------------------

    async def add_interval(self, interval: NewInterval) -> Interval:
        """Store an interval that is in no list. Refused: `rules.check_interval` does not permit it."""

    async def interval(self, id: int) -> Interval:  # noqa: A002 - the field's name
        """One interval, in a list or not, with the end that holds now. Refused: unknown."""

    async def intervals(self, after_id: int, most: int) -> Sequence[Interval]:
        """Intervals with id > after_id, by id, `most` at most, in lists or not."""

    async def interval_page(self, first: int, most: int, *, descending: bool = False) -> tuple[int, Sequence[Interval]]:
        """How many intervals there are, in lists or not; and those from place `first` on, `most` at most.

        The first one by id, or the last one where they are `descending`, has the place 0.
        """

    async def attach_interval(self, name: str, id: int) -> Interval:  # noqa: A002 - the field's name
        """Attach an interval that is in no list to a list; see `schemas.conditions.rules` for what else changes.

        Intervals that are detached have the start and end that they had in the list, and are in no list, unless another
        one, of a clone, still has them. What is split off has a new id, and else all that its interval had.
        Refused: unknown, a list has it already, or a rule does not permit it.
        """

    async def insert(self, intervals: Mapping[str, Intervals]) -> int:
        """Attach many new intervals, by name of the list, all or none, in their order; return how many.

        The order is that of the mapping, and in each list that of the columns, which need not be that of the starts.
        The same rules hold as for each of them by itself. What comes later in a list trims what came before.
        `ids` and `inserted_ns` of what is given are not looked at.
        Refused: as `attach_interval`; the field says which list and which interval.
        """

    async def remove_interval(self, tag: str, type: str, start: Key, end: Key) -> None:  # noqa: A002 - the field's name
        """Remove the interval of a tag that has exactly this start and end; nothing is valid there then.

        A list of another tag that shares it keeps it.
        Refused: unknown, or the tag is locked or frozen.
        """

    # --- questions ---------------------------------------------------------------------------------------------------

    async def valid_at(self, tag: str, key: Key) -> tuple[TagRevision, Sequence[ValidAt]]:
        """What is valid at a key, for each type of a tag that has something there, by type; and of which revision.

        Refused: unknown tag.
        """

    def content(self, tag: str) -> AsyncIterator[TagRevision | ListContent]:
        """All of a tag as it is at one moment: first its revision, then each of its lists, by type.

        Refused: unknown tag.
        """

    async def between(self, tag: str, type: str, first: Key, last: Key) -> tuple[TagRevision, Intervals]:  # noqa: A002
        """Intervals of one type of a tag that hold a key from `first` to `last`, and of which revision, at one moment.

        What it costs follows from how many there are, and not from the length of the list.
        Refused: unknown tag, or it has no list of this type.
        """

    async def timeline(self, name: str) -> Intervals:
        """All intervals of one list. Refused: unknown list."""
