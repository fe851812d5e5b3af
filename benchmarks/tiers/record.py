"""What is kept of a benchmark of tiers."""

from collections.abc import Sequence
from typing import TypeVar

from schemas.api.model import Model


class Disk(Model):
    """The disks of a part, as they were measured just before it.

    kind: what the slow one is, in words. iops: random reads of 8 KiB a second; mb_per_s: of a sequential read, in MB.
    fast_iops, fast_mb_per_s: the same of the disk that the server's own folder is on.
    """

    part: str
    kind: str
    iops: float
    mb_per_s: float
    fast_iops: float
    fast_mb_per_s: float


class Asked(Model):
    """Seconds of a question, with all caches cold.

    place, question: of `plan.PLACES` and `plan.QUESTIONS`. readings: that it reads, or gives back.
    """

    layout: str
    place: str
    question: str
    round: int
    seconds: float
    readings: int


class Moved(Model):
    """A mover beside a writer and a reader. way: of `plan.WAYS`.

    seconds: of the move that was done. committed: rows that the writer had acknowledged; lost, doubled: of these, and
    of the readings that were there before. thrown_away: copies that were given up, since rows came.
    writer_s, reader_s: how long either waited at most. wrong: answers of the reader with another number of readings.
    pages_before, pages_after, pages_full: of what the moved readings were taken from; the last when it was written
    anew (VACUUM FULL).
    """

    way: str
    seconds: float
    committed: int
    lost: int
    doubled: int
    thrown_away: int
    writer_s: float
    reader_s: float
    asked: int
    wrong: int
    pages_before: int
    pages_after: int
    pages_full: int


class Block(Model):
    """A block of writing with three reader workloads.

    down, up: periods that were moved meanwhile. commit_p99_ms: as its sender saw it, of the triggers of the block.
    readers_p99_ms: of the last ten seconds, by workload. counted, wrong: looks at the number of readings of a period,
    and those that found another than there are. tries: calls of the mover, with those that were put off.
    """

    number: int
    seconds: float
    down: int
    up: int
    tries: int
    rate: float
    commit_p99_ms: float
    readers_p99_ms: dict[str, float | None]
    counted: int
    wrong: int


class Planned(Model):
    """Times that the server took to plan a question, in ms, by round: with a table a period, and with a leaf below it.

    first: with a new session each time, which knows nothing of the tables. plain_locks, leaves_locks: tables and
    indexes that it locks.
    """

    periods: int
    question: str
    first: bool
    plain_ms: tuple[float, ...]
    leaves_ms: tuple[float, ...]
    plain_locks: int
    leaves_locks: int


class Size(Model):
    """Bytes that readings take on the disk: of the rows, of their indexes, and of their ledger."""

    layout: str
    readings: int
    data: int
    indexes: int
    ledger: int


class Searched(Model):
    """Seconds of a search in mass spectra, by round. way: of `plan.SEARCHES`."""

    way: str
    spectra: int
    hits: int
    seconds: tuple[float, ...]


M = TypeVar("M", bound=Model)


class Record(Model):
    """All of it. commands: what repeats each part, by part; scales: of each part."""

    date: str
    machine: dict[str, str]
    server: str
    commands: dict[str, str]
    scales: dict[str, float]
    disks: tuple[Disk, ...] = ()
    asked: tuple[Asked, ...] = ()
    moved: tuple[Moved, ...] = ()
    blocks: tuple[Block, ...] = ()
    planned: tuple[Planned, ...] = ()
    sizes: tuple[Size, ...] = ()
    searched: tuple[Searched, ...] = ()
    notes: tuple[str, ...] = ()

    def and_then(self, later: "Record") -> "Record":
        """These figures, with those that the later record has in their place, by part."""
        return later.model_copy(
            update={
                "commands": self.commands | later.commands,
                "scales": self.scales | later.scales,
                "disks": (*(each for each in self.disks if each.part not in later.commands), *later.disks),
                "asked": _newer(later.asked, self.asked),
                "moved": _newer(later.moved, self.moved),
                "blocks": _newer(later.blocks, self.blocks),
                "planned": _newer(later.planned, self.planned),
                "sizes": _newer(later.sizes, self.sizes),
                "searched": _newer(later.searched, self.searched),
                "notes": tuple(dict.fromkeys((*self.notes, *later.notes))),
            }
        )


def _newer(later: Sequence[M], before: Sequence[M]) -> tuple[M, ...]:
    return tuple(later or before)
