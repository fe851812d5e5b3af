"""A model of the contract of conditions, written without what the server uses: an order gives a status of HTTP."""

from dataclasses import dataclass, field
from itertools import groupby

CELLS = 6  # cell k is the keys from (k, 0) up to (k + 1, 0); the last one goes on for ever
Run = tuple[str, int, int]  # an interval: URL, first cell, and the cell behind the last one


@dataclass
class Tag:
    status: str = "unlocked"
    lists: dict[str, str] = field(default_factory=dict)


@dataclass
class Contract:
    """Tags by name, with the names of their lists by type; by name of a list its type, and the URL in each cell."""

    tags: dict[str, Tag] = field(default_factory=dict)
    types: set[str] = field(default_factory=set)
    lists: dict[str, tuple[str, list[str]]] = field(default_factory=dict)

    def runs(self, name: str) -> list[Run]:
        cells = self.lists[name][1]
        groups = [[k for k, _ in group] for _, group in groupby(enumerate(cells), key=lambda cell: cell[1])]
        return [(cells[group[0]], group[0], group[-1] + 1) for group in groups if cells[group[0]]]

    def rows(self, tag: str, cell: int) -> list[tuple[str, Run]]:
        lists = sorted(self.tags[tag].lists.items()) if tag in self.tags else []
        return [(of, run) for of, name in lists for run in self.runs(name) if run[1] <= cell < run[2]]

    def owner(self, name: str) -> Tag:
        return next((tag for tag in self.tags.values() if name in tag.lists.values()), Tag())

    def add_tag(self, name: str) -> int:
        return 400 if name in self.tags else done(self.tags.setdefault(name, Tag()))

    def add_type(self, name: str) -> int:
        return 400 if name in self.types else done(self.types.add(name))

    def add_list(self, of: str, name: str) -> int:
        return 404 if of not in self.types else done(self.lists.setdefault(name, (of, [""] * CELLS)))

    def attach_list(self, tag: str, name: str) -> int:
        if tag not in self.tags or name not in self.lists:
            return 404
        to, of, owner = self.tags[tag], self.lists[name][0], self.owner(name)
        refused = (
            to.status == "frozen" or (to.status == "locked" and of in to.lists) or (owner.lists and owner is not to)
        )
        return 409 if refused else done(to.lists.update({of: name}))

    def attach(self, name: str, *intervals: Run) -> int:
        """Attach all, or none."""
        if name not in self.lists:
            return 404
        of, cells, status = self.lists[name][0], list(self.lists[name][1]), self.owner(name).status
        for url, first, after in intervals:
            extends = after == CELLS and cells[-1] and cells.index(cells[-1]) < first
            if status == "frozen" or (status == "locked" and any(cells[first:after]) and not extends):
                return 409
            cells[first:after] = [url] * (after - first)
        return done(self.lists.update({name: (of, cells)}))

    def clone(self, source: str, name: str, names: dict[str, str]) -> int:
        if source not in self.tags or name in self.tags:
            return 400 if source in self.tags else 404
        self.lists |= {names[of]: (of, list(self.lists[old][1])) for of, old in self.tags[source].lists.items()}
        return done(self.tags.update({name: Tag(lists=names)}))

    def set_status(self, tag: str, status: str) -> int:
        if tag not in self.tags or self.tags[tag].status == "frozen":
            return 409 if tag in self.tags else 404
        return done(setattr(self.tags[tag], "status", status))

    def delete_tag(self, name: str) -> int:
        if name not in self.tags or self.tags[name].status != "unlocked":
            return 409 if name in self.tags else 404
        return done(*[self.lists.pop(each) for each in self.tags.pop(name).lists.values()])

    def delete_type(self, name: str) -> int:
        used = any(of == name for of, _ in self.lists.values())
        return 409 if used else done(self.types.remove(name)) if name in self.types else 404

    def delete_list(self, name: str) -> int:
        if name not in self.lists or self.runs(name) or self.owner(name).status == "frozen":
            return 409 if name in self.lists else 404
        return done(self.owner(name).lists.pop(self.lists.pop(name)[0], None))

    def delete_interval(self, tag: str, of: str, first: int, after: int) -> int:
        if tag in self.tags and self.tags[tag].status != "unlocked":
            return 409
        found = self.tags[tag].lists.get(of) if tag in self.tags else None
        if found is None or (first, after) not in [run[1:] for run in self.runs(found)]:
            return 404
        self.lists[found][1][first:after] = [""] * (after - first)
        return 200


def done(*_: object) -> int:
    return 200
