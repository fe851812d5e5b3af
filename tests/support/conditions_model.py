"""A brute-force model of conditions: what is valid in each of a few cells, written without what the stores use."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from schemas.conditions.intervals import END, Key, TagStatus

CELLS = 12
"""Cells 0 to CELLS - 1 begin at a key each; the last one goes on up to END."""
KEYS = [*(Key(k // 3, k % 3) for k in range(CELLS)), END]
TYPES = ("bpm", "quad")


@dataclass(kw_only=True)
class ModelList:
    """What is valid in each cell: the number of an interval, or None."""

    type: str
    tag: str | None = None
    cells: list[int | None] = field(default_factory=lambda: [None] * CELLS)

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """Number, first cell and cell behind the last one of each interval."""
        for number in dict.fromkeys(each for each in self.cells if each is not None):
            yield number, self.cells.index(number), CELLS - self.cells[::-1].index(number)


@dataclass(kw_only=True)
class ModelTag:
    """A tag and its lists by type."""

    status: TagStatus = TagStatus.UNLOCKED
    lists: dict[str, str] = field(default_factory=dict)


class Model:
    """Lists by name, tags by name, URLs of all intervals by number, and the extents of those in no list."""

    def __init__(self) -> None:
        self.lists: dict[str, ModelList] = {}
        self.tags: dict[str, ModelTag] = {}
        self.urls: dict[int, str] = {}
        self.loose: dict[int, tuple[int, int]] = {}

    def copy(self) -> "Model":
        """Copy it, to try something."""
        return deepcopy(self)

    def new(self, url: str) -> int:
        """Number an interval."""
        number = len(self.urls) + 1
        self.urls[number] = url
        return number

    def may_attach(self, name: str, first: int, after: int) -> bool:
        """Whether the tag's status lets an interval of these cells into a list."""
        to = self.lists[name]
        status = None if to.tag is None else self.tags[to.tag].status
        if status is TagStatus.FROZEN:
            return False
        if status is not TagStatus.LOCKED or not any(to.cells[k] is not None for k in range(first, after)):
            return True
        newest = to.cells[-1]
        return after == CELLS and newest is not None and to.cells.index(newest) < first

    def attach(self, name: str, number: int, first: int, after: int) -> None:
        """Put an interval into cells of a list."""
        to = self.lists[name]
        before = {each: (begins, ends) for each, begins, ends in to.runs()}
        for each, (begins, ends) in before.items():
            if begins < first and after < ends:
                rest = self.new(self.urls[each])
                to.cells[after:ends] = [rest] * (ends - after)
        to.cells[first:after] = [number] * (after - first)
        self.loose.pop(number, None)
        for each, extent in before.items():
            if not any(each in other.cells for other in self.lists.values()):
                self.loose[each] = extent

    def remove(self, name: str, number: int) -> None:
        """Take an interval out of a list."""
        cells = self.lists[name].cells
        self.lists[name].cells = [None if each == number else each for each in cells]

    def clone(self, source: str, tag: str, lists: Sequence[str]) -> None:
        """Make a tag with copies of all lists; `lists`: their names, in the order of the source's types."""
        made = self.tags[tag] = ModelTag()
        for (type_, old), new in zip(sorted(self.tags[source].lists.items()), lists, strict=True):
            made.lists[type_] = new
            self.lists[new] = ModelList(type=type_, tag=tag, cells=list(self.lists[old].cells))

    def remove_tag(self, tag: str) -> None:
        """Remove a tag with its lists."""
        for name in self.tags.pop(tag).lists.values():
            del self.lists[name]

    def holders(self) -> dict[int, str]:
        """The oldest list that has each interval."""
        found: dict[int, str] = {}
        for name, each in self.lists.items():
            for number, _, _ in each.runs():
                found.setdefault(number, name)
        return found
