"""`make test-crashes`: kill -9 of real daemons and servers, as often as it is told to, and a log of what that lost.

Every round has one system, of one database and one victim, which is killed some times; then all that was sent is looked
for. A round that fails is told and counted, its folder stays, and the next one begins.
"""

import argparse
import asyncio
import itertools
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from backends.kinds import KINDS
from backends.throwaway import ServerNotInstalled
from backends.throwaway.base import ThrowawayServer
from schemas.checking.dsn import Backend
from tests.support.crashing import Victim, kill_again_and_again
from tests.support.servers import server_folder, sweep_server_folders

KILLS_A_ROUND = 10
"""Kills of one system: then a new one begins, so that no fault is hidden behind an earlier one for long.

Nor does FerretDB, whose questions go through all that is stored, come to need minutes for what is in doubt.
"""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One system. seed: of the moments."""

    number: int
    backend: Backend
    victim: Victim
    kills: int
    seed: int

    def __str__(self) -> str:
        return f"round {self.number} ({self.backend}, {self.victim}, seed {self.seed})"


@dataclass(kw_only=True)
class Account:
    """What became of all rounds. faults: of the counts in the databases, by name."""

    kills: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    acknowledged: int = 0
    refused: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether every round ended, and nothing is wrong."""
        return not (self.failed or self.faults or self.refused or self.sent != self.acknowledged)

    def lines(self) -> Iterator[str]:
        """The end of the log."""
        yield f"kills: {self.kills.total()} ({', '.join(f'{what}: {n}' for what, n in sorted(self.kills.items()))})"
        yield f"readings sent: {self.sent}, acknowledged: {self.acknowledged}, refused: {self.refused}"
        counts = {name: self.faults[name] for name in ("lost", "doubled", *sorted(self.faults))}
        yield ", ".join(f"{name}: {count}" for name, count in counts.items())
        yield f"rounds that failed: {len(self.failed)}"
        yield from (f"  {line}" for line in self.failed)


class Log:
    """Lines for the terminal and for a file, each with its time."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write a text, line by line."""
        for line in text.splitlines():
            stamped = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {line}\n"
            for out in (sys.stdout, self._file):
                out.write(stamped)
                out.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill as often as the arguments say; returns the exit status: 1 where anything is wrong."""
    options = _parser().parse_args(arguments)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    sweep_server_folders()
    with options.log.open("w", encoding="utf-8") as file:
        log = Log(file)
        log.write(f"{options.kills} kills, seed {options.seed}")
        began = time.monotonic()
        account = Account()
        try:
            for each in rounds(options.kills, options.seed, options.only or list(Backend)):
                carry_out(each, account, log)
        finally:
            # Also where it is interrupted: what was proven until then.
            seconds, kills = time.monotonic() - began, max(1, account.kills.total())
            log.write(f"after {seconds:.0f} s, {seconds / kills:.2f} s a kill:")
            log.write("\n".join(account.lines()))
    return 0 if account.is_good else 1


def rounds(kills: int, seed: int, backends: Sequence[Backend]) -> Iterator[Round]:
    """Divide kills among databases and victims by turns."""
    rng = random.Random(seed)
    kinds = list(itertools.product(backends, Victim))
    most = min(KILLS_A_ROUND, -(-kills // len(kinds)))
    for number, (backend, victim) in enumerate(itertools.cycle(kinds), 1):
        if kills <= 0:
            return
        yield Round(number=number, backend=backend, victim=victim, kills=min(most, kills), seed=rng.randrange(2**31))
        kills -= most


def carry_out(each: Round, account: Account, log: Log) -> None:
    """Carry out a round, and put down what became of it; a server that is not on this machine is a failure, too."""
    folder = Path(tempfile.mkdtemp(prefix="triggerlog-crashes-"))
    try:
        with server_folder() as server_here:
            server = KINDS[each.backend].throwaway_server(server_here / "server")
            _kill(each, server, folder, account, log)
    except ServerNotInstalled as error:
        account.failed.append(f"{each}: {error}")
        log.write(account.failed[-1])
    except Exception as error:  # of whatever kind: the rounds after it are to be carried out
        account.failed.append(f"{each}: {type(error).__name__}: {error}; see {folder}")
        log.write(f"{account.failed[-1]}\n{traceback.format_exc()}")
    else:
        shutil.rmtree(folder)


def _kill(each: Round, server: ThrowawayServer, folder: Path, account: Account, log: Log) -> None:
    def said(number: int) -> None:
        account.kills[f"{each.backend} {each.victim}"] += 1
        log.write(f"kill {account.kills.total()}: {each}, {number} of {each.kills}")

    try:
        server.start()
        system, count = asyncio.run(kill_again_and_again(server, each.victim, each.kills, folder, each.seed, said))
    finally:
        server.stop()
    load = system.load
    account.sent += load.sent
    account.acknowledged += load.acknowledged
    account.refused += load.refused
    account.faults.update(count.faults)
    log.write(f"{each}: sent {load.sent}, acknowledged {load.acknowledged}, {asdict(count)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make test-crashes ARGS=...", description=__doc__)
    parser.add_argument("--kills", type=int, default=120, help="of daemons and servers together (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="of the moments")
    parser.add_argument("--log", type=Path, default=Path("build/crashes.log"), help="(default: %(default)s)")
    parser.add_argument("--only", type=Backend, action="append", choices=list(Backend), help="of these databases alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
