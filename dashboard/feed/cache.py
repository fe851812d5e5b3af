"""A cache with a time to live: several browsers that ask the same cost the daemon one question."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

CAPACITY = 256
"""Answers in a cache; beyond it those that are out of date are dropped."""

T = TypeVar("T")


@dataclass(slots=True)
class _Entry(Generic[T]):
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    until_s: float = 0.0
    answers: list[T] = field(default_factory=list)


class TtlCache(Generic[T]):
    """Asks at most once in a time to live; who asks meanwhile waits for the same answer, or gets the last one."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._entries: dict[Hashable, _Entry[T]] = {}

    async def get(self, key: Hashable, ttl_s: float, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of this key, not older than ttl_s; `ask` gets one, and may raise, which is not cached."""
        entry = self._entries.setdefault(key, _Entry())
        if len(self._entries) > self._capacity:
            self._drop_stale()
        async with entry.lock:
            if time.monotonic() >= entry.until_s:
                entry.answers = [await ask()]
                entry.until_s = time.monotonic() + ttl_s
            return entry.answers[0]

    def _drop_stale(self) -> None:
        now_s = time.monotonic()
        stale = [key for key, entry in self._entries.items() if entry.until_s < now_s and not entry.lock.locked()]
        for key in stale:
            del self._entries[key]
