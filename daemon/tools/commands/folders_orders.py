"""`triggerlog folders add|add-set|add-channels|insert|end|tag|untag|remove`: what needs the API's token."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from daemon.client.api.asking import DaemonGone
from daemon.client.api.folders import FoldersApi
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.console import make_console
from daemon.tools.console.progress import ProgressBar
from daemon.tools.export.folders import folder_time
from daemon.tools.folders.files import ENDINGS, number_of, read_block
from daemon.tools.folders.options import TIME, AnyPath, Description, FolderPath, TagName, asked, daemon_of
from daemon.tools.options import CaFile, ConfigFile, DaemonUrl, TokenFile
from schemas.api.folders import FolderColumn, NewChannels, NewFolder, NewFolderSet
from schemas.checking.problems import listed
from schemas.folders.folders import FolderKind, FolderLayout, block_dtype
from schemas.readings import Array

app = typer.Typer()

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
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
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
    asked(daemon_of(config, daemon, token_file, ca), lambda api: api.add_folder(new))
    typer.echo(f"{path}: added, {kind}, with {len(new.channels):,} channels")


@app.command("add-set", epilog=examples("triggerlog folders add-set /magnets beam.toml"))
def add_set(
    path: AnyPath,
    *,
    description: Description = "",
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Add a set of folders. This needs the API's token."""
    new = NewFolderSet(path=path, description=description)
    asked(daemon_of(config, daemon, token_file, ca), lambda api: api.add_set(new))
    typer.echo(f"{path}: added, a set")


@app.command(
    "add-channels",
    epilog=examples("triggerlog folders add-channels /magnets/current --channel 3=Q3 beam.toml"),
)
def add_channels(
    path: FolderPath,
    *,
    channel: ChannelOption = None,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Add channels to a folder, all or none. This needs the API's token."""
    new = NewChannels(path=path, channels=_channels(channel or []))
    if not new.channels:
        raise CommandFailed("--channel: not given; give at least one, such as --channel 3=Q3")
    asked(daemon_of(config, daemon, token_file, ca), lambda api: api.add_channels(new))
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
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
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

    count, there = asked(daemon_of(config, daemon, token_file, ca), order)
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
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
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

    asked(daemon_of(config, daemon, token_file, ca), order)
    typer.echo(f"{path}: {', '.join(channels)} ended at {when}")


@app.command(epilog=examples("triggerlog folders tag /calibrations 2026-11 beam.toml"))
def tag(
    path: AnyPath,
    name: TagName,
    *,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Name the version that a multi-version folder has now; of a set, those of all below it. Needs the API's token."""
    added = asked(daemon_of(config, daemon, token_file, ca), lambda api: api.add_tag(path, name))
    for each in added.tags:
        typer.echo(f"{each.path}: {each.name} is what {each.version:,} insertions made")


@app.command(epilog=examples("triggerlog folders untag /calibrations/gain 2026-11 beam.toml"))
def untag(
    path: FolderPath,
    name: TagName,
    *,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Remove a tag of a folder; its intervals stay. This needs the API's token."""
    asked(daemon_of(config, daemon, token_file, ca), lambda api: api.remove_tag(path, name))
    typer.echo(f"{path}: tag {name} removed")


@app.command(epilog=examples("triggerlog folders remove /magnets/current --yes beam.toml"))
def remove(
    path: AnyPath,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without this option nothing changes.")] = False,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Remove a folder with all that is in it, or a set that has nothing in it. This needs the API's token."""
    if not yes:
        raise CommandFailed(f"this would remove {path} with all that is in it; add --yes to remove it")
    asked(daemon_of(config, daemon, token_file, ca), lambda api: api.remove(path))
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
