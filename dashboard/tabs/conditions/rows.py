"""What the tab Conditions says of tags, of what differs between two of them, and of who asks, row by row."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice

from dashboard.tabs.conditions.asked import Compared
from dashboard.tabs.conditions.words import key_words
from dashboard.tabs.tables import Cell, Row, cell, row
from dashboard.words import NONE, count, counted, moment, number, size
from schemas.api.conditions import ConditionsClients, ConditionsUse, TagRow
from schemas.conditions.intervals import Difference, Key, Payload, TagStatus

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
