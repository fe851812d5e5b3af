"""A daemon that is stopped and goes on: it says so, and calls nobody else away."""

import signal
import time
from pathlib import Path

import psycopg
import pytest

from daemon.core.monitoring.event_log import read_events
from tests.support.processes import Daemon, free_port, here, running, until

CONFIG = """
state_dir = "{state}"
[[groups]]
name = "bpm"
count = 4
channels = [{{ name = "x" }}]
[[sources]]
kind = "tcp"
port = 0
[assembly]
timeout_ms = 500
[database]
dsn = "{dsn}"
schema = "{schema}"
[api]
port = {api}
"""
STOPPED_S = 12


def is_waiting(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return bool(found and found[0])


@pytest.mark.slow
def test_a_standstill_is_told_and_no_outage(tmp_path: Path, postgresql_dsn: str, schema: str) -> None:
    file = tmp_path / "beam.toml"
    state = tmp_path / "state"
    file.write_text(CONFIG.format(state=state, dsn=postgresql_dsn, schema=schema, api=free_port()))
    with running("run", str(file)) as run:
        daemon = Daemon(run, file)
        with running("simulate", str(file), "--port", str(daemon.readings), "--rate", "50") as sender:
            until(lambda: daemon.status()["groups"]["bpm"]["triggers"]["committed"] > 100, "it commits")
            with psycopg.connect(postgresql_dsn) as held:  # what it commits is under way while it stands still
                held.execute(f"LOCK TABLE {schema}.bpm_ledger")
                until(lambda: is_waiting(postgresql_dsn), "a commit waits for the table")
                run.process.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_S)
            run.process.send_signal(signal.SIGCONT)
            before = daemon.status()["groups"]["bpm"]["triggers"]["committed"]
            until(lambda: daemon.status()["groups"]["bpm"]["triggers"]["committed"] > before + 300, "it commits again")
            assert sender.end(signal.SIGINT) == 0, sender.said
        assert run.end() == 0, run.said
    said = [event.text for event in read_events(state)]
    assert sum(text.startswith("this process stood still for 1") for text in said) == 1, said
    assert not [text for text in said if "away" in text or "silent" in text], said
    assert here("reconcile", str(file)).returncode == 0
