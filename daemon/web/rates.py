"""How often something may happen, for each address that it comes from; whatever is sent, memory stays bounded."""

from collections import OrderedDict

from schemas.checking.addresses import neighbourhood

ADDRESSES = 4096
"""Addresses that are remembered; the one that was quiet longest is forgotten for a new one."""


class Rates:
    """A bucket for each address: `burst` at once, then `per_s` a second."""

    def __init__(self, *, burst: float, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, host: str, now_s: float) -> float:
        """How long until this address may; 0 when it may now."""
        return max(0.0, (1.0 - self._filled(neighbourhood(host), now_s)) / self._per_s)

    def take(self, host: str, now_s: float) -> float:
        """Let it happen once, if it may; else, or after that, how long to wait is what `wait_s` said: 0 when it may."""
        wait = self.wait_s(host, now_s)
        if not wait:
            address = neighbourhood(host)
            self._buckets[address] = (self._filled(address, now_s) - 1.0, now_s)
            self._buckets.move_to_end(address)
            if len(self._buckets) > ADDRESSES:
                self._buckets.popitem(last=False)
        return wait

    def _filled(self, address: str, now_s: float) -> float:
        left, at_s = self._buckets.get(address, (self._burst, now_s))
        return min(self._burst, left + (now_s - at_s) * self._per_s)
