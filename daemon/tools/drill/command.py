"""`triggerlog drill`: makes the throw-away database, or checks the named one; runs drills, and shows their results."""

import asyncio
import json
import math
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backends.base import StoreError
from backends.kinds import KINDS
from daemon.client.sender import SenderError
from daemon.core.configuration import load_config
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.console import FILE_WIDTH, ProgressBar, make_console
from daemon.tools.drill.drills import DRILLS, Drill
from daemon.tools.drill.machine import DrillFailed, Machine, work_folder
from daemon.tools.drill.system import Count, DrillSystem, Recovery, Target, running_system
from daemon.tools.options import AsJson
from schemas.checking.dsn import Backend
from schemas.wire import ProtocolError


@dataclass(frozen=True, kw_only=True)
class Result:
    """One row.

    sent, acknowledged, refused: readings, by the senders. count: by the database; None when it could not be asked.
    failures: after how many it was to recover. recoveries: one for each recovery.
    problem: why the drill did not end as planned, in one line; situation: what was logged last, in many.
    skipped: why it did not run. notes: further remarks.
    """

    name: str
    title: str
    sent: int = 0
    acknowledged: int = 0
    refused: int = 0
    count: Count | None = None
    failures: int = 0
    recoveries: tuple[Recovery, ...] = ()
    problem: str | None = None
    situation: str = ""
    skipped: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing was lost, doubled or otherwise wrong; also true of a drill that was skipped."""
        return self.skipped is not None or not self.faults

    @property
    def faults(self) -> list[str]:
        """The faults, one text each."""
        counted = [f"{count} {name}" for name, count in (self.count.faults if self.count else {}).items()]
        if self.refused:
            counted.append(f"{self.refused} refused")
        if self.problem is None and self.acknowledged < self.sent:
            counted.append(f"{self.sent - self.acknowledged} not acknowledged")
        if self.problem is None and len(self.recoveries) != self.failures:
            counted.append(f"{len(self.recoveries)} recoveries after {self.failures} failures")
        return [*counted, *([self.problem] if self.problem else [])]

    @property
    def verdict(self) -> str:
        """One line."""
        if self.skipped is not None:
            return f"skipped: {self.skipped}"
        return "; ".join([*(self.faults or ["nothing lost, nothing doubled"]), *self.notes])

    def worst(self, name: str) -> float | None:
        """The longest of its recoveries, in seconds."""
        return max((getattr(recovery, name) for recovery in self.recoveries), default=None)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "passed": self.passed, "verdict": self.verdict}


def table(results: Sequence[Result]) -> Table:
    """All rows; recovery is the worst of a drill, counted from when the database (or the daemon) was back."""
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), expand=False)
    shown.add_column("drill")
    for name in ("sent", "acknowledged", "found", "lost", "doubled", "recovered", "drained"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("")
    for result in results:
        word, style = _word(result)
        shown.add_row(result.title, *_figures(result), Text(word, style))
    return shown


def _word(result: Result) -> tuple[str, str]:
    if result.skipped is not None:
        return "skipped", "yellow"
    return ("passed", "green") if result.passed else ("FAILED", "bold red")


def _figures(result: Result) -> list[str]:
    if result.skipped is not None:
        return [""] * 7
    counted = [result.count.found, result.count.lost, result.count.doubled] if result.count else []
    figures = [f"{number:,}" for number in (result.sent, result.acknowledged, *counted)]
    figures += ["?"] * (5 - len(figures))
    return figures + [_seconds(result.worst(name)) for name in ("first_s", "drained_s")]


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


BYTES_A_READING = 60
"""About the size of a reading in the journal."""
LEAST_KIB = 128
ABSENT = 0.02
"""The part of the readings that is never taken, so that triggers are incomplete in every drill."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The size of the load and of the failures.

    rate: triggers a second. seconds: how long a failure lasts. seed: of the random times.
    """

    instruments: int = 120
    rate: float = 100.0
    seconds: float = 4.0
    seed: int = 1


async def run_drills(drills: Sequence[Drill], target: Target, folder: Path, options: Options) -> AsyncIterator[Result]:
    """Carry out drills, and give the result of each.

    Args:
        drills: in order.
        target: its server, if it has one, runs before each drill and after it.
        folder: each drill gets one in it.
        options: how hard.
    """
    for number, drill in enumerate(drills):
        if drill.needs_server and target.server is None:
            yield Result(
                name=drill.name, title=drill.title, skipped="it stops the server, which is not the drill's own"
            )
            continue
        own = folder / drill.name
        own.mkdir()
        yield await _carried_out(drill, target, own, options, f"drill_{int(time.time())}_{number}")
        if target.server is not None:
            # As after a drill that failed in its middle.
            target.server.thaw()
            await asyncio.to_thread(target.server.start)


async def _carried_out(drill: Drill, target: Target, folder: Path, options: Options, schema: str) -> Result:
    machine = Machine(
        instruments=options.instruments,
        rate=options.rate,
        start_ns=time.time_ns(),
        absent=ABSENT,
        **drill.machine(options.seconds, options.rate),
    )
    settings: dict[str, dict[str, Any]] = {name: dict(values) for name, values in drill.settings.items()}
    kib = _disk_kib(options)
    with small_disk(folder / "state", kib) if drill.disk else nullcontext() as no_disk:
        if drill.disk:
            settings |= _small(kib, has_disk=no_disk is None)
        system: DrillSystem | None = None
        count: Count | None = None
        problem, situation = None, ""
        try:
            async with running_system(
                target, machine, folder, schema=schema, settings=settings, seed=options.seed
            ) as system:
                if no_disk is not None:
                    system.notes.append(f"a journal of {kib} KiB in the place of a disk: {no_disk}")
                await drill.act(system, options.seconds)
                count = await system.finish()
        except (DrillFailed, SenderError, ProtocolError, StoreError) as error:
            problem, situation = str(error), "\n".join(getattr(error, "__notes__", ()))
            if system is not None:
                count = await _counted(system)
    if system is None:
        return Result(name=drill.name, title=drill.title, problem=problem, situation=situation)
    if target.server is None:
        await system.remove()
    return Result(
        name=drill.name,
        title=drill.title,
        sent=system.load.sent,
        acknowledged=system.load.acknowledged,
        refused=system.load.refused,
        count=count,
        failures=drill.failures,
        recoveries=tuple(system.recoveries),
        problem=problem,
        situation=situation,
        notes=tuple(system.notes),
    )


def _disk_kib(options: Options) -> int:
    """The size of a disk that is full about when the time of the drill is over."""
    return max(LEAST_KIB, math.ceil(options.rate * options.instruments * BYTES_A_READING * options.seconds / 2**10))


def _small(kib: int, *, has_disk: bool) -> dict[str, dict[str, Any]]:
    """Settings with which the disk is soon full, and memory with it."""
    mib = kib / 2**10
    journal = {"segment_mib": 1.0} if has_disk else {"segment_mib": 1.0, "max_mib": mib}
    return {"journal": journal, "committer": {"max_waiting_mib": mib / 2, "max_batch_mib": mib / 4}}


async def _counted(system: DrillSystem) -> Count | None:
    """Count also after a drill that failed: it may have lost readings."""
    try:
        return await system.count()
    except StoreError:
        return None


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[str | None]:
    """Mount a file system of so many KiB at an empty folder meanwhile; give None, or why that could not be."""
    folder.mkdir()
    if os.geteuid() != 0:
        yield "only root may mount one"
        return
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=0755", "triggerlog-drill", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if result.returncode:
        yield result.stderr.strip() or "mount refuses"
        return
    try:
        yield None
    finally:
        # A process may still have it open; it is unmounted when the last one closes it.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607


EPILOG = examples(
    "triggerlog drill",
    "triggerlog drill --backend mysql --only database-killed --only outage",
    "triggerlog drill beam.toml --yes-i-mean-this-database",
    "triggerlog drill --json > drill.json",
)
PASSWORD = "TRIGGERLOG_DRILL_PASSWORD"  # noqa: S105 - the variable that hands the password on, not the password
_NEEDS = "; ".join(f"{kind.backend}: {kind.needs}" for kind in KINDS.values())
_NAMES = ", ".join(drill.name for drill in DRILLS)


def drill(
    *,
    backend: Annotated[
        Backend, typer.Option(help=f"Which throw-away server is made and killed. What has to be installed: {_NEEDS}.")
    ] = Backend.POSTGRESQL,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Use the database of this configuration, in schemas of its own."),
    ] = None,
    sure: Annotated[
        bool, typer.Option("--yes-i-mean-this-database", help="Confirms --config: readings are written there.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help=f"Only this drill; may be repeated: {_NAMES}.")
    ] = None,
    instruments: Annotated[
        int, typer.Option(min=4, max=10_000, help="Instruments of the group.")
    ] = Options.instruments,
    rate: Annotated[float, typer.Option(min=1, max=10_000, help="Triggers a second.")] = Options.rate,
    seconds: Annotated[float, typer.Option(min=0.5, max=3600, help="How long each failure lasts.")] = Options.seconds,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random times.")] = Options.seed,
    as_json: AsJson = False,
) -> None:
    """Cause failures on purpose, and count what was lost or doubled.

    Real processes under the load of real senders, a minute or two in all. The exit code is 1 if an acknowledged reading
    was lost or any was doubled. Existing data is not touched, and nothing stays.
    """
    chosen = _chosen(only)
    options = Options(instruments=instruments, rate=rate, seconds=seconds, seed=seed)
    console = make_console(stderr=True)
    with work_folder(
        console, "drill", "The daemons' logs and journals, and the servers' data, are", typer.Exit
    ) as folder:
        with _target(backend, config, sure, folder) as target:
            results = asyncio.run(_run(chosen, target, folder, options, console))
        failed = not all(result.passed for result in results)
        if as_json:
            typer.echo(json.dumps({**vars(options), "drills": [result.to_dict() for result in results]}, indent=2))
        else:
            make_console(file_width=FILE_WIDTH).print(table(results))
        if failed:
            raise typer.Exit(1)


def _chosen(only: list[str] | None) -> list[Drill]:
    known = {each.name: each for each in DRILLS}
    for name in only or ():
        if name not in known:
            raise CommandFailed(f"--only: there is no drill {name!r}; there are {_NAMES}")
    return [each for each in DRILLS if only is None or each.name in only]


async def _run(drills: list[Drill], target: Target, folder: Path, options: Options, console: Console) -> list[Result]:
    results: list[Result] = []
    with ProgressBar(console, drills[0].title) as bar:
        async for result in run_drills(drills, target, folder, options):
            results.append(result)
            console.print(f"{result.title}: {result.verdict}", highlight=False)
            if result.situation:
                console.print(result.situation, markup=False, highlight=False, soft_wrap=True)
            if len(results) < len(drills):
                bar.show(drills[len(results)].title, done=len(results), total=len(drills))
    return results


@contextmanager
def _target(backend: Backend, config: Path | None, sure: bool, folder: Path) -> Iterator[Target]:
    if config is not None:
        yield _named(config, sure)
        return
    server = KINDS[backend].throwaway_server(folder / "server")
    try:
        yield Target(settings={"dsn": server.start()}, server=server)
    finally:
        server.thaw()
        server.stop()


def _named(config: Path, sure: bool) -> Target:
    loaded = load_config(config)
    database = loaded.config.database
    if database.dsn is None:
        raise CommandFailed(f"database.dsn: {config} names no database; leave --config out to drill a throw-away one")
    if not sure:
        raise CommandFailed(
            f"--config: readings would be written into {loaded.target}, in schemas drill_<time>;"
            " add --yes-i-mean-this-database to confirm"
        )
    names = ("dsn", "layout", "durability", "partition", "partitions_ahead")
    settings = {name: getattr(database, name) for name in names}
    if loaded.password is not None:
        os.environ[PASSWORD] = loaded.password  # for the daemons, which are this process's children
        settings["password_env"] = PASSWORD
    return Target(settings=settings)
