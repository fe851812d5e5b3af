"""What the page asks the server of conditions: where it is reached, and how much of it is read."""

import time

import pytest

from dashboard.feed.client import Daemon
from dashboard.feed.conditions import ConditionsServer, reached_at
from dashboard.feed.hub import Hub
from dashboard.tabs.conditions import rows
from schemas.conditions.intervals import TagStatus
from tests.page.served import snapshot
from tests.support.conditions_server import TOKEN, fill, served
from tests.support.memory.conditions import MemoryConditionsStore


@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("http://127.0.0.1:8123", "http://127.0.0.1:8123"),
        ("https://conditions.lab:8123", "https://conditions.lab:8123"),
        ("https://0.0.0.0:8123", "https://logger.lab:8123"),
        ("http://[::]:8123", "http://logger.lab:8123"),
    ],
)
def test_one_that_listens_everywhere_is_where_the_daemon_is(address: str, reached: str) -> None:
    assert reached_at(address, "https://logger.lab:8120") == reached


async def test_lists_that_are_too_long_are_neither_drawn_nor_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryConditionsStore()
    await fill(store, "left", types=2, intervals=30, seed=1, status=TagStatus.UNLOCKED)
    await fill(store, "right", types=1, intervals=20, seed=2)
    sizes = {"left": 60, "right": 20}
    async with served(store) as there:
        hub = Hub(daemon="http://127.0.0.1:9", build="0")
        hub.take(snapshot(1, time.time_ns(), conditions={"address": there.url}))
        server = ConditionsServer(hub, Daemon(url="http://127.0.0.1:9", token=TOKEN))
        assert {tag.name: tag.payload_iov_count for tag in await server.tags()} == sizes
        shown = await rows.drawn(server, ["left", "right"], "type_001")
        assert {tag: len(intervals) for tag, intervals in shown.lists.items()} == {"left": 30, "right": 0}
        every = await rows.compared(server, "left", "right", sizes=sizes, shown=shown)
        assert (every.only_left, every.only_right, list(every.by_type)) == (["type_001"], [], ["type_000"])
        assert every.unread is None
        monkeypatch.setattr(rows, "MOST_INTERVALS", 25)
        shown = await rows.drawn(server, ["left", "right"], "type_000")
        assert (list(shown.lists), shown.too_long) == (["right"], {"left": 30})
        some = await rows.compared(server, "left", "right", sizes=sizes, shown=shown)
        assert (some.only_left, some.by_type, some.unread) == (["type_001"], {}, 80)
        await server.close()
