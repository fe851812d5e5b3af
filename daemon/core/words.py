"""Words: how lines for an operator are put together."""

from collections.abc import Iterable

NAMED = 5
"""Instruments named in one line; of more it says how many there are."""


def listing(names: Iterable[str]) -> str:
    """Some names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - NAMED:,} more" if len(every) > NAMED else ""
    return ", ".join(every[:NAMED]) + more


def ms(value: float | None) -> str:
    """Say a latency in milliseconds, for a table whose heading says the unit; a dash where there is none."""
    return "–" if value is None else f"{value:,.1f}"
