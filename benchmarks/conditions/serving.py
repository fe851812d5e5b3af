"""The server of conditions under requests: how many a second, how long each takes, and what it costs of the CPU."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.conditions.asking import ask, ask_by
from benchmarks.rounds.rounds import Round
from benchmarks.rounds.summary import percentiles
from benchmarks.servers.base import Server
from daemon.conditions.servers import ConditionsServers
from daemon.core.configuration import load_config
from daemon.core.monitoring.events import Events
from schemas.states import ConditionsState

MEMORY_MIB = 3072
"""The worst case takes about a third of it."""
START_S = 300.0
POLL_S = 0.1

CONFIG = """
[[groups]]
name = "none"
count = 1
channels = [{{ name = "none", dtype = "float64" }}]

[database]
dsn = "{dsn}"
command_timeout_s = 60.0

[conditions]
port = 0
schema = "{schema}"
memory_mib = {memory_mib}
"""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """A server that runs: its port, its process, and the folder of the database's server, None of a user's own."""

    servers: ConditionsServers
    port: int
    process: psutil.Process
    database: Path | None

    @property
    def memory_mib(self) -> float:
        """Of the process, resident."""
        return float(self.process.memory_info().rss) / 2**20

    async def in_memory(self, tag: str, tags: int) -> float:
        """Wait until a locked tag is in memory, beside others; return the seconds from its first request on."""
        began = time.monotonic()
        while self.servers.status().tags_in_memory < tags:
            if time.monotonic() - began > START_S:
                raise TimeoutError(f"{tag} is not in memory after {START_S:g} s")
            await asyncio.to_thread(ask, self.port, f"/api/cdb_rest/payloadiovs/?gtName={tag}&majorIOV=1&minorIOV=1")
            await asyncio.sleep(POLL_S)
        return time.monotonic() - began

    async def round(self, tag: str, clients: int, seconds: float, seed: int) -> Round:
        """Ask for random keys of a tag; the seconds of the round are those of one request of all clients."""
        before = self._cpu()
        begin, end, times = await asyncio.to_thread(ask_by, clients, self.port, tag, seconds, seed)
        spent, found = _difference(before, self._cpu()), percentiles(1e3 * np.asarray(times))
        rate = len(times) / (end - begin)
        facts = {"requests a second": rate, "p50 ms": found.p50, "p99 ms": found.p99, "least ms": 1e3 * min(times)}
        facts |= {f"{name} CPU ms": 1e3 * each / len(times) for name, each in spent.items()}
        return Round(seconds=1 / rate, facts=facts)

    def _cpu(self) -> dict[str, dict[int, float]]:
        found = {"server": {self.process.pid: _cpu_s(self.process)}}
        if self.database is not None:
            found["database"] = {each.pid: _cpu_s(each) for each in _processes_in(self.database)}
        return found


@asynccontextmanager
async def serving(server: Server, schema: str) -> AsyncIterator[Serving]:
    """Run one process of the server of conditions on what is in a schema."""
    folder = server.folder / schema
    folder.mkdir()
    file = folder / "conditions.toml"
    file.write_text(CONFIG.format(dsn=server.dsn, schema=schema, memory_mib=MEMORY_MIB))
    others = {each.pid for each in psutil.Process().children()}
    servers = ConditionsServers(load_config(file), Events())
    servers.start()
    try:
        async with asyncio.timeout(START_S):
            while servers.status().state is not ConditionsState.RUNNING:  # noqa: ASYNC110 - it has no event for it
                await asyncio.sleep(POLL_S)
        (process,) = (
            each
            for each in psutil.Process().children()
            if each.pid not in others and "daemon.conditions" in each.cmdline()
        )
        yield Serving(
            servers=servers,
            port=int(servers.address.rpartition(":")[2]),
            process=process,
            database=server.folder if server.own else None,
        )
    finally:
        await servers.end()


def _processes_in(folder: Path) -> list[psutil.Process]:
    """The processes of a server that keeps its files under a folder; those of PostgreSQL work in it."""
    found = []
    for each in psutil.process_iter():
        try:
            words = each.cmdline()
            is_client = "daemon.conditions" in words or each.pid == psutil.Process().pid
            if not is_client and (str(folder) in " ".join(words) or each.cwd().startswith(str(folder))):
                found.append(each)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it has just ended, or is another account's
    return found


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _difference(
    before: Mapping[str, Mapping[int, float]], after: Mapping[str, Mapping[int, float]]
) -> dict[str, float]:
    """Seconds by name; what began meanwhile counts whole, and what has ended not at all."""
    return {
        name: sum(max(0.0, each - before[name].get(pid, 0.0)) for pid, each in found.items())
        for name, found in after.items()
    }
