"""What the tab Conditions says of tags and of what differs between two of them."""

from typing import Any

from dashboard.tabs.conditions.callbacks import Listed, shown_of
from dashboard.tabs.conditions.layout import MOST_TAGS
from dashboard.tabs.conditions.rows import (
    MOST_ROWS,
    Compared,
    client_rows,
    clients_note,
    difference_note,
    difference_rows,
    tag_rows,
    tags_note,
)
from schemas.api.conditions import ConditionsClient, ConditionsClients, ConditionsUse, TagRow
from schemas.conditions.intervals import Difference, Key, Payload


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


def test_who_asks_is_listed_and_all_others_together_at_the_end() -> None:
    told = ConditionsClients(
        over_s=60.0,
        clients=[
            ConditionsClient(address="10.1.2.3", user_agent="job/1", requests=1200, bytes=3 * 2**20),
            ConditionsClient(address="10.1.2.3", user_agent=None, requests=30, bytes=900),
        ],
        others=ConditionsUse(requests=6000, bytes=0),
    )
    assert [list(text(row).values())[1:] for row in client_rows(told)] == [
        ["10.1.2.3", "job/1", "1,200", "20.0", "3.00 MiB"],
        ["10.1.2.3", "–", "30", "0.50", "900 B"],
        ["others", "–", "6,000", "100", "0 B"],
    ]
    assert clients_note(told) == "2 clients and others · last 60 s"
    alone = told.model_copy(update={"others": ConditionsUse(requests=0, bytes=0), "clients": told.clients[:1]})
    assert (len(client_rows(alone)), clients_note(alone)) == (1, "1 client · last 60 s")


LISTED: Listed = {"newest": ["2026-03", 1], "middle": ["2026-02", 2], "oldest": ["2026-01", 3]}


def view(tags: str | None = None, type_: str | None = None) -> dict[str, Any]:
    return {"tags": tags, "type": type_}


def test_without_an_address_the_two_that_had_changed_last_at_first_are_shown() -> None:
    shown, problem = shown_of(view(), LISTED, None)
    assert (shown, problem) == ({"tags": ["middle", "newest"], "usual": ["middle", "newest"], "type": None}, "")
    # Another one changes: what somebody looks at stays.
    again = {"oldest": ["2026-04", 3], **LISTED}
    assert shown_of(view(), again, shown) == (shown, "")
    chosen, _ = shown_of(view("oldest/newest", "bpm"), LISTED, shown)
    assert (chosen["tags"], chosen["type"]) == (["oldest", "newest"], "bpm")
    assert shown_of(view(), LISTED, chosen) == (shown, "")
    assert shown_of(view(), {"oldest": ["2026-01", 3]}, chosen)[0]["tags"] == ["oldest"]


def test_an_address_may_name_what_is_not_there_or_far_too_much() -> None:
    shown, problem = shown_of(view("gone/oldest//x"), LISTED, None)
    assert (shown["tags"], problem) == (["oldest"], "The address names what is not there: gone, x.")
    assert shown_of(view(""), LISTED, None)[0]["tags"] == []
    many = {str(number): ["", 0] for number in range(20)}
    assert len(shown_of(view("/".join(many)), many, None)[0]["tags"]) == MOST_TAGS
