"""The control API over a real socket, with pipelines that commit into memory."""

import asyncio
import errno
import math
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
import websockets
from prometheus_client.parser import text_string_to_metric_families

from backends.base import DurabilityInForce, Partition, Store, StoreBusy, StoreError, StoreFacts, StoreUnavailable
from backends.ending import end_tasks
from daemon.alarms import AlarmKeeper
from daemon.api import ApiServer
from daemon.api.app import make_app
from daemon.core.moments import read_rfc3339, rfc3339
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.decimation.keeper import DecimationKeeper
from daemon.folders.opened import OpenedFolders
from daemon.marks import MarkKeeper
from daemon.pipeline.announced import AnnouncedRuns
from daemon.pipeline.intake import Intake, open_intake
from daemon.pipeline.pipeline import Pipeline
from daemon.telemetry.status.reporter import Reporter, WorkloadsStatus
from daemon.telemetry.status.storage import StorageReport
from daemon.telemetry.status.stream import StatusStream
from daemon.telemetry.store import Growth, StoreReport
from daemon.web.tls import Identity
from schemas.api.model import Problem
from schemas.api.status import Shortfall, Status
from schemas.api.storage import Storage
from schemas.batch import Batch, Durability
from schemas.config import Config
from schemas.readings import InstrumentGroup
from schemas.retention import Span
from schemas.states import DaemonState
from tests.support.batches import batch_of
from tests.support.disks import FaultyDisk, faulty
from tests.support.pipelines import Logger, eventually, logging_to_memory
from tests.support.readings import PERIOD_NS, make_block, make_group, time_of, whole

GROUP = make_group()
TOKEN = "a token for these tests"
WITH_TOKEN = {"authorization": f"Bearer {TOKEN}"}
CONFIG = Config.model_validate({"groups": [{"name": "bpm", "count": 5, "channels": [{"name": "x"}]}]})

KEPT = DurabilityInForce(words="sync (tested)", risk_ms=0)
SHORTFALL = Shortfall(problem="NOT durable: nothing is written down", fix="write it down")
SHORT = DurabilityInForce(words="NOT durable", risk_ms=math.inf, shortfall=SHORTFALL)


def facts(sync: DurabilityInForce, delayed: DurabilityInForce = KEPT) -> StoreFacts:
    durability = {Durability.SYNC: sync, Durability.ASYNC: delayed}
    return StoreFacts(backend="memory", version="1", durability=durability, target="memory", settings={"writes": "no"})


@dataclass(kw_only=True)
class Service:
    """What the API is told about."""

    reporter: Reporter
    stream: StatusStream
    store: Store
    storage: StorageReport
    groups: dict[str, InstrumentGroup]
    intakes: dict[str, Intake]
    pipelines: dict[str, Pipeline]
    announced: AnnouncedRuns
    events: Events
    alarms: AlarmKeeper
    marks: MarkKeeper
    decimation: DecimationKeeper
    tiers: Any = None
    folders: OpenedFolders | None = None

    async def announce_run(self, epoch: int) -> dict[str, int | None]:
        return await self.announced.announce(epoch, self.intakes)


@dataclass(kw_only=True)
class Served:
    logger: Logger
    service: Service
    report: StoreReport
    workloads: dict[str, object]
    client: httpx.AsyncClient
    url: str

    async def commit(self, *triggers: int) -> None:
        pipeline = self.logger.pipelines["bpm"]
        pipeline.receive(whole(GROUP, *triggers))
        await eventually(lambda: pipeline.waiting.triggers == 0)


DECLARED: list[tuple[str, re.Pattern[str], set[str]]] = []
"""Method, path and statuses of every route in the API's document, which is made once; the fewest parameters first."""


def declare(service: Service) -> None:
    document = make_app(service, token=TOKEN, reads_freely=True).openapi()
    DECLARED.extend(
        (method.upper(), re.compile(re.sub(r"{\w+}", "[^/]+", path)), set(operation["responses"]))
        for path, operations in sorted(document["paths"].items(), key=lambda each: each[0].count("{"))
        for method, operation in operations.items()
    )


async def see_declared(answer: httpx.Response) -> None:
    """See that the document of the API has the status of an answer of one of its routes."""
    asked = answer.request
    for method, path, statuses in DECLARED:
        if method == asked.method and path.fullmatch(asked.url.path):
            assert str(answer.status_code) in statuses, f"{method} {path.pattern} does not declare {answer.status_code}"
            return


@asynccontextmanager
async def served(
    host: str = "127.0.0.1",
    identity: Identity | None = None,
    folder: Path = Path("/nonexistent"),
    proxies: tuple[str, ...] = (),
    state_dir: Path = Path("/"),
) -> AsyncIterator[Served]:
    async with logging_to_memory(GROUP, folder=folder, assembly={"timeout_ms": 20.0}) as logger:
        report = StoreReport("memory", "memory", {"bpm": Durability.SYNC}, logger.events)
        report.answered(facts(KEPT))
        workloads = {}

        def status() -> Status:
            return reporter.status()

        alarms = AlarmKeeper(folder, Outside.real(), logger.events, status)
        marks = MarkKeeper(logger.store, folder, Outside.real(), logger.events)
        await marks.open()
        reporter = Reporter(
            CONFIG,
            report,
            logger.events,
            intakes=logger.intakes,
            pipelines=logger.pipelines,
            sources=(),
            workloads=lambda: WorkloadsStatus(**workloads),
            alarms=alarms.statuses,
            marks=marks.status,
            state_dir=state_dir,
        )
        reporter.state = DaemonState.RUNNING
        stream = StatusStream(reporter)
        service = Service(
            reporter=reporter,
            stream=stream,
            store=logger.store,
            storage=StorageReport(logger.store, report, reporter),
            groups={"bpm": GROUP},
            intakes=logger.intakes,
            pipelines=logger.pipelines,
            announced=logger.announced,
            events=logger.events,
            alarms=alarms,
            marks=marks,
            decimation=DecimationKeeper(
                logger.store, CONFIG, Outside.real(), logger.events, pipelines=logger.pipelines
            ),
        )
        if not DECLARED:
            declare(service)
        server = ApiServer(service, host, 0, token=TOKEN, identity=identity, proxies=proxies)
        serving = asyncio.create_task(server.serve())
        streaming = asyncio.create_task(stream.run())
        writing = asyncio.create_task(marks.run())
        await eventually(lambda: not server.address.endswith(":0"))
        try:
            url = server.address.replace("0.0.0.0", "127.0.0.1")
            hooks = {"response": [see_declared]}
            async with httpx.AsyncClient(
                base_url=url, verify=False, trust_env=False, timeout=60, event_hooks=hooks
            ) as client:
                yield Served(logger=logger, service=service, report=report, workloads=workloads, client=client, url=url)
        finally:
            server.stop()
            await serving
            await end_tasks(streaming, writing)


@pytest.mark.parametrize(("state_dir", "is_told"), [(Path("/"), True), (Path("/proc"), False)])
async def test_a_file_system_without_a_size_is_no_disk(state_dir: Path, is_told: bool) -> None:
    async with served(state_dir=state_dir) as api:
        await asyncio.sleep(1.0)
        api.service.reporter.sample()
        assert ((await api.client.get("/api/v1/status")).json()["disk"] is not None) is is_told


async def test_status_says_at_least_what_the_design_promises() -> None:
    async with served() as api:
        await api.commit(1, 2, 3)
        block = make_block(GROUP, [(4, 0), (4, 0), (4, 9)])
        api.logger.pipelines["bpm"].receive(block)
        await eventually(lambda: api.logger.pipelines["bpm"].figures().committed.triggers == 4)
        body = (await api.client.get("/api/v1/status")).json()
        group = body["groups"]["bpm"]
        assert {k: group["triggers"][k] for k in ("received", "complete", "incomplete", "committed")} == {
            "received": 4,
            "complete": 3,
            "incomplete": 1,
            "committed": 4,
        }
        assert {
            k: group["readings"][k] for k in ("received", "committed", "late", "duplicate", "refused", "waiting")
        } == {
            "received": 18,
            "committed": 16,
            "late": 0,
            "duplicate": 1,
            "refused": {"unknown_instrument": 1},
            "waiting": 0,
        }
        assert set(group["commit_ms"]) == {"p50", "p99", "max", "tail", "is_p99_known"}
        assert {"backend", "version", "durability"} <= set(body["store"])
        assert body["state"] == "running"
        Status.model_validate(body)


async def test_readings_are_always_conserved() -> None:
    async with served() as api:
        pipeline = api.logger.pipelines["bpm"]
        api.logger.store.serving.clear()
        for step in range(50):
            pipeline.receive(make_block(GROUP, [(step, i) for i in (0, 1, 1, 2, 3, 4, 7)[: 3 + step % 5]]))
            if step == 20:
                api.logger.store.serving.set()
            await asyncio.sleep(0)
            readings = api.service.reporter.status().groups["bpm"].readings
            assert not readings.unaccounted


async def test_health_and_readiness() -> None:
    async with served() as api:
        assert (await api.client.get("/health")).json() == {"status": "alive"}
        assert (await api.client.get("/ready")).status_code == 200
        api.report.failed("connection refused")
        answer = await api.client.get("/ready")
        assert answer.status_code == 503
        assert answer.json() == {"status": "store_away", "reason": "connection refused"}


async def test_the_database_going_and_coming_back_is_news_once() -> None:
    async with served() as api:
        events = api.logger.events
        api.report.failed("connection refused")
        await eventually(lambda: len(events.newest()) == 1)
        api.report.failed("no route to host")
        api.report.answered(facts(KEPT))
        await eventually(lambda: len(events.newest()) == 2)
        back, away = (event.text for event in events.newest())
        assert away == "the database is away, readings wait: connection refused"
        assert back.startswith("the database is back after ")


async def test_a_durability_that_is_not_kept_is_told_until_it_is() -> None:
    async with served() as api:
        events = api.logger.events
        assert events.newest() == []
        api.report.answered(facts(KEPT, SHORT))
        assert events.newest() == []  # no group asks for async
        api.report.answered(facts(SHORT))
        api.report.answered(facts(SHORT))
        (told,) = events.newest()
        assert (told.severity, told.text) == (
            "warning",
            "durability sync of group bpm is not kept: NOT durable: nothing is written down; write it down",
        )
        store = (await api.client.get("/api/v1/status")).json()["store"]
        assert store["durability"] == "NOT durable"
        assert store["shortfall"] == {"sync": SHORTFALL.model_dump()}
        assert store["settings"] == {"writes": "no"}
        assert 'triggerlog_store_shortfall{durability="sync"} 1.0' in (await api.client.get("/metrics")).text
        api.report.answered(facts(KEPT))
        assert events.newest()[0].text == "durability sync of group bpm is kept: sync (tested)"
        assert (await api.client.get("/api/v1/status")).json()["store"]["shortfall"] == {}
        assert "triggerlog_store_shortfall{" not in (await api.client.get("/metrics")).text


async def test_what_a_crash_of_the_server_could_take_is_counted() -> None:
    async with served() as api:
        committer = api.logger.pipelines["bpm"]._committer

        async def at_risk() -> tuple[int, float | None]:
            group = (await api.client.get("/api/v1/status")).json()["groups"]["bpm"]
            return group["readings"]["at_risk"], group["at_risk_ms"]

        await api.commit(1)
        assert await at_risk() == (5, None)  # nobody has said yet what the server keeps
        committer.note_risk(0)
        assert await at_risk() == (0, 0.0)
        committer.note_risk(300)
        await api.commit(2, 3)
        assert committer.at_risk(committer.committed_ns) == 10
        assert committer.at_risk(committer.committed_ns + 299_000_000) == 10
        assert committer.at_risk(committer.committed_ns + 300_000_000) == 0
        committer.note_risk(math.inf)
        await api.commit(4)
        assert await at_risk() == (20, None)
        metrics = (await api.client.get("/metrics")).text
        assert 'triggerlog_readings_at_risk{group="bpm"} 20.0' in metrics
        assert 'triggerlog_at_risk_seconds{group="bpm"} +Inf' in metrics


async def test_metrics_are_what_prometheus_reads() -> None:
    async with served() as api:
        await api.commit(1, 2)
        answer = await api.client.get("/metrics")
        families = {family.name: family for family in text_string_to_metric_families(answer.text)}
        committed = families["triggerlog_readings_committed"].samples[0]
        assert (committed.labels, committed.value) == ({"group": "bpm"}, 10)
        latency = families["triggerlog_commit_latency_seconds"].samples
        assert [s.value for s in latency if s.labels.get("le") == "+Inf"] == [2]
        assert {"triggerlog_readings_refused", "triggerlog_readings_waiting", "triggerlog_store_available"} <= set(
            families
        )


async def test_gaps_are_in_the_status_and_in_the_metrics() -> None:
    async with served() as api:
        await api.commit(1, 2, 12)
        api.logger.pipelines["bpm"].note_lost(7, "datagrams")
        api.service.reporter.sample()
        group = (await api.client.get("/api/v1/status")).json()["groups"]["bpm"]
        assert (group["triggers"]["skipped"], group["triggers"]["skipped_lately"]["count"]) == (9, 9)
        assert group["readings"]["lost"] == {"datagrams": 7}
        assert group["readings"]["lost_lately"]["datagrams"]["count"] == 7
        metrics = (await api.client.get("/metrics")).text
        for line in (
            'triggerlog_triggers_skipped{group="bpm"} 9.0',
            'triggerlog_triggers_skipped_lately{group="bpm"} 9.0',
            'triggerlog_readings_lost{group="bpm",reason="datagrams"} 7.0',
            'triggerlog_readings_lost_lately{group="bpm",reason="datagrams"} 7.0',
            'triggerlog_dead_letter_readings_aside{group="bpm"} 0.0',
        ):
            assert line in metrics
        api.logger.pipelines["bpm"].note_lost(-2, "datagrams")
        metrics = (await api.client.get("/metrics")).text
        assert 'triggerlog_readings_lost_lately{group="bpm",reason="datagrams"} 5.0' in metrics


async def test_what_is_refused_and_lost_before_the_database_answers_is_in_both(tmp_path: Path) -> None:
    """It was in neither, and what waited in memory alone was told to be in the log."""
    disk = FaultyDisk()
    async with served() as api:
        api.logger.intakes["bpm"].drop("backlog", 1)
        intake = await open_intake(GROUP, CONFIG, tmp_path, api.logger.events, outside=faulty(disk))
        api.logger.intakes["bpm"] = intake
        disk.failing["create"] = OSError(errno.ENOSPC, "no space left on device")
        intake.start()
        intake.receive(whole(GROUP, 1, 2))
        intake.drop("backlog", 7)
        intake.note_lost(4, "datagrams")
        told = (await api.client.get("/api/v1/status")).json()["intakes"]["bpm"]
        assert told["waiting"] == told["unsynced"] == 2 * GROUP.size
        assert (told["refused"], told["lost"]) == ({"backlog": 7}, {"datagrams": 4})
        metrics = (await api.client.get("/metrics")).text
        for line in (
            f'triggerlog_intake_unsynced_readings{{group="bpm"}} {2 * GROUP.size}.0',
            'triggerlog_readings_refused_total{group="bpm",reason="backlog"} 8.0',
            'triggerlog_readings_lost{group="bpm",reason="datagrams"} 4.0',
        ):
            assert line in metrics
        await intake.end()


async def test_stream_sends_whole_snapshots() -> None:
    async with served() as api:
        async with websockets.connect(api.url.replace("http", "ws") + "/api/v1/stream", proxy=None) as stream:
            first = Status.model_validate_json(await stream.recv())
            await api.commit(1)
            async with asyncio.timeout(60):
                while (status := Status.model_validate_json(await stream.recv())).groups["bpm"].triggers.committed < 1:
                    pass
            assert status.epoch == first.epoch
            assert status.sequence > first.sequence
            later = [Status.model_validate_json(await stream.recv()) for _ in range(4)]
            # By the daemon's clock: here they come in a bunch where the test was late to take them.
            assert later[-1].time_ns - status.time_ns > 0.5e9
        await eventually(lambda: not api.service.stream.listeners)


async def test_pages_of_other_hosts_neither_listen_nor_give_orders() -> None:
    async with served() as api:
        address = api.url.replace("http", "ws") + "/api/v1/stream"
        with pytest.raises(websockets.InvalidStatus):
            await websockets.connect(address, origin="http://evil.example", proxy=None)
        foreign = {"origin": "http://evil.example", **WITH_TOKEN}
        assert (await api.client.post("/api/v1/run", headers=foreign)).status_code == 403
        assert api.logger.pipelines["bpm"].figures().run == 1
        assert (await api.client.post("/api/v1/run?epoch=9", headers={"origin": api.url, **WITH_TOKEN})).json() == {
            "bpm": 1
        }


async def test_newest_complete_trigger() -> None:
    async with served() as api:
        empty = (await api.client.get("/api/v1/groups/bpm/newest")).json()
        assert (empty["run"], empty["trigger"], empty["instruments"]) == (None, None, [])
        await api.commit(1, 2)
        api.logger.pipelines["bpm"].receive(make_block(GROUP, [(3, 0)]))
        await eventually(lambda: api.logger.pipelines["bpm"].figures().committed.triggers == 3)
        newest = (await api.client.get("/api/v1/groups/bpm/newest")).json()
        assert (newest["run"], newest["trigger"]) == (1, 2)
        assert newest["instruments"] == list(GROUP.instruments)
        assert newest["channels"]["top_in"] == pytest.approx([2.0, 2.001, 2.002, 2.003, 2.004])
        assert newest["units"] == {"top_in": "V", "gain": ""}


async def test_the_newest_trigger_of_all_and_who_was_missing_when() -> None:
    async with served() as api:
        empty = (await api.client.get("/api/v1/groups/bpm/missing")).json()
        assert (empty["triggers"], empty["missing"], empty["heard_s"]) == (0, {}, [None] * 5)
        assert (await api.client.get("/api/v1/groups/bpm/newest?complete=false")).json()["trigger"] is None
        await api.commit(*range(1, 119))
        api.logger.pipelines["bpm"].receive(make_block(GROUP, [(119, 0), (119, 1), (120, 0)]))
        await eventually(lambda: api.logger.pipelines["bpm"].figures().committed.triggers == 120)
        newest = (await api.client.get("/api/v1/groups/bpm/newest?complete=false")).json()
        assert (newest["trigger"], newest["instruments"]) == (120, ["bpm_000"])
        history = (await api.client.get("/api/v1/groups/bpm/missing")).json()
        assert (history["run"], history["triggers"], history["more"]) == (1, 120, 0)
        assert history["stretches"]["triggers"] == [2] * 60
        assert history["stretches"]["trigger"][-1] == 119
        assert {number: counts[-1] for number, counts in history["missing"].items()} == {"1": 1, "2": 2, "3": 2, "4": 2}
        assert sum(sum(counts) for counts in history["missing"].values()) == 7
        assert history["late"] == [0] * 5
        api.logger.pipelines["bpm"].receive(make_block(GROUP, [(119, 3)]))
        await eventually(lambda: api.logger.pipelines["bpm"].instruments.late()[3] == 1)
        one = (await api.client.get("/api/v1/groups/bpm/missing?last=4&instrument=bpm_003")).json()
        assert (one["triggers"], one["late"], one["stretches"]["triggers"]) == (4, [1], [1] * 4)
        assert list(one["missing"]) == ["3"]
        assert one["heard_s"][0] < 60


async def test_which_trigger_numbers_never_came() -> None:
    async with served() as api:
        nothing = {name: [] for name in ("run", "epoch", "first", "last", "triggers", "before_ns", "after_ns")}
        empty = (await api.client.get("/api/v1/groups/bpm/gaps")).json()
        assert empty == {"group": "bpm", **nothing, "cut": False}
        batch = ledger_batch(time_of(10), [(1, 0), (2, 0), (9, 6), (20, 10)], run=3)
        # Below the first trigger of a run there is no gap.
        other = ledger_batch(time_of(50), [(40, 7)], run=4)
        for each in (batch, other):
            await api.logger.store.commit(each)
        found = (await api.client.get("/api/v1/groups/bpm/gaps")).json()
        assert (found["run"], found["epoch"], found["cut"]) == ([3, 3], [1, 1], False)
        assert (found["first"], found["last"], found["triggers"]) == ([10, 3], [19, 8], [10, 6])
        of = batch.ledger["time_ns"].tolist()
        assert found["before_ns"] == [of[2], of[1]]
        assert found["after_ns"] == [of[3], of[2]]
        one = (await api.client.get("/api/v1/groups/bpm/gaps", params={"last": 1, "end_ns": time_of(50)})).json()
        assert (one["first"], one["cut"]) == ([10], True)


def ledger_batch(time_ns: int, triggers: list[tuple[int, int]], run: int) -> Batch:
    """A batch of triggers, each with how many numbers before it never came."""
    numbers, skipped = zip(*triggers, strict=True)
    readings = np.zeros((len(triggers), GROUP.size), GROUP.record)
    readings["trigger"] = np.array(numbers)[:, None]
    readings["time_ns"] = time_ns + np.arange(len(triggers))[:, None]
    batch = batch_of(GROUP, 100 + run, readings, run=run)
    batch.ledger["skipped"], batch.ledger["epoch"] = skipped, 1
    return batch


async def test_readings_of_an_instrument_by_name_or_number() -> None:
    async with served() as api:
        await api.commit(*range(1, 11))
        span = {"start_ns": time_of(3), "end_ns": time_of(6)}
        by_name = await api.client.get("/api/v1/groups/bpm/readings", params={"instrument": "bpm_002", **span})
        assert by_name.json()["trigger"] == [3, 4, 5]
        assert by_name.json()["channels"]["top_in"] == pytest.approx([3.002, 4.002, 5.002])
        by_number = await api.client.get("/api/v1/groups/bpm/readings", params={"instrument": "2", **span})
        assert by_number.json() == by_name.json()


async def test_long_ranges_are_thinned_and_keep_their_peaks() -> None:
    async with served() as api:
        block = whole(GROUP, *range(1, 2001))
        block["top_in"][(block["trigger"] == 777) & (block["instrument"] == 1)] = 1e6
        block["gain"][(block["trigger"] == 1234) & (block["instrument"] == 1)] = -999
        api.logger.pipelines["bpm"].receive(block)
        await eventually(lambda: api.logger.pipelines["bpm"].figures().committed.triggers == 2000)
        span = {"start_ns": time_of(0), "end_ns": time_of(3000), "points": 100}
        found = (await api.client.get("/api/v1/groups/bpm/readings", params={"instrument": "1", **span})).json()
        assert len(found["trigger"]) <= 100
        assert (found["stored"], found["cut"]) == (2000, False)
        assert {777, 1234, 1, 2000} <= set(found["trigger"])
        assert found["time_ns"] == sorted(found["time_ns"])


@pytest.mark.parametrize("points", [2, 3, 5])
async def test_of_few_points_the_first_and_the_last_reading_are_two(points: int) -> None:
    async with served() as api:
        await api.commit(*range(1, 101))
        span = {"start_ns": time_of(0), "end_ns": time_of(200), "points": points}
        found = (await api.client.get("/api/v1/groups/bpm/readings", params={"instrument": "1", **span})).json()
        assert len(found["trigger"]) == points
        assert (found["trigger"][0], found["trigger"][-1]) == (1, 100)


async def test_the_readings_of_one_trigger() -> None:
    async with served() as api:
        await api.commit(1, 2)
        api.logger.pipelines["bpm"].receive(make_block(GROUP, [(9, 0), (9, 3)]))
        await eventually(lambda: api.logger.pipelines["bpm"].figures().committed.triggers == 3)
        found = (await api.client.get("/api/v1/groups/bpm/triggers/9")).json()
        assert (found["run"], found["trigger"], found["instruments"]) == (1, 9, ["bpm_000", "bpm_003"])
        assert found["channels"]["top_in"] == pytest.approx([9.0, 9.003])
        assert found.pop("age_s") == pytest.approx(time.time() - time_of(9) / 1e9, abs=60)
        again = (await api.client.get("/api/v1/groups/bpm/triggers/9", params={"run": 1})).json()
        assert again.pop("age_s") > 0
        assert again == found


async def test_times_are_asked_for_and_answered_as_text_too() -> None:
    async with served() as api:
        await api.commit(*range(1, 11))
        text = {n: rfc3339(time_of(n)) for n in (3, 6)}
        span = {"instrument": "2", "start_ns": text[3], "end_ns": text[6], "times": "rfc3339"}
        found = (await api.client.get("/api/v1/groups/bpm/readings", params=span)).json()
        assert found["trigger"] == [3, 4, 5]
        assert [read_rfc3339(each) for each in found["time"]] == [time_of(n) for n in (3, 4, 5)]
        assert "time_ns" not in found
        row = (await api.client.get("/api/v1/groups/bpm/ledger/9", params={"times": "rfc3339"})).json()
        assert read_rfc3339(row["time"]) == time_of(9)
        unescaped = text[3].replace("Z", "+00:00")
        answer = await api.client.get(f"/api/v1/groups/bpm/readings?instrument=2&start_ns={unescaped}&end_ns={text[6]}")
        assert answer.json()["trigger"] == [3, 4, 5]


async def test_ledger_of_a_trigger() -> None:
    async with served() as api:
        api.logger.pipelines["bpm"].receive(make_block(GROUP, [(9, 0), (9, 0), (9, 3)]))
        await eventually(lambda: api.logger.pipelines["bpm"].figures().committed.triggers == 1)
        row = (await api.client.get("/api/v1/groups/bpm/ledger/9")).json()
        assert row["missing"] == ["bpm_001", "bpm_002", "bpm_004"]
        assert (row["expected"], row["arrived"], row["duplicates"], row["time_ns"]) == (5, 2, 1, time_of(9))
        assert row["closed_ns"] >= row["last_received_ns"] >= row["first_received_ns"] > 0


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/api/v1/groups/bmp", 404, "group: there is no group 'bmp'; name one of bpm"),
        ("/api/v1/groups/bpm/readings?instrument=nobody", 404, "name one of bpm_000 ... bpm_004, or give its number"),
        ("/api/v1/groups/bpm/readings?instrument=5", 404, "0 to 4"),
        (f"/api/v1/groups/bpm/readings?instrument=1&start_ns={PERIOD_NS}&end_ns=5", 422, "is not before end_ns"),
        (
            f"/api/v1/groups/bpm/readings?instrument=1&start_ns=1&end_ns={2**70}",
            422,
            "end_ns: it does not fit into 64 bits",
        ),
        ("/api/v1/groups/bpm/ledger/77", 404, "group bpm has no trigger 77 in any run"),
        ("/api/v1/groups/bpm/ledger/77?run=3", 404, "in run 3"),
        ("/api/v1/groups/bpm/triggers/77", 404, "group bpm has no trigger 77 in any run"),
    ],
)
async def test_a_wrong_request_is_answered_with_the_fix(path: str, code: int, said: str) -> None:
    async with served() as api:
        answer = await api.client.get(path)
        assert answer.status_code == code
        assert said in str(Problem.model_validate_json(answer.content))


async def test_what_was_reduced_is_said_before_decimation_has_looked_for_the_first_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as api:
        await api.commit(9)

        async def spans_now(_: str) -> tuple[Span, ...]:
            return (Span(start_ns=time_of(9), end_ns=time_of(10)),)

        monkeypatch.setattr(api.service.decimation, "spans_now", spans_now)
        assert not api.service.decimation.spans("bpm")
        assert (await api.client.get("/api/v1/groups/bpm/ledger/9")).json()["decimated"]


async def test_what_the_database_refuses_is_said_and_not_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as api:
        await api.commit(9)
        refusal = StoreError("documents are not as this store writes them")
        api.logger.store.fail_with(refusal)
        for path in ("newest", "ledger/9", "triggers/9", "readings?instrument=1"):
            answer = await api.client.get(f"/api/v1/groups/bpm/{path}")
            said = "the database refuses: documents are not as this store writes them"
            assert (answer.status_code, answer.json()["detail"]) == (500, said), path

        async def order(*_: str) -> None:
            raise refusal

        api.service.tiers = SimpleNamespace(order=order)
        answer = await api.client.post(
            "/api/v1/tiers/move", json={"group": "bpm", "partition": "d20260101", "tier": "slow"}, headers=WITH_TOKEN
        )
        assert (answer.status_code, answer.json()["detail"]) == (500, said)
    assert not any(record.exc_info for record in caplog.records)


async def test_database_away_is_said_and_not_a_traceback() -> None:
    async with served() as api:
        api.logger.store.fail_with(StoreUnavailable("no route to host"))
        answer = await api.client.get("/api/v1/groups/bpm/newest")
        assert answer.status_code == 503
        assert answer.json()["detail"] == "the database is away: no route to host"
        api.logger.store.fail_with(StoreBusy("readings of that time are being reduced; ask again"))
        answer = await api.client.get("/api/v1/groups/bpm/newest")
        assert answer.status_code == 503
        assert answer.json()["detail"] == "readings of that time are being reduced; ask again"


@pytest.mark.parametrize("is_embedded", [True, False])
async def test_the_status_tells_when_the_disk_of_an_embedded_database_is_full(is_embedded: bool) -> None:
    async with served() as api:
        api.report.growth = Growth()
        api.report.growth.note({"bpm": 0}, time.monotonic() - 7200)
        api.report.answered(replace(facts(KEPT), size_bytes={"bpm": 2**30}, embedded=is_embedded))
        reporter = api.service.reporter
        before = reporter.disk
        await eventually(lambda: reporter.sample() or reporter.disk is not before)
        disk = reporter.disk
        assert disk is not None
        grows = 12 * 2**30  # a GiB in two hours
        assert disk.full_in_days == (pytest.approx(disk.free_bytes / grows, rel=0.01) if is_embedded else None)
        told = Status.model_validate((await api.client.get("/api/v1/status")).json())
        assert told.limits["disk_full_in_days"] == 7


async def test_storage_tells_of_sizes_and_says_why_they_are_old() -> None:
    async with served() as api:
        await api.commit(1, 2, 3)
        sizes = {"rows": {"bpm": 10}, "size_bytes": {"bpm": 3000}}
        api.report.answered(replace(facts(KEPT), **sizes))
        told = Storage.model_validate((await api.client.get("/api/v1/storage")).json())
        group = told.groups["bpm"]
        assert (group.rows, group.readings, group.size_bytes) == (10, 15, 3000), "the account knows of more"
        assert (group.bytes_a_reading, group.measured_bytes_a_day) == (200.0, None)
        assert [partition.rows for partition in group.partitions] == [15]
        assert (told.database_is_here, told.full_in_days, told.partitions_problem) == (False, None, None)
        api.service.storage = StorageReport(api.logger.store, api.report, api.service.reporter)
        api.logger.store.fail_with(StoreUnavailable("no route to host"))
        told = Storage.model_validate((await api.client.get("/api/v1/storage")).json())
        assert (told.partitions_problem, told.partitions_age_s) == ("no route to host", None)
        assert told.groups["bpm"].size_bytes == 3000


async def test_storage_does_not_wait_for_a_database_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as api:
        await api.commit(1, 2, 3)
        goes_on = asyncio.Event()
        asked = 0

        async def hang() -> dict[str, tuple[Partition, ...]]:
            nonlocal asked
            asked += 1
            await goes_on.wait()
            return {"bpm": (Partition(name="p", start_ns=0, end_ns=1, rows=2, size_bytes=3, readings_bytes=2),)}

        monkeypatch.setattr(api.logger.store, "partitions", hang)
        answers = await asyncio.gather(*(api.client.get("/api/v1/storage") for _ in range(3)))
        for answer in answers:
            told = Storage.model_validate(answer.json())
            assert told.partitions_problem is not None
            assert told.partitions_problem.startswith("the database has not answered for ")
            assert told.groups["bpm"].readings == 15
        goes_on.set()
        told = Storage.model_validate((await api.client.get("/api/v1/storage")).json())
        assert (told.partitions_problem, len(told.groups["bpm"].partitions), asked) == (None, 1, 1)
        await api.service.storage.close()


async def test_documents_of_the_api_load_nothing_from_elsewhere() -> None:
    async with served() as api:
        page = (await api.client.get("/docs")).text
        assert "http://" not in page.replace(api.url, "")
        assert "https://" not in page
        paths = (await api.client.get("/openapi.json")).json()["paths"]
        assert {"/health", "/ready", "/api/v1/status", "/api/v1/groups/{group}/readings"} <= set(paths)


async def test_an_instrument_of_thousands_of_digits_is_none() -> None:
    async with served() as api:
        answer = await api.client.get("/api/v1/groups/bpm/readings", params={"instrument": "9" * 5000})
        assert answer.status_code == 404
