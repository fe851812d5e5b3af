"""Tags and lists with all their intervals, as the reference nests them; sent piece by piece, however much it is."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import orjson
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from backends.conditions import ConditionsStore
from daemon.conditions.contract import each_interval, interval, list_head, tag_head
from daemon.web.errors import ApiError
from schemas.conditions.intervals import GlobalTag, Intervals, ListContent, PayloadList

STEP = 500
"""Intervals that are rendered in one go."""

MOST_AT_A_TIME = 1
"""Answers of everything that are made at the same time: each may be all of the database."""

WAITING, WAIT_S = 8, 60.0
"""So many more may wait for their turn, and so long; others are refused."""

LEAST_RATE = 500_000
SLACK_S = 10.0
"""Bytes a second that a client has to take, but for so long altogether: all others wait for it."""


class Nested:
    """Makes these answers."""

    def __init__(self, store: ConditionsStore) -> None:
        self._store = store
        self._turn = asyncio.Semaphore(MOST_AT_A_TIME)
        self._waiting = 0

    async def answer(self, pieces: AsyncGenerator[bytes]) -> StreamingResponse:
        """Send pieces as one answer; what fails before the first one is answered as an error.

        What fails later ends the connection before the answer does, and no client takes that for all of it.

        Raises:
            ApiError: too many wait for their turn, or this one has waited for too long.
        """
        turn = self._in_turn(pieces)
        first = await anext(turn)
        return _Pieces(first, turn)

    async def tag(self, of: GlobalTag) -> AsyncGenerator[bytes]:
        """A tag with its lists."""
        lists = {each.id: each for each in await self._store.lists()}
        yield orjson.dumps(tag_head(of))[:-1] + b',"payload_lists":['
        separator = b""
        async for part in self._store.content(of.name):
            if isinstance(part, ListContent):
                yield separator
                head = list_head(lists[part.list_id]) if part.list_id in lists else _head(part, of)
                async for piece in _list(head, part.list_name, part.intervals):
                    yield piece
                separator = b","
        yield b"]}"

    async def tags(self, of: Sequence[GlobalTag]) -> AsyncGenerator[bytes]:
        """Several tags."""
        yield b"["
        for i, each in enumerate(of):
            yield b"," * bool(i)
            async for piece in self.tag(each):
                yield piece
        yield b"]"

    async def lists(self, of: Sequence[PayloadList]) -> AsyncGenerator[bytes]:
        """Several lists."""
        yield b"["
        for i, each in enumerate(of):
            yield b"," * bool(i)
            async for piece in _list(list_head(each), each.name, await self._store.timeline(each.name)):
                yield piece
        yield b"]"

    async def intervals(self) -> AsyncGenerator[bytes]:
        """All intervals, in lists or not."""
        yield b"["
        after = 0
        while found := await self._store.intervals(after, STEP):
            rows = orjson.dumps([interval(each) for each in found])[1:-1]
            yield (b"," * bool(after)) + rows
            after = found[-1].id
        yield b"]"

    async def _in_turn(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        async with aclosing(pieces), self._one_at_a_time():
            async for piece in pieces:
                yield piece

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[None]:
        busy = ApiError(503, "others are being answered with everything", "try again later, or ask for pages", wait_s=2)
        if self._waiting >= WAITING:
            raise busy
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                await self._turn.acquire()
        except TimeoutError:
            raise busy from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turn.release()


class _Pieces(StreamingResponse):
    """Pieces as one answer; however it ends, its turn and its connection to the database end with it.

    A client that takes less than LEAST_RATE is hung up on: all others wait for it.
    """

    def __init__(self, first: bytes, rest: AsyncGenerator[bytes]) -> None:
        super().__init__(_after(first, rest), media_type="application/json")
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        waited_s, sent = 0.0, 0

        async def taken(message: Message) -> None:
            nonlocal waited_s, sent
            began_s = time.monotonic()
            async with asyncio.timeout(SLACK_S + sent / LEAST_RATE - waited_s):
                await send(message)
            waited_s += time.monotonic() - began_s
            sent += len(message.get("body", b""))

        try:
            await super().__call__(scope, receive, taken)
        except TimeoutError:
            raise ClientDisconnect from None
        finally:
            await self._rest.aclose()


async def _after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _head(part: ListContent, tag: GlobalTag) -> Mapping[str, Any]:
    """Of a list that came to the tag just now."""
    made = PayloadList(
        id=part.list_id, name=part.list_name, type=part.type, tag=tag.name, created_ns=tag.updated_ns, intervals=0
    )
    return list_head(made)


async def _list(head: Mapping[str, Any], name: str, intervals: Intervals) -> AsyncIterator[bytes]:
    yield orjson.dumps(head)[:-1] + b',"payload_iov":['
    for begin in range(0, len(intervals), STEP):
        rows = [interval(each) for each in each_interval(intervals, name, slice(begin, begin + STEP))]
        yield (b"," * bool(begin)) + orjson.dumps(rows)[1:-1]
        await asyncio.sleep(0)
    yield b"]}"
