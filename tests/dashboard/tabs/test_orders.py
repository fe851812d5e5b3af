"""What becomes of an order by what the daemon answers."""

import asyncio
from typing import Any

import httpx
import pytest

from dashboard.feed.client import Daemon, DaemonApi, DaemonUnavailable
from dashboard.tabs.orders import Order, Orders
from tests.support.callbacks import told_of

ORDER = Order(
    method="POST",
    path="/marks",
    body={"text": "a"},
    what="Mark: a",
    done="Marked.",
    outcome="said",
    then=[("emptied", {"value": ""})],
    repeat=("sent", "the mark"),
)


class Answering(DaemonApi):
    """An API that answers orders by itself, once it may."""

    def __init__(self, status: int | None) -> None:
        super().__init__(Daemon(url="http://127.0.0.1:1"))
        self.status = status
        self.may = asyncio.Event()
        self.may.set()
        self.given = 0

    async def order(
        self, method: str, path: str, *, body: Any, authorization: str, client: str | None = None
    ) -> httpx.Response:
        self.given += 1
        await self.may.wait()
        if self.status is None:
            raise DaemonUnavailable("the daemon took longer than 30 s to answer")
        return httpx.Response(self.status, headers={"location": "https://elsewhere/"})


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_an_order_that_was_led_elsewhere_is_not_said_to_be_done(status: int) -> None:
    with told_of("send", 1) as props:
        assert not await Orders(Answering(status)).give(ORDER, "token")
    assert props["said"]["data-level"] == "wrong"
    assert props["said"]["children"].startswith(f"Not done: the daemon answered {status} ")
    assert "emptied" not in props


@pytest.mark.parametrize(
    ("status", "kept"),
    [(None, "the mark"), (500, "the mark"), (503, "the mark"), (201, None), (404, None), (409, None), (422, None)],
)
async def test_what_was_sent_is_kept_only_while_its_outcome_is_not_known(status: int | None, kept: str | None) -> None:
    with told_of("send", 1) as props:
        await Orders(Answering(status)).give(ORDER, "token")
    assert props["sent"] == {"data": kept}


@pytest.mark.parametrize(("status", "token"), [(201, None), (401, "token"), (429, "token")])
async def test_what_was_not_taken_says_nothing_of_what_was_sent_before(status: int, token: str | None) -> None:
    with told_of("send", 1) as props:
        assert not await Orders(Answering(status)).give(ORDER, token)
    assert "sent" not in props


async def test_the_same_order_is_not_given_again_while_it_is_under_way() -> None:
    api = Answering(201)
    orders = Orders(api)
    api.may.clear()
    with told_of("send", 1) as props:
        first = asyncio.create_task(orders.give(ORDER, "token"))
        await asyncio.sleep(0)
        assert not await orders.give(ORDER, "token")
        assert props["said"]["children"] == "It is being done already."
        api.may.set()
        assert await first
        assert props["said"]["children"] == "Marked."
        assert await orders.give(ORDER, "token")
    assert api.given == 2
