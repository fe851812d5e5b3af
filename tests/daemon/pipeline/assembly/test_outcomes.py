"""Counts of what came of readings, added up over what goes through assembly more than once."""

from dataclasses import fields

import pytest

from daemon.pipeline.assembly import AssemblyCounts


def counts(times: int) -> AssemblyCounts:
    """Counts that all differ, each so many times."""
    numbers = iter(range(1, 100))
    values = {
        each.name: {"range": times * next(numbers), "older": times * next(numbers)}
        if isinstance(getattr(AssemblyCounts(), each.name), dict)
        else times * next(numbers)
        for each in fields(AssemblyCounts)
    }
    return AssemblyCounts(**values)


def test_each_count_is_added_and_taken_away() -> None:
    assert counts(2).plus(counts(3)) == counts(5)
    assert counts(5).less(counts(3)) == counts(2)


@pytest.mark.parametrize("name", ["refused", "aside"])
def test_reasons_that_only_one_of_them_has_count_too(name: str) -> None:
    one, other = (
        AssemblyCounts(**{name: {"older": 1, "range": 2}}),
        AssemblyCounts(**{name: {"range": 5, "no_room": 7}}),
    )
    assert getattr(one.plus(other), name) == {"older": 1, "range": 7, "no_room": 7}
    assert getattr(one.plus(other).less(one), name) == {"older": 0, "range": 5, "no_room": 7}


def test_a_copy_changes_with_nothing() -> None:
    one = counts(1)
    copy = one.copy()
    one.received += 1
    one.refused["range"] += 1
    assert copy == counts(1)
