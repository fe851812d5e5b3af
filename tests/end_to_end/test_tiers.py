"""Tiers in a real daemon: old hours move beside the writing, and everybody who asks finds all of them."""

import asyncio
import json
import re
import signal
from pathlib import Path

import asyncpg
import httpx
import pytest

from tests.backends.postgresql.test_moving import SLOW, database, slow
from tests.end_to_end.test_dead_letters import CONFIGURATION, Daemon, logging_daemon
from tests.end_to_end.test_retention import EACH, HOURS, INSTRUMENTS, send
from tests.support.processes import triggerlog, until
from tests.support.sending import balanced
from tests.support.servers import server_folder

__all__ = ["database", "slow"]

pytestmark = pytest.mark.slow

TIERS = f"""
[[tiers]]
name = "fast"

[[tiers]]
name = "slow"
tablespace = "{SLOW}"
after_days = 0.1
"""
RETENTION = """
[retention]
keep_days = 0.25
check_every_s = 1
"""


def tiers(daemon: Daemon) -> dict:
    return daemon.get("/api/v1/status").json()["tiers"]


@pytest.mark.usefixtures("slow")
async def test_old_hours_move_and_all_of_them_are_found(
    postgresql_dsn: str, schema: str, tmp_path: Path, database: asyncpg.Connection
) -> None:
    await asyncio.to_thread(_old_hours_move, postgresql_dsn, schema, tmp_path)
    left = await database.fetchval(
        f"SELECT count(*) FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relname ~ '(copy|touched)$'"
    )
    assert left == 0


def _old_hours_move(dsn: str, schema: str, folder: Path) -> None:
    text = CONFIGURATION.format(folder=folder, dsn=dsn, schema=schema, layout="rows")
    text = text.replace("[database]", '[database]\npartition = "hour"')
    file = folder / "beam.toml"
    file.write_text(text)
    with logging_daemon(file) as daemon:
        for hour in range(HOURS):
            asyncio.run(send(daemon.port, EACH * hour, HOURS - hour))
        assert tiers(daemon) is None
    none = triggerlog("tiers", "plan", str(file))
    assert (none.returncode, "tiers: " in none.stderr, "has none" in none.stderr) == (1, True, True)
    file.write_text(text + TIERS)
    planned = json.loads(triggerlog("tiers", "plan", str(file), "--json").stdout)
    said = triggerlog("tiers", "plan", str(file)).stdout.splitlines()
    assert HOURS - 4 <= len(planned["moves"]) <= HOURS - 2
    assert [line.split()[1] for line in said if line.startswith("bpm ")] == [each["name"] for each in planned["moves"]]
    first = planned["moves"][0]["name"]
    by_hand = triggerlog("tiers", "move", str(file), "bpm", first, "slow")
    assert by_hand.stdout.startswith(f"{first} of bpm was moved from fast to slow: "), by_hand.stderr
    again = triggerlog("tiers", "move", str(file), "bpm", first, "slow")
    assert again.stdout == f"{first} of bpm lies in slow already.\n"
    listed = json.loads(triggerlog("tiers", "list", str(file), "--json").stdout)
    assert {each["name"]: each["tier"] for each in listed}[first] == "slow"
    assert [each["heat_s_a_day"] for each in (*listed, *planned["moves"])] == [0] * (
        len(listed) + len(planned["moves"])
    )
    assert all(", heat 0 s a day" in line for line in triggerlog("tiers", "list", str(file)).stdout.splitlines())
    _see_refusals(file, [each["name"] for each in listed if each["rows"]][-1])
    with logging_daemon(file) as daemon:
        until(lambda: tiers(daemon)["moved"] >= len(planned["moves"]) - 1, "hours to be moved", 120)
        asyncio.run(send(daemon.port, EACH * HOURS, 0))
        assert balanced(daemon.group())
        order = {"group": "bpm", "partition": first, "tier": "slow"}
        token = (folder / "state" / "api-token").read_text(encoding="utf-8").strip()
        headers = {"authorization": f"Bearer {token}"}
        for given, status in ((headers, 409), ({}, 401)):
            moved = httpx.post(
                f"{daemon.api}/api/v1/tiers/move", json=order, headers=given, verify=False, trust_env=False, timeout=60
            )
            assert moved.status_code == status, moved.text
        storage = daemon.get("/api/v1/storage").json()["groups"]["bpm"]["partitions"]
        there = {each["name"]: each["tier"] for each in storage}
        assert all(there[move["name"]] == "slow" for move in planned["moves"])
        assert "fast" in there.values()
        assert all(each["heat_s_a_day"] is not None for each in storage if each["tier"] is not None)
        assert (folder / "state" / "heat.json").exists()
        moved = re.search(r"^triggerlog_tier_moves_total (\S+)$", daemon.get("/metrics").text, re.MULTILINE)
        assert moved is not None
        assert float(moved[1]) == tiers(daemon)["moved"]
        newest = daemon.get("/api/v1/groups/bpm/readings?instrument=0&start_ns=0").json()
        assert newest["dropped_from_ns"] == []
        done = triggerlog("reconcile", str(file), "--daemon", daemon.api)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "tiers" not in daemon.alarms()
    output = folder / "bpm.csv"
    exported = triggerlog("export", str(file), "--group", "bpm", "--output", str(output))
    assert exported.returncode == 0, exported.stderr
    rows = [line for line in output.read_text().splitlines() if line and not line.startswith("#")]
    assert len(rows) - 1 == (HOURS + 1) * EACH * INSTRUMENTS
    # What lies there is dropped as any other.
    file.write_text(text + TIERS + RETENTION)
    with logging_daemon(file) as daemon:
        until(lambda: daemon.get("/api/v1/status").json()["retention"]["periods"] > 0, "hours to be dropped", 120)
        done = triggerlog("reconcile", str(file), "--daemon", daemon.api)
        assert done.returncode == 0, done.stdout + done.stderr


def _see_refusals(file: Path, newest: str) -> None:
    text = file.read_text()
    for arguments, line in (
        (("bmp", newest, "slow"), "GROUP: there is no group 'bmp' with partitions, but bpm"),
        (("bpm", "19700101", "slow"), "PARTITION: bpm has no partition '19700101' with readings; `list` names them"),
        (("bpm", newest, "tape"), "TIER: there is no tier 'tape', but fast, slow"),
        (("bpm", newest, "slow"), f"PARTITION: {newest} is one of the 2 newest of bpm, which never move"),
    ):
        refused = triggerlog("tiers", "move", str(file), *arguments)
        assert (refused.returncode, line in refused.stderr) == (1, True), refused.stderr
    for changed, line in (
        (text.replace(f'tablespace = "{SLOW}"', 'tablespace = "nowhere"'), "tiers[1].tablespace: "),
        (text.replace('name = "fast"', 'name = "fast"\nmax_gib = 1e-6'), "tiers[0].max_gib: tier fast takes "),
    ):
        file.write_text(changed)
        checked = triggerlog("check-config", str(file))
        assert checked.returncode == 1
        (only,) = (each for each in (checked.stdout + checked.stderr).splitlines() if line in each)
        assert "; " in only
        assert "Traceback" not in checked.stderr
    file.write_text(changed.replace("max_gib = 1e-6", "").replace(SLOW, "nowhere"))
    started = triggerlog("run", str(file))
    assert started.returncode != 0
    assert "tiers[1].tablespace: " in started.stderr
    assert "Traceback" not in started.stderr
    file.write_text(text)


BY_ACCESS = """
[[tiers]]
name = "fast"
max_gib = 100

[[tiers]]
name = "slow"
directory = "{slow}"

[tiering]
policy = "access"
half_life_days = {half_life}
"""
READER = """
[[readers.workloads]]
name = "from_anywhere"
kind = "window"
clients = 2
period_s = 0.1
stretch_s = 3600.0
"""


def heats(daemon: Daemon) -> dict[str, float]:
    """The heat of each partition of which something is there."""
    there = daemon.get("/api/v1/storage").json()["groups"]["bpm"]["partitions"]
    return {each["name"]: each["heat_s_a_day"] for each in there if each["rows"] and each["tier"] is not None}


def test_on_a_mariadb_hours_are_as_hot_as_our_own_readers_read_them(
    mariadb_dsn: str, schema: str, tmp_path: Path
) -> None:
    with server_folder() as folder:
        _hot_by_our_readers(mariadb_dsn, schema, tmp_path, folder / "slow")


def _hot_by_our_readers(dsn: str, schema: str, folder: Path, slow: Path) -> None:
    text = CONFIGURATION.format(folder=folder, dsn=dsn, schema=schema, layout="arrays")
    text = text.replace("[database]", '[database]\npartition = "hour"')
    file = folder / "beam.toml"
    file.write_text(text + BY_ACCESS.format(slow=slow, half_life=1.0))
    checked = triggerlog("check-config", str(file))
    assert checked.returncode == 0, checked.stderr
    with logging_daemon(file) as daemon:
        for hour in range(HOURS):
            asyncio.run(send(daemon.port, EACH * hour, HOURS - hour))
        listed = json.loads(triggerlog("tiers", "list", str(file), "--json").stdout)
        read, other = [each for each in listed if each["name"].isdigit() and each["rows"]][:2]
        for each in (read, other):
            by_hand = triggerlog("tiers", "move", str(file), "bpm", each["name"], "slow")
            assert "was moved from fast to slow" in by_hand.stdout, by_hand.stderr
        of = f"start_ns={read['start_ns']}&end_ns={read['end_ns']}"
        found = daemon.get(f"/api/v1/groups/bpm/readings?instrument=0&{of}").json()
        assert len(found["time_ns"]) == EACH
        # Other tiers are looked at at once.
        file.write_text(text + BY_ACCESS.format(slow=slow, half_life=2.0))
        daemon.run.process.send_signal(signal.SIGHUP)
        until(lambda: heats(daemon).get(read["name"]), "heat of what was asked for", 180, every_s=0.5)
        assert {name for name, hot in heats(daemon).items() if hot != 0} == {read["name"]}
        of_slow = re.compile(r'^triggerlog_tier_heat{tier="slow"} (\S+)$', re.MULTILINE)
        until(lambda: float(of_slow.findall(daemon.get("/metrics").text)[0]) > 0, "heat of the tier", every_s=0.5)
    # It was killed.
    listed = json.loads(triggerlog("tiers", "list", str(file), "--json").stdout)
    assert {each["name"] for each in listed if each["heat_s_a_day"] != 0} == {read["name"]}
    said = triggerlog("tiers", "plan", str(file)).stdout
    assert f"Next: bpm {read['name']} to fast, at " in said
    file.write_text(text + BY_ACCESS.format(slow=slow, half_life=2.0) + READER)
    with logging_daemon(file) as daemon:
        until(lambda: heats(daemon).get(read["name"]), "heat of before", 180, every_s=0.5)
        until(lambda: heats(daemon).get(other["name"]), "heat of what a workload reads", 300, every_s=0.5)
        until(lambda: not tiers(daemon)["moving"], "no move", 60)
        assert "tiers" not in daemon.alarms()
