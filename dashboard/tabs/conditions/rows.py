"""What the tab Conditions says of tags, of what differs between two of them, and of who asks, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice

from dashboard import zone
from dashboard.feed.conditions import ConditionsServer
from dashboard.tabs.tables import Cell, Row, cell, row
from dashboard.words import NONE, count, counted, moment, number, size
from schemas.api.conditions import ConditionsClients, ConditionsUse, TagRow
from schemas.conditions.intervals import (
    END,
    Difference,
    Intervals,
    Key,
    Payload,
    TagStatus,
    differences,
    intervals_of_rows,
)

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


LEAST_TIME_NS = 10**17
"""A minor key of at least so much, with the major key 0, is a time: it is in 1973."""

LARGEST_TIME_NS = 4 * 10**18
"""Up to the year 2096; what is beyond is a number."""


def key_words(key: Key) -> str:
    """A key: a time to the second where it is one, else both numbers."""
    if key == END:
        return "open"
    if key.major == 0 and LEAST_TIME_NS <= key.minor <= LARGEST_TIME_NS:
        return f"{moment(key.minor / 1e6)} {zone.label()}"
    return f"{key.major} {key.minor}"


GLYPHS = {TagStatus.UNLOCKED: "○", TagStatus.LOCKED: "◐", TagStatus.FROZEN: "●"}

MOST_ROWS = 200
"""Differences in the table."""


def tag_rows(tags: Sequence[TagRow]) -> list[Row]:
    """A row a tag, the one that changed last first."""
    return [_tag(tag) for tag in newest_first(tags)]


def newest_first(tags: Sequence[TagRow]) -> list[TagRow]:
    """The tags, the one that changed last first."""
    return sorted(tags, key=lambda tag: tag.updated, reverse=True)


def tags_note(tags: Sequence[TagRow]) -> str:
    """How many there are, by status."""
    by_status = {status: sum(tag.status is status for tag in tags) for status in TagStatus}
    return " · ".join(f"{count(amount)} {status}" for status, amount in by_status.items() if amount)


def _tag(tag: TagRow) -> Row:
    return row(
        tag.name,
        name=tag.name,
        status=f"{GLYPHS[tag.status]} {tag.status.value}",
        lists=cell(count(tag.payload_lists_count), tag.payload_lists_count),
        intervals=cell(count(tag.payload_iov_count), tag.payload_iov_count),
        author=tag.author or NONE,
        created=_when(tag.created),
        changed=_when(tag.updated),
    )


def _when(text: str) -> Cell:
    """A time of the contract: UTC without a zone."""
    return cell(moment(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e3), text)


def client_rows(told: ConditionsClients) -> list[Row]:
    """A row a client, the one with the most requests first, and at the end one for all others."""
    rows = [
        row(
            f"{each.address} {each.user_agent}",
            address=each.address,
            agent=each.user_agent or NONE,
            **_asked(each, told),
        )
        for each in told.clients
    ]
    if told.others.requests:
        rows.append(row("others", address="others", agent=NONE, **_asked(told.others, told)))
    return rows


def _asked(use: ConditionsUse, told: ConditionsClients) -> dict[str, Cell]:
    rate = use.requests / max(1.0, told.over_s)
    return {
        "requests": cell(count(use.requests), use.requests),
        "rate": cell(number(rate), rate),
        "sent": cell(size(use.bytes), use.bytes),
    }


def clients_note(told: ConditionsClients) -> str:
    """Of how long, and how many there are."""
    others = " and others" if told.others.requests else ""
    return f"{counted(len(told.clients), 'client')}{others} · last {round(told.over_s)} s"


def difference_rows(found: Compared) -> list[Row]:
    """Types that only one tag has, then where lists differ; MOST_ROWS at most."""
    only = [(type_, found.left) for type_ in found.only_left] + [(type_, found.right) for type_ in found.only_right]
    rows = [
        row(f"only {type_}", type=type_, start=NONE, end=NONE, **_only(tag, found))  # no type is in both
        for type_, tag in only
    ]
    stretches = ((type_, place, each) for type_, some in found.by_type.items() for place, each in enumerate(some))
    rows += [_stretch(*each) for each in islice(stretches, max(0, MOST_ROWS - len(rows)))]
    return rows[:MOST_ROWS]


def _only(tag: str, found: Compared) -> dict[str, str]:
    return {"left": "only here", "right": NONE} if tag == found.left else {"left": NONE, "right": "only here"}


def _stretch(type_: str, place: int, each: Difference) -> Row:
    return row(
        f"{type_} {place}",
        type=type_,
        start=_key(each.start),
        end=_key(each.end),
        left=_payload(each.left),
        right=_payload(each.right),
    )


def _key(key: Key) -> Cell:
    return cell(key_words(key), f"{key.major:019d} {key.minor:019d}")


def _payload(payload: Payload | None) -> Cell:
    if payload is None:
        return cell("nothing")
    return cell(payload.url, title=f"{payload.url}, checksum {payload.checksum or 'none'}")


def difference_note(found: Compared) -> str:
    """How much differs, and what was not compared."""
    stretches = sum(map(len, found.by_type.values()))
    only = len(found.only_left) + len(found.only_right)
    parts = [f"{found.left} against {found.right}"]
    if only:
        parts.append(f"{counted(only, 'type')} in one of them only")
    if stretches:
        parts.append(f"{counted(stretches, 'stretch', 'stretches')} of keys in {counted(len(found.by_type), 'type')}")
    if not only and not stretches:
        parts.append("no difference")
    if only + stretches > MOST_ROWS:
        parts.append(f"the first {MOST_ROWS} are listed")
    if found.unread is not None:
        parts.append(
            f"▲ of intervals only the chosen type’s: both have {count(found.unread)}; all: triggerlog conditions diff"
        )
    return " · ".join(parts)
