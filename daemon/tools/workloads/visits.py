"""`triggerlog visits`: mock DIA visits of a telescope, by themselves or in a daemon, and what is kept of them."""

import asyncio
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ValidationError

from backends.files import whole_file
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.outcome import VISITS_NEED, CommandFailed, examples, reason_of, require_extra
from daemon.tools.answers import print_answer
from daemon.tools.console import FILE_WIDTH, make_console
from daemon.tools.options import App, AsJson, Connection, Dsn, NamedConnection, PasswordEnv, changes_of
from daemon.workloads.frame.archive import ID
from daemon.workloads.visits.archive import CSV, VisitsArchive, read_csv
from daemon.workloads.visits.archive import FOLDER as ARCHIVE
from schemas.api.visits import VisitMeasure, Visits, VisitsRun, VisitsStatus
from schemas.batch import Durability
from schemas.checking.problems import ConfigError, problems
from schemas.config.visits import Cadence, Connections, Transactions, VisitsConfig, Workers
from schemas.visits.survey import Survey
from schemas.visits.tables import IndexMode, LastColumns, LastUpdate

app = App(
    name="visits",
    help="Mock DIA visits of a telescope: run them, and look at what was measured.",
    no_args_is_help=True,
)

PATH = "/api/v1/visits"
FOLDER = Path("triggerlog-visits")
"""Where a run without a configuration is kept, in the folder it is started in."""
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


SURVEY = "What the telescope sees"
TABLES = "Tables"
WORK = "How a visit is done"


def _option(
    field: str, *names: str, model: type[BaseModel] = VisitsConfig, choices: type[StrEnum] | None = None
) -> Any:
    """An option that is a field of the configuration, with its words; what it may be the configuration says, too."""
    text = (model.model_fields[field].description or "").replace("`", "")
    metavar = "|".join(choices) if choices is not None else None
    panel = SURVEY if model is Survey else TABLES if field in _TABLES else WORK if field in _WORK else None
    return typer.Option(*names, help=text, metavar=metavar, show_default=False, rich_help_panel=panel)


_TABLES = ("index_mode", "last_columns", "last_update", "pixel_level", "period_days", "schema_name")
_WORK = (
    *("tiles", "workers", "processes", "connections", "transactions", "durability"),
    *("history_days", "all_history", "htm_ranges", "id_chunk"),
)
FIELDS = {"limit": "limit_s", "interval": "interval_s"}
"""Options that have another name than their field."""
SETTINGS = {field.alias or name for name, field in VisitsConfig.model_fields.items()}


@app.command(
    epilog=examples(
        "triggerlog visits run --scale 0.01 --visits 240",
        "triggerlog visits run --scale 0.02 --visits 480 --index-mode last_object_table --last-update upsert",
        "triggerlog visits run --dsn mysql://root@127.0.0.1:3306 --tiles 5 --workers persistent --processes 4",
        "triggerlog visits run beam.toml --visits 1000 --json > run.json",
    )
)
def run(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG]",
            help="A configuration file: its database, and its [visits] where an option says nothing else.",
            show_default=False,
        ),
    ] = None,
    *,
    visits: Annotated[int | None, _option("visits")] = None,
    cadence: Annotated[
        str | None, typer.Option(metavar="|".join(Cadence), help="fast: as fast as possible. [default: fast]")
    ] = None,
    limit: Annotated[float | None, _option("limit_s", "--limit")] = None,
    scale: Annotated[float | None, _option("scale", model=Survey)] = None,
    seed: Annotated[int | None, _option("seed", model=Survey)] = None,
    variables: Annotated[int | None, _option("variables", model=Survey)] = None,
    transients: Annotated[int | None, _option("transients", model=Survey)] = None,
    false_detections: Annotated[int | None, _option("false_detections", model=Survey)] = None,
    field_deg: Annotated[float | None, _option("field_deg", model=Survey)] = None,
    interval: Annotated[float | None, _option("interval_s", "--interval", model=Survey)] = None,
    forced_cutoff_days: Annotated[float | None, _option("forced_cutoff_days", model=Survey)] = None,
    cutoff_since_first: Annotated[bool | None, _option("cutoff_since_first", model=Survey)] = None,
    index_mode: Annotated[str | None, _option("index_mode", choices=IndexMode)] = None,
    last_columns: Annotated[str | None, _option("last_columns", choices=LastColumns)] = None,
    last_update: Annotated[str | None, _option("last_update", choices=LastUpdate)] = None,
    pixel_level: Annotated[int | None, _option("pixel_level")] = None,
    period_days: Annotated[float | None, _option("period_days")] = None,
    schema: Annotated[str | None, _option("schema_name", "--schema")] = None,
    tiles: Annotated[int | None, _option("tiles")] = None,
    workers: Annotated[str | None, _option("workers", choices=Workers)] = None,
    processes: Annotated[int | None, _option("processes")] = None,
    connections: Annotated[str | None, _option("connections", choices=Connections)] = None,
    transactions: Annotated[str | None, _option("transactions", choices=Transactions)] = None,
    durability: Annotated[str | None, _option("durability", choices=Durability)] = None,
    history_days: Annotated[float | None, _option("history_days")] = None,
    all_history: Annotated[bool | None, _option("all_history")] = None,
    htm_ranges: Annotated[int | None, _option("htm_ranges")] = None,
    id_chunk: Annotated[int | None, _option("id_chunk")] = None,
    dsn: Dsn = None,
    password_env: PasswordEnv = None,
    folder: Annotated[
        Path | None,
        typer.Option(help=f"Where the figures are kept. [default: CONFIG's state_dir, or ./{FOLDER}]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is kept of the run, as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a row a visit, as CSV.")] = False,
) -> None:
    """Run visits by themselves, without a daemon, and show how far they are; Ctrl-C ends them after a visit.

    The tables stay: the same command goes on after the visits that are done. At the end it shows seconds a visit, the
    line through them, and the rows next to what the formula expects.
    """
    options = {FIELDS.get(name, name): value for name, value in locals().items() if value is not None}
    require_extra("visits", "visits run", VISITS_NEED)
    if as_json and as_csv:
        raise CommandFailed("--csv: --json is given too; print one of them, the files have both")
    loaded = None if file is None else load_config(file)
    survey = {name: value for name, value in options.items() if name in Survey.model_fields}
    fields = {name: value for name, value in options.items() if name in SETTINGS}
    settings = _settings(loaded, {"cadence": Cadence.FAST} | fields | {"survey": survey})
    # Imported here: wrong options are refused, and every help is shown, without the libraries of the run.
    from daemon.tools.workloads.standalone import place_of, run_visits  # noqa: PLC0415

    place = place_of(loaded, dsn, password_env, folder, otherwise=FOLDER)
    console = make_console(stderr=True)
    found = asyncio.run(run_visits(place, settings, console))
    _say(found, place.state_dir, as_json=as_json, as_csv=as_csv)


def _settings(loaded: LoadedConfig | None, changes: dict[str, Any]) -> VisitsConfig:
    # Imported here: see above.
    from daemon.workloads.visits.settings import with_changes  # noqa: PLC0415

    try:
        return with_changes(VisitsConfig() if loaded is None else loaded.config.visits, changes)
    except ValidationError as error:
        raise ConfigError(problems(VisitsConfig, error.errors(include_url=False))) from None


def _say(found: VisitsRun, state_dir: Path, *, as_json: bool, as_csv: bool) -> None:
    from daemon.tools.workloads.tables import say_visits  # noqa: PLC0415

    csv = VisitsArchive(state_dir / ARCHIVE).path(found.id, CSV)
    if as_json:
        typer.echo(found.model_dump_json(by_alias=True))
    elif as_csv:
        if csv.exists():
            typer.echo(csv.read_text(encoding="ascii"), nl=False)
    else:
        say_visits(found, str(csv), make_console(file_width=FILE_WIDTH))


@app.command(epilog=examples("triggerlog visits status", "triggerlog visits status beam.toml --json"))
def status(connection: Connection, as_json: AsJson = False) -> None:
    """Show how the visits of a daemon are."""
    answer = connection.ask("GET", PATH, patience_s=PATIENCE_S)

    def lines() -> list[str]:
        found = Visits.model_validate_json(answer.content).status
        return [] if found is None else _lines(found)

    print_answer(as_json, answer.text, lines, "No visits were run since the daemon started.")


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
    *,
    connection: Connection,
) -> None:
    """Start visits in a daemon; where there are some already it goes on after them. This needs the API's token."""
    body = changes_of(settings or [])
    answer = connection.ask("POST", PATH, body, patience_s=PATIENCE_S)
    print_answer(False, None, lambda: _lines(VisitsStatus.model_validate_json(answer.content)))


@app.command(epilog=examples("triggerlog visits stop", "triggerlog visits stop beam.toml"))
def stop(connection: Connection) -> None:
    """Stop the visits of a daemon after the one that is under way. This needs the API's token."""
    answer = connection.ask("DELETE", PATH, patience_s=PATIENCE_S)
    print_answer(False, None, lambda: _lines(VisitsStatus.model_validate_json(answer.content)))


@app.command("list", epilog=examples("triggerlog visits list", "triggerlog visits list beam.toml --json"))
def list_(*, folder: Folder = None, connection: NamedConnection, as_json: AsJson = False) -> None:
    """Show the runs that are kept: in a folder, or with --daemon by that daemon."""
    if connection.daemon is not None:
        answer = connection.ask("GET", PATH, patience_s=PATIENCE_S)
        past = Visits.model_validate_json(answer.content).past
    else:
        past = _archive(folder, connection.config).summaries()
    # Imported here: the other commands start without it.
    from daemon.tools.workloads.tables import visits_table  # noqa: PLC0415

    document = "[" + ",\n ".join(summary.model_dump_json() for summary in past) + "]"
    table = [visits_table(past)] if past else []
    print_answer(as_json, document, lambda: table, "No run of visits is kept.", width=FILE_WIDTH)


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
    connection: NamedConnection,
) -> None:
    """Write the report of a run: one HTML file with the curves, the boxes, the fits and the paper's figures."""
    html = output or Path(f"visits-{Path(what).stem}.html")
    if connection.daemon is not None:
        answer = connection.ask("GET", f"{PATH}/{_id(what)}/report", patience_s=PATIENCE_S)
        _write(html, answer.content)
    else:
        _report(_record(what, _archive(folder, connection.config)), html)
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
    connection: NamedConnection,
) -> None:
    """Write a row a visit into a CSV or Parquet file, with the paper's columns."""
    path = output or Path(f"visits-{Path(what).stem}.{format_}")
    if connection.daemon is not None:
        answer = connection.ask("GET", f"{PATH}/{_id(what)}/{format_}", patience_s=PATIENCE_S)
        _write(path, answer.content)
    else:
        source = _csv(what, _archive(folder, connection.config))
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
    try:
        with whole_file(path) as part:
            write_parquet(source, part)
    except ValueError as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written ({reason_of(error)})") from None


def write_parquet(source: Path, path: Path) -> None:
    """Make a Parquet file of a run's CSV: a row a visit, the paper's columns, zstd.

    Raises:
        OSError: one cannot be read, or the other written.
        ValueError: it is no CSV of visits of this version.
    """
    # Imported here: they are large.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = read_csv(source)
    names = tuple(VisitMeasure.model_fields)
    columns = [pa.array(rows[name]) for name in names]
    described = [
        pa.field(name, column.type, nullable=False, metadata=_metadata(name))
        for name, column in zip(names, columns, strict=True)
    ]
    schema = pa.schema(described, metadata={"triggerlog": "visits"})
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), path, compression="zstd")


def _metadata(name: str) -> dict[str, str]:
    description = VisitMeasure.model_fields[name].description
    return {} if description is None else {"description": description}


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


def _lines(found: VisitsStatus) -> list[str]:
    # Imported here: the other commands start without it.
    from daemon.tools.workloads.tables import visits_lines  # noqa: PLC0415

    return [f"{name:<6} {text}" for name, text in visits_lines(found)]
