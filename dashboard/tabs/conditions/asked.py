"""What the tab Conditions asks the server for a choice of tags and a type, within limits of what it reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dashboard.feed.conditions import ConditionsServer
from schemas.conditions.intervals import Difference, Intervals, differences, intervals_of_rows

MOST_INTERVALS = 60_000
"""Of one list, and of both tags together: what is more is not asked for, because reading it would hold up the page."""

NOTHING = intervals_of_rows([])


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The intervals of one type by tag, and the tags whose lists are too long to be drawn, with their lengths."""

    type: str
    lists: Mapping[str, Intervals]
    too_long: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What differs between two tags.

    only_left, only_right: types of which only one of them has a list. by_type: where lists of the same type differ.
    unread: how many intervals both have, where these are too many to be read and only the type that is drawn was
    compared; else None.
    """

    left: str
    right: str
    only_left: Sequence[str]
    only_right: Sequence[str]
    by_type: Mapping[str, Sequence[Difference]]
    unread: int | None = None


async def drawn(server: ConditionsServer, tags: Sequence[str], type_: str) -> Drawn:
    """The intervals of a type in some tags. Raises DaemonUnavailable or NotThere."""
    found: dict[str, Intervals] = {}
    too_long: dict[str, int] = {}
    for tag in tags:
        name = (await server.lists(tag)).get(type_)
        amount = 0 if name is None else await server.count(name)
        if amount > MOST_INTERVALS:
            too_long[tag] = amount
        else:
            found[tag] = NOTHING if name is None else await server.intervals(name)
    return Drawn(type=type_, lists=found, too_long=too_long)


async def compared(
    server: ConditionsServer, left: str, right: str, *, sizes: Mapping[str, int], shown: Drawn
) -> Compared:
    """What differs between two tags: of all types, or only of the one that is drawn where all are too many.

    sizes: intervals by tag. Raises DaemonUnavailable or NotThere.
    """
    mine, other = await server.lists(left), await server.lists(right)
    total = sizes.get(left, 0) + sizes.get(right, 0)
    pairs: dict[str, tuple[Intervals, Intervals]] = {}
    if total <= MOST_INTERVALS:
        for type_ in sorted(mine.keys() & other.keys()):
            pairs[type_] = await server.intervals(mine[type_]), await server.intervals(other[type_])
    elif left in shown.lists and right in shown.lists:
        pairs[shown.type] = shown.lists[left], shown.lists[right]
    found = {type_: list(differences(*pair)) for type_, pair in pairs.items()}
    return Compared(
        left=left,
        right=right,
        only_left=sorted(mine.keys() - other.keys()),
        only_right=sorted(other.keys() - mine.keys()),
        by_type={type_: some for type_, some in found.items() if some},
        unread=None if total <= MOST_INTERVALS else total,
    )
