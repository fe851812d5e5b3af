"""Assignments against a brute-force timeline."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.conditions.intervals import END, Key
from schemas.conditions.rules import Assigned, Breakpoint, assign

CELLS = 20
spans = st.tuples(st.integers(0, CELLS - 1), st.none() | st.integers(1, CELLS)).filter(
    lambda span: span[1] is None or span[0] < span[1]
)


class Line:
    """A list's breakpoints, and beside them what is valid at each of some keys."""

    def __init__(self) -> None:
        self.points: dict[Key, int | None] = {}
        self.cells: list[int | None] = [None] * CELLS
        self.payload: dict[int, int] = {}
        self._ids = 0

    def assign(self, start: int, end: int | None) -> Assigned:
        first, last = Key(start, 0), END if end is None else Key(end, 0)
        points = [Breakpoint(key=key, id=self.points[key]) for key in sorted(self.points)]
        before = max((each for each in points if each.key < first), key=lambda each: each.key, default=None)
        found = assign(first, last, before, [each for each in points if first <= each.key <= last])
        new = self._new()
        self.payload[new] = new
        self.points = {key: id_ for key, id_ in self.points.items() if not first <= key < last}
        self.points[first] = new
        if found.moved is not None:
            self.points[last] = found.moved
        elif found.split is not None:
            self.points[last] = rest = self._new()
            self.payload[rest] = self.payload[found.split]
        elif found.is_gap_at_end:
            self.points[last] = None
        self.cells[start : CELLS if end is None else end] = [new] * ((CELLS if end is None else end) - start)
        return found

    def valid(self, cell: int) -> int | None:
        """The payload that the breakpoints have at a key."""
        at = max((key for key in self.points if key <= Key(cell, 0)), default=None)
        id_ = None if at is None else self.points[at]
        return None if id_ is None else self.payload[id_]

    def _new(self) -> int:
        self._ids += 1
        return self._ids


@given(st.lists(spans, max_size=12))
def test_what_is_valid_is_what_was_assigned_last(assigned: list[tuple[int, int | None]]) -> None:
    line = Line()
    for start, end in assigned:
        before = {id_ for id_ in line.points.values() if id_ is not None}
        found = line.assign(start, end)
        now = [id_ for id_ in line.points.values() if id_ is not None]
        assert len(now) == len(set(now))
        assert before - set(now) == set(found.detached)
    assert [line.valid(cell) for cell in range(CELLS)] == line.cells
