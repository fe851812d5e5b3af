"""A small real process that serves status snapshots for the page's tests: `python -m tests.page.served PORT`.

It speaks the daemon's API over real sockets, so that the page can be tried by itself: killed, stopped and restarted.
What it serves is test data: `POST /figures` sets it, and it then stands still but for its clock and its sequence.
"""

import asyncio
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import HTMLResponse

from daemon.alarms import AlarmKeeper
from daemon.api.events import alarms_routes
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.web.errors import handle_errors
from dashboard.feed.sentences import IDLE
from schemas.api.conditions import ConditionsStatus
from schemas.api.decimation import DecimationStatus
from schemas.api.marks import MarkKept, Marks, MarksStatus
from schemas.api.readings import ChannelDescription, ChannelFigures, GroupDescription, Readings, Reduced
from schemas.api.retention import RetentionStatus
from schemas.api.snapshots import SnapshotsStatus
from schemas.api.status import (
    DeadLetterCounts,
    DiskStatus,
    Event,
    ExperimentStatus,
    GovernorStatus,
    GroupStatus,
    Latency,
    ReaderStatus,
    ReadingCounts,
    Recent,
    Slip,
    SourceStatus,
    Status,
    StoreStatus,
    TriggerCounts,
)
from schemas.api.storage import GroupStorage, JournalStorage, PartitionStorage, ReducedStorage, Storage
from schemas.api.tiers import MoveOrdered, TierMove, TiersStatus
from schemas.api.visits import VisitsStatus
from schemas.marks import Mark
from schemas.states import STATE_LETTERS, DaemonState, InstrumentState
from tests.page.served_instruments import instrument_routes
from tests.page.served_snapshots import snapshot_routes
from tests.page.served_visits import visit_routes

CHANNELS = ("top_in", "bot_in", "bot_out", "top_out")
STARTED_NS = time.time_ns()
TOKEN = "the-token-of-this-page"
WELL = (InstrumentState.OK, InstrumentState.LATE, InstrumentState.DESYNCHRONISED)

FIGURES: dict[str, Any] = {
    "groups": {"bpm": 120},
    "count": None,
    "wave": True,
    "rate": 100.0,
    "commit_rate": 100.0,
    "p50": 1.62,
    "p99": 4.19,
    "waiting": 1,
    "open": 2,
    "states": {},
    "slips": {},
    "available": True,
    "probe": "pg_isready",
    "problem": None,
    "away_s": 0.0,
    "backpressure": False,
    "full_in_s": 9000.0,
    "drained_in_s": 0.0,
    "tail": None,
    "dead": 0,
    "at_risk": 0,
    "at_risk_ms": 0.0,
    "backend": "postgresql",
    "embedded": True,
    "shortfall": {},
    "refused": {},
    "aside": {},
    "lost": {},
    "skipped": 0,
    "lately_s": 60.0,
    "off_by": 0,
    "missing_a_trigger": 0.0,
    "quiet_s": 0.0,
    "ahead_s": -0.01,
    "clock_is_synchronised": True,
    "journal_mib": 0.0,
    "limits": {
        "commit_p99_ms": 20.0,
        "stale_s": 2.0,
        "quiet_s": 30.0,
        "node_clock_s": 10.0,
        "missing_instruments": 1,
        "skipped_triggers": 1,
        "lost_readings": 1,
        "aside_readings": 1,
        "backlog_triggers": 1000,
    }
    | {"journal_full_in_min": 30.0, "disk_full_in_days": 7.0}
    | {"slow_visits": 10, "visit_stands_s": 300, "visits_are_critical": 0},
    "readings_fail": False,
    "calibrated_by": None,
    "calibration_fails": False,
    "events": [],
    "readers": {},
    "governor": None,
    "experiment": None,
    "visits": None,
    "past_visits": [],
    "shown_visits": 700,
    "snapshots": None,
    "past_snapshots": [],
    "conditions": None,
    "partitions": 3,
    "tiers": None,
    "retention": None,
    "decimation": None,
    "reduced": 0,
    "past": [],
    "under_way": None,
    "marks": [],
    "mark_changes": 0,
    "marks_fail": False,
}
"""What `POST /figures` may change. `states` overrides letters: {"bpm": {"6": "m"}}; `wave` lets figures swing;
`past` names experiments, `under_way` how many blocks of one there are; `past_visits` names runs of visits,
`shown_visits` how many visits a run has; `snapshots` is the status of a run of snapshot readers, `past_snapshots` names
those that were; `readers` says how each workload differs from READER, and `conditions` how their server differs from
CONDITIONS; `slips` says how an instrument in state `d` slipped: {"bpm": {"6": {"triggers": 1}}}; `count` holds the
totals still; `lately_s` says how long ago triggers were skipped, and readings lost and set aside: None that it was long
ago, and is dealt with."""


READER: dict[str, Any] = {
    "kind": "newest",
    "group": "bpm",
    "clients": 4,
    "admitted": 4,
    "since_ns": STARTED_NS,
    "state": "running",
    "problem": None,
    "cycles": 400,
    "in_time": 396,
    "failed": 0,
    "slipped_s": 0.0,
    "rows": 48_000,
    "rate": 4.0,
    "row_rate": 480.0,
    "efficiency": 0.99,
    "latency_ms": {"p50": 3.2, "p99": 18.5, "max": 44.0},
    "deadline_ms": 1000.0,
}

CONDITIONS: dict[str, Any] = {
    "state": "running",
    "address": "http://127.0.0.1:8123",
    "problem": None,
    "since_ns": STARTED_NS,
    "processes": 2,
    "running": 2,
    "requests": {"payloadiovs": {"200": 900, "304": 100}},
    "rate": 1234.5,
    "p50_ms": 0.31,
    "p99_ms": 2.4,
    "memory_hits": 900,
    "database_reads": 100,
    "not_modified": 100,
    "tags_in_memory": 3,
    "intervals_in_memory": 4321,
    "memory_mib": 12.3,
    "memory_limit_mib": 512.0,
    "clients": {
        "over_s": 60.0,
        "clients": [
            {"address": "10.1.2.3", "user_agent": "nopayloadclient/1.0", "requests": 1200, "bytes": 40_000_000},
            {"address": "10.1.2.4", "user_agent": None, "requests": 30, "bytes": 900},
        ],
        "others": {"requests": 0, "bytes": 0},
    },
}

ASKED = {"storage": 0, "interference": 0, "visits": 0}
"""How often the page has asked."""

SLIPPED = {"triggers": -1, "offset_ms": 100.2, "since_trigger": 1234}


def _slips(name: str, letters: list[str], figures: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    given = figures["slips"].get(name, {})
    return [(n, SLIPPED | given.get(str(n), {})) for n, letter in enumerate(letters) if letter == "d"]


def _recent(count: int, since_ns: int | None) -> Recent:
    return Recent(count=count, since_ns=since_ns) if count and since_ns is not None else Recent()


def group_status(name: str, size: int, figures: dict[str, Any], sequence: int, time_ns: int) -> GroupStatus:
    """One group of a snapshot, consistent with itself: received is the sum of where readings went."""
    letters = ["o"] * size
    for number, letter in figures["states"].get(name, {}).items():
        letters[int(number)] = letter
    swing = math.sin(sequence / 9) * (1.0 if figures["wave"] else 0.0)
    waiting = int(figures["waiting"] + (swing + 1) * 2 * figures["wave"])
    counted = sequence if figures["count"] is None else figures["count"]
    committed = counted * 25
    refused, aside = sum(figures["refused"].values()), sum(figures["aside"].values())
    since_ns = None if figures["lately_s"] is None else time_ns - int(figures["lately_s"] * 1e9)
    parts = {
        "committed": committed * size,
        "duplicate": counted // 4,
        "dead": figures["dead"],
        "waiting": waiting * size,
        "assembling": figures["open"] * size // 2,
    }
    return GroupStatus(
        run=1,
        instruments=size,
        layout="rows",
        durability="sync",
        at_risk_ms=figures["at_risk_ms"],
        triggers=TriggerCounts(
            received=committed + waiting + figures["open"],
            open=figures["open"],
            complete=committed,
            incomplete=0,
            committed=committed,
            account_at_start=0,
            waiting=waiting,
            newest=committed + waiting,
            skipped=figures["skipped"],
            skipped_lately=_recent(figures["skipped"], since_ns),
            rate=figures["rate"] + swing * 0.4,
            commit_rate=figures["commit_rate"] + swing * 0.3,
        ),
        readings=ReadingCounts(
            received=sum(parts.values()) + refused + aside + figures["off_by"],
            account_at_start=0,
            late=counted // 8,
            at_risk=figures["at_risk"],
            refused=figures["refused"],
            aside=figures["aside"],
            lost=figures["lost"],
            lost_lately={how: _recent(count, since_ns) for how, count in figures["lost"].items()},
            rate=figures["rate"] * size,
            commit_rate=figures["commit_rate"] * size,
            **parts,
        ),
        dead_letters=DeadLetterCounts(
            letters=len(figures["aside"]) if since_ns else 0,
            readings=aside if since_ns else 0,
            aside=aside if since_ns else 0,
            aside_since_ns=since_ns if aside else None,
        ),
        commit_ms=Latency(
            p50=figures["p50"] + swing * 0.1,
            p99=figures["p99"] + swing * 0.6,
            max=figures["p99"] * 1.4,
            tail=figures["tail"],
            is_p99_known=figures["tail"] is None,
        ),
        missing_now=None if IDLE in letters else sum(STATE_LETTERS[letter] not in WELL for letter in letters),
        missing_a_trigger=figures["missing_a_trigger"],
        states="".join(letters),
        quiet_s=figures["quiet_s"],
        ahead_s=figures["ahead_s"],
        calibrated_by=figures["calibrated_by"],
        desynchronised_now=letters.count("d"),
        slips=[Slip(instrument=f"{name}_{n:03d}", **slip) for n, slip in _slips(name, letters, figures)],
        journal_mib=figures["journal_mib"],
        backlog_mib=waiting * size * 56 / 2**20,
        backpressure=figures["backpressure"],
        full_in_s=figures["full_in_s"],
        drained_in_s=figures["drained_in_s"],
    )


def _reader(changes: dict[str, Any], time_ns: int) -> ReaderStatus:
    """A workload whose answers and rows have grown at its rates since the start."""
    given, since_s = READER | changes, max(0.0, (time_ns - STARTED_NS) / 1e9)
    grown = {"cycles": given["cycles"] + int(given["rate"] * since_s)}
    grown |= {"rows": given["rows"] + int(given["row_rate"] * since_s)}
    return ReaderStatus.model_validate(given | grown | changes)


def snapshot(sequence: int, time_ns: int, **changes: Any) -> Status:
    """A whole snapshot of FIGURES, with some of them changed."""
    figures = FIGURES | changes
    return Status(
        epoch=STARTED_NS,
        sequence=sequence,
        time_ns=time_ns,
        uptime_s=(time_ns - STARTED_NS) / 1e9,
        logger="klystron-gallery",
        version="0.1.0",
        state=DaemonState.RUNNING if figures["available"] else DaemonState.STORE_AWAY,
        store=StoreStatus(
            backend=figures["backend"],
            product="PostgreSQL",
            version="18.1",
            durability="sync: survives a crash of the server",
            shortfall=figures["shortfall"],
            settings={"fsync": "on", "synchronous_commit": "on"},
            embedded=figures["embedded"],
            target="state/postgresql",
            probe=figures["probe"],
            available=figures["available"],
            problem=figures["problem"],
            away_s=figures["away_s"],
            commits=sequence * 25,
            retries=0,
        ),
        groups={name: group_status(name, size, figures, sequence, time_ns) for name, size in figures["groups"].items()},
        sources=[
            SourceStatus(
                kind="tcp",
                address="127.0.0.1:8122",
                connections=120,
                received=sequence * 3000,
                bytes=sequence * 168_000,
                refused={},
                lost_datagrams=0,
            )
        ],
        readers={name: _reader(changes, time_ns) for name, changes in figures["readers"].items()},
        governor=figures["governor"] and GovernorStatus.model_validate(figures["governor"]),
        experiment=figures["experiment"] and ExperimentStatus.model_validate(figures["experiment"]),
        visits=figures["visits"] and VisitsStatus.model_validate(figures["visits"]),
        snapshots=figures["snapshots"] and SnapshotsStatus.model_validate(figures["snapshots"]),
        conditions=None
        if figures["conditions"] is None
        else ConditionsStatus.model_validate(CONDITIONS | figures["conditions"]),
        retention=figures["retention"] and RetentionStatus.model_validate(figures["retention"]),
        decimation=figures["decimation"] and DecimationStatus.model_validate(figures["decimation"]),
        tiers=figures["tiers"] and TiersStatus.model_validate(figures["tiers"]),
        marks=MarksStatus(changes=figures["mark_changes"], waiting=0, waiting_marks=[], problem=None),
        events=[Event.model_validate(event) for event in figures["events"]],
        limits=figures["limits"],
        disk=DiskStatus(total_bytes=500 * 2**30, used_bytes=170 * 2**30, free_bytes=320 * 2**30),
        cpu_percent=11.5,
        memory_mib=180.0,
        clock_is_synchronised=figures["clock_is_synchronised"],
    )


def storage(time_ns: int) -> Storage:
    """What is stored of FIGURES: a gibibyte a group, in partitions of a day of which the last lies ahead.

    With tiers the oldest half lies in the last one; of each three the second is read much. `reduced`: how many of the
    oldest were.
    """
    day = 86_400 * 1_000_000_000
    began = time_ns // day * day
    count = int(FIGURES["partitions"])
    names = [tier["name"] for tier in (FIGURES["tiers"] or {"tiers": []})["tiers"]]
    sizes = [2**30 // 2 ** (n % 3) if n < count - 1 else 16_384 for n in range(count)]
    partitions = [
        PartitionStorage(
            name=f"bpm_{n:03d}",
            start_ns=began + (n - count + 2) * day,
            end_ns=began + (n - count + 3) * day,
            rows=size // 90,
            size_bytes=size,
            tier=None if not names else names[-1] if n < count // 2 else names[0],
            reduced="figures of every 60 s" if n < FIGURES["reduced"] else None,
            heat_s_a_day=(0.5 + 40.0 * (n % 3 == 1)) if names else None,
        )
        for n, size in enumerate(sizes)
    ]
    group = GroupStorage(
        rows=sum(sizes) // 90,
        readings=sum(sizes) // 90,
        size_bytes=sum(sizes),
        bytes_a_reading=90.0,
        growth_bytes_a_day=93e9,
        measured_bytes_a_day=91e9,
        measured_over_s=5400.0,
        partitions=partitions,
        reduced=None
        if not FIGURES["reduced"]
        else ReducedStorage(
            periods=FIGURES["reduced"],
            readings=9_000_000,
            rows_before=9_100_000,
            rows_after=100_000,
            bytes_before=800 * 2**20,
            bytes_after=8 * 2**20,
            from_ns=[partitions[0].start_ns],
            to_ns=[partitions[FIGURES["reduced"] - 1].end_ns],
        ),
        journal=JournalStorage(
            size_bytes=3 * 2**20, room_bytes=2**32, limit_bytes=2**32, segment_bytes=64 * 2**20, problem=None
        ),
    )
    return Storage(
        time_ns=time_ns,
        sizes_age_s=3.0,
        partitions_age_s=12.0,
        partitions_problem=None,
        database_is_here=True,
        free_bytes=200 * 2**30,
        full_in_days=2.3,
        groups=dict.fromkeys(FIGURES["groups"], group),
    )


class Served:
    """The snapshots, four a second, whoever listens, with the daemon's alarms of them.

    state_dir: where these are kept.
    """

    def __init__(self, state_dir: Path) -> None:
        self.sequence = 0
        self.alarms = AlarmKeeper(state_dir, Outside.real(), Events(), lambda: snapshot(self.sequence, time.time_ns()))
        self.now = snapshot(0, time.time_ns())
        self.ticked = asyncio.Condition()

    async def run(self) -> None:
        """Make a snapshot every quarter of a second."""
        while True:
            self.sequence += 1
            self.alarms.look()
            now = snapshot(self.sequence, time.time_ns())
            self.now = now.model_copy(update={"alarms": self.alarms.statuses()})
            async with self.ticked:
                self.ticked.notify_all()
            await asyncio.sleep(0.25)


def build_app(served: Served) -> FastAPI:
    """The part of the daemon's API that the page asks."""
    app = FastAPI()
    handle_errors(app)
    app.include_router(alarms_routes(served), dependencies=[Depends(_with_token)])
    app.include_router(_status_routes(served))
    app.include_router(instrument_routes(FIGURES, CHANNELS, lambda: served.now))
    app.include_router(_readings_routes())
    app.include_router(_storage_routes())
    app.include_router(_mark_routes())
    app.include_router(_experiment_routes())
    app.include_router(visit_routes(FIGURES, ASKED))
    app.include_router(snapshot_routes(FIGURES))
    return app


async def _with_token(request: Request) -> None:
    if request.method != "GET" and request.headers.get("authorization") != f"Bearer {TOKEN}":
        raise HTTPException(401, "this is not the API's token")


def _experiment_routes() -> APIRouter:
    app = APIRouter()

    @app.get("/api/v1/interference")
    async def experiments(after: int = 0, blocks: int = 0, past: bool = True) -> dict[str, Any]:
        ASKED["interference"] += 1
        if not FIGURES["past"] and FIGURES["under_way"] is None:
            return {"running": None, "live": None, "past": []}
        from tests.page.experiments import experiments_told

        return experiments_told(FIGURES, after, blocks, past)

    @app.get("/api/v1/interference/{name}")
    async def record(name: str) -> dict[str, Any]:
        if name not in FIGURES["past"]:
            raise HTTPException(404, f"nothing is kept here of an experiment {name}")
        from tests.page.experiments import record_of

        return record_of(name).model_dump(mode="json")

    @app.get("/api/v1/interference/{name}/report")
    async def report(name: str) -> HTMLResponse:
        return HTMLResponse(f"<h1>{name}</h1><script>document.title = 'it ran a script'</script>")

    return app


def _mark_routes() -> APIRouter:
    app = APIRouter()

    @app.get("/api/v1/marks")
    async def marks(last: int) -> Marks:
        if FIGURES["marks_fail"]:
            raise HTTPException(503, "the store does not answer")
        return Marks(marks=FIGURES["marks"][-last:], cut=False)

    @app.post("/api/v1/marks", status_code=201)
    async def make(mark: Mark, request: Request) -> MarkKept:
        if request.headers["authorization"] != f"Bearer {TOKEN}":
            raise HTTPException(401, "this is not the API's token")
        if mark.id not in {known.id for known in FIGURES["marks"]}:
            FIGURES["marks"] = [*FIGURES["marks"], mark]
            FIGURES["mark_changes"] += 1
        return MarkKept(id=mark.id, stored=True)

    @app.delete("/api/v1/marks/{id}")
    async def withdraw(id: UUID, request: Request) -> MarkKept:  # noqa: A002 - the field's name
        if request.headers["authorization"] != f"Bearer {TOKEN}":
            raise HTTPException(401, "this is not the API's token")
        FIGURES["marks"] = [mark for mark in FIGURES["marks"] if mark.id != id]
        FIGURES["mark_changes"] += 1
        return MarkKept(id=id, stored=True)

    return app


def _status_routes(served: Served) -> APIRouter:
    app = APIRouter()

    @app.get("/api/v1/status")
    async def status() -> Status:
        return served.now

    @app.websocket("/api/v1/stream")
    async def stream(socket: WebSocket) -> None:
        await socket.accept()
        try:
            while True:
                async with served.ticked:
                    await served.ticked.wait()
                await socket.send_text(served.now.model_dump_json(by_alias=True))
        except WebSocketDisconnect:
            return

    @app.get("/asked")
    async def asked() -> dict[str, int]:
        return ASKED

    @app.post("/figures")
    async def figures(changes: dict[str, Any]) -> None:
        unknown = changes.keys() - FIGURES.keys()
        if unknown:
            raise HTTPException(422, f"no such figures: {sorted(unknown)}")
        FIGURES.update(changes)
        FIGURES["marks"] = [Mark.model_validate(mark) for mark in FIGURES["marks"]]

    return app


def _storage_routes() -> APIRouter:
    app = APIRouter()

    @app.get("/api/v1/storage")
    async def stored() -> Storage:
        ASKED["storage"] += 1
        return storage(time.time_ns())

    @app.post("/api/v1/tiers/move", status_code=202)
    async def move(order: TierMove, request: Request) -> MoveOrdered:
        if request.headers["authorization"] != f"Bearer {TOKEN}":
            raise HTTPException(401, "this is not the API's token")
        if order.partition not in {each.name for each in storage(time.time_ns()).groups[order.group].partitions}:
            raise HTTPException(404, f"{order.group} has no partition '{order.partition}' with readings")
        return MoveOrdered(group=order.group, name=order.partition, source="fast", target=order.tier, size_bytes=2**30)

    return app


def _readings_routes() -> APIRouter:
    app = APIRouter()

    @app.get("/api/v1/groups/{group}")
    async def describe(group: str) -> GroupDescription:
        size = FIGURES["groups"][group]
        channels = [ChannelDescription(name=name, unit="V", dtype="float64") for name in CHANNELS]
        names = [f"{group}_{i:03d}" for i in range(size)]
        return GroupDescription(name=group, instruments=names, channels=channels, record_bytes=20 + 8 * len(channels))

    @app.get("/api/v1/groups/{group}/readings")
    async def readings(
        group: str, instrument: str, start_ns: int, end_ns: int, points: int, raw_from_ns: int
    ) -> Readings:
        if FIGURES["readings_fail"]:
            raise HTTPException(503, "the store does not answer")
        times = list(range(raw_from_ns, end_ns, (end_ns - raw_from_ns) // min(points, 300)))
        number = int(instrument.removeprefix(f"{group}_"))
        values = [math.sin(t / 2e10 + number) for t in times]
        return Readings(
            group=group,
            instrument=number,
            name=instrument,
            stored=len(times) * 10,
            cut=False,
            time_ns=times,
            run=[1] * len(times),
            trigger=list(range(len(times))),
            channels={name: [value * (i + 1) for value in values] for i, name in enumerate(CHANNELS)},
            units=dict.fromkeys(CHANNELS, "V"),
            **(reduced_figures(start_ns, end_ns) if FIGURES["reduced"] else {}),
        )

    return app


def reduced_figures(start_ns: int, end_ns: int) -> dict[str, Any]:
    """Of the first half of a range figures of every hour; nothing of a shorter one."""
    step = 3_600 * 1_000_000_000
    begins = [*range(start_ns // step * step, start_ns + (end_ns - start_ns) // 2, step)]
    if end_ns - start_ns < 2 * step:
        return {}
    ones = [1.0] * len(begins)
    of_channel = ChannelFigures(
        n=[3_600] * len(begins), mean=ones, m2=ones, least=[-1.0] * len(begins), greatest=[2.0] * len(begins)
    )
    reduced = Reduced(
        asked_step_s=60.0,
        coarser=True,
        time_ns=begins,
        step_s=[3_600.0] * len(begins),
        readings=[3_600] * len(begins),
        channels=dict.fromkeys(CHANNELS, of_channel),
    )
    return {"decimated_from_ns": [begins[0]], "decimated_to_ns": [begins[-1] + step], "reduced": reduced}


async def main(port: int) -> None:
    """Serve on loopback until ended."""
    with tempfile.TemporaryDirectory() as folder:
        await _serve(Served(Path(folder)), port)


async def _serve(served: Served, port: int) -> None:
    server = uvicorn.Server(
        uvicorn.Config(build_app(served), port=port, log_level="warning", timeout_graceful_shutdown=1)
    )
    ticking = asyncio.create_task(served.run())
    await server.serve()
    ticking.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
