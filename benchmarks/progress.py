"""What is said while the benchmarks run: a line a round, on stderr, which pytest does not capture here."""

from rich.console import Console

from benchmarks.rounds import Round

console = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """Say a line."""
    console.print(text, style="dim", markup=False)


def say_round(name: str, number: int, done: Round) -> None:
    """Say what a round of the throughput gave."""
    say(f"  round {number + 1}  {name:<44} {1 / done.seconds:>10,.0f} triggers/s")
