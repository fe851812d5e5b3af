"""The parts that are measured, how much of each, and the record: pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from schemas.api.model import Model

QUERIES, MOVERS, BESIDE, PLANNING, SIZES, SPECTRA = PARTS = (
    *("queries", "movers", "beside", "planning", "sizes", "spectra"),
)
ON_DISK = (QUERIES, MOVERS, BESIDE)
"""Parts that need the slow disk."""

FAST, SLOW, MIX = PLACES = ("fast", "slow", "mix")
ALL, WHOLE, HOT = QUESTIONS = ("all", "whole", "hot")
"""The mean of everything; random triggers of all that is stored; random triggers of the hot part."""
HOT_PART = 0.2
"""Of the readings, the newest: in the mix they are on the fast disk, and the others on the slow one."""

INSERT_DELETE, RETURNING, OURS, OURS_ELSEWHERE = WAYS = (
    *("insert, then delete", "delete returning", "triggerlog tiers, late rows", "triggerlog tiers"),
)
"""How readings are moved beside a writer, whose rows are among those that are moved; in the last, they are not."""

TRIED_BELOW = 0.5
"""A smaller scale tries the benchmark itself."""

REDUCED = "figures"
"""Beside the layouts: what readings are reduced to."""
FILTER, PEAKS, RANGE = SEARCHES = ("computed filter", "number of peaks", "range index")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured.

    scale: of the sizes that follow, above 0. rounds: how often a question is asked everywhere.
    """

    scale: float = 1.0
    rounds: int = 5

    @classmethod
    def of(cls, scale: float, rounds: int | None) -> "Plan":
        """By the options of the command line; what only tries the benchmark has one round."""
        tried = 1 if scale < TRIED_BELOW else cls.rounds
        return cls(scale=scale, rounds=tried if rounds is None else rounds)

    @property
    def periods(self) -> int:
        """Periods that are asked: a fifth of them are hot."""
        return 20

    @property
    def triggers(self) -> int:
        """Triggers of each of these, of 120 readings."""
        return self._scaled(1000, 20)

    @property
    def ids(self) -> int:
        """Random triggers that a question asks for.

        Not so many that those of the hot part often lie together: the BRIN index reads 32 pages, with 23 triggers.
        """
        return self._scaled(60, 20)

    @property
    def moved_triggers(self) -> int:
        """Triggers that a mover moves; as many stay."""
        return self._scaled(4000, 200)

    @property
    def late_s(self) -> float:
        """For so long late rows come while ours tries to move, in s."""
        return max(2.0, 8 * self.scale)

    @property
    def pairs(self) -> int:
        """Blocks with moves; there is one more without."""
        return max(2, round(5 * self.scale))

    @property
    def down(self) -> int:
        """Periods that are moved to the slow disk in a block; one is moved back besides."""
        return 4

    @property
    def block_triggers(self) -> int:
        """Triggers of each of these periods."""
        return self._scaled(3000, 100)

    @property
    def planned_periods(self) -> tuple[int, ...]:
        """Numbers of periods with which questions are planned, ascending."""
        return tuple(self._scaled(count, 5) for count in (100, 500, 2000))

    @property
    def planning_rounds(self) -> int:
        """How often each question is planned with each number of periods."""
        return 11

    @property
    def sized_triggers(self) -> int:
        """Triggers whose bytes are counted."""
        return self._scaled(5000, 200)

    @property
    def buckets(self) -> int:
        """Stretches of time that the readings of an hour are reduced to: of 500 each at full scale."""
        return 10

    @property
    def spectra(self) -> int:
        """Mass spectra that are searched."""
        return self._scaled(270_000, 2000)

    def _scaled(self, value: int, least: int) -> int:
        return max(least, round(value * self.scale))


def predicted(question: str, fast_s: float, slow_s: float) -> float:
    """What a question takes of the mix by what it takes of either disk alone, in s.

    After the blog: each part takes its share of what the whole takes there, `210 * 0.8 + 90 * 0.2 = 186`; of the hot
    part all is on the fast disk.
    """
    hot = 1.0 if question == HOT else HOT_PART
    return hot * fast_s + (1 - hot) * slow_s


# --- the record ------------------------------------------------------------------------------------------------------


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
