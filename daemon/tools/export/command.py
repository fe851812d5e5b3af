"""`triggerlog export`: options in, a file with readings for other programs out."""

import asyncio
import dataclasses
import json
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from backends.base import StoreError
from backends.files import whole_file
from daemon.calibration.current import GroupCalibration, group_calibration
from daemon.calibration.payloads import payload_files
from daemon.calibration.tables import PayloadTables
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.configuration.database import asked_conditions_store_of, asked_store_of, layout_of
from daemon.core.moments import duration_ns, moment, rfc3339
from daemon.core.outcome import CommandFailed, examples, require_extra
from daemon.pipeline.assembly.progress import MOST_TRIGGER
from daemon.tools.console import ProgressBar, make_console
from daemon.tools.export import csv_file
from daemon.tools.export.about import About, FolderAbout, ReducedAbout, Writer
from daemon.tools.export.exporting import (
    FolderChoice,
    Written,
    decimated_of,
    dropped_of,
    export_figures,
    export_folder,
    folder_time,
    see_meanwhile,
    words_of,
)
from daemon.tools.export.exporting import export as write_export
from daemon.tools.export.span import (
    FOREVER_NS,
    Choice,
    beside,
    marks_of,
    newest_run,
    span_of,
    write_csv,
)
from daemon.tools.options import File, groups_of
from schemas.batch import Layout
from schemas.checking.dsn import Feature, require
from schemas.checking.problems import listed, suggestion
from schemas.conditions.calibration import BUTTONS, POSITION, By
from schemas.conditions.rules import ConditionsRefused
from schemas.config import GroupConfig
from schemas.marks import Mark
from schemas.readings import InstrumentGroup

EPILOG = examples(
    "triggerlog export beam.toml --last 30m --output beam.parquet",
    "triggerlog export beam.toml --group bpm --from 2026-11-21T18:00 --to 2026-11-21T19:30 -o bpm.h5",
    "triggerlog export beam.toml --instruments bpm_007,bpm_008 --channels x,y --last 2d -o two.csv.gz",
    "triggerlog export beam.toml --run 12 --triggers 4000-4100 -o slip.csv",
    "triggerlog export beam.toml --last 30m --calibrated summer_2026 -o positions.parquet",
    "triggerlog export beam.toml --folder /magnets/current --at 2026-11-21T18:00 -o currents.csv",
    "triggerlog export beam.toml --folder /magnets/current --channels Q1,Q2 --last 7d -o two.parquet",
)
Calibrating = Callable[[InstrumentGroup], Awaitable[GroupCalibration]]

PATIENCE_S = 600.0
"""How long one question may take: a server without an index on time scans the whole table for each."""


NEEDED = {".parquet": "pyarrow", ".csv": None, ".csv.gz": None, ".h5": "h5py", ".hdf5": "h5py"}
"""The library of the extra `export` that writes a file, by the ending of its name; CSV needs none."""


def writer_of(path: Path, ending: str, about: About | FolderAbout | ReducedAbout) -> Writer:
    """Make the writer of a file; figures go into an HDF5 file that has readings already. ending: a key of NEEDED."""
    # Each format imports a library of its own.
    if NEEDED[ending] == "h5py":
        from daemon.tools.export import hdf5  # noqa: PLC0415

        if isinstance(about, ReducedAbout):
            return hdf5.Hdf5ReducedWriter(path, about)
        return hdf5.Hdf5Writer(path, about) if isinstance(about, About) else hdf5.Hdf5IntervalsWriter(path, about)
    if NEEDED[ending] is None:
        return csv_file.CsvWriter(path, csv_file.columns_of(about), compressed=ending == ".csv.gz")
    from daemon.tools.export import arrow  # noqa: PLC0415

    columns: arrow.Columns
    if isinstance(about, ReducedAbout):
        columns = arrow.FigureColumns(about)
    else:
        columns = arrow.ReadingColumns(about) if isinstance(about, About) else arrow.IntervalColumns(about)
    return arrow.ParquetWriter(path, columns)


def export(
    file: File,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="PATH", help=f"The file to write: {', '.join(NEEDED)}.", show_default=False
        ),
    ],
    group: Annotated[str | None, typer.Option(help="The group to export.", show_default="the only one")] = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="From this time on; UTC without a zone.")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time; UTC without a zone.")] = None,
    last: Annotated[str | None, typer.Option(metavar="DURATION", help="The last 90s, 30m, 12h, 7d or 2w.")] = None,
    run: Annotated[int | None, typer.Option(help="Only this run.", show_default="all")] = None,
    triggers: Annotated[
        str | None, typer.Option(metavar="FIRST-LAST", help="These trigger numbers, of --run or the newest run.")
    ] = None,
    instruments: Annotated[str | None, typer.Option(metavar="NAME,...", help="Only these.", show_default="all")] = None,
    channels: Annotated[str | None, typer.Option(metavar="NAME,...", help="Only these.", show_default="all")] = None,
    calibrated: Annotated[
        str | None,
        typer.Option(metavar="TAG", help="Add x_mm and y_mm with the calibrations of this global tag."),
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(
            help="Of --calibrated: its intervals are of (run, trigger), or of (0, time in ns).",
            show_default="conditions.by",
        ),
    ] = None,
    folder: Annotated[
        str | None, typer.Option(metavar="PATH", help="Export intervals of this folder of channels, and no readings.")
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="Of --folder: what holds at this time.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Of --folder: the version that a tag names.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write readings into a Parquet, CSV or HDF5 file, with units and names.

    It only reads, from [readers] dsn where that is set, in parts that take little memory; the daemon may run.
    """
    ending = _ending(output)
    is_csv = ".csv" in ending
    with_marks = beside(output, ending, "marks.csv") if is_csv else None
    with_calibration = beside(output, ending, "calibration.json") if is_csv and calibrated else None
    # HDF5 has all of it in one file.
    with_figures = None if NEEDED[ending] == "h5py" or folder else beside(output, ending, f"reduced{ending}")
    for path in filter(None, (output, with_marks, with_calibration, with_figures)):
        if path.exists() and not force:
            raise CommandFailed(f"--output: {path} exists; give another name, or --force")
    loaded = load_config(file)
    if folder is not None:
        of_readings = {"--group": group, "--run": run, "--triggers": triggers, "--instruments": instruments}
        _see_none({**of_readings, "--calibrated": calibrated, "--by": by}, "it is for readings, and not for --folder")
        _export_folder(loaded, _folder_choice(folder, at, from_, to, last, tag, channels), output, ending)
        return
    _see_none({"--at": at, "--tag": tag}, "it is for intervals; give --folder PATH, too")
    section = _section(loaded, group)
    known = section.group()
    calibrating = _calibrating(loaded, section, calibrated, by)
    wanted = _positions(channels, [channel.name for channel in known.channels], "--channels")
    start_ns, end_ns = _times(from_, to, last)
    choice = Choice(
        group=known,
        channels=known.channels if wanted is None else tuple(known.channels[number] for number in wanted),
        start_ns=start_ns,
        end_ns=end_ns,
        run=run,
        triggers=None if triggers is None else _numbers(triggers),
        instruments=_positions(instruments, known.instruments, "--instruments"),
    )
    began = time.monotonic()
    perhaps = nullcontext() if with_figures is None else whole_file(with_figures, is_optional=True)
    with whole_file(output) as part, perhaps as figures_part:
        written, about = asyncio.run(
            _export(
                loaded,
                layout_of(section, loaded.config),
                choice,
                calibrating,
                partial(writer_of, part, ending),
                figures_writer_of=partial(writer_of, figures_part or part, ending),
            )
        )
        marks = about.marks
        if with_marks is not None:
            _write_beside(with_marks, marks)
        if with_calibration is not None and about.calibration is not None:
            with whole_file(with_calibration) as beside_part:
                beside_part.write_text(json.dumps(about.calibration.as_json(), indent=1), encoding="utf-8")
    said = f", {len(marks):,} marks{f' in {with_marks}' if with_marks else ''}" if marks else ""
    if about.calibration is not None:
        said += f", {about.calibration.without:,} of them without a calibration by {about.calibration.tag.name}"
    said += words_of(about)
    if written.figures:
        said += f", {written.figures:,} figures of them{f' in {with_figures}' if with_figures else ''}"
    when = f", {rfc3339(written.first_ns)} to {rfc3339(written.last_ns)}" if written.readings else ""
    typer.echo(
        f"{output}: {written.readings:,} readings of group {known.name}{when}{said},"
        f" {output.stat().st_size / 2**20:.1f} MiB in {time.monotonic() - began:.1f} s"
    )


async def _export(
    loaded: LoadedConfig,
    layout: Layout,
    choice: Choice,
    calibrating: Calibrating | None,
    writer_of: Callable[[About], Writer],
    *,
    figures_writer_of: Callable[[ReducedAbout], Writer],
) -> tuple[Written, About]:
    store = asked_store_of(loaded, give_up_s=PATIENCE_S)
    try:
        with _ended_by_signals(), ProgressBar(make_console(stderr=True), "finding the range") as bar:
            if loaded.config.database.dsn is None and (missing := await store.check()):
                raise CommandFailed(
                    f"state_dir: the database in {loaded.state_dir} has nothing to export: it lacks "
                    f"{', '.join(missing)}; start the daemon, which makes them, or name its state folder"
                )
            if choice.triggers is not None and choice.run is None:
                choice = dataclasses.replace(choice, run=await newest_run(store, choice.group))
            span = await span_of(store, choice)
            marks = await marks_of(store, span, choice.group.name)
            calibration = None if calibrating is None else await calibrating(choice.group)
            about = About(
                logger=loaded.config.logger,
                layout=layout,
                choice=choice,
                span=span,
                marks=marks,
                dropped=await dropped_of(store, span, choice.group.name),
                decimated=await decimated_of(store, span, choice.group.name),
                calibration=calibration,
            )
            with closing(writer_of(about)) as writer:
                began = time.monotonic()

                def progress(share: float, readings: int) -> None:
                    rate = readings / (time.monotonic() - began)
                    bar.show(choice.group.name, f"{readings:,} readings, {rate:,.0f}/s", done=share, total=1.0)

                written = await write_export(store, about, writer, progress)
                await see_meanwhile(store, about)
            written.figures = await export_figures(store, about, figures_writer_of)
    finally:
        await store.close()
    if not (written.readings or written.figures):
        dropped, decimated = about.dropped + about.meanwhile.dropped, about.decimated + about.meanwhile.decimated
        gone = "; readings of that time were dropped by retention" if dropped else ""
        gone = gone or ("; readings of that time were reduced" if decimated else "")
        raise CommandFailed(
            f"the database has no such readings of group {choice.group.name} from {rfc3339(span.start_ns)} to"
            f" {rfc3339(span.end_ns)}{gone}; no file was written"
        )
    return written, about


def _calibrating(loaded: LoadedConfig, section: GroupConfig, tag: str | None, by: By | None) -> Calibrating | None:
    """What reads the calibrations of a group once the database is there; None where none are wanted."""
    if tag is None:
        if by is not None:
            raise CommandFailed("--by: it says what the intervals of a tag are of; give --calibrated TAG, too")
        return None
    require(loaded.config.database.backend, Feature.CONDITIONS)
    type_, conditions = section.calibrated_as, loaded.config.conditions
    if type_ is None:
        raise CommandFailed(
            f"--calibrated: group {section.name} gives no four buttons; export a group with the channels"
            f" {listed(BUTTONS)}, and without {listed(each.name for each in POSITION)}"
        )
    if conditions.payloads is None:
        raise CommandFailed("conditions.payloads: not given; name the folder or address that payloads are below")
    files = payload_files(conditions.payloads, loaded.path.parent)

    async def calibration(of: InstrumentGroup) -> GroupCalibration:
        store = asked_conditions_store_of(loaded)
        try:
            return await group_calibration(
                store, tag, of, type_, by=by or conditions.by, tables=PayloadTables(of, files)
            )
        except ConditionsRefused as refused:
            raise CommandFailed(f"--calibrated: {refused.problem}; {refused.fix}") from None
        except StoreError as error:
            if error.is_away:
                raise
            raise CommandFailed(
                f"conditions.schema: {conditions.schema_name} cannot be read ({error});"
                " name the one that a server of conditions has made"
            ) from None
        finally:
            await store.close()

    return calibration


def _see_none(options: Mapping[str, object], problem: str) -> None:
    for option, given in options.items():
        if given is not None:
            raise CommandFailed(f"{option}: {problem}")


def _folder_choice(  # noqa: PLR0917 - each is an option
    path: str,
    at: str | None,
    from_: str | None,
    to: str | None,
    last: str | None,
    tag: str | None,
    channels: str | None,
) -> FolderChoice:
    wanted = None if channels is None else _names(channels, "--channels")
    if at is not None:
        if from_ or to or last:
            raise CommandFailed("--at: give it, or --from and --to, or --last")
        return FolderChoice(path=path, at=folder_time(at, "--at"), tag=tag, channels=wanted)
    since, until = _times(from_, to, last, folder_time)
    return FolderChoice(
        path=path, since=since or 0, until=FOREVER_NS if until is None else until, tag=tag, channels=wanted
    )


def _export_folder(loaded: LoadedConfig, choice: FolderChoice, output: Path, ending: str) -> None:
    began = time.monotonic()

    async def write(part: Path, bar: ProgressBar) -> tuple[int, FolderAbout]:
        def progress(done: int, total: int, intervals: int) -> None:
            bar.show(choice.path, f"{done:,} of {total:,} channels, {intervals:,} intervals", done=done, total=total)

        with _ended_by_signals():
            return await export_folder(loaded, choice, partial(writer_of, part, ending), progress, give_up_s=PATIENCE_S)

    with whole_file(output) as part, ProgressBar(make_console(stderr=True), f"reading {choice.path}") as bar:
        count, about = asyncio.run(write(part, bar))
    typer.echo(
        f"{output}: {count:,} intervals of {len(about.channels):,} channels of {choice.path},"
        f" {output.stat().st_size / 2**20:.1f} MiB in {time.monotonic() - began:.1f} s"
    )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM end what runs in here in good order."""
    own, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert own is not None
    by: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        by.append(number)
        # An answer that arrives while its question is being cancelled fails in asyncpg's protocol (its issue 240),
        # and asyncio would print that: the connection is given up in any case.
        loop.set_exception_handler(lambda *_: None)
        own.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    except asyncio.CancelledError:
        if not by:
            raise
        raise CommandFailed(f"stopped by {by[0].name}; no file was written") from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _write_beside(path: Path, marks: tuple[Mark, ...]) -> None:
    """Write the marks of a CSV; without any, no file of an earlier export is left there."""
    if not marks:
        path.unlink(missing_ok=True)
        return
    with whole_file(path) as part:
        write_csv(part, marks)


def _ending(output: Path) -> str:
    ending = next((ending for ending in NEEDED if output.name.lower().endswith(ending)), None)
    if ending is None:
        raise CommandFailed(f"--output: {output.name} does not say the format; end it with {listed(NEEDED)}")
    library = NEEDED[ending]
    require_extra("export", f"an export as {ending}", {} if library is None else {library: library})
    if not output.absolute().parent.is_dir():
        raise CommandFailed(f"--output: there is no folder {output.absolute().parent}")
    return ending


def _section(loaded: LoadedConfig, group: str | None) -> GroupConfig:
    sections = groups_of(loaded, group)
    if len(sections) > 1:
        raise CommandFailed(f"--group: name one of {listed(sections)}; a file holds one group")
    return next(iter(sections.values()))


def _times(
    from_: str | None, to: str | None, last: str | None, read: Callable[[str, str], int] = moment
) -> tuple[int | None, int | None]:
    if last is not None:
        if from_ or to:
            raise CommandFailed("--last: give it, or --from and --to, not both")
        now_ns = time.time_ns()
        return max(now_ns - duration_ns(last, "--last"), -FOREVER_NS), now_ns
    start_ns = None if from_ is None else read(from_, "--from")
    end_ns = None if to is None else read(to, "--to")
    if start_ns is not None and end_ns is not None and start_ns >= end_ns:
        raise CommandFailed(f"--to: {rfc3339(end_ns)} is not after --from, {rfc3339(start_ns)}")
    return start_ns, end_ns


def _positions(names: str | None, known: Sequence[str], option: str) -> tuple[int, ...] | None:
    """Positions of names in a list, in the order of the list."""
    if names is None:
        return None
    wanted = _names(names, option)
    for name in wanted:
        if name not in known:
            raise CommandFailed(f"{option}: there is no {name!r}; {suggestion(name, known)}")
    return tuple(sorted({known.index(name) for name in wanted}))


def _names(names: str, option: str) -> list[str]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise CommandFailed(f"{option}: name at least one")
    return wanted


def _numbers(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not (first.strip().isdecimal() and (last or first).strip().isdecimal()) or int(first) > int(last or first):
        raise CommandFailed(f"--triggers: {text!r} is not a range; write it like 4000-4100, or one number")
    if int(last or first) >= MOST_TRIGGER:
        raise CommandFailed(f"--triggers: {last or first} is no trigger number: these are below {MOST_TRIGGER}")
    return int(first), int(last or first)
