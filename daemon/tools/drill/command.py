"""`triggerlog drill`: options in, a table of results out; makes the throw-away database, or checks the named one."""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from backends.kinds import KINDS
from daemon.core.configuration import load_config
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.console import FILE_WIDTH, make_console
from daemon.tools.console.progress import ProgressBar
from daemon.tools.drill.drills import DRILLS, Drill
from daemon.tools.drill.result import Result, table
from daemon.tools.drill.runner import Options, run_drills
from daemon.tools.drill.system import Target
from daemon.tools.options import AsJson
from schemas.checking.dsn import Backend

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
    with _folder(console) as folder:
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
def _folder(console: Console) -> Iterator[Path]:
    """Make a folder for everything; it stays when a drill failed, because the logs are in it."""
    # The server of root runs under another account, which must pass it, and all folders above it.
    folder = Path(tempfile.mkdtemp(prefix="triggerlog-drill-"))
    folder.chmod(0o711)
    try:
        yield folder
    except typer.Exit:
        console.print(f"The daemons' logs and journals, and the servers' data, are in {folder}", highlight=False)
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


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
