"""Answers that are kept for a moment: several browsers that ask the same cost one question."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

MOST = 256
"""Answers kept at once; what is out of date goes first."""

T = TypeVar("T")


@dataclass(slots=True)
class _Held(Generic[T]):
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    until_s: float = 0.0
    answers: list[T] = field(default_factory=list)


class Kept(Generic[T]):
    """Asks at most once in a while; who asks meanwhile waits for the same answer, or gets the last one."""

    def __init__(self) -> None:
        self._held: dict[Hashable, _Held[T]] = {}

    async def get(self, key: Hashable, fresh_s: float, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer of this key, not older than fresh_s; `ask` gets one, and may raise."""
        held = self._held.setdefault(key, _Held())
        if len(self._held) > MOST:
            self._forget()
        async with held.lock:
            if time.monotonic() >= held.until_s:
                held.answers = [await ask()]
                held.until_s = time.monotonic() + fresh_s
            return held.answers[0]

    def _forget(self) -> None:
        now_s = time.monotonic()
        old = [key for key, held in self._held.items() if held.until_s < now_s and not held.lock.locked()]
        for key in old:
            del self._held[key]
