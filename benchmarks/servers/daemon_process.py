"""A daemon in a process of its own, as `triggerlog run` starts it, writing into the benchmarks' server."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from backends.columns.partitions import PartitionUnit
from backends.throwaway.base import free_port
from benchmarks.load.workload import CHANNELS, GROUP, INSTRUMENTS, LOGGER
from benchmarks.servers.base import Server
from schemas.api.status import GroupStatus, Status
from schemas.batch import Durability, Layout
from schemas.config import JournalConfig, TcpSource
from schemas.states import DaemonState

CONFIGURATION = """\
logger = "{logger}"
state_dir = "{state}"

[[groups]]
name = "{group}"
count = {instruments}
channels = [{channels}]

[[sources]]
kind = "tcp"
port = {port}
acknowledge_every_ms = {acknowledge_every_ms}

[database]
dsn = "{dsn}"
schema = "{schema}"
layout = "{layout}"
durability = "{durability}"
partition = "{partition}"

[journal]
max_mib = {journal_mib}

[api]
port = {api_port}
"""
STATUS = "/api/v1/status"
READY_S = 60.0
END_S = 60.0
LOOK_S = 0.01


class DaemonFailed(Exception):
    """The daemon ended, or did not do what it was waited for; the message has the end of its log."""


class DaemonProcess:
    """A running daemon. schema: where it writes. port: where it takes readings. api: the URL of its API."""

    def __init__(self, process: psutil.Popen, schema: str, log: Path, port: int, api: str, token: str) -> None:
        self.schema = schema
        self.port = port
        self.api = api
        self.process: psutil.Process = process
        self._log = log
        self._client = httpx.Client(base_url=api, trust_env=False, headers={"Authorization": f"Bearer {token}"})

    def status(self) -> Status:
        """The status, as the API gives it."""
        return Status.model_validate_json(self._client.get(STATUS).raise_for_status().content)

    def group(self) -> GroupStatus:
        """The status of its one group."""
        return self.status().groups[GROUP.name]

    def open_run(self) -> None:
        """Announce that trigger numbers start again."""
        self.order("/api/v1/run")

    def order(self, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Tell it to change something."""
        self._client.post(path, json=body).raise_for_status()

    def drop(self, path: str) -> None:
        """Tell it to do without something."""
        self._client.delete(path).raise_for_status()

    def cpu_s(self) -> float:
        """CPU time this process has used, user and system, in seconds; that of the server is not in it."""
        return cpu_s(self.process)

    def memory_mib(self) -> float:
        """Resident memory, in MiB."""
        return float(self.process.memory_info().rss) / 2**20

    def close(self) -> None:
        """Close the client of the API."""
        self._client.close()


@contextmanager
def running_daemon(
    server: Server,
    layout: Layout,
    *,
    durability: Durability = Durability.SYNC,
    acknowledge_every_ms: float = TcpSource(kind="tcp").acknowledge_every_ms,
    journal_mib: float = JournalConfig().max_mib,
    partition: PartitionUnit = "day",
) -> Iterator[DaemonProcess]:
    """Run a daemon with a fresh schema, with all settings as they come but those in CONFIGURATION.

    Raises:
        DaemonFailed: it did not start, or did not end well.
    """
    schema = server.new_name()
    folder = server.folder / schema
    folder.mkdir()
    file, log = folder / "bench.toml", folder / "daemon.log"
    file.touch(0o600)  # there may be a password in the DSN
    port, api_port = free_port(), free_port()
    file.write_text(
        CONFIGURATION.format(
            logger=LOGGER,
            state=folder / "state",
            port=port,
            api_port=api_port,
            group=GROUP.name,
            instruments=INSTRUMENTS,
            channels=", ".join(f'{{ name = "{name}", unit = "mm", dtype = "float64" }}' for name in CHANNELS),
            acknowledge_every_ms=acknowledge_every_ms,
            dsn=server.dsn,
            schema=schema,
            layout=layout.value,
            durability=durability.value,
            partition=partition,
            journal_mib=journal_mib,
        )
    )
    with log.open("wb") as output:
        process = psutil.Popen([sys.executable, "-m", "daemon", "run", str(file)], stdout=output, stderr=output)
    try:
        api = f"http://127.0.0.1:{api_port}"
        wait_until_running(process, api, log)
        token = (folder / "state" / "api-token").read_text(encoding="utf-8").strip()
        daemon = DaemonProcess(process, schema, log, port, api, token)
        try:
            yield daemon
        except Exception as error:
            error.add_note(f"the log of the daemon on {server.backend} ends with: {_end_of(log)}")
            raise
        finally:
            daemon.close()
        process.terminate()
        if process.wait(END_S):
            raise DaemonFailed(f"the daemon ended with {process.returncode}: {_end_of(log)}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def cpu_s(process: psutil.Process) -> float:
    """CPU time a process has used, user and system, in seconds."""
    times = process.cpu_times()
    return float(times.user + times.system)


def until(holds: Callable[[], bool], what: str, within_s: float) -> None:
    """Look until something holds that only a daemon's status tells.

    Raises:
        DaemonFailed: it does not within that time; the message says what was waited for.
    """
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise DaemonFailed(f"not within {within_s:g} s: {what}")
        time.sleep(LOOK_S)


def wait_until_running(process: subprocess.Popen[bytes], api: str, log: Path) -> None:
    """Wait until the daemon with this API takes readings.

    Raises:
        DaemonFailed: it ended, or takes none.
    """
    with httpx.Client(base_url=api, trust_env=False) as client:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise DaemonFailed(f"the daemon ended with {process.returncode}: {_end_of(log)}")
            with suppress(httpx.TransportError):  # its API does not listen yet
                answer = client.get(STATUS).raise_for_status()
                if answer.json()["state"] == DaemonState.RUNNING:  # the rest may be an earlier daemon's
                    return
            time.sleep(LOOK_S)
    raise DaemonFailed(f"the daemon takes no readings after {READY_S:g} s: {_end_of(log)}")


def _end_of(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-3:]) or "(it is empty)"
