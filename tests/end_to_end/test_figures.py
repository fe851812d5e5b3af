"""Figures are another failure domain: whatever fails in them, readings are committed and the daemon ends in order."""

import asyncio
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import httpx

from daemon.client.sender import Sender
from tests.daemon.test_service import Daemon, configured, expected, make, stored
from tests.support.processes import Running, free_port, until

BROKEN = """
import asyncio, errno, os, sys
import psutil
from daemon.core.monitoring.event_log import EventLog
from daemon.core.process.kept_file import KeptFile
from daemon.telemetry.status import reporter
from daemon.telemetry.status.reporter import Reporter
from daemon.telemetry.store import StoreReport
from daemon.workloads.workloads import Workloads
from daemon.alarms.board import AlarmBoard
from daemon.marks.keeper import MarkKeeper

armed = os.environ["ARMED"]

def failing(of, name, error):
    whole = getattr(of, name)
    def fails(*arguments, **named):
        if os.path.exists(armed):
            raise error
        return whole(*arguments, **named)
    setattr(of, name, fails)

no_room, no_files = OSError(errno.ENOSPC, "no space"), OSError(errno.EMFILE, "too many files")
failing(psutil.Process, "cpu_percent", no_files)
failing(psutil.Process, "memory_info", psutil.AccessDenied(1))
failing(reporter, "clock_is_synchronised", RuntimeError("no clock"))
failing(reporter, "_disk", OverflowError("no file system"))
failing(EventLog, "_append", no_room)
failing(KeptFile, "save", no_room)
failing(StoreReport, "status", KeyError("durability"))
failing(StoreReport, "answered", ZeroDivisionError("growth"))
failing(Workloads, "status", ValueError("workloads"))
failing(Workloads, "end", ValueError("workloads do not end"))
failing(AlarmBoard, "update", TypeError("alarms"))
failing(MarkKeeper, "status", no_room)
failing(Reporter, "_group", ArithmeticError("group"))
failing(Reporter, "_rates_of", ArithmeticError("rates"))
import daemon.__main__
"""


class Broken(Running):
    """A daemon whose figures fail as soon as a file is there."""

    def __init__(self, file: Path, armed: Path) -> None:
        command = [sys.executable, "-c", BROKEN, "run", str(file)]
        environment = {**os.environ, "ARMED": str(armed)}
        self.process = subprocess.Popen(  # type: ignore[assignment]
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self.said = ""
        self._reading = threading.Thread(target=self._read)
        self._reading.start()


async def test_with_no_descriptor_left_readings_are_committed_and_the_daemon_ends_in_order(
    tmp_path: Path, postgresql_dsn: str, schema: str
) -> None:
    schema = f"figures_{schema}"
    with configured(tmp_path, postgresql_dsn, "rows", free_port(), schema) as file:
        run = Running("run", str(file))
        try:
            daemon = await asyncio.to_thread(Daemon, run)
            pid = run.process.pid
            async with await Sender.connect("127.0.0.1", daemon.port, "bpm") as sender:
                await sender.send(make(sender, 1))
                await sender.drain_acknowledged(60)
                # From here on no file and no socket can be opened: connections to the API take what is left.
                used = await asyncio.to_thread(lambda: len(list(Path(f"/proc/{pid}/fd").iterdir())))
                _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 4, hard))
                held = [
                    await asyncio.open_connection("127.0.0.1", int(daemon.api.rpartition(":")[2])) for _ in range(64)
                ]
                await asyncio.to_thread(run.until_said, r"processor: not available \(too many open files\)")
                for trigger in range(2, 101):
                    await sender.send(make(sender, trigger))
                await sender.drain_acknowledged(60)
                assert sender.acknowledged == 1200
                for _, writer in held:
                    writer.close()
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 64, hard))
                await asyncio.to_thread(until, lambda: daemon.status()["unavailable"] == {}, "all is available again")
                assert daemon.ready() == 200
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, hard))
                for trigger in range(101, 121):
                    await sender.send(make(sender, trigger))
                await sender.drain_acknowledged(60)
            assert run.end() == 0, run.said[-3000:]
            assert run.said.count("processor: not available") <= 2, "an event, and not one a second"
        finally:
            run.close()
    assert await stored(postgresql_dsn, schema) == expected(120)


async def test_figures_that_fail_are_told_once_and_break_neither_the_logging_nor_the_end(
    tmp_path: Path, postgresql_dsn: str, schema: str
) -> None:
    schema, armed = f"broken_{schema}", tmp_path / "armed"
    with configured(tmp_path, postgresql_dsn, "rows", free_port(), schema) as file:
        run = Broken(file, armed)
        try:
            daemon = await asyncio.to_thread(Daemon, run)
            async with await Sender.connect("127.0.0.1", daemon.port, "bpm") as sender:
                await sender.send(make(sender, 1))
                await sender.drain_acknowledged(60)
                armed.touch()
                names = {"processor", "memory", "clock", "disk", "store watch", "alarms", "rates of group bpm"}
                names |= {f"status of {each}" for each in ("store", "workloads", "marks", "group bpm")}
                await asyncio.to_thread(
                    until, lambda: names <= daemon.status()["unavailable"].keys(), "all of them have failed"
                )
                status = daemon.status()
                assert status["unavailable"]["processor"].startswith("too many open files (")
                assert status["unavailable"]["status of workloads"].startswith("ValueError: workloads (")
                health = await asyncio.to_thread(httpx.get, f"{daemon.api}/health", trust_env=False)
                assert health.status_code == 200
                for trigger in range(2, 51):
                    await sender.send(make(sender, trigger))
                await sender.drain_acknowledged(60)
                assert sender.acknowledged == 600
            assert run.end() == 0, run.said[-3000:]
            for name in names:
                assert run.said.count(f" {name}: not available") == 1
        finally:
            run.close()
    assert await stored(postgresql_dsn, schema) == expected(50)
