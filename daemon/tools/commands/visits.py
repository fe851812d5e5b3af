"""`triggerlog visits`: mock DIA visits of a telescope, by themselves or in a daemon, and what is kept of them."""

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from backends.files import whole_file
from daemon.client.api.asking import ask_daemon
from daemon.client.api.reach import Reach, reach
from daemon.core.configuration import load_config
from daemon.core.outcome import CommandFailed, examples, reason_of, require_extra
from daemon.tools.commands.visits_run import FOLDER, run
from daemon.tools.console import FILE_WIDTH, make_console
from daemon.tools.options import AsJson, CaFile, ConfigFile, DaemonUrl, NamedFile, TokenFile, changes_of
from daemon.workloads.frame.archive import ID
from daemon.workloads.visits.archive import CSV, VisitsArchive
from daemon.workloads.visits.archive import FOLDER as ARCHIVE
from schemas.api.visits import Visits, VisitsStatus

app = typer.Typer(
    name="visits",
    help="Mock DIA visits of a telescope: run them, and look at what was measured.",
    no_args_is_help=True,
    add_completion=False,
)

PATH = "/api/v1/visits"
PATIENCE_S = 120.0
"""A report or a Parquet file is made by a process that has to start first."""

Folder = Annotated[
    Path | None,
    typer.Option(help=f"Where runs are kept: --folder of `visits run`. [default: --config's, or ./{FOLDER}]"),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="PATH", help="The file to write. [default: ID with the format's ending]"),
]


class Format(StrEnum):
    """What an export writes."""

    CSV = "csv"
    PARQUET = "parquet"


app.command(
    epilog=examples(
        "triggerlog visits run --scale 0.01 --visits 240",
        "triggerlog visits run --scale 0.02 --visits 480 --index-mode last_object_table --last-update upsert",
        "triggerlog visits run --dsn mysql://root@127.0.0.1:3306 --tiles 5 --workers persistent --processes 4",
        "triggerlog visits run beam.toml --visits 1000 --json > run.json",
    )
)(run)


@app.command(epilog=examples("triggerlog visits status", "triggerlog visits status beam.toml --json"))
def status(
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show how the visits of a daemon are."""
    answer = _ask(reach(config, daemon=daemon, token_file=token_file, ca=ca), "GET", PATH)
    if as_json:
        typer.echo(answer.text)
        return
    run = Visits.model_validate_json(answer.content).status
    if run is None:
        typer.echo("No visits were run since the daemon started.")
        return
    _say_status(run)


@app.command(
    epilog=examples(
        "triggerlog visits start",
        "triggerlog visits start --set cadence=fast --set visits=480 --set survey.scale=0.02",
    )
)
def start(
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="A field of [visits] that differs from the daemon's configuration; several times for several.",
            show_default=False,
        ),
    ] = None,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Start visits in a daemon; where there are some already it goes on after them. This needs the API's token."""
    body = changes_of(settings or [])
    found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
    _say_status(VisitsStatus.model_validate(_ask(found, "POST", PATH, body).json()))


@app.command(epilog=examples("triggerlog visits stop", "triggerlog visits stop beam.toml"))
def stop(config: ConfigFile = None, daemon: DaemonUrl = None, token_file: TokenFile = None, ca: CaFile = None) -> None:
    """Stop the visits of a daemon after the one that is under way. This needs the API's token."""
    found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
    _say_status(VisitsStatus.model_validate(_ask(found, "DELETE", PATH).json()))


@app.command("list", epilog=examples("triggerlog visits list", "triggerlog visits list beam.toml --json"))
def list_(
    *,
    folder: Folder = None,
    config: NamedFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the runs that are kept: in a folder, or with --daemon by that daemon."""
    if daemon is not None:
        answer = _ask(reach(config, daemon=daemon, token_file=token_file, ca=ca), "GET", PATH)
        past = Visits.model_validate_json(answer.content).past
    else:
        past = _archive(folder, config).summaries()
    if as_json:
        typer.echo("[" + ",\n ".join(summary.model_dump_json() for summary in past) + "]")
        return
    if not past:
        typer.echo("No run of visits is kept.")
        return
    # Imported here: the other commands start without it.
    from daemon.tools.visits.tables import runs_table  # noqa: PLC0415

    make_console(file_width=FILE_WIDTH).print(runs_table(past))


@app.command(
    epilog=examples(
        "triggerlog visits report 20260101T000000Z -o night.html",
        "triggerlog visits report run.json",
        "triggerlog visits report 20260101T000000Z --daemon http://127.0.0.1:8120",
    )
)
def report(
    what: Annotated[str, typer.Argument(metavar="ID|FILE", help="A run, or its JSON file.", show_default=False)],
    *,
    output: Output = None,
    folder: Folder = None,
    config: NamedFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Write the report of a run: one HTML file with the curves, the boxes, the fits and the paper's figures."""
    html = output or Path(f"visits-{Path(what).stem}.html")
    if daemon is not None:
        found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
        _write(html, _ask(found, "GET", f"{PATH}/{_id(what)}/report").content)
    else:
        _report(_record(what, _archive(folder, config)), html)
    typer.echo(f"{html.absolute()}")


@app.command(
    epilog=examples(
        "triggerlog visits export 20260101T000000Z --format parquet",
        "triggerlog visits export run.csv --format parquet -o run.parquet",
    )
)
def export(
    what: Annotated[str, typer.Argument(metavar="ID|FILE", help="A run, or its CSV or JSON file.", show_default=False)],
    *,
    format_: Annotated[Format, typer.Option("--format", help="Which.")] = Format.CSV,
    output: Output = None,
    folder: Folder = None,
    config: NamedFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Write a row a visit into a CSV or Parquet file, with the paper's columns."""
    path = output or Path(f"visits-{Path(what).stem}.{format_}")
    if daemon is not None:
        found = reach(config, daemon=daemon, token_file=token_file, ca=ca)
        _write(path, _ask(found, "GET", f"{PATH}/{_id(what)}/{format_}").content)
    else:
        source = _csv(what, _archive(folder, config))
        if format_ is Format.PARQUET:
            _parquet(source, path)
        else:
            _copy(source, path)
    typer.echo(f"{path.absolute()}")


# --- the archive -----------------------------------------------------------------------------------------------------


def _archive(folder: Path | None, config: Path | None) -> VisitsArchive:
    if folder is None and config is not None:
        return VisitsArchive(load_config(config, asks_database=False).state_dir / ARCHIVE)
    return VisitsArchive((folder or FOLDER).absolute() / ARCHIVE)


def _id(what: str) -> str:
    if ID.fullmatch(what) is None:
        raise CommandFailed(f"{what!r} is no id of a run; `triggerlog visits list` shows them")
    return what


def _record(what: str, archive: VisitsArchive) -> Path:
    """The JSON file of a run."""
    return Path(what) if Path(what).is_file() else _there(archive.path(_id(what)), what)


def _csv(what: str, archive: VisitsArchive) -> Path:
    given = Path(what)
    if given.is_file():
        return _there(given.with_suffix(CSV), what) if given.suffix == ".json" else given
    return _there(archive.path(_id(what), CSV), what)


def _there(path: Path, what: str) -> Path:
    if not path.exists():
        raise CommandFailed(f"there is no {path}: nothing is kept of {what}; `triggerlog visits list` shows what is")
    return path


def _report(record: Path, html: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.visits", str(record), "--output", str(html)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise CommandFailed(said[-1] if said else f"the report of {record} cannot be written")


def _parquet(source: Path, path: Path) -> None:
    require_extra("export", "--format parquet", {"pyarrow": "pyarrow"})
    # Imported here: they are large.
    from daemon.tools.visits.parquet import write_parquet  # noqa: PLC0415

    try:
        with whole_file(path) as part:
            write_parquet(source, part)
    except ValueError as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written ({reason_of(error)})") from None


def _copy(source: Path, path: Path) -> None:
    if path.exists() and path.samefile(source):
        return
    try:
        content = source.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{source} cannot be read ({reason_of(error)})") from None
    _write(path, content)


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise CommandFailed(f"--output: {path} cannot be written ({reason_of(error)})") from None


# --- a daemon --------------------------------------------------------------------------------------------------------


def _say_status(found: VisitsStatus) -> None:
    # Imported here: the other commands start without it.
    from daemon.tools.visits.tables import status_lines  # noqa: PLC0415

    for name, text in status_lines(found):
        typer.echo(f"{name:<6} {text}")


def _ask(daemon: Reach, method: str, path: str, body: object = None) -> Any:
    return ask_daemon(daemon, method, path, body, patience_s=PATIENCE_S)
