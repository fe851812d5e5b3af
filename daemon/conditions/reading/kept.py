"""What is kept in memory of tags and of answers, and what goes first when there is no room."""

import gzip
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from daemon.conditions.reading.content import TagContent

LEAST_GZIP = 1024
"""Bytes of an answer below which compressing it saves nothing."""

BODIES_SHARE = 8
"""One part in so many of the memory is for whole answers."""

IN_USE_S = 10.0
"""A tag that was asked within so long makes no room for another: two that do not fit together would be loaded by turns,
for every request."""


@dataclass(slots=True)
class Body:
    """An answer: JSON, and the same compressed once somebody wanted it so."""

    plain: bytes
    packed: bytes | None = None

    @property
    def nbytes(self) -> int:
        """What it takes, or will once it is compressed: JSON becomes a quarter at most; and the objects around it."""
        return len(self.plain) + len(self.plain) // 4 + 300

    def compressed(self) -> bytes | None:
        """It, compressed; None where that saves nothing."""
        if self.packed is None and len(self.plain) >= LEAST_GZIP:
            self.packed = gzip.compress(self.plain, 6, mtime=0)
        return self.packed


BodyKey = tuple[int, int, int, int, bool]
"""Id and revision of a tag, when it became of that, position within it, and whether rows are objects."""


class Bodies:
    """Answers that were asked last, up to `most_bytes` of them."""

    def __init__(self, most_bytes: int) -> None:
        self.nbytes = 0
        self._most = most_bytes
        self._bodies: OrderedDict[BodyKey, Body] = OrderedDict()

    def __len__(self) -> int:
        return len(self._bodies)

    def get(self, key: BodyKey) -> Body | None:
        """An answer that was kept."""
        found = self._bodies.get(key)
        if found is None:
            return None
        self._bodies.move_to_end(key)
        return found

    def keep(self, key: BodyKey, body: Body) -> None:
        """Keep an answer that is not kept yet; those that were not asked for longest go."""
        self._bodies[key] = body
        self.nbytes += body.nbytes
        while self.nbytes > self._most:
            self.nbytes -= self._bodies.popitem(last=False)[1].nbytes


class KeptTags:
    """Tags in memory by name, the one that was asked last at the end.

    Args:
        most_bytes: of all of them.
        clock: seconds that only grow.
    """

    def __init__(self, most_bytes: int, clock: Callable[[], float]) -> None:
        self.most_bytes = most_bytes
        self._clock = clock
        self._tags: OrderedDict[str, tuple[TagContent, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tags)

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return sum(content.nbytes for content, _ in self._tags.values())

    @property
    def intervals(self) -> int:
        """How many they have."""
        return sum(content.intervals for content, _ in self._tags.values())

    def get(self, name: str) -> TagContent | None:
        """A tag, which is asked now."""
        found = self._tags.get(name)
        if found is None:
            return None
        self._tags[name] = found[0], self._clock()
        self._tags.move_to_end(name)
        return found[0]

    def contents(self) -> list[TagContent]:
        """All of them."""
        return [content for content, _ in self._tags.values()]

    def forget(self, name: str) -> None:
        """What is in memory of a tag is not true any more."""
        self._tags.pop(name, None)

    def room(self, name: str) -> int:
        """Bytes that a tag may take: what is free, and what others take that nobody asks now."""
        now = self._clock()
        used = (c.nbytes for other, (c, asked) in self._tags.items() if other != name and now - asked < IN_USE_S)
        return self.most_bytes - sum(used)

    def keep(self, name: str, content: TagContent) -> None:
        """Keep a tag; those that were not asked for longest go until it fits."""
        self._tags.pop(name, None)
        while self._tags and self.nbytes + content.nbytes > self.most_bytes:
            self._tags.popitem(last=False)
        self._tags[name] = content, self._clock()
