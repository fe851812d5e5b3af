"""A tag in memory answers as a search through each of its lists does."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.conditions import content
from daemon.conditions.content import TagContent, TooLarge, load
from schemas.conditions.intervals import END, LARGEST, Interval, Key, ListContent, TagRevision, TagStatus
from schemas.conditions.line import columns_of

REVISION = TagRevision(id=3, name="physics", status=TagStatus.LOCKED, revision=7, updated_ns=11)

keys = st.builds(Key, st.sampled_from([0, 1, 2, 5, LARGEST]), st.sampled_from([0, 1, 7, 10**18 + 1, LARGEST]))


@st.composite
def timelines(draw: st.DrawFn) -> list[Interval]:
    """The intervals of a list: they do not overlap, some follow one another, the last one may be open."""
    bounds = sorted(draw(st.sets(keys, max_size=10)))
    spans = list(itertools.pairwise(bounds))
    kept = [span for span in spans if draw(st.booleans())]
    if bounds and bounds[-1] != END and draw(st.booleans()):
        kept.append((bounds[-1], END))
    return [
        Interval(
            id=i, url=f'ü"{i}', checksum="ab", size=None if i % 2 else i, start=start, end=end, list="x", inserted_ns=i
        )
        for i, (start, end) in enumerate(kept)
    ]


async def parts(lists: Sequence[Sequence[Interval]]) -> AsyncIterator[TagRevision | ListContent]:
    yield REVISION
    for i, intervals in enumerate(lists):
        yield ListContent(list_id=i, list_name=f"t{i}_{i}", type=f"t{i}", intervals=columns_of(intervals))


def loaded(lists: Sequence[Sequence[Interval]], most: int = 2**30) -> TagContent:
    return asyncio.run(load(parts(lists), most))


def by_search(lists: Sequence[Sequence[Interval]], key: Key) -> list[list[object]]:
    return [
        [f"t{i}", each.url, each.checksum, each.size, *each.start, *each.end, None]
        for i, intervals in enumerate(lists)
        for each in intervals
        if each.start <= key < each.end
    ]


@settings(deadline=None, max_examples=300)
@given(st.lists(timelines(), max_size=5), st.lists(keys, min_size=1, max_size=8), st.sampled_from([1, 2, 3, 256]))
def test_an_answer_is_what_a_search_in_each_list_finds(
    lists: list[list[Interval]], asked: list[Key], every: int
) -> None:
    before, content.EVERY = content.EVERY, every
    try:
        found = loaded(lists)
        for key in asked:
            position = found.breakpoints.position(key)
            assert json.loads(found.body(position)) == by_search(lists, key)
            # The answer is the same up to the next breakpoint, and these are the bounds of it.
            assert found.breakpoints.key(position) <= key
            assert key < found.breakpoints.key(position + 1) or key == END
    finally:
        content.EVERY = before


def test_a_tag_of_many_intervals_answers_at_each_start_and_just_before_it() -> None:
    random = np.random.default_rng(5)
    lists = []
    for _ in range(20):
        starts = [Key(int(major), 3) for major in np.unique(random.integers(0, 10**6, 400))]
        ends = [*starts[1:], END]
        lists.append(
            [
                Interval(id=i, url=f"u{i}", checksum="", size=None, start=start, end=end, list="x", inserted_ns=0)
                for i, (start, end) in enumerate(zip(starts, ends, strict=True))
            ]
        )
    found = loaded(lists)
    for key in [each.start for each in lists[7]]:
        for asked in (key, Key(key.major, 2)):
            assert json.loads(found.body(found.breakpoints.position(asked))) == by_search(lists, asked)
    assert found.intervals == sum(map(len, lists))
    assert found.nbytes > 20 * found.intervals


def test_a_tag_that_takes_too_much_is_not_kept() -> None:
    intervals = [
        Interval(
            id=i, url="u" * 100, checksum="", size=None, start=Key(i, 0), end=Key(i + 1, 0), list="x", inserted_ns=0
        )
        for i in range(2_000)
    ]
    assert loaded([intervals], 600_000).intervals == 2_000
    with pytest.raises(TooLarge):
        loaded([intervals], 200_000)


def test_a_tag_without_lists_answers_nothing() -> None:
    found = loaded([])
    assert found.body(found.breakpoints.position(Key(1, 1))) == b"[]"
    assert (found.breakpoints.key(0), found.breakpoints.key(1)) == (Key(0, 0), END)
