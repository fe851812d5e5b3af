"""`python -m benchmarks.studies.session_cost 72b9d9f`: what sessions and epochs cost the daemon.

Three contenders by turns, each a daemon process of its own with as many senders as instruments, all on one PostgreSQL:
the daemon of an earlier commit, which need not know sessions, with its own sender; this one without a session and an
epoch; and this one with both. Compared are the readings a second until all is acknowledged, and the processor time of
the daemon for a million readings, which other programs on the machine disturb less: they only ever add to it, so that
the least of the rounds says most.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from backends.throwaway.base import free_port
from benchmarks.servers import postgresql
from benchmarks.servers.base import Server
from benchmarks.servers.daemon_process import wait_until_running
from benchmarks.studies.earlier import ROOT, environment, tree_of

SENDERS = Path(__file__).with_name("session_senders.py")
CONFIG = """
logger = "bench"
state_dir = "{state}"
[[groups]]
name = "bpm"
count = {instruments}
channels = [{{ name = "top_in" }}, {{ name = "bot_in" }}, {{ name = "bot_out" }}, {{ name = "top_out" }}]
[[sources]]
kind = "tcp"
port = {port}
max_connections = 10000
max_connections_per_address = 10000
max_ungreeted = 10000
[database]
dsn = "{dsn}"
schema = "{schema}"
[api]
port = {api_port}
"""


@dataclass(kw_only=True)
class Contender:
    """One of those compared. options: of its senders. rates: readings a second. costs: seconds a million readings."""

    name: str
    tree: Path
    options: tuple[str, ...]
    pid: int
    port: int
    rates: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def measure(self, asked: argparse.Namespace, first: int) -> None:
        """Send triggers from `first` on, and note what that took."""
        done = subprocess.run(
            [
                *(sys.executable, str(SENDERS), str(self.port), *self.options, "--daemon", str(self.pid)),
                *("--senders", str(asked.sessions)),
                *("--triggers", str(asked.triggers), "--first", str(first), "--together", str(asked.together)),
                *("--rate", str(asked.rate)),
            ],
            check=True,
            capture_output=True,
            text=True,
            env=environment(self.tree),
        )
        found = json.loads(done.stdout)
        self.rates.append(found["readings"] / found["seconds"])
        self.costs.append(1e6 * found["cpu_s"] / found["readings"])


@contextlib.contextmanager
def _contender(
    name: str, tree: Path, options: tuple[str, ...], server: Server, instruments: int
) -> Iterator[Contender]:
    schema = server.new_name()
    folder = server.folder / schema
    folder.mkdir()
    port, api_port = free_port(), free_port()
    config, log = folder / "bench.toml", folder / "daemon.log"
    config.write_text(
        CONFIG.format(
            state=folder / "state",
            instruments=instruments,
            port=port,
            dsn=server.dsn,
            schema=schema,
            api_port=api_port,
        )
    )
    command = [sys.executable, "-m", "daemon", "run", str(config)]
    with log.open("wb") as output, subprocess.Popen(command, stderr=output, env=environment(tree)) as process:
        try:
            wait_until_running(process, f"http://127.0.0.1:{api_port}", log)
            yield Contender(name=name, tree=tree, options=options, pid=process.pid, port=port)
        finally:
            process.terminate()


def _line(contender: Contender, first: Contender) -> str:
    """Medians, and the ratios to the first contender: their medians with the least and the most; of the least cost."""
    slower = [mine / its for mine, its in zip(contender.rates, first.rates, strict=True)]
    costlier = [mine / its for mine, its in zip(contender.costs, first.costs, strict=True)]
    return (
        f"{contender.name:<24}{statistics.median(contender.rates):>11,.0f}{statistics.median(contender.costs):>9.2f}"
        f"   {_spread(slower)}   {_spread(costlier)}   "
        f"{min(contender.costs):.2f} ({min(contender.costs) / min(first.costs):.3f})\n"
    )


def _spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What sessions and epochs cost, against an earlier commit.")
    parser.add_argument("commit")
    parser.add_argument("--sessions", type=int, default=120, help="senders, and instruments")
    parser.add_argument("--readings", type=int, default=600_000, help="a round, about")
    parser.add_argument("--together", type=int, default=16, help="triggers in one block of a sender")
    parser.add_argument("--rate", type=float, default=0.0, help="triggers a second; 0 is as fast as possible")
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    asked.triggers = max(1, asked.readings // (asked.sessions * asked.together)) * asked.together
    with (
        tempfile.TemporaryDirectory() as name,
        postgresql.throwaway(Path(name)) as server,
        contextlib.ExitStack() as on,
    ):
        earlier = tree_of(asked.commit, Path(name))
        contenders = [
            on.enter_context(_contender(title, tree, options, server, asked.sessions))
            for title, tree, options in (
                (asked.commit, earlier, ()),
                ("no session, no epoch", ROOT, ("--plain",)),
                ("session and epoch", ROOT, ("--epoch", "1")),
            )
        ]
        first = 1
        for turn in range(asked.rounds + 1):
            # The first round warms up. The order is turned round each time: nobody always comes after the same one.
            for contender in contenders if turn % 2 else reversed(contenders):
                contender.measure(asked, first)
            first += asked.triggers
        for contender in contenders:
            del contender.rates[0], contender.costs[0]
    sys.stdout.write(
        f"{asked.sessions} senders, {asked.rounds} rounds of {asked.sessions * asked.triggers:,} readings\n"
        f"{'':<24}{'readings/s':>11}{'CPU s/M':>9}   {'rate, ratio':<22}   {'CPU, ratio':<22}   CPU, least\n"
    )
    for contender in contenders:
        sys.stdout.write(_line(contender, contenders[0]))


if __name__ == "__main__":
    main()
