"""The interference experiments as browsers see them: asked for once for all, and only while somebody looks."""

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field, TypeAdapter, ValidationError

from dashboard.feed.client import Answer, DaemonApi, DaemonUnavailable, detail_of, first_of
from dashboard.feed.relay import json_answer

AGAIN_S = 0.9
"""While one runs; otherwise nothing changes but by orders and other people's doing."""
IDLE_S = 2.0
PAST_EVERY_S = 10.0

Rows = list[dict[str, Any]]


class _Live(Answer):
    id: str
    settings: dict[str, Any]
    planned: int
    budget_ms: float
    blocks: Rows
    samples: Rows
    next: int


class _Told(Answer):
    running: dict[str, Any] | None
    live: _Live | None
    past: Annotated[Rows, Field(default_factory=list)]


TOLD = TypeAdapter(_Told)


class Experiments:
    """What is known of the experiment that runs and of those that were."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api
        self._asking = asyncio.Lock()
        self._until_s = 0.0
        self._past_until_s = 0.0
        self._running: dict[str, Any] | None = None
        self._live: _Live | None = None
        self._blocks: Rows = []
        self._samples: Rows = []
        self._past: Rows = []
        self._version = 0

    async def since(self, experiment: str, samples: int, blocks: int, version: int) -> dict[str, Any]:
        """What a browser lacks that knows so much of this experiment, and this version of the list of those that were.

        Raises:
            DaemonUnavailable: the daemon does not answer.
        """
        async with self._asking:
            if time.monotonic() >= self._until_s:
                await self._ask()
        live = self._live
        if live is None or live.id != experiment:
            samples = blocks = 0
        return {
            "running": self._running,
            "live": live
            and {
                "id": live.id,
                "settings": live.settings,
                "planned": live.planned,
                "budget_ms": live.budget_ms,
                "from": samples,
                "samples": self._samples[samples:],
                "blocks_from": blocks,
                "blocks": self._blocks[blocks:],
            },
            "version": self._version,
            "past": None if version == self._version else self._past,
        }

    async def _ask(self) -> None:
        now_s = time.monotonic()
        wants_past = now_s >= self._past_until_s
        known = {"after": len(self._samples), "blocks": len(self._blocks), "past": int(wants_past)}
        told = await self._told(**known)
        was = self._live.id if self._live else None
        now = told.live.id if told.live else None
        if told.live is not None and now != was and (self._samples or self._blocks):
            # The counts were those of another experiment.
            self._samples, self._blocks = [], []
            told = await self._told(after=0, blocks=0, past=int(wants_past))
        if told.live is None:
            self._samples, self._blocks = [], []
        else:
            self._samples += told.live.samples
            self._blocks += told.live.blocks
        self._running, self._live = told.running, told.live
        if wants_past:
            self._past_until_s = now_s + PAST_EVERY_S
            if told.past != self._past or not self._version:
                self._past, self._version = told.past, self._version + 1
        if now != was:
            self._past_until_s = 0.0  # one has joined those that were, or will soon
        self._until_s = now_s + (AGAIN_S if told.running else IDLE_S)

    async def _told(self, **known: int) -> _Told:
        answer = await self._api.ask("/interference", **known)
        if answer.is_error:
            raise DaemonUnavailable(f"the daemon answered {answer.status_code}: {detail_of(answer)}")
        try:
            return TOLD.validate_json(answer.content)
        except ValidationError as problem:
            raise DaemonUnavailable(f"the daemon's answer is not one this page knows: {first_of(problem)}") from None


def experiment_routes(api: DaemonApi) -> APIRouter:
    """`GET /told/interference`."""
    routes = APIRouter()
    experiments = Experiments(api)

    @routes.get("/told/interference")
    async def told(
        experiment: str = "",
        samples: Annotated[int, Query(ge=0)] = 0,
        blocks: Annotated[int, Query(ge=0)] = 0,
        version: int = 0,
    ) -> Response:
        try:
            return json_answer(200, await experiments.since(experiment, samples, blocks, version))
        except DaemonUnavailable as problem:
            return json_answer(502, {"detail": str(problem)})

    return routes
