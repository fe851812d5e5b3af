from urllib.parse import unquote

from dashboard.tabs.instruments.worst import SHOWN, leading, strip_svg, worst, worst_note, worst_rows
from schemas.api.readings import Missing, TriggerRanges

STATES = "omlsnd"
NAMES = [f"bpm_{number:03d}" for number in range(6)]


def history(missing: dict[str, list[int]], late: list[int], heard_s: list[float | None]) -> Missing:
    ranges = TriggerRanges(trigger=[1, 11, 21], time_ns=[0, 1, 2], triggers=[10, 10, 10])
    return Missing(
        group="bpm", run=1, triggers=30, end_ns=3, stretches=ranges, missing=missing, more=0, late=late, heard_s=heard_s
    )


MIXED = history(
    {"1": [0, 2, 0], "3": [0, 10, 10], "4": [10, 10, 10]}, [0, 0, 1_700, 0, 0, 0], [0.1, 0.1, 0.1, 61, None, 3]
)


def test_who_is_well_and_was_never_missing_is_not_listed() -> None:
    bad = worst(MIXED, STATES)
    assert [one.number for one in bad] == [4, 3, 1, 2, 5]
    recovered = history({"0": [1, 0, 0]}, [0, 0], [0.1, 0.1])
    assert [one.number for one in worst(recovered, "oo")] == [0]


def test_a_row_says_what_is_wrong_and_sorts_by_figures() -> None:
    rows = {row["key"]: row for row in worst_rows(worst(MIXED, STATES), MIXED, NAMES)}
    texts = {
        key: [row[name]["text"] for name in ("name", "state", "missing", "late", "heard")] for key, row in rows.items()
    }
    assert texts == {
        "bpm:4": ["bpm_004", "○ never heard", "30 · 100 %", "0", "never"],
        "bpm:3": ["bpm_003", "▲ silent", "20 · 67 %", "0", "1 min 1 s ago"],
        "bpm:1": ["bpm_001", "✕ missing", "2 · 6.7 %", "0", "now"],
        "bpm:2": ["bpm_002", "◐ late", "0", "1,700", "now"],
        "bpm:5": ["bpm_005", "≠ out of step", "0", "0", "3 s ago"],
    }

    def by(column: str) -> list[str]:
        return sorted(rows, key=lambda key: rows[key][column]["by"])

    assert by("state")[0] == "bpm:4"
    assert by("heard")[-2:] == ["bpm:3", "bpm:4"]
    assert by("late")[-1] == "bpm:2"
    assert by("name") == ["bpm:1", "bpm:2", "bpm:3", "bpm:4", "bpm:5"]


def test_the_bars_of_a_strip_are_as_high_as_the_share_that_is_missing() -> None:
    assert 'd="M0.5 16v-3.13M2.5 16v-16"' in strip_svg([1, 0, 100], [100, 100, 100])
    assert 'viewBox="0 0 3 16"' in strip_svg([1, 0, 100], [100, 100, 100])
    assert 'd=""' in strip_svg((), [])
    (row, *_) = worst_rows(worst(MIXED, STATES), MIXED, NAMES)
    assert unquote(row["strip"]["style"]["backgroundImage"]).count("v-16") == 3


def test_of_many_each_column_has_its_first() -> None:
    size = 4 * SHOWN
    counts = {str(number): [1 if number < 2 * SHOWN else 2, 0, 0] for number in range(size)}
    many = history(
        counts, [number % 7 if number < SHOWN else 0 for number in range(size)], [float(size - n) for n in range(size)]
    )
    bad = worst(many, "m" * size)
    shown = leading(bad)
    assert SHOWN < len(shown) <= 4 * SHOWN - 1
    assert len(shown) < len(bad) == size
    numbers = {one.number for one in shown}
    assert set(range(SHOWN)) <= numbers, "heard longest ago"
    assert {one.number for one in bad[:SHOWN]} <= numbers, "missing most"
    assert [one.missing for one in shown] == sorted((one.missing for one in shown), reverse=True)
    assert worst_note(len(shown), size, many.triggers) == f"{len(shown)} of {size} · 30 triggers in the ledger"
    assert worst_note(5, 5, MIXED.triggers) == "30 triggers in the ledger"
