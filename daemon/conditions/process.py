"""One process of the server: `python -m daemon.conditions`, started by `servers`."""

import asyncio
import contextlib
import gc
import mmap
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from backends import open_conditions_store
from backends.base import ConfigurationRefused, StoreBusy, StoreError, StoreUnavailable
from backends.conditions import ConditionsStore
from backends.ending import end_tasks
from daemon.conditions.messages import REPORT_EVERY_S, Report, ServerSpec, Told
from daemon.conditions.reads import Reads, Writes
from daemon.conditions.requests.app import Tally, make_app
from daemon.core.process import descriptors
from daemon.core.process.children import go_first
from daemon.web.http import LimitedServer, Limits, bound
from daemon.web.rates import Backoff
from daemon.web.tls import Identity
from daemon.workloads.frame.messages import Message, Parent, Refused, run_process
from schemas.checking.addresses import host_and_port
from schemas.config import ConfigError

LIMITS = Limits(connections=4096, body_bytes=64 * 2**20, request_s=60.0, answer_s=600.0)
"""A hundred thousand intervals are some 25 MB, and are stored within a minute."""

FIRST_TRY_S = 5.0
"""The server listens once the database has been asked for the tables, or after so long without an answer."""

BACKLOG = 4096
"""Connections that wait to be taken: a farm begins its jobs at the same moment."""

RETRY_FIRST_S, RETRY_MOST_S = 0.2, 2.0
END_WITHIN_S = 5
"""For the answers that are under way."""


@dataclass(kw_only=True)
class _Tables:
    """Whether the tables are there. tried: set after the first try to make or check them. lack: why they are not."""

    tried: asyncio.Event = field(default_factory=asyncio.Event)
    lack: StoreUnavailable | None = field(
        default_factory=lambda: StoreBusy("the tables of conditions are being made or checked")
    )


class _Server(LimitedServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # it ends when its parent says so, or is gone


def main() -> None:
    """Serve until the parent sends `Stop`, or is gone."""
    run_process(ServerSpec, _serve)


async def _serve(spec: ServerSpec, parent: Parent[Message]) -> None:
    go_first()
    descriptors.raise_limit()
    config = spec.conditions
    store = open_conditions_store(
        spec.database,
        schema=config.schema_name,
        state_dir=spec.state_dir,
        password=spec.password,
        connections=config.connections,
    )
    tables = _Tables()
    with spec.writes.open("r+b") as memory:
        writes = Writes(mmap.mmap(memory.fileno(), 0), spec.number)
    reads = Reads(
        store, round(config.memory_mib * 2**20), lambda text: _tell(parent, text, is_warning=True), writes=writes
    )
    made = make_app(
        store,
        reads,
        token=spec.token,
        reads_freely=config.is_local or config.reads_freely,
        any_name=not config.is_local,
        lack=lambda: tables.lack,
        tell=lambda text: _tell(parent, text),
    )
    server = _Server(
        made.app,
        LIMITS,
        _identity(spec),
        proxies=config.trusted_proxies,
        lifespan="off",
        backlog=BACKLOG,
        timeout_graceful_shutdown=END_WITHIN_S,
    )
    creating = asyncio.create_task(_create(store, tables))
    # What is here now stays: a collection that walks through all of it would hold up an answer for milliseconds.
    gc.collect()
    gc.freeze()
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_TRY_S):
                await tables.tried.wait()
        with contextlib.closing(_listening(spec)) as listening:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            reporting = asyncio.create_task(_report(server, made.tally, reads, tables, parent))
            try:
                await _until_stopped(parent, serving, creating)
                server.should_exit = True
                await serving
            finally:
                await end_tasks(reporting)
    finally:
        await end_tasks(creating)
        await reads.close()
        await store.close()


async def _until_stopped(parent: Parent[Message], serving: asyncio.Task[None], creating: asyncio.Task[None]) -> None:
    """Wait for the parent's order.

    Raises:
        Refused: the tables are others than the store makes.
    """
    stop = asyncio.create_task(parent.stop.wait())
    waiting: set[asyncio.Task[bool] | asyncio.Task[None]] = {stop, serving, creating}
    while not stop.done() and not serving.done():
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        waiting -= done
        if creating in done and (error := creating.exception()) is not None:
            serving.cancel()
            raise Refused(str(error))
    await end_tasks(stop)


def _listening(spec: ServerSpec) -> socket.socket:
    try:
        return bound(spec.conditions.host, spec.port, is_shared=True)
    except OSError as error:
        raise Refused(
            f"conditions.port: cannot listen on {host_and_port(spec.conditions.host, spec.port)} ({error})"
        ) from None


def _identity(spec: ServerSpec) -> Identity | None:
    if spec.tls_certificate is None or spec.tls_key is None:
        return None
    try:
        return Identity(spec.tls_certificate, spec.tls_key, "conditions")
    except ConfigError as error:
        raise Refused(str(error)) from None


async def _create(store: ConditionsStore, tables: _Tables) -> None:
    """Make the tables, or check them, again whatever is wrong but the configuration.

    Raises:
        ConfigurationRefused: they are others than this version makes.
    """
    backoff = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
    while True:
        try:
            try:
                await store.create()
            finally:
                tables.tried.set()
        except ConfigurationRefused:
            raise
        except StoreError as error:
            tables.lack = error if isinstance(error, StoreUnavailable) else StoreUnavailable(str(error))
            await backoff.pause()
        else:
            tables.lack = None
            return


def _tell(parent: Parent[Message], text: str, *, is_warning: bool = False) -> None:
    parent.send(Told(text=text, is_warning=is_warning))


async def _report(server: LimitedServer, tally: Tally, reads: Reads, tables: _Tables, parent: Parent[Message]) -> None:
    """Report twice a second, unless the parent does not follow: the next report has the rest."""
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    while True:
        if not parent.unacknowledged:
            parent.send(report_of(tally, reads, tables.lack))
        if tables.lack is None and reads.freshness.problem is not None:
            reads.freshness.refresh()  # nobody may ask, and then nothing else would find out that it is over
        await asyncio.sleep(REPORT_EVERY_S)


def report_of(tally: Tally, reads: Reads, lack: StoreUnavailable | None = None) -> Report:
    """Put a report together. lack: why the tables are not there."""
    counts = tally.take()
    answers: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for (route, status), count in counts.answers.items():
        answers[route][status] = count
    return Report(
        answers=answers,
        clients=[(*client, use.requests, use.nbytes) for client, use in counts.uses.by_client.items()],
        others=(counts.uses.others.requests, counts.uses.others.nbytes),
        latencies_ms=Counter(round(each, 2) if each < 10 else round(each) for each in counts.latencies_ms),
        memory_hits=counts.memory_hits,
        database_reads=counts.database_reads,
        tags=len(reads.tags),
        intervals=reads.tags.intervals,
        memory_bytes=reads.tags.nbytes + reads.bodies.nbytes,
        problem=reads.freshness.problem if lack is None else str(lack),
    )
