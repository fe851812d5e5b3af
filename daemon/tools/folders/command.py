"""`triggerlog folders`: values that hold for intervals of time, by channel."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer

from daemon.client.api.asking import DaemonGone
from daemon.client.api.folders import FoldersApi, folders_api
from daemon.core.moments import LEAST_NS, rfc3339
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.answers import in_columns, listing, print_answer
from daemon.tools.console import ProgressBar, make_console
from daemon.tools.export.exporting import folder_time
from daemon.tools.folders.files import ENDINGS, number_of, read_block
from daemon.tools.options import App, AsJson, Connection
from schemas.api.folders import FolderColumn, FolderDetails, NewChannels, NewFolder, NewFolderSet
from schemas.checking.dsn import Feature
from schemas.checking.problems import listed
from schemas.folders.blocks import OPEN
from schemas.folders.bodies import values_of
from schemas.folders.folders import FolderKind, FolderLayout, block_dtype
from schemas.readings import Array

app = App(
    name="folders",
    help="Values that hold for intervals of time: what held when, and what changed.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Folders of channels: values that hold for intervals of time; what held when, and what changed."""


TIME = "RFC 3339, UTC without a zone, or an integer such as ns since 1970-01-01 UTC"

FolderPath = Annotated[str, typer.Argument(metavar="PATH", help="Path of the folder.", show_default=False)]
AnyPath = Annotated[str, typer.Argument(metavar="PATH", help="Path of the folder or the set.", show_default=False)]
TagName = Annotated[str, typer.Argument(metavar="TAG", help="Name of the tag.", show_default=False)]
TagOption = Annotated[
    str | None, typer.Option(metavar="TAG", help="The version that this tag names.", show_default="HEAD, the newest")
]
Description = Annotated[str, typer.Option(help="What it is, in a line.", show_default=False)]

T = TypeVar("T")


def _asked(connection: Connection, question: Callable[[FoldersApi], Awaitable[T]]) -> T:
    """Ask a daemon outside an event loop."""

    async def answer() -> T:
        async with folders_api(connection.reach(Feature.FOLDERS)) as api:
            return await question(api)

    return asyncio.run(answer())


Found = tuple[FolderDetails, Array]
Time = Annotated[str | None, typer.Option(metavar="TIME", help=f"{TIME}.", show_default=False)]


@app.command("list", epilog=examples("triggerlog folders list", "triggerlog folders list beam.toml --json"))
def list_(connection: Connection, as_json: AsJson = False) -> None:
    """List the folders, and the sets that they are in."""
    tree = _asked(connection, lambda api: api.tree())
    rows = [(each.path, "set", "", "", "", each.description) for each in tree.sets]
    rows += [
        (each.path, each.kind, each.layout, _words(each.columns), str(each.version), each.description)
        for each in tree.folders
    ]
    names = ("path", "kind", "layout", "columns", "insertions", "description")
    print_answer(as_json, tree, lambda: in_columns(names, sorted(rows), "There is no folder."))


@app.command(epilog=examples("triggerlog folders show /magnets/current"))
def show(path: FolderPath, *, connection: Connection, as_json: AsJson = False) -> None:
    """Show a folder: its columns, channels and tags."""
    found = _asked(connection, lambda api: api.folder(path))
    print_answer(as_json, found, lambda: _lines(found))


def _lines(found: FolderDetails) -> Iterator[str]:
    folder = found.folder
    described = f"; {folder.description}" if folder.description else ""
    yield (
        f"{folder.path}: {folder.kind}, layout {folder.layout}, {_words(folder.columns)};"
        f" {folder.version:,} insertions, {len(found.channels):,} channels{described}"
    )
    if found.tags:
        tags = [(each.name, str(each.version), rfc3339(each.created_ns)) for each in found.tags]
        yield from in_columns(("tag", "insertions", "made"), tags, "")
    channels = [(str(number), name) for number, name in found.channels.items()]
    yield from in_columns(("channel", "name"), channels, "No channel.")


@app.command(
    epilog=examples(
        "triggerlog folders snapshot /magnets/current",
        "triggerlog folders snapshot /magnets/current --at 2026-11-21T18:00 --json",
    )
)
def snapshot(
    path: FolderPath,
    *,
    at: Annotated[str | None, typer.Option(metavar="TIME", help=f"{TIME}.", show_default="now")] = None,
    tag: TagOption = None,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """Show what holds at a time, of each channel that has something then."""

    async def question(api: FoldersApi) -> Found:
        return await api.folder(path), await api.snapshot(path, at, tag)

    _print_found(_asked(connection, question), as_json)


@app.command(epilog=examples("triggerlog folders history /magnets/current Q1 --since 2026-11-21 --until 2026-11-22"))
def history(
    path: FolderPath,
    channel: Annotated[
        str, typer.Argument(metavar="CHANNEL", help="Number or name of the channel.", show_default=False)
    ],
    *,
    since: Time = None,
    until: Time = None,
    tag: TagOption = None,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """List the intervals of a channel that hold some of a span of time; without one all of them."""

    async def question(api: FoldersApi) -> Found:
        return await api.folder(path), await api.history(path, channel, since, until, tag)

    _print_found(_asked(connection, question), as_json)


@app.command(epilog=examples("triggerlog folders changes /magnets/current --after 2026-11-21T18:00"))
def changes(
    path: FolderPath,
    *,
    after: Annotated[str, typer.Option(metavar="TIME", help=f"{TIME}; -1 for everything.", show_default=False)],
    upto: Annotated[str | None, typer.Option(metavar="TIME", help=f"{TIME}.", show_default="now")] = None,
    tag: TagOption = None,
    connection: Connection,
    as_json: AsJson = False,
) -> None:
    """List the intervals that begin after a time, and up to another one."""

    async def question(api: FoldersApi) -> Found:
        return await api.folder(path), await api.changes(path, after, upto, tag)

    _print_found(_asked(connection, question), as_json)


def _print_found(found: Found, as_json: bool) -> None:
    details, block = found
    columns = tuple(each.column() for each in details.folder.columns)
    values = (values_of(block, column) for column in columns)
    rows = [
        (number, details.channels.get(number, ""), _time(since, as_json), _time(until, as_json), *cells)
        for number, since, until, *cells in zip(
            *(block[name].tolist() for name in ("channel", "since", "until")),
            *(each.tolist() if isinstance(each, np.ndarray) else each for each in values),
            strict=True,
        )
    ]
    names = [column.name for column in columns]
    listing(("channel", "name", "since", "until", *names), rows, as_json, "There is no such interval.")


def _time(time: int, as_json: bool) -> Any:
    """A time as it is told: for people as RFC 3339 where it can be nanoseconds since 1970."""
    if time == OPEN:
        return None if as_json else "open"
    return time if as_json else rfc3339(time) if time >= LEAST_NS else str(time)


def _words(columns: tuple[FolderColumn, ...]) -> str:
    """Columns as `triggerlog folders add` takes them."""
    return " ".join(":".join([each.name, each.dtype, *([str(each.width)] if each.width else [])]) for each in columns)


AT_ONCE_BYTES = 16 * 2**20
"""Of one insertion; a larger file becomes several, each all or none."""

SourceOption = Annotated[str, typer.Option("--source", metavar="NAME", help="Who inserts.")]
ChannelOption = Annotated[
    list[str] | None,
    typer.Option("--channel", metavar="NUMBER=NAME", help="A channel; may be given often.", show_default=False),
]


@app.command(
    epilog=examples(
        "triggerlog folders add /magnets/current --column ampere:float64 --channel 1=Q1 --channel 2=Q2 beam.toml",
        "triggerlog folders add /calibrations/gain --kind multi --column gain:float32 --column by:text:40 beam.toml",
    )
)
def add(
    path: FolderPath,
    *,
    column: Annotated[
        list[str],
        typer.Option(metavar="NAME:TYPE", help="A column, such as ampere:float64 or note:text:40.", show_default=False),
    ],
    kind: Annotated[FolderKind, typer.Option(help="Whether each insertion is a version.")] = FolderKind.SINGLE,
    layout: Annotated[FolderLayout, typer.Option(help="How it lies in the database.")] = FolderLayout.WINDOW,
    channel: ChannelOption = None,
    description: Description = "",
    connection: Connection,
) -> None:
    """Add a folder, and the sets above it that are missing. This needs the API's token."""
    new = NewFolder(
        path=path,
        columns=tuple(map(_column, column)),
        kind=kind,
        layout=layout,
        channels=_channels(channel or []),
        description=description,
    )
    _asked(connection, lambda api: api.add_folder(new))
    typer.echo(f"{path}: added, {kind}, with {len(new.channels):,} channels")


@app.command("add-set", epilog=examples("triggerlog folders add-set /magnets beam.toml"))
def add_set(path: AnyPath, *, description: Description = "", connection: Connection) -> None:
    """Add a set of folders. This needs the API's token."""
    new = NewFolderSet(path=path, description=description)
    _asked(connection, lambda api: api.add_set(new))
    typer.echo(f"{path}: added, a set")


@app.command(
    "add-channels",
    epilog=examples("triggerlog folders add-channels /magnets/current --channel 3=Q3 beam.toml"),
)
def add_channels(path: FolderPath, *, channel: ChannelOption = None, connection: Connection) -> None:
    """Add channels to a folder, all or none. This needs the API's token."""
    new = NewChannels(path=path, channels=_channels(channel or []))
    if not new.channels:
        raise CommandFailed("--channel: not given; give at least one, such as --channel 3=Q3")
    _asked(connection, lambda api: api.add_channels(new))
    typer.echo(f"{path}: {len(new.channels):,} channels added")


@app.command(
    epilog=examples(
        "triggerlog folders insert /magnets/current currents.csv beam.toml",
        "triggerlog folders insert /magnets/current currents.npy --source ramp --sequence 12 beam.toml",
    )
)
def insert(
    path: FolderPath,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help=f"The intervals: {listed(ENDINGS)}.", show_default=False)
    ],
    *,
    source: SourceOption = "command",
    sequence: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of this insertion: a repeat changes nothing.", show_default="the next"
        ),
    ] = None,
    connection: Connection,
) -> None:
    """Insert the intervals of a file into a folder, all or none, up to 16 MiB at once. This needs the API's token."""
    began = time.monotonic()

    async def order(api: FoldersApi) -> tuple[int, int]:
        details = await api.folder(path)
        block = read_block(file, details)
        if not len(block):
            raise CommandFailed(f"{file}: it has no interval; give a file with at least one")
        first = sequence or (await api.position(path, source)).sequence + 1
        parts = _parts(block)
        there = 0
        with ProgressBar(make_console(stderr=True), f"inserting {file.name}") as bar, _repeatable(source, first):
            for k, part in enumerate(parts):
                told = await api.insert(path, part, source=source, sequence=first + k)
                there += 0 if told.inserted else told.intervals
                bar.show(path, f"{k + 1} of {len(parts)} blocks", done=k + 1, total=len(parts))
        return len(block), there

    count, there = _asked(connection, order)
    said = f", {there:,} of them were there" if there else ""
    typer.echo(f"{path}: {count:,} intervals of {file}{said}, in {time.monotonic() - began:.1f} s")


@app.command(epilog=examples("triggerlog folders end /magnets/current Q1 Q2 --at 2026-11-21T18:00 beam.toml"))
def end(
    path: FolderPath,
    channels: Annotated[
        list[str], typer.Argument(metavar="CHANNEL...", help="Numbers or names of channels.", show_default=False)
    ],
    *,
    at: Annotated[str | None, typer.Option(metavar="TIME", help=f"{TIME}.", show_default="now")] = None,
    source: SourceOption = "command",
    connection: Connection,
) -> None:
    """End the open intervals of channels of a single-version folder: from then on they have no value. Needs the token.

    A channel whose last interval has an end already has no value then, and nothing is changed of it.
    """
    when = time.time_ns() if at is None else folder_time(at, "--at")

    async def order(api: FoldersApi) -> None:
        details = await api.folder(path)
        numbers = sorted({number_of(each, details.channels, "CHANNEL") for each in channels})
        block = np.zeros(len(numbers), block_dtype([each.column() for each in details.folder.columns]))
        block["channel"], block["since"], block["until"] = numbers, when, when
        sequence = (await api.position(path, source)).sequence + 1
        await api.insert(path, block, source=source, sequence=sequence)

    _asked(connection, order)
    typer.echo(f"{path}: {', '.join(channels)} ended at {when}")


@app.command(epilog=examples("triggerlog folders tag /calibrations 2026-11 beam.toml"))
def tag(path: AnyPath, name: TagName, *, connection: Connection) -> None:
    """Name the version that a multi-version folder has now; of a set, those of all below it. Needs the API's token."""
    added = _asked(connection, lambda api: api.add_tag(path, name))
    for each in added.tags:
        typer.echo(f"{each.path}: {each.name} is what {each.version:,} insertions made")


@app.command(epilog=examples("triggerlog folders untag /calibrations/gain 2026-11 beam.toml"))
def untag(path: FolderPath, name: TagName, *, connection: Connection) -> None:
    """Remove a tag of a folder; its intervals stay. This needs the API's token."""
    _asked(connection, lambda api: api.remove_tag(path, name))
    typer.echo(f"{path}: tag {name} removed")


@app.command(epilog=examples("triggerlog folders remove /magnets/current --yes beam.toml"))
def remove(
    path: AnyPath,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without this option nothing changes.")] = False,
    connection: Connection,
) -> None:
    """Remove a folder with all that is in it, or a set that has nothing in it. This needs the API's token."""
    if not yes:
        raise CommandFailed(f"this would remove {path} with all that is in it; add --yes to remove it")
    _asked(connection, lambda api: api.remove(path))
    typer.echo(f"{path}: removed")


@contextmanager
def _repeatable(source: str, first: int) -> Iterator[None]:
    """Say how to repeat what may be done already."""
    try:
        yield
    except DaemonGone as gone:
        again = f"a repeat with --source {source} --sequence {first} inserts nothing twice"
        raise CommandFailed(f"{gone}; {again}") from None


def _parts(block: Array) -> list[Array]:
    """Blocks that fit into one insertion; those of a larger one begin one after the other, as single-version needs."""
    if block.nbytes <= AT_ONCE_BYTES:
        return [block]
    return np.array_split(block[np.lexsort((block["channel"], block["since"]))], -(-block.nbytes // AT_ONCE_BYTES))


def _column(text: str) -> FolderColumn:
    name, _, rest = text.partition(":")
    dtype, _, width = rest.partition(":")
    if not (name and dtype) or (width and not (width.isascii() and width.isdigit() and len(width) < 10)):
        raise CommandFailed(f"--column: {text!r} is no column; write it like ampere:float64 or note:text:40")
    return FolderColumn(name=name, dtype=dtype, width=int(width or 0))


def _channels(given: Sequence[str]) -> dict[int, str]:
    channels = {}
    for text in given:
        number, is_named, name = text.partition("=")
        if not (is_named and number.isascii() and number.isdigit() and len(number) < 20) or int(number) in channels:
            raise CommandFailed(f"--channel: {text!r} is no channel of its own; write it like 3=Q3, each number once")
        channels[int(number)] = name
    return channels
