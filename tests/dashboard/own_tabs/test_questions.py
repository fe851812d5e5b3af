"""What a tab asks: a served daemon's answers as numpy arrays, and NaN where a reading is missing."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.responses import RedirectResponse

from daemon.web.http import LimitedServer, Limits, bound
from dashboard.feed.client import Daemon, DaemonApi, DaemonUnavailable
from dashboard.feed.hub import Hub
from dashboard.own_tabs import Questions
from tests.page.served import snapshot
from tests.support.pipelines import eventually

STEP_NS = 10_000_000
BEGAN_NS = 1_700_000_000_000_000_000
NEWEST = 1_000
MISSING = (993, 998)


def served(asked: list[str], *, stored: int | None = None, newest: int | None = NEWEST) -> FastAPI:
    """A daemon that has a trigger each 10 ms; bpm_1 lacks two of them, and read 5 at trigger 5 and so on."""
    app = FastAPI()

    @app.get("/api/v1/groups/bpm")
    async def describe() -> dict[str, Any]:
        channels = [{"name": name, "unit": "mm", "dtype": "float64"} for name in ("x", "y")]
        return {"name": "bpm", "instruments": ["bpm_0", "bpm_1"], "channels": channels, "record_bytes": 36}

    @app.get("/api/v1/groups/bpm/newest")
    async def newest_trigger(complete: bool) -> dict[str, Any]:
        asked.append(f"newest {complete}")
        channels = {"x": [3.0], "y": [None]} if newest else {}
        there = {"instruments": ["bpm_1"], "time_ns": [BEGAN_NS]} if newest else {"instruments": [], "time_ns": []}
        run = None if newest is None else 2
        return {"group": "bpm", "run": run, "trigger": newest, "channels": channels, "units": {}} | there

    @app.get("/api/v1/groups/bpm/missing")
    async def missing(last: int, instrument: str) -> dict[str, Any]:
        asked.append(f"missing of {instrument}")
        first_ns, end_ns = BEGAN_NS + (NEWEST - last + 1) * STEP_NS, BEGAN_NS + NEWEST * STEP_NS
        ranges = {"trigger": [NEWEST - last + 1], "time_ns": [first_ns], "triggers": [last]}
        found = {"group": "bpm", "run": 2, "triggers": last, "end_ns": end_ns, "stretches": ranges}
        none = {"run": None, "triggers": 0, "end_ns": None, "stretches": {key: [] for key in ranges}}
        return found | ({} if newest else none) | {"missing": {}, "more": 0, "late": [0], "heard_s": [0.1]}

    @app.get("/api/v1/groups/bpm/readings")
    async def readings(instrument: str, start_ns: int, end_ns: int) -> dict[str, Any]:
        asked.append(f"readings of {instrument}")
        there = [n for n in range(NEWEST + 5) if start_ns <= BEGAN_NS + n * STEP_NS < end_ns and n not in MISSING]
        return {
            "group": "bpm",
            "instrument": 1,
            "name": instrument,
            "stored": stored or len(there),
            "cut": False,
            "time_ns": [BEGAN_NS + n * STEP_NS for n in there],
            "run": [2] * (len(there) - 1) + [3],  # the newest is of a run that has just begun
            "trigger": there,
            "channels": {"x": [float(n) for n in there], "y": [None] * len(there)},
            "units": {"x": "mm", "y": "mm"},
        }

    @app.get("/api/v1/groups/bpm/gaps")
    async def gaps(last: int) -> dict[str, int]:
        return {"asked": last}

    @app.get("/api/v1/groups/bpm/moved")
    async def moved() -> RedirectResponse:
        return RedirectResponse("/api/v1/groups")

    return app


@asynccontextmanager
async def asking(app: FastAPI) -> AsyncIterator[Questions]:
    """Questions to a server on a real socket."""
    server = LimitedServer(app, Limits(), None, timeout_graceful_shutdown=1)
    with bound("127.0.0.1", 0) as listening:
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        api = DaemonApi(Daemon(url=f"http://127.0.0.1:{listening.getsockname()[1]}"))
        hub = Hub(daemon=api.url, build="0")
        hub.take(snapshot(1, time.time_ns()))
        try:
            await eventually(lambda: server.started, 60)
            yield Questions(hub, api)
        finally:
            await api.close()
            server.should_exit = True
            await serving


async def test_a_series_has_a_value_a_trigger_and_nan_where_one_is_missing() -> None:
    async with asking(served([])) as ask:
        series = await ask.series("bpm", "bpm_1", "x", last=16)
    assert series.trigger.tolist() == list(range(985, 1001))
    lacking = np.isin(series.trigger, MISSING)
    np.testing.assert_array_equal(series.values, np.where(lacking, np.nan, series.trigger))
    np.testing.assert_array_equal(series.time_ns, np.where(lacking, 0, BEGAN_NS + series.trigger * STEP_NS))
    assert series.unit == "mm"
    assert series.rate == pytest.approx(100.0)


async def test_a_run_shorter_than_the_series_begins_with_nan() -> None:
    async with asking(served([])) as ask:
        series = await ask.series("bpm", "bpm_1", "x", last=1_010)
    assert (series.trigger[0], len(series.values)) == (-9, 1_010)
    assert np.isnan(series.values[:9]).all()
    assert series.values[9] == 0


async def test_without_a_trigger_everything_is_missing_and_there_is_no_rate() -> None:
    async with asking(served([], newest=None)) as ask:
        series = await ask.series("bpm", "bpm_1", "x", last=4)
        newest = await ask.newest("bpm")
    assert np.isnan(series.values).all()
    assert series.rate is None
    assert newest.trigger is None
    assert np.isnan(newest.channels["x"]).all()


async def test_several_that_ask_the_same_cost_the_daemon_one_question() -> None:
    asked: list[str] = []
    async with asking(served(asked)) as ask:
        x, y, _ = await asyncio.gather(*(ask.series("bpm", "bpm_1", channel, last=8) for channel in ("x", "y", "x")))
        x.values[:] = 0
        again = await ask.series("bpm", "bpm_1", "x", last=8)
    # By name: a daemon whose instruments are named 1, 2 and so on takes a number for a name.
    assert sorted(asked) == ["missing of bpm_1", "newest False", "readings of bpm_1"]
    assert np.isnan(y.values).all()
    assert again.values[-1] == NEWEST


async def test_the_newest_trigger_has_a_value_an_instrument() -> None:
    async with asking(served([])) as ask:
        newest = await ask.newest("bpm")
    assert newest.trigger == NEWEST
    np.testing.assert_array_equal(newest.channels["x"], [np.nan, 3.0])
    assert np.isnan(newest.channels["y"]).all()


async def test_groups_and_any_other_question() -> None:
    async with asking(served([])) as ask:
        assert await ask.groups() == ["bpm"]
        assert (await ask.group("bpm")).units == {"x": "mm", "y": "mm"}
        assert await ask.get("/groups/bpm/gaps", last=7) == {"asked": 7}
        with pytest.raises(DaemonUnavailable, match="404"):
            await ask.get("/groups/none")
        with pytest.raises(DaemonUnavailable, match="307"):
            await ask.get("/groups/bpm/moved")


async def test_a_series_that_the_daemon_would_thin_is_refused() -> None:
    async with asking(served([], stored=200_000)) as ask:
        with pytest.raises(DaemonUnavailable, match=r"200,000 readings of bpm_1 .* ask for fewer triggers"):
            await ask.series("bpm", "bpm_1", "x", last=8)


@pytest.mark.parametrize(
    ("instrument", "channel", "words"),
    [
        ("bpm_7", "x", "group bpm has no instrument 'bpm_7'; name one of bpm_0 ... bpm_1"),
        ("bpm_1", "z", "group bpm has no channel 'z'; name one of x ... y"),
    ],
)
async def test_a_name_that_is_not_there_is_told_with_those_that_are(instrument: str, channel: str, words: str) -> None:
    async with asking(served([])) as ask:
        with pytest.raises(ValueError, match=words):
            await ask.series("bpm", instrument, channel, last=8)
