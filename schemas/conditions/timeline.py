"""What attaching an interval changes in a list: a pure function of the breakpoints around it.

A list is a sequence of breakpoints in the order of their keys: from a breakpoint on its payload is valid (or nothing
is, at a gap), up to the next one. So ends follow from starts, and no list can hold intervals that overlap. The last
breakpoint is a gap, or an open interval.

An interval N = [s, e) is assigned: from s on N is valid, at e what was valid there goes on. Of the intervals that were
there before

- one that covers s, and begins before it, ends at s;
- one that begins within N and goes on beyond e begins at e, and keeps its id;
- one that begins before s and goes on beyond e is split: what is beyond e is another interval with an id of its own;
- those inside N are detached: they are in no list any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.conditions.intervals import END, Key


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
