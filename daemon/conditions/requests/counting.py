"""What a process of the server has answered, and how fast."""

import time
from collections import Counter
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.conditions.clients import Client, Uses, agent_of
from daemon.conditions.reading.reads import Answer
from daemon.conditions.requests.hot import PREFIX, VALID
from daemon.web.denial import client_of, header

ROUTES = frozenset(
    {
        *("gtstatus", "pt", "gt", "globalTag", "globalTags", "gtPayloadLists", "pl", "pl_attach", "piov"),
        *("piov_attach", "bulk_piov", "cloneGlobalTag", "gt_change_status", "deleteGlobalTag", "deletePayloadType"),
        *("deletePayloadList", "deletePayloadIOV", "payloadiovs", "global-tags", "payload-types", "payload-lists"),
        *("payload-iovs",),
    }
)
"""The first words of the routes: whatever is asked, there are not more counters."""

VALID_ROUTE = "payloadiovs"
OTHER = "other"
NO_ANSWER = 499
"""The client was gone before its answer began; the number that nginx logs for it."""


@dataclass(kw_only=True)
class Counts:
    """What was counted.

    answers: by route and status. latencies_ms: of questions for what is valid. memory_hits, database_reads: of these.
    uses: by client.
    """

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)
    memory_hits: int = 0
    database_reads: int = 0
    uses: Uses = field(default_factory=Uses)


class Tally:
    """What was answered since it was taken last."""

    def __init__(self) -> None:
        self.counts = Counts()

    def read(self, answer: Answer) -> None:
        """Count where an answer came from."""
        self.counts.memory_hits += answer.is_memory
        self.counts.database_reads += not answer.is_memory

    def answered(self, path: str, client: Client, status: int, nbytes: int, took_ms: float) -> None:
        """Count an answer; nbytes: of its body."""
        route = route_of(path)
        self.counts.answers[route, status] += 1
        self.counts.uses.count(client, nbytes)
        if route == VALID_ROUTE:
            self.counts.latencies_ms.append(took_ms)

    def take(self) -> Counts:
        """What was counted since the last time."""
        taken, self.counts = self.counts, Counts()
        return taken


class Counting:
    """Counts every answer, refusals among them, and passes everything on."""

    def __init__(self, app: ASGIApp, tally: Tally) -> None:
        self._app = app
        self._tally = tally

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and count."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status, nbytes = NO_ANSWER, 0

        async def answer(message: Message) -> None:
            nonlocal status, nbytes
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)
            nbytes += len(message.get("body", b""))

        try:
            await self._app(scope, receive, answer)
        finally:
            client = client_of(scope), agent_of(header(scope, b"user-agent") or "")
            self._tally.answered(scope["path"], client, status, nbytes, (time.perf_counter() - began) * 1e3)


def route_of(path: str) -> str:
    """By which name a request is counted."""
    if path in VALID:
        return VALID_ROUTE
    first = path.removeprefix(PREFIX).partition("/")[0]
    return first if path.startswith(PREFIX) and first in ROUTES else OTHER
