"""Refusals: what a source turned away, counted by reason and by address in bounded memory, and reported now and then.

A sender must not be able to fill the log or the memory: there are a fixed few reasons, a fixed number of addresses,
and one line a minute for each reason.
"""

import time
from collections.abc import Callable

ADDRESSES_KEPT = 64
"""Addresses counted at once; a new one then takes the place, and the count, of the one refused least."""

ADDRESSES_LISTED = 8
REPORT_EVERY_S = 60.0


class Refusals:
    """Counts of one source.

    Addresses are counted as by Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and top-k elements
    in data streams" (2005), the Space-Saving algorithm: whoever made up more than one in `ADDRESSES_KEPT` of all
    refusals is among them, its count at most too high by the count that it took over.

    Args:
        source: its kind and address, for the log.
        report: called with one line, at most once in `REPORT_EVERY_S` for each reason.
    """

    def __init__(self, source: Callable[[], str], report: Callable[[str], None]) -> None:
        self._source = source
        self._report = report
        self._counts: dict[str, int] = {}
        self._addresses: dict[str, int] = {}
        self._reported: dict[str, tuple[float, int]] = {}  # by reason: when it was reported last, and the count then

    def count(self, reason: str, address: str | None = None) -> None:
        """Count one refusal."""
        self._counts[reason] = self._counts.get(reason, 0) + 1
        if address is not None:
            self._count_address(address)
        moment = time.monotonic()
        before, reported = self._reported.get(reason, (-REPORT_EVERY_S, 0))
        if moment - before >= REPORT_EVERY_S:
            self._reported[reason] = moment, self._counts[reason]
            new = self._counts[reason] - reported
            last = "" if address is None else f", the last from {address}"
            self._report(f"{self._source()}: refused {new} x {reason}{last}")

    def _count_address(self, address: str) -> None:
        taken_over = 0
        if address not in self._addresses and len(self._addresses) >= ADDRESSES_KEPT:
            least = min(self._addresses, key=self._addresses.__getitem__)
            taken_over = self._addresses.pop(least)
        self._addresses[address] = self._addresses.get(address, taken_over) + 1

    def by_reason(self) -> dict[str, int]:
        """Refusals since the start, by reason."""
        return dict(self._counts)

    def by_address(self) -> dict[str, int]:
        """The addresses refused most, and how often, at most `ADDRESSES_LISTED`."""
        most = sorted(self._addresses.items(), key=lambda item: -item[1])
        return dict(most[:ADDRESSES_LISTED])
