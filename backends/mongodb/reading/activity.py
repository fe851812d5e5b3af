"""What a server says of its own work.

https://www.mongodb.com/docs/manual/reference/command/serverStatus/
"""

from collections.abc import Iterator, Mapping
from typing import Any

from backends.base import ServerView
from backends.mongodb.server.facts import Database, may_say

COUNTERS: dict[str, tuple[str, ...]] = {
    "wal_bytes": ("wiredTiger", "log", "log bytes written"),
    "fsyncs": ("wiredTiger", "log", "log sync operations"),
    "commits": ("wiredTiger", "transaction", "transactions committed"),
    "rollbacks": ("wiredTiger", "transaction", "transactions rolled back"),
    "cache_misses": ("wiredTiger", "cache", "pages read into cache"),
}
"""What WiredTiger counts, and what we call it."""
LOOKED_UP = ("wiredTiger", "cache", "pages requested from the cache")
WAITING = {"Queue:read": "readers", "Queue:write": "writers"}


async def ask_view(database: Database) -> ServerView:
    """Ask what the server counts; nothing without the right to `serverStatus`, of FerretDB, or without WiredTiger."""
    return view_of(await may_say(database.client.get_database("admin"), {"serverStatus": 1}))


def view_of(status: Mapping[str, Any]) -> ServerView:
    """Read the answer to `serverStatus`."""
    counters = {ours: value for ours, path in COUNTERS.items() if (value := _counter(status, path)) is not None}
    looked_up = _counter(status, LOOKED_UP)
    if looked_up is not None and "cache_misses" in counters:
        counters["cache_hits"] = max(0.0, looked_up - counters["cache_misses"])
    if "locks" in status:
        counters["lock_waits"] = float(sum(_lock_waits(status["locks"])))
    queue = status.get("globalLock", {}).get("currentQueue", {})
    waits = {ours: int(queue[theirs]) for ours, theirs in WAITING.items() if queue.get(theirs)}
    return ServerView(counters=counters, waits=waits)


def _counter(status: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = status
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


def _lock_waits(locks: Mapping[str, Any]) -> Iterator[int]:
    """How often each kind of lock was waited for, by its modes."""
    return (int(count) for lock in locks.values() for count in lock.get("acquireWaitCount", {}).values())
