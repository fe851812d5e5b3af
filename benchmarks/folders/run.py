"""`python -m benchmarks.folders.run` (`make bench-folders`): measure by turns, keep JSON, and write the report."""

import argparse
import asyncio
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from backends.base import StoreError
from benchmarks.folders.measuring import RunFailed, counted, measured
from benchmarks.folders.plan import (
    ARRAYS,
    FIVE_FOLD,
    LAYOUTS,
    OURS,
    PAPERS,
    PARTS,
    QUICK,
    WRITING,
    Counted,
    Measured,
    Plan,
    Record,
    Writing,
    conditions,
)
from benchmarks.folders.report import report
from benchmarks.report.model import number as shown
from benchmarks.report.render import render, text
from benchmarks.rounds.rounds import begin, print_line
from benchmarks.servers.small import running
from daemon.api.workloads import SNAPSHOTS
from daemon.client.api.reach import Reach
from daemon.core.process.processor import machine
from daemon.tools.workloads.experiment import GROUP, Throwaway, throwaway_daemon
from schemas.api.snapshots import SnapshotsStatus
from schemas.api.status import GroupStatus, Status
from schemas.checking.dsn import Backend
from schemas.states import SnapshotsPhase

# --- writing ---------------------------------------------------------------------------------------------------------

ALONE = "alone"
BLOCK_S = 20.0
"""The latencies of a status are of its last ten seconds."""
LOOK_S = 0.5
LOAD_S = 600.0
RATE, INSTRUMENTS = 100.0, 120
READERS = {**FIVE_FOLD, "intervals": 12, "clients": 20, "cycles": 1000, "cliff": False}


def writing(backend: Backend, plan: Plan, folder: Path) -> list[Writing]:
    """Blocks of each condition, by turns."""
    folder.mkdir(parents=True)
    return asyncio.run(_writing(backend, plan, folder))


async def _writing(backend: Backend, plan: Plan, folder: Path) -> list[Writing]:
    setup = Throwaway(backend=backend, rate=RATE, instruments=INSTRUMENTS, fill=100)
    found: list[Writing] = []
    async with (
        throwaway_daemon(setup, folder, lambda text: print_line(f"  {text}"), asyncio.Event()) as reach,
        _client(reach) as client,
    ):
        for number in range(plan.rounds):
            for name, readers in _conditions(backend, plan):
                begin("folders", f"writing, {backend}, {name}, round {number + 1} of {plan.rounds}")
                each = await _block(client, backend, name, number, readers)
                found.append(each)
                p99 = "?" if each.p99_ms is None else shown(each.p99_ms)
                print_line(f"  {backend} {name}, round {number + 1}: {each.rate:.1f} triggers/s, p99 {p99} ms")
    return found


def _conditions(backend: Backend, plan: Plan) -> Iterator[tuple[str, dict[str, Any] | None]]:
    yield ALONE, None
    for layout in LAYOUTS[backend]:
        if layout in (OURS, ARRAYS, PAPERS):
            order = "channel" if layout.by_channel else "time"
            yield f"with {layout}", {**READERS, "layout": layout, "order": order, **(plan.small or {}), "cycles": 1000}


def _client(reach: Reach) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=reach.url, trust_env=False, timeout=60, headers={"authorization": f"Bearer {reach.token}"}
    )


async def _block(
    client: httpx.AsyncClient, backend: Backend, name: str, number: int, readers: dict[str, Any] | None
) -> Writing:
    """Have readers read, or nobody; figures of the writing over a block."""
    if readers is not None:
        (await client.post(SNAPSHOTS, json=readers)).raise_for_status()
        await _until(client, lambda each: each.phase is SnapshotsPhase.READING or not each.is_active)
    first = await _group(client)
    await asyncio.sleep(BLOCK_S)
    last = await _group(client)
    efficiency = None
    if readers is not None:
        status = SnapshotsStatus.model_validate_json((await client.delete(SNAPSHOTS)).raise_for_status().content)
        efficiency = status.figures.efficiency
        await _until(client, lambda each: not each.is_active)
    return Writing(
        backend=backend,
        name=name,
        round=number,
        rate=(last.triggers.committed - first.triggers.committed) / BLOCK_S,
        p50_ms=last.commit_ms.p50,
        p99_ms=last.commit_ms.p99,
        efficiency=efficiency,
    )


async def _until(client: httpx.AsyncClient, holds: Callable[[SnapshotsStatus], bool]) -> None:
    """Look until something holds that only the status tells."""
    async with asyncio.timeout(LOAD_S):
        while not holds(await _snapshots(client)):  # noqa: ASYNC110 - it is another process that does it
            await asyncio.sleep(LOOK_S)


async def _snapshots(client: httpx.AsyncClient) -> SnapshotsStatus:
    found = (await _status(client)).snapshots
    assert found is not None
    return found


async def _group(client: httpx.AsyncClient) -> GroupStatus:
    return (await _status(client)).groups[GROUP]


async def _status(client: httpx.AsyncClient) -> Status:
    return Status.model_validate_json((await client.get("/api/v1/status")).raise_for_status().content)


FOLDER = Path(__file__).parents[2] / "build" / "folders"
EPILOG = """\
examples:
  python -m benchmarks.folders.run                                all of it, on each database (make bench-folders)
  python -m benchmarks.folders.run --quick                        tries the benchmark itself; its figures mean little
  python -m benchmarks.folders.run --only efficiency --backend postgresql
  python -m benchmarks.folders.run --only cliff --cache 48
  python -m benchmarks.folders.run --only chunks -o FILE.json     adds this part to the figures of FILE.json
  python -m benchmarks.folders FILE.json                          the report of these figures again
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 1 when something did not do what was asked."""
    options = _options(arguments)
    # As Ctrl-C: servers are stopped, and what they wrote is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    output: Path = options.output or FOLDER / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = (options.folder or output.parent).absolute() / f"servers-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        for part in options.only:
            for backend in options.backend:
                found = _measure(part, backend, options, folder)
                if output.exists():
                    found = Record.model_validate_json(output.read_bytes()).and_then(found)
                _write(found, output)
    except (StoreError, RunFailed) as error:
        sys.stderr.write(f"triggerlog: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"triggerlog: stopped; {output} has what was measured until then\n")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print_line(f"figures    {output}")
    print_line(f"report     {output.with_suffix('.html')}, {output.with_suffix('.md')}")
    return 0


def _measure(part: str, backend: Backend, options: argparse.Namespace, folder: Path) -> Record:
    """One part on one database, with servers of its own."""
    plan = QUICK if options.quick else Plan(rounds=options.rounds)
    if options.cache is not None:
        plan = replace(plan, efficiency_cache_mib=options.cache, cliff_cache_mib=options.cache)
    date, small = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), plan.servers(part)
    done: list[Measured] = []
    figures: list[Counted] = []
    written: list[Writing] = []
    notes: list[str] = []
    wanted = conditions(part, backend, plan)
    print_line(f"{part} on {backend}: {len(wanted)} conditions")
    if part == WRITING:
        written = writing(backend, plan, folder / "writing")
        shutil.rmtree(folder / "writing", ignore_errors=True)
    elif wanted:
        with running(folder / f"{part}-{backend}", {backend: backend}, print_line, small) as found:
            notes = found.notes
            if backend in found.servers:
                done += measured(found, wanted, plan)
                figures += counted(found, done)
    return Record(
        date=date,
        machine=machine(),
        commands={part: f"python -m benchmarks.folders.run --only {part}{_arguments(options)}"},
        caches={part: small.cache_mib},
        servers={each.backend: f"{each.run.product} {each.run.version}" for each in done[:1]},
        measured=tuple(done),
        counted=tuple(figures),
        writing=tuple(written),
        notes=tuple(notes),
    )


def _write(record: Record, output: Path) -> None:
    output.write_text(record.model_dump_json(by_alias=True), encoding="utf-8")
    output.with_suffix(".html").write_text(render(report(record)), encoding="utf-8")
    output.with_suffix(".md").write_text(text(report(record)), encoding="utf-8")


def _arguments(options: argparse.Namespace) -> str:
    words = []
    if options.quick:
        words.append("--quick")
    elif options.rounds != Plan.rounds:
        words += ["--rounds", str(options.rounds)]
    if options.cache is not None:
        words += ["--cache", str(options.cache)]
    return "".join(f" {word}" for word in [shlex.join(words)] if word)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.folders.run",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=_parts, default=PARTS, help=f"parts, with commas between: {', '.join(PARTS)}")
    parser.add_argument(
        "--backend",
        type=_backends,
        default=tuple(LAYOUTS),
        help=f"databases, with commas between: {', '.join(LAYOUTS)}",
    )
    parser.add_argument("--rounds", type=int, default=Plan.rounds, help="of conditions that take turns (%(default)s)")
    parser.add_argument("--cache", type=int, metavar="MIB", help="cache of the servers in all parts")
    parser.add_argument("--quick", action="store_true", help="tries the benchmark itself")
    parser.add_argument("-o", "--output", type=Path, help="JSON file; parts of databases that it has are replaced")
    parser.add_argument("--folder", type=Path, help="where the servers write; on a disk whose speed counts")
    return parser.parse_args(arguments)


def _backends(text: str) -> tuple[Backend, ...]:
    found = tuple(text.split(","))
    if not set(found) <= set(LAYOUTS):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(LAYOUTS)}")
    return tuple(map(Backend, found))


def _parts(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if not set(found) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(PARTS)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
