"""What the tab Conditions says of tags and of what differs between two of them."""

from typing import Any

from dashboard.tabs.conditions.asked import Compared
from dashboard.tabs.conditions.rows import MOST_ROWS, difference_note, difference_rows, tag_rows, tags_note
from schemas.api.conditions import TagRow
from schemas.conditions.differences import Difference, Payload
from schemas.conditions.intervals import Key


def tag(name: str, status: str, updated: str, **changes: Any) -> TagRow:
    told = {
        "name": name,
        "author": None,
        "status": status,
        "payload_lists_count": 2,
        "payload_iov_count": 12_345,
        "created": "2026-01-02T03:04:05.000006",
        "updated": updated,
    }
    return TagRow.model_validate(told | changes)


def text(row: dict[str, Any]) -> dict[str, str]:
    return {name: one if isinstance(one, str) else one["text"] for name, one in row.items()}


def difference(start: int, left: str | None, right: str | None) -> Difference:
    payloads = [None if url is None else Payload(url=url, checksum="c") for url in (left, right)]
    return Difference(start=Key(start, 0), end=Key(start + 1, 0), left=payloads[0], right=payloads[1])


def test_the_tag_that_changed_last_stands_first() -> None:
    older = tag("older", "frozen", "2026-01-02T03:04:05.000006", author="ada")
    newer = tag("newer", "unlocked", "2026-02-02T03:04:05.000006")
    rows = [text(row) for row in tag_rows([older, newer])]
    assert [row["name"] for row in rows] == ["newer", "older"]
    assert rows[1] == {
        "key": "older",
        "name": "older",
        "status": "● frozen",
        "lists": "2",
        "intervals": "12,345",
        "author": "ada",
        "created": "2026-01-02 03:04:05",
        "changed": "2026-01-02 03:04:05",
    }
    assert rows[0]["author"] == "–"
    assert tags_note([older, newer, newer]) == "2 unlocked · 1 frozen"


def test_types_of_one_tag_and_stretches_that_differ_are_listed() -> None:
    found = Compared(
        left="one",
        right="two",
        only_left=["gone"],
        only_right=["new"],
        by_type={"bpm": [difference(7, "a", None), difference(9, "a", "b")]},
    )
    rows = [text(row) for row in difference_rows(found)]
    assert [(row["type"], row["start"], row["end"], row["left"], row["right"]) for row in rows] == [
        ("gone", "–", "–", "only here", "–"),
        ("new", "–", "–", "–", "only here"),
        ("bpm", "7 0", "8 0", "a", "nothing"),
        ("bpm", "9 0", "10 0", "a", "b"),
    ]
    assert len({row["key"] for row in rows}) == 4
    assert difference_note(found) == "one against two · 2 types in one of them only · 2 stretches of keys in 1 type"


def test_no_difference_is_said() -> None:
    same = Compared(left="one", right="two", only_left=[], only_right=[], by_type={})
    assert difference_rows(same) == []
    assert difference_note(same) == "one against two · no difference"


def test_of_many_differences_the_first_are_listed_and_what_was_not_read_is_said() -> None:
    many = [difference(n, "a", "b") for n in range(MOST_ROWS + 5)]
    found = Compared(left="l", right="r", only_left=["x"], only_right=[], by_type={"t": many}, unread=90_000)
    assert len(difference_rows(found)) == MOST_ROWS
    note = difference_note(found)
    assert f"the first {MOST_ROWS} are listed" in note
    assert "only the chosen type’s: both have 90,000" in note
