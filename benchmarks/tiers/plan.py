"""What is measured, and how much of it: pure functions."""

from dataclasses import dataclass

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
