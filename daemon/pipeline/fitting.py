"""How much of what waits goes together."""

from collections.abc import Iterable
from itertools import accumulate, takewhile


def count_fitting(sizes: Iterable[int], most_bytes: int) -> int:
    """How many of these, from the first on, have so many bytes together at most."""
    return sum(1 for _ in takewhile(lambda size: size <= most_bytes, accumulate(sizes)))
