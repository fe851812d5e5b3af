"""`triggerlog snapshots`: readers of snapshots with a deadline, by themselves or in a daemon, and their figures."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from daemon.core.configuration import load_config
from daemon.core.outcome import examples
from daemon.tools.answers import print_answer
from daemon.tools.console import FILE_WIDTH, make_console
from daemon.tools.options import App, AsJson, Connection, Dsn, NamedConnection, PasswordEnv, changes_of
from schemas.api.snapshots import (
    Ask,
    InsertionOrder,
    Payload,
    Sample,
    Snapshots,
    SnapshotSettings,
    SnapshotsRun,
    SnapshotsStatus,
)
from schemas.checking.dsn import Feature, require
from schemas.checking.problems import ConfigError, problems
from schemas.folders.folders import FolderLayout

app = App(
    name="snapshots",
    help="Readers of snapshots with a deadline: run them, and look at what was measured.",
    no_args_is_help=True,
)

PATH = "/api/v1/snapshots"
FOLDER = Path("triggerlog-snapshots")
"""Where a run without a configuration is kept, in the folder it is started in."""
DATA = "The data"
PLACES = ("file", "dsn", "password_env", "folder", "as_json")
_SECONDS = {"interval": "interval_s", "chunk": "chunk_s", "cycle": "cycle_s", "processing": "processing_s"}
_DATA = ("layout", "folders", "channels", "intervals", "interval_s", "payload", "payload_bytes", "order", "sample")


def _option(field: str, *names: str, choices: type[StrEnum] | None = None) -> Any:
    """An option that is a field of the settings, with its words."""
    info = SnapshotSettings.model_fields[field]
    text = (info.description or "").replace("`", "")
    default = "" if info.default is None else f" [default: {info.default}]"
    metavar = "|".join(choices) if choices is not None else None
    panel = DATA if field in _DATA else None
    return typer.Option(*names, help=text + default, metavar=metavar, show_default=False, rich_help_panel=panel)


@app.command(
    epilog=examples(
        "triggerlog snapshots run --scale 0.02 --folders 10 --cycles 6",
        "triggerlog snapshots run --scale 0.02 --folders 10 --cycles 6 --layout channel-max",
        "triggerlog snapshots run --dsn mysql://root@127.0.0.1:3306 --clients 1000 --processes 4 --chunk 0.5",
        "triggerlog snapshots run beam.toml --ask changes --json > run.json",
    )
)
def run(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[CONFIG]", help="A configuration file: its database.", show_default=False),
    ] = None,
    *,
    layout: Annotated[str | None, _option("layout", choices=FolderLayout)] = None,
    folders: Annotated[int | None, _option("folders")] = None,
    channels: Annotated[int | None, _option("channels")] = None,
    intervals: Annotated[int | None, _option("intervals")] = None,
    interval: Annotated[float | None, _option("interval_s", "--interval")] = None,
    payload: Annotated[str | None, _option("payload", choices=Payload)] = None,
    payload_bytes: Annotated[int | None, _option("payload_bytes")] = None,
    order: Annotated[str | None, _option("order", choices=InsertionOrder)] = None,
    sample: Annotated[str | None, _option("sample", choices=Sample)] = None,
    ask: Annotated[str | None, _option("ask", choices=Ask)] = None,
    clients: Annotated[int | None, _option("clients")] = None,
    processes: Annotated[int | None, _option("processes")] = None,
    chunk: Annotated[float | None, _option("chunk_s", "--chunk")] = None,
    cycle: Annotated[float | None, _option("cycle_s", "--cycle")] = None,
    processing: Annotated[float | None, _option("processing_s", "--processing")] = None,
    cycles: Annotated[int | None, _option("cycles")] = None,
    scale: Annotated[float | None, _option("scale")] = None,
    cliff: Annotated[bool | None, _option("cliff", "--cliff/--no-cliff")] = None,
    schema: Annotated[str | None, _option("schema_name", "--schema")] = None,
    dsn: Dsn = None,
    password_env: PasswordEnv = None,
    folder: Annotated[
        Path | None,
        typer.Option(help=f"Where the figures are kept. [default: CONFIG's state_dir, or ./{FOLDER}]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is kept of the run, as JSON.")] = False,
) -> None:
    """Run snapshot readers by themselves, without a daemon, and show how far they are; Ctrl-C ends them.

    The folders are loaded first, and stay: the same command finds them, and goes on with what is missing.
    """
    options = {_SECONDS.get(name, name): value for name, value in locals().items() if value is not None}
    settings = _settings({name: value for name, value in options.items() if name not in PLACES})
    # Imported here: wrong options are refused, and every help is shown, without the libraries of the run.
    from daemon.tools.workloads.standalone import place_of, run_snapshots  # noqa: PLC0415
    from daemon.workloads.snapshots.runner import command_of  # noqa: PLC0415

    loaded = None if file is None else load_config(file)
    place = place_of(loaded, dsn, password_env, folder, otherwise=FOLDER)
    require(place.database.backend, Feature.FOLDERS)
    words = [*([] if file is None else [str(file)]), *([] if dsn is None else ["--dsn", place.target])]
    found = asyncio.run(run_snapshots(place, settings, command_of(settings, *words), make_console(stderr=True)))
    _say(found, place.state_dir, as_json=as_json)


@app.command(epilog=examples("triggerlog snapshots status", "triggerlog snapshots status beam.toml --json"))
def status(connection: Connection, as_json: AsJson = False) -> None:
    """Show how the snapshot readers of a daemon are."""
    answer = connection.ask("GET", PATH)

    def lines() -> list[str]:
        found = Snapshots.model_validate_json(answer.content).status
        return [] if found is None else _lines(found)

    print_answer(as_json, answer.text, lines, "No snapshot readers were run since the daemon started.")


@app.command(
    epilog=examples(
        "triggerlog snapshots start",
        "triggerlog snapshots start --set scale=0.02 --set folders=10 --set layout=channel-max",
    )
)
def start(
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="A setting that differs from the default, as an option of `run` with _; several times for several.",
            show_default=False,
        ),
    ] = None,
    *,
    connection: Connection,
) -> None:
    """Start snapshot readers in a daemon, on its database. This needs the API's token."""
    body = changes_of(settings or [])
    answer = connection.ask("POST", PATH, body)
    print_answer(False, None, lambda: _lines(SnapshotsStatus.model_validate_json(answer.content)))


@app.command(epilog=examples("triggerlog snapshots stop", "triggerlog snapshots stop beam.toml"))
def stop(connection: Connection) -> None:
    """Stop the snapshot readers of a daemon. This needs the API's token."""
    answer = connection.ask("DELETE", PATH)
    print_answer(False, None, lambda: _lines(SnapshotsStatus.model_validate_json(answer.content)))


@app.command("list", epilog=examples("triggerlog snapshots list", "triggerlog snapshots list beam.toml"))
def list_(
    *,
    folder: Annotated[
        Path | None,
        typer.Option(help=f"Where runs are kept: --folder of `run`. [default: --config's, or ./{FOLDER}]"),
    ] = None,
    connection: NamedConnection,
    as_json: AsJson = False,
) -> None:
    """Show the runs that are kept: in a folder, or with --daemon by that daemon."""
    # Imported here: the other commands start without them.
    from daemon.tools.workloads.tables import snapshots_table  # noqa: PLC0415
    from daemon.workloads.snapshots.runner import snapshots_archive  # noqa: PLC0415

    config = connection.config
    if connection.daemon is not None:
        answer = connection.ask("GET", PATH)
        past = Snapshots.model_validate_json(answer.content).past
    elif folder is None and config is not None:
        past = snapshots_archive(load_config(config, asks_database=False).state_dir).summaries()
    else:
        past = snapshots_archive((folder or FOLDER).absolute()).summaries()
    document = "[" + ",\n ".join(summary.model_dump_json() for summary in past) + "]"
    table = [snapshots_table(past)] if past else []
    print_answer(as_json, document, lambda: table, "No run of snapshot readers is kept.", width=FILE_WIDTH)


def _settings(changes: dict[str, Any]) -> SnapshotSettings:
    # Imported here: every help is shown without it.
    from daemon.workloads.snapshots.runner import with_changes  # noqa: PLC0415

    try:
        return with_changes(changes)
    except ValidationError as error:
        raise ConfigError(problems(SnapshotSettings, error.errors(include_url=False))) from None


def _say(found: SnapshotsRun, state_dir: Path, *, as_json: bool) -> None:
    if as_json:
        typer.echo(found.model_dump_json(by_alias=True))
        return
    from daemon.tools.workloads.tables import say_snapshots  # noqa: PLC0415
    from daemon.workloads.snapshots.runner import snapshots_archive  # noqa: PLC0415

    say_snapshots(found, str(snapshots_archive(state_dir).path(found.id)), make_console(file_width=FILE_WIDTH))


def _lines(found: SnapshotsStatus) -> list[str]:
    from daemon.tools.workloads.tables import snapshots_lines  # noqa: PLC0415

    return [f"{name:<6} {text}" for name, text in snapshots_lines(found)]
