"""`triggerlog visits run`: its options, and which database it is about."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ValidationError

from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.outcome import VISITS_NEED, CommandFailed, require_extra
from daemon.tools.console import FILE_WIDTH, make_console
from schemas.api.visits import VisitsRun
from schemas.batch import Durability
from schemas.checking.problems import ConfigError, problems
from schemas.config.visits import Cadence, Connections, Transactions, VisitsConfig, Workers
from schemas.visits.survey import Survey
from schemas.visits.tables import IndexMode, LastColumns, LastUpdate

FOLDER = Path("triggerlog-visits")
"""Where a run without a configuration is kept, in the folder it is started in."""

SURVEY = "What the telescope sees"
TABLES = "Tables"
WORK = "How a visit is done"


def option(field: str, *names: str, model: type[BaseModel] = VisitsConfig, choices: type[StrEnum] | None = None) -> Any:
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
    visits: Annotated[int | None, option("visits")] = None,
    cadence: Annotated[
        str | None, typer.Option(metavar="|".join(Cadence), help="fast: as fast as possible. [default: fast]")
    ] = None,
    limit: Annotated[float | None, option("limit_s", "--limit")] = None,
    scale: Annotated[float | None, option("scale", model=Survey)] = None,
    seed: Annotated[int | None, option("seed", model=Survey)] = None,
    variables: Annotated[int | None, option("variables", model=Survey)] = None,
    transients: Annotated[int | None, option("transients", model=Survey)] = None,
    false_detections: Annotated[int | None, option("false_detections", model=Survey)] = None,
    field_deg: Annotated[float | None, option("field_deg", model=Survey)] = None,
    interval: Annotated[float | None, option("interval_s", "--interval", model=Survey)] = None,
    forced_cutoff_days: Annotated[float | None, option("forced_cutoff_days", model=Survey)] = None,
    cutoff_since_first: Annotated[bool | None, option("cutoff_since_first", model=Survey)] = None,
    index_mode: Annotated[str | None, option("index_mode", choices=IndexMode)] = None,
    last_columns: Annotated[str | None, option("last_columns", choices=LastColumns)] = None,
    last_update: Annotated[str | None, option("last_update", choices=LastUpdate)] = None,
    pixel_level: Annotated[int | None, option("pixel_level")] = None,
    period_days: Annotated[float | None, option("period_days")] = None,
    schema: Annotated[str | None, option("schema_name", "--schema")] = None,
    tiles: Annotated[int | None, option("tiles")] = None,
    workers: Annotated[str | None, option("workers", choices=Workers)] = None,
    processes: Annotated[int | None, option("processes")] = None,
    connections: Annotated[str | None, option("connections", choices=Connections)] = None,
    transactions: Annotated[str | None, option("transactions", choices=Transactions)] = None,
    durability: Annotated[str | None, option("durability", choices=Durability)] = None,
    history_days: Annotated[float | None, option("history_days")] = None,
    all_history: Annotated[bool | None, option("all_history")] = None,
    htm_ranges: Annotated[int | None, option("htm_ranges")] = None,
    id_chunk: Annotated[int | None, option("id_chunk")] = None,
    dsn: Annotated[
        str | None,
        typer.Option(help="The database. [default: CONFIG's, or a PostgreSQL of its own below --folder]"),
    ] = None,
    password_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Environment variable that holds the DSN's password.")
    ] = None,
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
    from daemon.tools.place import place_of  # noqa: PLC0415
    from daemon.tools.visits.standalone import run_standalone  # noqa: PLC0415

    place = place_of(loaded, dsn, password_env, folder, otherwise=FOLDER)
    console = make_console(stderr=True)
    found = asyncio.run(run_standalone(place, settings, console))
    _say(found, place.state_dir, as_json=as_json, as_csv=as_csv)


def _settings(loaded: LoadedConfig | None, changes: dict[str, Any]) -> VisitsConfig:
    # Imported here: see above.
    from daemon.workloads.visits.settings import with_changes  # noqa: PLC0415

    try:
        return with_changes(VisitsConfig() if loaded is None else loaded.config.visits, changes)
    except ValidationError as error:
        raise ConfigError(problems(VisitsConfig, error.errors(include_url=False))) from None


def _say(found: VisitsRun, state_dir: Path, *, as_json: bool, as_csv: bool) -> None:
    from daemon.tools.visits.tables import say_run  # noqa: PLC0415
    from daemon.workloads.visits.archive import CSV, VisitsArchive  # noqa: PLC0415
    from daemon.workloads.visits.archive import FOLDER as ARCHIVE  # noqa: PLC0415

    csv = VisitsArchive(state_dir / ARCHIVE).path(found.id, CSV)
    if as_json:
        typer.echo(found.model_dump_json(by_alias=True))
    elif as_csv:
        if csv.exists():
            typer.echo(csv.read_text(encoding="ascii"), nl=False)
    else:
        say_run(found, str(csv), make_console(file_width=FILE_WIDTH))
