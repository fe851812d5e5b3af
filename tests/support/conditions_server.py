"""The server of conditions in this process, over a real socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import numpy as np

from backends.conditions import ConditionsStore
from daemon.conditions.contract import flat_row
from daemon.conditions.process import LIMITS
from daemon.conditions.reads import Reads
from daemon.conditions.requests.app import Tally, make_app
from daemon.web.http import LimitedServer, bound
from schemas.conditions.intervals import END, KEY_DTYPE, Intervals, Key, TagStatus
from schemas.conditions.line import texts
from tests.support.listening import eventually

TOKEN = "a token for these tests"
WITH_TOKEN = {"authorization": f"Bearer {TOKEN}"}
PREFIX = "/api/cdb_rest/"


class _Server(LimitedServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(kw_only=True)
class Served:
    """client: sends the token, to paths below the contract's prefix."""

    client: httpx.AsyncClient
    url: str
    reads: Reads
    tally: Tally
    told: list[str]


@asynccontextmanager
async def served(
    store: ConditionsStore, *, memory_bytes: int = 2**26, reads_freely: bool = True
) -> AsyncIterator[Served]:
    """A server on a free port of loopback."""
    told: list[str] = []
    reads = Reads(store, memory_bytes, told.append)
    made = make_app(store, reads, token=TOKEN, reads_freely=reads_freely, tell=told.append)
    listening = bound("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = _Server(made.app, LIMITS, lifespan="off", timeout_graceful_shutdown=1)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await eventually(lambda: server.started)
    try:
        async with httpx.AsyncClient(base_url=url + PREFIX, headers=WITH_TOKEN, trust_env=False, timeout=60) as client:
            yield Served(client=client, url=url, reads=reads, tally=made.tally, told=told)
    finally:
        server.should_exit = True
        await serving
        await reads.close()
        listening.close()


async def fill(
    store: ConditionsStore, tag: str, *, types: int, intervals: int, status: TagStatus = TagStatus.LOCKED, seed: int = 1
) -> None:
    """A tag of so many types, each with so many intervals at random keys, the last one open."""
    random = np.random.default_rng(seed)
    await store.add_tag(tag, TagStatus.UNLOCKED)
    known = {each.name for each in await store.types()}
    many = {}
    for i in range(types):
        if f"type_{i:03d}" not in known:
            await store.add_type(f"type_{i:03d}")
        made = await store.add_list(f"type_{i:03d}")
        await store.attach_list(tag, made.name)
        many[made.name] = some_intervals(np.sort(random.choice(intervals * 20, intervals, replace=False)), f"{tag}/{i}")
    await store.insert(many)
    if status is not TagStatus.UNLOCKED:
        await store.set_status(tag, status)


def some_intervals(majors: np.ndarray, url: str) -> Intervals:
    """Open intervals that begin at these runs."""
    n = len(majors)
    starts = np.zeros(n, KEY_DTYPE)
    starts["major"] = majors
    ends = np.full(n, np.array([tuple(END)], KEY_DTYPE)[0])
    zeros = np.zeros(n, np.int64)
    return Intervals(
        ids=zeros,
        starts=starts,
        ends=ends,
        urls=texts([f"{url}/{major}.json" for major in majors]),
        checksums=texts([f"{major:032x}" for major in majors]),
        sizes=np.full(n, 1000, np.int64),
        inserted_ns=zeros,
    )


async def flat_rows(store: ConditionsStore, tag: str, key: Key) -> list[list[object]]:
    """What the store says is valid, as the contract has it."""
    _, valid = await store.valid_at(tag, key)
    return [flat_row(each) for each in valid]
