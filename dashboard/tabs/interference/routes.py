"""The interference experiments as browsers see them: asked for once for all, and only while somebody looks."""

import asyncio
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.relay import RUN, NotThere, answer_of, file_of, json_answer, passed
from schemas.api import interference

AGAIN_S = 0.9
"""While one runs; otherwise nothing changes but by orders and other people's doing."""
IDLE_S = 2.0
PAST_EVERY_S = 10.0

Rows = list[dict[str, Any]]


class Experiments:
    """What is known of the experiment that runs and of those that were."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api
        self._asking = asyncio.Lock()
        self._until_s = 0.0
        self._past_until_s = 0.0
        self._running: dict[str, Any] | None = None
        self._live: interference.Live | None = None
        self._blocks: Rows = []
        self._samples: Rows = []
        self._past: Rows = []
        self._version = 0

    async def since(self, experiment: str, samples: int, blocks: int, version: int) -> dict[str, Any]:
        """What a browser lacks that knows so much of this experiment, and this version of the list of those that were.

        Raises:
            DaemonUnavailable, NotThere: the daemon does not answer.
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
            and live.model_dump(mode="json", include={"id", "settings", "planned", "budget_ms"})
            | {
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
        found = await self._asked(len(self._samples), len(self._blocks), wants_past)
        was = self._live.id if self._live else None
        now = found.live.id if found.live else None
        if found.live is not None and now != was and (self._samples or self._blocks):
            # The counts were those of another experiment.
            self._samples, self._blocks = [], []
            found = await self._asked(0, 0, wants_past)
        if found.live is None:
            self._samples, self._blocks = [], []
        else:
            self._samples += [sample.model_dump(mode="json") for sample in found.live.samples]
            self._blocks += [block.model_dump(mode="json") for block in found.live.blocks]
        self._running = None if found.running is None else found.running.model_dump(mode="json")
        self._live = found.live
        if wants_past:
            self._past_until_s = now_s + PAST_EVERY_S
            past = [summary.model_dump(mode="json") for summary in found.past]
            if past != self._past or not self._version:
                self._past, self._version = past, self._version + 1
        if now != was:
            self._past_until_s = 0.0  # one has joined those that were, or will soon
        self._until_s = now_s + (AGAIN_S if found.running else IDLE_S)

    async def _asked(self, samples: int, blocks: int, past: bool) -> interference.Experiments:
        return await answer_of(
            self._api, interference.Experiments, "/interference", after=samples, blocks=blocks, past=int(past)
        )


def experiment_routes(api: DaemonApi) -> APIRouter:
    """`GET /answers/interference`, and what there is of an experiment."""
    routes = APIRouter(prefix="/answers/interference")
    experiments = Experiments(api)

    @routes.get("")
    async def overview(
        experiment: str = "",
        samples: Annotated[int, Query(ge=0)] = 0,
        blocks: Annotated[int, Query(ge=0)] = 0,
        version: int = 0,
    ) -> Response:
        try:
            return json_answer(200, await experiments.since(experiment, samples, blocks, version))
        except (DaemonUnavailable, NotThere) as problem:
            return json_answer(502, {"detail": str(problem)})

    @routes.get("/{experiment}")
    async def record(experiment: str) -> Response:
        if not RUN.fullmatch(experiment):
            return json_answer(404, {"detail": f"there is no experiment {experiment!r}"})
        return await passed(api, f"/interference/{experiment}")

    @routes.get("/{experiment}/{kind}")
    async def file(experiment: str, kind: str) -> Response:
        return await file_of(api, "interference", experiment, kind)

    return routes
