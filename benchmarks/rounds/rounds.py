"""Rounds, interleaved: A B C A B C ..., so that what the machine does meanwhile meets every contender alike.

pytest-benchmark runs all the rounds of one benchmark before the next, so the rounds run here and it is given what they
took: `replay` lets its `pedantic` go through them by a clock that shows the recorded times.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.rounds.commits import HZ_EDGES
from daemon.tools.console import make_console


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of one contender.

    seconds: what pytest-benchmark keeps: seconds a trigger, or a latency. facts: further figures of the round, by name.
    hz_counts: triggers by their 1/dt in the bins of HZ_EDGES, where that was measured.
    """

    seconds: float
    facts: Mapping[str, float] = field(default_factory=dict)
    hz_counts: Sequence[int] = ()


Contender = Callable[[], Round]


def interleaved(
    contenders: Mapping[str, Contender],
    *,
    rounds: int,
    end: Callable[[str, int, Round], None],
    begin: Callable[[str, int], None] | None = None,
) -> dict[str, list[Round]]:
    """Run `rounds` rounds of all contenders, one after the other; return them by contender.

    begin, end: called before and after each round, with the name of the contender and the number of the round from 0.
    """
    found: dict[str, list[Round]] = {name: [] for name in contenders}
    for number, (name, run) in itertools.product(range(rounds), contenders.items()):
        if begin is not None:
            begin(name, number)
        done = run()
        found[name].append(done)
        end(name, number, done)
    return found


class RecordedClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.__name__ = "recorded_clock"
        self.seconds = 0.0

    def __call__(self) -> float:
        """Tell the time, in seconds."""
        return self.seconds


RECORDED_CLOCK = RecordedClock()


def replay(benchmark: BenchmarkFixture, rounds: list[Round], **facts: Any) -> None:
    """Hand recorded rounds to a benchmark whose timer is RECORDED_CLOCK; their facts go into its `extra_info`."""
    left = iter(rounds)

    def one() -> None:
        # Always from 0, so that the difference of two readings is the recorded time to the last bit.
        RECORDED_CLOCK.seconds = next(left).seconds

    def rewind() -> None:
        RECORDED_CLOCK.seconds = 0.0

    benchmark.extra_info.update(facts)
    for name in rounds[0].facts:
        benchmark.extra_info[name] = [round_.facts[name] for round_ in rounds]
    if rounds[0].hz_counts:
        benchmark.extra_info["hz_edges"] = HZ_EDGES.tolist()
        benchmark.extra_info["hz_counts"] = [sum(bin_) for bin_ in zip(*(r.hz_counts for r in rounds), strict=True)]
    benchmark.pedantic(one, setup=rewind, rounds=len(rounds))  # type: ignore[no-untyped-call]


# --- progress on the terminal ----------------------------------------------------------------------------------------

console = make_console(stderr=True, highlight=False)


class Watcher(Protocol):
    """Shows how far the benchmarks are."""

    def expect(self, measure: str, steps: int) -> None:
        """A measure (one of `plan.MEASURES`) has so many steps."""

    def begin(self, measure: str, what: str) -> None:
        """A step of it begins; the one before it has ended. what: e.g. `round 2 of 3, mysql-load_data`."""


watchers: list[Watcher] = []
"""`triggerlog bench` has one, its progress bar."""


def expect(measure: str, steps: int) -> None:
    """Tell all watchers how many steps a measure has."""
    for watcher in watchers:
        watcher.expect(measure, steps)


def begin(measure: str, what: str) -> None:
    """Tell all watchers what runs now."""
    for watcher in watchers:
        watcher.begin(measure, what)


def print_line(text: str) -> None:
    """Print a line."""
    console.print(text, style="dim", soft_wrap=True)


def print_round(name: str, number: int, done: Round) -> None:
    """Print the result of a round of the throughput."""
    print_line(f"  round {number + 1}  {name:<44} {1 / done.seconds:>10,.0f} triggers/s")
