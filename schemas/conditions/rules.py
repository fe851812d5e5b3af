"""Rules of lists: what may be attached, by the status of the tag, how it is refused, and what attaching changes.

The rules are those of the reference conditions database, as they are meant (docs/conditions.md names where it does
otherwise).

What attaching an interval changes in a list is a pure function of the breakpoints around it (`assign`). A list is a
sequence of breakpoints in the order of their keys: from a breakpoint on its payload is valid (or nothing is, at a gap),
up to the next one. So ends follow from starts, and no list can hold intervals that overlap. The last breakpoint is a
gap, or an open interval.

An interval N = [s, e) is assigned: from s on N is valid, at e what was valid there goes on. Of the intervals that were
there before

- one that covers s, and begins before it, ends at s;
- one that begins within N and goes on beyond e begins at e, and keeps its id;
- one that begins before s and goes on beyond e is split: what is beyond e is another interval with an id of its own;
- those inside N are detached: they are in no list any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from schemas.conditions.intervals import END, LARGEST, NAME_MOST, URL_MOST, Key, NewInterval, TagStatus


@dataclass(frozen=True, kw_only=True)
class Breakpoint:
    """From `key` on the interval `id` is valid, or nothing if it is None."""

    key: Key
    id: int | None


@dataclass(frozen=True, kw_only=True)
class Assigned:
    """What an assignment does to the breakpoints of s <= key <= e.

    detached: ids of intervals that are removed from the list; their breakpoints go.
    moved: id of the interval whose breakpoint moves to e, None if none does.
    split: id of the interval whose payload goes on at e under a new id, None if none does.
    is_gap_at_end: a breakpoint without a payload is wanted at e, where there was none.
    """

    detached: tuple[int, ...]
    moved: int | None
    split: int | None
    is_gap_at_end: bool


def assign(start: Key, end: Key, before: Breakpoint | None, within: Sequence[Breakpoint]) -> Assigned:
    """Find out what assigning [start, end) changes.

    Args:
        start: less than `end`.
        end: END for an open interval.
        before: the last breakpoint with key < start, None if there is none.
        within: all breakpoints with start <= key <= end, in order.
    """
    covered = [each for each in within if each.key < end]
    ends_exactly = len(covered) < len(within)
    last = covered[-1] if covered else before
    goes_on = not ends_exactly and end != END and last is not None
    if not goes_on or last is None:
        return Assigned(
            detached=tuple(each.id for each in covered if each.id is not None),
            moved=None,
            split=None,
            is_gap_at_end=not ends_exactly and end != END,
        )
    moved = last.id if covered else None
    return Assigned(
        detached=tuple(each.id for each in covered if each.id is not None and each.id != moved),
        moved=moved,
        split=None if covered else last.id,
        is_gap_at_end=last.id is None,
    )


class RefusalKind(StrEnum):
    """Why an order is refused."""

    UNKNOWN = "unknown"  # what it names is not there
    EXISTS = "exists"  # the name is taken
    CONFLICT = "conflict"  # it does not fit what is there
    STATUS = "status"  # the tag's status does not permit it
    INVALID = "invalid"  # it is wrong by itself


class ConditionsRefused(Exception):
    """An order is not obeyed, and has changed nothing: the field, what is wrong, and the fix, each in a few words."""

    def __init__(self, kind: RefusalKind, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.kind, self.field, self.problem, self.fix = kind, field, problem, fix

    def within(self, which: str) -> "ConditionsRefused":
        """Say the same of one of many; which: of which, such as `bpm_1[17]`."""
        return ConditionsRefused(self.kind, f"{which}.{self.field}", self.problem, self.fix)


def unknown(field: str, name: object) -> ConditionsRefused:
    """Nothing has this name, or id; field: what is named, such as `global_tag`."""
    return ConditionsRefused(RefusalKind.UNKNOWN, field, f"{name} is not there", "name one that is, or add it first")


def no_list(tag: str, type_: str) -> ConditionsRefused:
    """A tag has no list of a type."""
    return ConditionsRefused(
        RefusalKind.UNKNOWN, "global_tag", f"{tag!r} has no list of type {type_!r}", "attach one to it"
    )


def exists(field: str, name: str) -> ConditionsRefused:
    """A name is taken; field: of what."""
    return ConditionsRefused(RefusalKind.EXISTS, field, f"{name} already exists", "choose another name")


def in_use(field: str, name: object, by: str) -> ConditionsRefused:
    """What is named is part of something; by: of what, such as `global tag a`."""
    return ConditionsRefused(RefusalKind.CONFLICT, field, f"{name} belongs to {by}", "take another one")


def moved_meanwhile(field: str, name: str) -> ConditionsRefused:
    """What is named was given to a tag, or taken from one, by somebody else while the order was carried out."""
    problem = f"{name} was given to a global tag, or taken from one, at the same moment"
    return ConditionsRefused(RefusalKind.CONFLICT, field, problem, "look who has it now, and order again")


def has_intervals(name: str, count: int) -> ConditionsRefused:
    """A list is to be removed, and holds something."""
    problem = f"{name} has {count} intervals, which would go with it"
    return ConditionsRefused(RefusalKind.CONFLICT, "payload_list", problem, "remove them first")


def check_interval(interval: NewInterval) -> None:
    """See that an interval may be stored.

    Raises:
        ConditionsRefused: a key is out of range, the end is not after the start, a text cannot be stored, or the size
            is negative.
    """
    check_span(interval.start, interval.end)
    check_text("payload_url", interval.url, URL_MOST)
    check_text("checksum", interval.checksum, NAME_MOST)
    if interval.size is not None and not 0 <= interval.size <= LARGEST:
        raise ConditionsRefused(
            RefusalKind.INVALID, "size", f"{interval.size} is no size in bytes", "give 0 to 2^63 - 1, or nothing"
        )


def check_name(field: str, name: str) -> None:
    """See that something may be called so.

    Raises:
        ConditionsRefused: the name is empty, too long, or cannot be stored.
    """
    if not name:
        raise ConditionsRefused(RefusalKind.INVALID, field, "it has no name", "give one")
    check_text(field, name, NAME_MOST)


def check_tag(name: str, author: str) -> None:
    """See that a global tag may be called so, and be by this author, who may be empty.

    Raises:
        ConditionsRefused: one of them cannot be stored.
    """
    check_name("global_tag", name)
    check_text("author", author, NAME_MOST)


def check_text(field: str, text: str, most: int) -> None:
    """See that a text can be stored.

    Raises:
        ConditionsRefused: it has more than `most` characters, or one that no database stores.
    """
    if "\0" in text or (not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text)):
        raise ConditionsRefused(
            RefusalKind.INVALID, field, "it has a character that no database stores", "leave out NUL and surrogates"
        )
    if len(text) > most:
        raise ConditionsRefused(
            RefusalKind.INVALID, field, f"it has {len(text):,} characters", f"give at most {most:,}"
        )


def check_span(start: Key, end: Key) -> None:
    """See that [start, end) is an interval of keys.

    Raises:
        ConditionsRefused: a key is out of range, or the end is not after the start.
    """
    for suffix, key in (("", start), ("_end", end)):
        for name, number in zip(Key._fields, key, strict=True):
            if not 0 <= number <= LARGEST:
                raise ConditionsRefused(
                    RefusalKind.INVALID,
                    f"{name}_iov{suffix}",
                    f"{number} is no key",
                    "give an integer of 0 to 2^63 - 1",
                )
    if not start < end:
        raise ConditionsRefused(
            RefusalKind.INVALID, "major_iov_end", "the interval ends before it begins", "give an end after the start"
        )


def check_attach(
    status: TagStatus | None,
    start: Key,
    end: Key,
    *,
    before: Breakpoint | None,
    within: Sequence[Breakpoint],
    newest: Breakpoint | None,
) -> None:
    """See that an interval may be attached.

    Args:
        status: of the tag that has the list; None if none has, which permits everything.
        start: of the interval.
        end: of the interval.
        before: the last breakpoint with key < start.
        within: all breakpoints with start <= key <= end, in order; those after the first that has a payload may lack.
        newest: the last breakpoint of the list.

    Raises:
        ConditionsRefused: it may not.
    """
    check_span(start, end)
    check_not_frozen(status)
    if status is not TagStatus.LOCKED:
        return
    extends = newest is not None and newest.id is not None and end == END and start > newest.key
    if extends:
        return
    has_payload = [each for each in within if each.id is not None and each.key < end]
    if (before is not None and before.id is not None and not _ends_at(start, within)) or has_payload:
        raise ConditionsRefused(
            RefusalKind.STATUS,
            "major_iov",
            "the global tag is locked, and has something valid within this interval",
            "attach a newer open interval at the end, or clone the tag",
        )


def _ends_at(start: Key, within: Sequence[Breakpoint]) -> bool:
    return bool(within) and within[0].key == start


def check_changes_list_of(status: TagStatus | None, *, has_type: bool) -> None:
    """See that a tag may get a list; has_type: it has one of the same type already.

    Raises:
        ConditionsRefused: it may not.
    """
    check_not_frozen(status)
    if status is TagStatus.LOCKED and has_type:
        raise ConditionsRefused(
            RefusalKind.STATUS, "payload_list", "the global tag is locked, and has a list of this type", "clone the tag"
        )


def check_status_change(old: TagStatus) -> None:
    """See that a tag's status may change: a frozen one stays frozen.

    Raises:
        ConditionsRefused: it may not.
    """
    if old is TagStatus.FROZEN:
        raise ConditionsRefused(
            RefusalKind.STATUS, "status", "the global tag is frozen, for ever", "clone it and change the clone"
        )


def check_not_frozen(status: TagStatus | None) -> None:
    """See that a tag's intervals may change at all.

    Raises:
        ConditionsRefused: they may not.
    """
    if status is TagStatus.FROZEN:
        raise ConditionsRefused(
            RefusalKind.STATUS, "global_tag", "it is frozen, for ever", "clone it and change the clone"
        )


def check_takes_interval(status: TagStatus) -> None:
    """See that an interval may be removed from a tag: a locked one answers with it.

    Raises:
        ConditionsRefused: it may not.
    """
    check_not_frozen(status)
    if status is TagStatus.LOCKED:
        fix = "unlock it first, or clone it and change the clone"
        raise ConditionsRefused(RefusalKind.STATUS, "global_tag", "it is locked, and answers with this interval", fix)


def check_removal(status: TagStatus) -> None:
    """See that a tag may be removed.

    Raises:
        ConditionsRefused: it is locked or frozen.
    """
    if status is not TagStatus.UNLOCKED:
        raise ConditionsRefused(
            RefusalKind.STATUS,
            "global_tag",
            f"it is {status}",
            "unlock it first" if status is TagStatus.LOCKED else "keep it",
        )
