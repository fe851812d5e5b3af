"""What browsers ask of the daemon through the page: once for all of them, and only while somebody looks."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from fastapi import Response
from pydantic import BaseModel

from dashboard.feed.client import DaemonApi, DaemonUnavailable, detail_of, read

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


RUN = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,80}")
"""An id of a run, as far as the page knows it."""

FILES = {
    "interference": {"report": "text/html"},
    "visits": {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "report": "text/html"},
}
"""By workload what the daemon has of a run, by the last part of its address, and its media type."""

REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox allow-same-origin"
)
"""A report is a picture with words: it runs no script and asks nobody."""

M = TypeVar("M", bound=BaseModel)


class NotThere(Exception):
    """The daemon knows nothing of what was asked; the message is its line."""


async def answer_of(api: DaemonApi, model: type[M], path: str, /, **asked: int | str) -> M:
    """Ask the daemon.

    Raises:
        DaemonUnavailable: it does not answer, or not with what was asked.
        NotThere: it answers that there is nothing.
    """
    answer = await api.ask(path, **asked)
    if answer.status_code == 404:
        raise NotThere(detail_of(answer))
    return read(answer, model, api.named)


async def file_of(api: DaemonApi, workload: str, run: str, kind: str) -> Response:
    """A file of a run, as the daemon has it: a report to be looked at, the others to be saved."""
    if kind not in FILES.get(workload, {}) or not RUN.fullmatch(run):
        return plain_answer(404, f"there is no {kind} of a run {run!r}")
    try:
        answer = await api.fetch(f"/{workload}/{run}/{kind}")
    except DaemonUnavailable as problem:
        return plain_answer(502, str(problem))
    if not answer.is_success:
        return plain_answer(answer.status_code, detail_of(answer))
    saved = {"Content-Disposition": f'attachment; filename="{workload}-{run}.{kind}"'}
    shown = {"Content-Security-Policy": REPORT_POLICY}
    return Response(answer.content, 200, shown if kind == "report" else saved, FILES[workload][kind])


def plain_answer(status: int, line: str) -> Response:
    """One line for the eyes, that nobody keeps."""
    return Response(line, status, {"Cache-Control": "no-store"}, "text/plain")
