"""`triggerlog conditions`: calibrations and settings by global tag."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
import typer

from backends.files import whole_file
from daemon.client.api.conditions import ConditionsApi, conditions_api
from daemon.client.api.reach import Reach
from daemon.core.configuration import load_config
from daemon.core.imports import uncollected
from daemon.core.monitoring.logs import LogLevel, start_logging
from daemon.core.outcome import CommandFailed, examples, fix_of, reason_of, require_extra
from daemon.tools.answers import in_columns, listing, print_answer
from daemon.tools.console import ProgressBar, make_console
from daemon.tools.options import App, AsJson, ConditionsConnection, File
from schemas.api.conditions import TagRow
from schemas.checking.problems import suggestion
from schemas.conditions.intervals import (
    END,
    LARGEST,
    Difference,
    Intervals,
    Key,
    TagStatus,
    differences,
    intervals_of_rows,
)

app = App(
    name="conditions",
    help="Calibrations and settings by global tag: serve them, look at them, change them.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Conditions by global tag: calibrations and settings, and what is valid when; serve them to programs."""


Tag = Annotated[str, typer.Argument(metavar="TAG", help="Name of a global tag.", show_default=False)]
Type = Annotated[str, typer.Argument(metavar="TYPE", help="Name of a payload type.", show_default=False)]
Major = Annotated[int, typer.Argument(metavar="MAJOR", help="First half of the key, e.g. a run.", show_default=False)]
Minor = Annotated[int, typer.Argument(metavar="MINOR", help="Second half of the key, e.g. a trigger.")]

NOTHING = intervals_of_rows([])
FORMATS = "its name ends in .jsonl (JSON lines) or .parquet"

T = TypeVar("T")


def _asked(server: Reach, question: Callable[[ConditionsApi], Awaitable[T]]) -> T:
    """Ask a server outside an event loop."""

    async def answer() -> T:
        async with conditions_api(server) as api:
            return await question(api)

    return asyncio.run(answer())


def _key_of(major: int, minor: int, field: str = "MAJOR MINOR") -> Key:
    """A key that was given.

    Raises:
        CommandFailed: it is none.
    """
    for number in (major, minor):
        if not 0 <= number <= LARGEST:
            raise CommandFailed(f"{field}: {number} is no half of a key; give 0 to {LARGEST}")
    return Key(major, minor)


async def _intervals_of(api: ConditionsApi, tag: str, of_type: str) -> Intervals:
    """The intervals that a tag has of a type.

    Raises:
        CommandFailed: it has none.
    """
    await api.tag(tag)
    lists = await api.lists(tag)
    if of_type not in lists:
        fix = suggestion(of_type, sorted(lists)) if lists else "attach something to it"
        raise CommandFailed(f"TYPE: {tag} has no list of type {of_type!r}; {fix}")
    return await api.intervals(lists[of_type])


@app.command(epilog=examples("triggerlog conditions serve beam.toml"))
def serve(
    file: File,
    log_level: Annotated[LogLevel, typer.Option(help="How much is logged to stderr.")] = LogLevel.INFO,
) -> None:
    """Serve conditions until SIGTERM or Ctrl-C, as the section `conditions` of the configuration says.

    A daemon with `serve = true` does the same in a process of its own. What is in the database is served to programs
    that speak the contract of the reference conditions database: docs/conditions.md.
    """
    start_logging(log_level)
    loaded = load_config(file)
    with uncollected():
        from daemon.conditions.servers import serve_conditions  # noqa: PLC0415

    asyncio.run(serve_conditions(loaded))


@app.command(epilog=examples("triggerlog conditions tags", "triggerlog conditions tags beam.toml --json"))
def tags(connection: ConditionsConnection, as_json: AsJson = False) -> None:
    """List the global tags with their states."""
    found = _asked(connection.reach(), lambda api: api.tags())
    rows = [
        (each.name, each.status, each.payload_lists_count, each.payload_iov_count, each.updated, each.author or "")
        for each in found
    ]
    listing(
        ("tag", "status", "types", "intervals", "changed (UTC)", "author"), rows, as_json, "There is no global tag."
    )


@app.command(epilog=examples("triggerlog conditions types"))
def types(connection: ConditionsConnection, as_json: AsJson = False) -> None:
    """List the payload types."""
    found = _asked(connection.reach(), lambda api: api.types())
    listing(("type",), [(name,) for name in found], as_json, "There is no payload type.")


@app.command(epilog=examples("triggerlog conditions show summer_2026"))
def show(tag: Tag, *, connection: ConditionsConnection, as_json: AsJson = False) -> None:
    """Show a global tag: its status, and its payload lists by type."""

    async def question(api: ConditionsApi) -> tuple[TagRow, Sequence[tuple[str, str]]]:
        return await api.tag(tag), sorted((await api.lists(tag)).items())

    found, lists = _asked(connection.reach(), question)
    document = orjson.dumps(found.model_dump(mode="json") | {"payload_lists": dict(lists)}).decode()
    said = (
        f"{found.name}: {found.status}, {found.payload_iov_count:,} intervals of {found.payload_lists_count:,} types,"
        f" changed {found.updated} UTC{f', by {found.author}' if found.author else ''}"
    )
    print_answer(as_json, document, lambda: [said, *in_columns(("type", "list"), lists, "It has no payload list.")])


@app.command(
    epilog=examples("triggerlog conditions at summer_2026 12 4000", "triggerlog conditions at summer_2026 12 --json")
)
def at(tag: Tag, major: Major, minor: Minor = 0, *, connection: ConditionsConnection, as_json: AsJson = False) -> None:
    """Show what is valid at a key of a global tag, by type."""
    key = _key_of(major, minor)

    async def question(api: ConditionsApi) -> Sequence[tuple[Any, ...]]:
        await api.tag(tag)  # the question below has no answer for an unknown tag, and no error
        found = await api.valid_at(tag, key)
        return [(each.type, each.url, each.checksum, each.size, each.start, each.end) for each in found]

    rows = _asked(connection.reach(), question)
    listing(("type", "url", "checksum", "size", "start", "end"), rows, as_json, "Nothing is valid there.")


@app.command(epilog=examples("triggerlog conditions history summer_2026 bpm"))
def history(tag: Tag, type_: Type, *, connection: ConditionsConnection, as_json: AsJson = False) -> None:
    """List the intervals of a type in a global tag, in the order of their keys."""
    found = _asked(connection.reach(), lambda api: _intervals_of(api, tag, type_))
    listing(("start", "end", "url", "checksum", "size"), _rows(found), as_json, "It has no interval.")


@app.command(epilog=examples("triggerlog conditions diff spring_2026 summer_2026"))
def diff(tag: Tag, other: Tag, *, connection: ConditionsConnection, as_json: AsJson = False) -> None:
    """List where two global tags have different payloads, by type and stretch of keys."""

    async def question(api: ConditionsApi) -> list[tuple[str, Difference]]:
        lists = [(await api.tag(name), await api.lists(name))[1] for name in (tag, other)]
        found = []
        for of_type in sorted(lists[0].keys() | lists[1].keys()):
            both = [await api.intervals(of[of_type]) if of_type in of else NOTHING for of in lists]
            found += [(of_type, each) for each in differences(*both)]
        return found

    rows = [
        (of_type, each.start, each.end, each.left, each.right) for of_type, each in _asked(connection.reach(), question)
    ]
    listing(("type", "start", "end", tag, other), rows, as_json, "There is no difference.")


def _rows(intervals: Intervals) -> Sequence[tuple[Any, ...]]:
    columns = (intervals.starts.tolist(), intervals.ends.tolist(), intervals.urls, intervals.checksums)
    return [
        (Key(*start), Key(*end), url, checksum, None if size < 0 else size)
        for start, end, url, checksum, size in zip(*columns, intervals.sizes.tolist(), strict=True)
    ]


@app.command("add-tag", epilog=examples("triggerlog conditions add-tag summer_2026 beam.toml"))
def add_tag(
    tag: Tag,
    *,
    author: Annotated[str | None, typer.Option(help="Who makes it.", show_default=False)] = None,
    connection: ConditionsConnection,
) -> None:
    """Add a global tag, unlocked and without payload lists. This needs the API's token."""
    _asked(connection.reach(), lambda api: api.add_tag(tag, author))
    typer.echo(f"{tag}: added, unlocked")


@app.command("add-type", epilog=examples("triggerlog conditions add-type bpm beam.toml"))
def add_type(type_: Type, *, connection: ConditionsConnection) -> None:
    """Add a payload type. This needs the API's token."""
    _asked(connection.reach(), lambda api: api.add_type(type_))
    typer.echo(f"{type_}: added")


@app.command(
    epilog=examples(
        "triggerlog conditions attach summer_2026 bpm bpm/a.json 12 beam.toml --payload payloads/bpm/a.json",
        "triggerlog conditions attach summer_2026 bpm bpm/b.json 12 4000 --end 13 0 beam.toml",
    )
)
def attach(
    tag: Tag,
    type_: Type,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="Where the payload is, below the site's payloads.", show_default=False)
    ],
    major: Major,
    minor: Minor = 0,
    *,
    end: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="MAJOR MINOR", help="End of the interval.", show_default="open"),
    ] = None,
    payload: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The payload itself: its sha256 and size are stored.")
    ] = None,
    checksum: Annotated[str, typer.Option(metavar="HEX", help="Its sha256 or md5, where it is not at hand.")] = "",
    connection: ConditionsConnection,
) -> None:
    """Attach an interval to a global tag, whose list of the type is made if there is none. Needs the API's token.

    In an unlocked tag it trims and splits what is valid there; a locked one takes only what changes no answer, or a
    newer open interval at the end.
    """
    if payload is not None and checksum:
        raise CommandFailed("--checksum: --payload gives it already; give one of them")
    start, until = _key_of(major, minor), END if end is None else _key_of(*end, field="--end")
    if not start < until:
        raise CommandFailed(f"--end: {until.major} {until.minor} is not after {major} {minor}; give a later key")
    size = None
    if payload is not None:
        checksum, size = _of_content(payload)
    interval = intervals_of_rows([(type_, url, checksum, size, *start, *until)])

    async def order(api: ConditionsApi) -> None:
        await api.tag(tag)
        await api.insert(await api.list_of(tag, type_), interval)

    _asked(connection.reach(), order)
    said = "on" if until == END else f"to {until.major} {until.minor}"
    typer.echo(f"{tag}: {url} is valid for {type_} from {start.major} {start.minor} {said}")


@app.command(epilog=examples("triggerlog conditions clone summer_2026 summer_2026_v2 beam.toml"))
def clone(
    tag: Tag,
    name: Annotated[str, typer.Argument(metavar="NEW", help="Name of the new global tag.", show_default=False)],
    *,
    connection: ConditionsConnection,
) -> None:
    """Make an unlocked global tag that answers as another one does. This needs the API's token."""
    _asked(connection.reach(), lambda api: api.clone_tag(tag, name))
    typer.echo(f"{name}: a clone of {tag}, unlocked")


@app.command(epilog=examples("triggerlog conditions lock summer_2026 beam.toml"))
def lock(tag: Tag, *, connection: ConditionsConnection) -> None:
    """Lock a global tag: no answer that it gives changes any more. This needs the API's token."""
    _set(tag, TagStatus.LOCKED, connection.reach())


@app.command(epilog=examples("triggerlog conditions unlock summer_2026 beam.toml"))
def unlock(tag: Tag, *, connection: ConditionsConnection) -> None:
    """Unlock a global tag: everything may be changed. This needs the API's token."""
    _set(tag, TagStatus.UNLOCKED, connection.reach())


@app.command(epilog=examples("triggerlog conditions freeze summer_2026 --yes beam.toml"))
def freeze(
    tag: Tag,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Freeze it; without this option nothing changes.")] = False,
    connection: ConditionsConnection,
) -> None:
    """Freeze a global tag for ever: nothing of it can be changed, its status neither. This needs the API's token."""
    if not yes:
        raise CommandFailed(f"this would freeze {tag} for ever; add --yes to freeze it, or lock it")
    _set(tag, TagStatus.FROZEN, connection.reach())


def _set(tag: str, status: TagStatus, server: Reach) -> None:
    _asked(server, lambda api: api.set_status(tag, status))
    typer.echo(f"{tag}: {status}")


def _of_content(path: Path) -> tuple[str, int]:
    """sha256 and size of a payload."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size
    except OSError as error:
        raise CommandFailed(f"--payload: {path} cannot be read ({reason_of(error)}); name the payload's file") from None


@app.command(
    "import",
    epilog=examples(
        "triggerlog conditions import summer_2026 summer.parquet beam.toml",
        "triggerlog conditions import summer_2026 summer.jsonl beam.toml",
    ),
)
def import_(
    tag: Tag,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"The file to read; {FORMATS}.", show_default=False)],
    *,
    connection: ConditionsConnection,
) -> None:
    """Attach the intervals of a file to a global tag. This needs the API's token.

    The tag, types and lists that are not there are made. Intervals that the tag has already are left as they are, so
    that an import that was cut short goes on when it is repeated.
    """
    require_extra("export", "an import", {"pyarrow": "pyarrow"})
    from daemon.tools.conditions.files import checked_ending, import_tag, read_file  # noqa: PLC0415 - of the extra

    checked_ending(file, "FILE")
    found = connection.reach()
    began = time.monotonic()
    with ProgressBar(make_console(stderr=True), f"reading {file.name}") as bar:
        content = read_file(file)
        if not content:
            raise CommandFailed(f"{file}: it has no interval; give a file with a row an interval")
        done = _asked(found, lambda api: import_tag(api, tag, content, _progress(bar)))
    there = f", {done.there:,} were there" if done.there else ""
    typer.echo(f"{tag}: {done.new:,} intervals attached{there}, in {time.monotonic() - began:.1f} s")


@app.command(epilog=examples("triggerlog conditions export summer_2026 summer.parquet beam.toml"))
def export(
    tag: Tag,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"The file to write; {FORMATS}.", show_default=False)],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    connection: ConditionsConnection,
) -> None:
    """Write the intervals of a global tag into a file, all or none."""
    require_extra("export", "an export", {"pyarrow": "pyarrow"})
    from daemon.tools.conditions.files import checked_ending, export_tag  # noqa: PLC0415 - of the extra

    ending = checked_ending(file, "FILE")
    if file.exists() and not force:
        raise CommandFailed(f"FILE: {file} exists; give another name, or --force")
    found = connection.reach()
    try:
        with ProgressBar(make_console(stderr=True), f"reading {tag}") as bar, whole_file(file) as part:

            async def question(api: ConditionsApi) -> int:
                return await export_tag(api, tag, part, ending, _progress(bar))

            count = _asked(found, question)
    except OSError as error:
        fix = fix_of(error, "name a file in a folder that is there")
        raise CommandFailed(f"FILE: {file} cannot be written ({reason_of(error)}); {fix}") from None
    typer.echo(f"{file}: {count:,} intervals of {tag}, {file.stat().st_size / 2**20:.1f} MiB")


def _progress(bar: ProgressBar) -> Callable[[str, int, int], None]:
    def show(of_type: str, done: int, total: int) -> None:
        bar.show(of_type, f"{done:,} of {total:,} intervals", done=done, total=total or None)

    return show
