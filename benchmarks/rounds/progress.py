"""What the benchmarks print while they run: a line a round, on stderr, which pytest does not capture here."""

from typing import Protocol

from benchmarks.rounds.rounds import Round
from daemon.tools.console import make_console

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
