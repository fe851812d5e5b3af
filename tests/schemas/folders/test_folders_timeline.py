"""What an insertion changes, and classes of lengths at their limits; histories are compared in `tests/backends`."""

import numpy as np
import pytest

from schemas.conditions.rules import ConditionsRefused
from schemas.folders.blocks import OPEN
from schemas.folders.folders import Column, block_dtype
from schemas.folders.timeline import OPEN_CLASS, changes_of_single, length_classes, longest_of, newest, pieces
from schemas.readings import Array

DTYPE = block_dtype((Column(name="value", dtype="int32"),))
NOTHING = np.empty(0, DTYPE)


def of(*rows: tuple[int, int, int, int]) -> Array:
    return np.array(list(rows), DTYPE)


def test_an_open_interval_ends_where_the_next_one_begins() -> None:
    changes = changes_of_single(of((1, 20, OPEN, 3), (1, 30, 40, 4)), of((1, 5, OPEN, 2)), of((1, 0, 5, 1)))
    assert changes.ended.tolist() == [(1, 5, 20, 2)]
    assert changes.closed.tolist() == [(1, 20, 30, 3), (1, 30, 40, 4)]
    assert changes.opened.tolist() == []


def test_an_interval_before_an_open_one_leaves_it() -> None:
    changes = changes_of_single(of((1, 1, 5, 3)), of((1, 5, OPEN, 2)), NOTHING)
    assert changes.ended.tolist() == []
    assert changes.closed.tolist() == [(1, 1, 5, 3)]


@pytest.mark.parametrize("row", [(1, 4, OPEN, 0), (1, 0, 6, 0), (1, 5, 6, 0)])
def test_what_overlaps_is_refused(row: tuple[int, int, int, int]) -> None:
    with pytest.raises(ConditionsRefused, match="channel 1: the interval since"):
        changes_of_single(of(row), of((1, 5, OPEN, 2)), NOTHING)


def test_no_length_is_greater_than_the_longest_of_its_class() -> None:
    lengths = [1, 2, 3, 300, 2**31, 2**53, 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 2]
    block = of(*((0, 0, length, 0) for length in lengths), (0, 1, OPEN, 0))
    classes = length_classes(block)
    assert classes[-1] == OPEN_CLASS
    assert (np.diff(classes) >= 0).all()
    longest = longest_of(block[:-1])
    for length, each in zip(lengths, classes.tolist(), strict=False):
        assert length <= longest[each] <= 2 * length
    assert longest_of(NOTHING) == {}


def test_the_newest_of_each_channel_and_what_is_seen_of_the_others() -> None:
    block = of((1, 0, 10, 1), (1, 2, 4, 2), (1, 3, 12, 3), (2, 0, OPEN, 4))
    versions = np.array([1, 3, 2, 1])
    valid = (block["since"] <= 3) & (block["until"] > 3)
    assert newest(block[valid], versions[valid])["value"].tolist() == [2, 4]
    assert pieces(block, versions).tolist() == [
        (1, 0, 2, 1),
        (1, 2, 4, 2),
        (1, 4, 12, 3),
        (2, 0, OPEN, 4),
    ]
    assert pieces(NOTHING, versions[:0]).tolist() == []


def test_many_intervals_of_one_channel_hide_each_other() -> None:
    # With a look through all of them for each piece, this would take minutes.
    count = 100_000
    block = np.zeros(count + 1, DTYPE)
    block["since"][:count] = np.arange(count) * 10
    block["until"][:count] = block["since"][:count] + 25
    block["since"][count], block["until"][count] = 5, count * 10
    # Of each three that overlap, the later one is the newer; the long one is the oldest.
    found = pieces(block, np.append(np.arange(1, count + 1), 0))
    assert found["since"].tolist() == block["since"][:count].tolist()
    assert found["until"].tolist() == [*block["since"][1:count].tolist(), int(block["until"][count - 1])]
    found = pieces(block, np.append(np.arange(count, 0, -1), count + 1))
    assert found["since"].tolist() == [0, 5, count * 10, count * 10 + 5]
    assert found["until"].tolist() == [5, count * 10, count * 10 + 5, count * 10 + 15]
