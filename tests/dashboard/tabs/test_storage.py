"""What the tab Storage says of a status and of the daemon's answer."""

import time
from typing import Any

import pytest

from dashboard.feed.frames import sections
from dashboard.tabs.storage import layout
from dashboard.tabs.storage.rows import (
    DAY_NS,
    MOST_SHOWN,
    account_note,
    account_rows,
    beside_rows,
    decimation_words,
    durability_pairs,
    journal_rows,
    outage_note,
    outage_rows,
    partition_rows,
    partitions_note,
    reduced_rows,
    stored_note,
    stored_rows,
)
from schemas.api.status import DeadLetterCounts, IntakeStatus, Status
from schemas.api.storage import ReducedStorage
from tests.page.served import snapshot, storage

NOW_NS = time.time_ns()
STORAGE = storage(NOW_NS)
OF_ONE = ReducedStorage(
    periods=5,
    readings=900,
    rows_before=1000,
    rows_after=100,
    bytes_before=2**30,
    bytes_after=2**28,
    from_ns=[0, 2 * DAY_NS, 4 * DAY_NS, 6 * DAY_NS],
    to_ns=[DAY_NS, 3 * DAY_NS, 5 * DAY_NS, 7 * DAY_NS],
)
GROUPS = {name: group.model_copy(update={"reduced": OF_ONE}) for name, group in STORAGE.groups.items()}
REDUCED = STORAGE.model_copy(update={"groups": GROUPS})


def status(**changes: Any) -> Status:
    return snapshot(1, NOW_NS, **changes)


def text(row: dict[str, Any], column: str) -> str:
    return str(row[column]["text"])


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (outage_rows(status()), layout.OUTAGE),
        (stored_rows(STORAGE, status()), layout.STORED),
        (partition_rows(STORAGE, "bpm"), layout.PARTITIONS),
        (journal_rows(STORAGE, status()), layout.JOURNALS),
        (reduced_rows(REDUCED), layout.REDUCED),
        (account_rows(status()), layout.ACCOUNT),
        (beside_rows(status()), layout.BESIDE),
    ],
    ids=["outage", "stored", "partitions", "journals", "reduced", "account", "beside"],
)
def test_a_row_has_a_cell_for_each_column_and_no_other(rows: list[dict[str, Any]], columns: Any) -> None:
    assert [{"key", *(column.name for column in columns)}] * len(rows) == [set(row) for row in rows]
    assert rows


def test_before_the_database_has_answered_the_journals_are_there() -> None:
    now = status().model_copy(update={"groups": {}, "intakes": {"bpm": IntakeStatus(waiting=2400, log_mib=12.0)}})
    (shown,) = journal_rows(STORAGE.model_copy(update={"groups": {}}), now)
    assert (text(shown, "size"), text(shown, "room"), text(shown, "problem")) == ("12.0 MiB", "–", "in use")


@pytest.mark.parametrize(
    ("changes", "room", "drained"),
    [
        ({"drained_in_s": 0.0, "waiting": 0, "wave": False}, "2 h", "nothing waits"),
        ({"drained_in_s": 0.0}, "2 h", "at once"),
        ({"drained_in_s": 31.0, "full_in_s": None}, "–", "31 s"),
        ({"drained_in_s": None}, "2 h", "falling behind"),
        ({"drained_in_s": None, "available": False, "problem": "no route"}, "2 h", "once back"),
        ({"backpressure": True, "drained_in_s": 31.0}, "full: senders are held back", "31 s"),
    ],
)
def test_an_outage_is_told_by_how_long_there_is_room(changes: dict[str, Any], room: str, drained: str) -> None:
    (row,) = outage_rows(status(**changes))
    assert (text(row, "room"), text(row, "drained")) == (room, drained)


def test_what_waits_for_a_database_that_has_not_answered_yet_is_in_the_intakes() -> None:
    starting = status().model_copy(
        update={"groups": {}, "intakes": {"bpm": IntakeStatus(waiting=1200, log_mib=0.5, problem=None)}}
    )
    (row,) = outage_rows(starting)
    assert set(row) == {"key", *(column.name for column in layout.OUTAGE)}
    assert (text(row, "readings"), row["readings"]["title"], text(row, "room")) == ("1,200", "in the journal", "–")
    assert not account_note(starting)


def test_what_is_refused_and_lost_before_the_database_answers_is_told() -> None:
    intake = IntakeStatus(
        waiting=1200, unsynced=30, refused={"backlog": 7995}, lost={"datagrams": 40}, log_mib=0.5, problem="no room"
    )
    starting = status().model_copy(update={"groups": {}, "intakes": {"bpm": intake}})
    (row,) = outage_rows(starting)
    assert row["readings"]["title"] == "in the journal; 30 of them are not on the disk yet"
    assert account_note(starting) == "refused: bpm: backlog 7,995 · lost: bpm: datagrams 40"


def test_sizes_that_are_not_known_yet_are_not_zero() -> None:
    (row, *_) = stored_rows(STORAGE.model_copy(update={"sizes_age_s": None}), status())
    assert (text(row, "rows"), text(row, "size")) == ("–", "–")


def test_a_database_that_is_away_is_said_and_one_of_which_nobody_knows_as_well() -> None:
    away = status(available=False, problem="connection refused").store
    assert outage_note(away, is_dead=False) == "■ the database is away: connection refused"
    assert outage_note(away, is_dead=True) == "○ unknown: the daemon does not answer"
    assert outage_note(status(available=False).store, is_dead=False) == "■ the database is away"


def test_what_a_crash_can_lose_stands_out_where_it_is_without_limit() -> None:
    pairs = {name: (value, over) for name, value, over in durability_pairs(status(at_risk_ms=None, at_risk=9))}
    assert pairs["bpm"] == ("sync requested; a crash of the server can lose all of it", True)
    limited = durability_pairs(status(at_risk_ms=600.0))
    assert ("bpm", "sync requested; a crash of the server can lose the last 600 ms", False) in limited


def test_partitions_are_listed_from_the_newest_and_the_largest_one_is_the_measure() -> None:
    rows = partition_rows(STORAGE, "bpm")
    assert [text(row, "what") for row in rows] == ["future", "current", ""]
    assert max(row["share"]["by"] for row in rows) == 100
    assert partitions_note(STORAGE, "bpm").startswith("bpm · 3 · checked")
    one = STORAGE.groups["bpm"].partitions[0]
    many = [one.model_copy(update={"name": f"p{number}"}) for number in range(MOST_SHOWN + 50)]
    group = STORAGE.groups["bpm"].model_copy(update={"partitions": many})
    large = STORAGE.model_copy(update={"groups": {"bpm": group}, "partitions_problem": "refused"})
    assert len(partition_rows(large, "bpm")) == MOST_SHOWN
    assert partitions_note(large, "bpm") == "bpm · the newest 200 of 250 · ▲ out of date: refused"
    assert partition_rows(large, "gone") == []


def test_a_partition_for_all_other_times_has_no_ends() -> None:
    one = STORAGE.groups["bpm"].partitions[0].model_copy(update={"start_ns": -(2**63), "end_ns": 2**63 - 1})
    group = STORAGE.groups["bpm"].model_copy(update={"partitions": [one]})
    (row,) = partition_rows(STORAGE.model_copy(update={"groups": {"bpm": group}}), "bpm")
    assert [text(row, name) for name in ("from", "until", "what")] == ["–", "–", "all others"]


def test_the_disk_is_told_where_the_database_lies_on_it() -> None:
    assert "full in 2 d" in stored_note(STORAGE, status())
    elsewhere = STORAGE.model_copy(update={"database_is_here": False})
    assert stored_note(elsewhere, status()).endswith("; the database is elsewhere, check its disk there")


def test_the_account_says_why_readings_are_missing_from_the_database() -> None:
    now = status(refused={"unknown_instrument": 7}, aside={"ahead": 5}, lost={"sender": 9}, skipped=1244)
    (account,), (beside,) = account_rows(now), beside_rows(now)
    row = account | beside
    assert [text(row, name) for name in ("refused", "aside", "lost", "skipped")] == ["7", "5", "9", "1,244"]
    assert {name for name, one in row.items() if name != "key" and one["over"]} >= {"refused", "aside", "lost"}
    assert account_note(now) == "refused: bpm: unknown instrument 7 · aside: bpm: ahead 5 · lost: bpm: sender 9"


def test_what_was_dead_stands_out_until_it_is_stored_or_discarded() -> None:
    now = status(dead=12)
    group = now.groups["bpm"]

    def is_over(**letters: int) -> bool:
        changed = group.model_copy(update={"dead_letters": DeadLetterCounts(**letters)})
        (row,) = account_rows(now.model_copy(update={"groups": {"bpm": changed}}))
        assert text(row, "dead") == "12"
        told = sections(now.model_copy(update={"groups": {"bpm": changed}}))
        gone = {key: letters[key] for key in ("retried", "discarded") if key in letters}
        assert told["totals/bpm"]["dead_now"] == 12 - sum(gone.values())
        words = ", ".join(f"{n} {'stored' if key == 'retried' else key} since" for key, n in gone.items())
        assert told["words/bpm"]["dead"] == (f" ({words})" if gone else "")
        return bool(row["dead"]["over"])

    assert is_over(letters=2, triggers=2, readings=12)
    assert is_over(letters=1, triggers=1, readings=6, retried=6)
    assert not is_over(retried=12)
    assert not is_over(retried=5, discarded=7)


def test_what_was_reduced_is_told_with_what_it_saved_and_the_newest_stretches() -> None:
    assert reduced_rows(STORAGE) == []
    (found, *_) = reduced_rows(REDUCED)
    assert (text(found, "saved"), text(found, "before"), text(found, "stayed")) == ("75 %", "1.00 GiB", "100")
    assert text(found, "stretches") == (
        "1970-01-03 to 1970-01-04, 1970-01-05 to 1970-01-06, 1970-01-07 to 1970-01-08, and 1 more"
    )


def test_decimation_is_told_in_words() -> None:
    assert decimation_words(status()) == ""
    at_ns = NOW_NS + 7200 * 10**9
    given = {"periods": 1, "next": {"group": "bpm", "name": "d1", "at_ns": at_ns}, "held": ["d0 of bpm: it waits"]}
    assert decimation_words(status(decimation=given)) == (
        "decimation: next: d1 of bpm, in 2 h; 1 partition reduced; held: d0 of bpm: it waits"
    )
    reducing = {"group": "bpm", "name": "d0", "how": "figures of every 60 s", "done": 0.5, "left_s": None}
    assert decimation_words(status(decimation={"reducing": reducing, "problem": "no room"})) == (
        "decimation: reducing d0 of bpm to figures of every 60 s: 50 %; no room"
    )
