"""The desynchronisation alarm in a real daemon, with `triggerlog simulate` as the instruments."""

import asyncio
from pathlib import Path

import httpx
import pytest

from daemon.tools.simulate import SimulateSettings, Step, simulate
from tests.end_to_end.test_simulate_to_database import Daemon, running
from tests.support.pipelines import eventually, logging_to_memory
from tests.support.processes import triggerlog
from tests.support.readings import make_group, whole

RATE = 20.0


async def test_a_slip_through_a_pipeline_is_in_its_events_and_states() -> None:
    group = make_group(5)
    async with logging_to_memory(group) as logger:
        pipeline = logger.pipelines["bpm"]
        for step in range(80):
            block = whole_with_slip(group, step)
            pipeline.receive(block)
            if step % 10 == 9:
                pipeline.look()
        await eventually(lambda: pipeline.look() or pipeline.instruments.figures(0).findings, "it is found")
        assert pipeline.instruments.figures(0).states[3] == "d"
        (event,) = [event for event in logger.events.newest() if "bpm_003" in event.text]
        assert event.severity == "warning"
        assert event.text.startswith(
            "group bpm: bpm_003 is 2 triggers behind its timestamps (+20.0 ms) since trigger 38"
        )


def whole_with_slip(group, step: int):
    """One trigger; instrument 3 is 2 behind from the 40th on."""
    block = whole(group, step)
    if step >= 40:
        block["trigger"][3] -= 2
    return block


async def status_of(daemon: Daemon) -> dict:
    """What the status says of the group."""
    async with httpx.AsyncClient(base_url=daemon.api, verify=False, trust_env=False, timeout=60) as client:
        return (await client.get("/api/v1/status")).json()["groups"]["bpm"]


@pytest.mark.slow
async def test_simulated_slips_and_clock_steps_are_flagged_by_a_daemon(tmp_path: Path, postgresql_dsn, schema) -> None:
    async with running(tmp_path, postgresql_dsn, schema) as daemon:
        settings = SimulateSettings(
            port=daemon.tcp,
            rate=RATE,
            duration_s=120.0,
            finish_timeout_s=1.0,
            slips=(Step(instrument=7, size=-1, from_s=3.0), Step(instrument=30, size=12, from_s=3.0)),
            clock_steps=(Step(instrument=9, size=37.0, from_s=3.0),),
        )
        stop = asyncio.Event()
        sending = asyncio.create_task(simulate(settings, stop=stop))
        try:
            async with asyncio.timeout(60):
                while (group := await status_of(daemon))["desynchronised_now"] < 3:
                    assert not sending.done()
                    await asyncio.sleep(0.05)
        finally:
            stop.set()
            await sending
        async with httpx.AsyncClient(base_url=daemon.api, verify=False, trust_env=False, timeout=60) as client:
            status, metrics = (await client.get("/api/v1/status")).json(), (await client.get("/metrics")).text
        shown = await asyncio.to_thread(triggerlog, "status", "--once", "--daemon", daemon.api)
    found = {slip["instrument"]: slip for slip in group["slips"]}
    assert set(found) == {"bpm_007", "bpm_009", "bpm_030"}
    assert [found[name]["triggers"] for name in sorted(found)] == [-1, 0, 12]
    assert found["bpm_007"]["offset_ms"] == pytest.approx(1e3 / RATE, abs=1)
    assert found["bpm_009"]["offset_ms"] == pytest.approx(37.0, abs=1)
    # Triggers 1 to 60 lie before the third second.
    since = 61
    assert [found[name]["since_trigger"] for name in sorted(found)] == [since - 1, since, since + 12]
    assert (group["states"][7], group["states"][9], group["states"][30]) == ("d", "d", "d")
    assert set(group["states"]) <= set("odlm")
    said = " ".join(event["text"] for event in status["events"])
    assert all(name in said for name in found)
    assert 'triggerlog_slip_triggers{group="bpm",instrument="bpm_007"} -1.0' in metrics
    assert 'triggerlog_instruments_desynchronised{group="bpm"} 3.0' in metrics
    assert "out of step" in shown.stdout
    assert "bpm_007" in shown.stdout


@pytest.mark.slow
async def test_faults_of_the_network_are_no_slip(tmp_path: Path, postgresql_dsn, schema) -> None:
    async with running(tmp_path, postgresql_dsn, schema) as daemon:
        settings = SimulateSettings(
            port=daemon.tcp,
            rate=100.0,
            triggers=600,
            connections=20,
            jitter_ms=40.0,
            missing=0.05,
            duplicated=0.05,
            late=0.05,
            out_of_order=0.05,
            restart_after=250,
            restart_pause_ms=200.0,
        )
        await simulate(settings)
        assert (await status_of(daemon))["slips"] == []
        said = await daemon.end()
    assert "out of step" not in said
    assert "in step" not in said
    assert "slipped" not in said
