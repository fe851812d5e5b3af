"""`triggerlog folders list|show|snapshot|history|changes`: what there is, and what held when."""

from typing import Annotated

import typer

from daemon.client.api.folders import FoldersApi
from daemon.core.moments import rfc3339
from daemon.core.outcome import examples
from daemon.tools.conditions.listing import listing
from daemon.tools.folders.listing import list_intervals
from daemon.tools.folders.options import TIME, FolderPath, TagOption, asked, daemon_of
from daemon.tools.options import AsJson, CaFile, ConfigFile, DaemonUrl, TokenFile
from schemas.api.folders import FolderColumn, FolderDetails
from schemas.readings import Array

app = typer.Typer()

Found = tuple[FolderDetails, Array]
Time = Annotated[str | None, typer.Option(metavar="TIME", help=f"{TIME}.", show_default=False)]


@app.command("list", epilog=examples("triggerlog folders list", "triggerlog folders list beam.toml --json"))
def list_(
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List the folders, and the sets that they are in."""
    tree = asked(daemon_of(config, daemon, token_file, ca), lambda api: api.tree())
    if as_json:
        typer.echo(tree.model_dump_json())
        return
    rows = [(each.path, "set", "", "", "", each.description) for each in tree.sets]
    rows += [
        (each.path, each.kind, each.layout, _words(each.columns), str(each.version), each.description)
        for each in tree.folders
    ]
    names = ("path", "kind", "layout", "columns", "insertions", "description")
    listing(names, sorted(rows), False, "There is no folder.")


@app.command(epilog=examples("triggerlog folders show /magnets/current"))
def show(
    path: FolderPath,
    *,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a folder: its columns, channels and tags."""
    found = asked(daemon_of(config, daemon, token_file, ca), lambda api: api.folder(path))
    if as_json:
        typer.echo(found.model_dump_json())
        return
    folder = found.folder
    described = f"; {folder.description}" if folder.description else ""
    typer.echo(
        f"{folder.path}: {folder.kind}, layout {folder.layout}, {_words(folder.columns)};"
        f" {folder.version:,} insertions, {len(found.channels):,} channels{described}"
    )
    tags = [(each.name, str(each.version), rfc3339(each.created_ns)) for each in found.tags]
    if tags:
        listing(("tag", "insertions", "made"), tags, False, "")
    listing(("channel", "name"), [(str(number), name) for number, name in found.channels.items()], False, "No channel.")


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
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what holds at a time, of each channel that has something then."""

    async def question(api: FoldersApi) -> Found:
        return await api.folder(path), await api.snapshot(path, at, tag)

    _list(asked(daemon_of(config, daemon, token_file, ca), question), as_json)


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
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List the intervals of a channel that hold some of a span of time; without one all of them."""

    async def question(api: FoldersApi) -> Found:
        return await api.folder(path), await api.history(path, channel, since, until, tag)

    _list(asked(daemon_of(config, daemon, token_file, ca), question), as_json)


@app.command(epilog=examples("triggerlog folders changes /magnets/current --after 2026-11-21T18:00"))
def changes(
    path: FolderPath,
    *,
    after: Annotated[str, typer.Option(metavar="TIME", help=f"{TIME}; -1 for everything.", show_default=False)],
    upto: Annotated[str | None, typer.Option(metavar="TIME", help=f"{TIME}.", show_default="now")] = None,
    tag: TagOption = None,
    config: ConfigFile = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List the intervals that begin after a time, and up to another one."""

    async def question(api: FoldersApi) -> Found:
        return await api.folder(path), await api.changes(path, after, upto, tag)

    _list(asked(daemon_of(config, daemon, token_file, ca), question), as_json)


def _list(found: Found, as_json: bool) -> None:
    details, block = found
    columns = tuple(each.column() for each in details.folder.columns)
    list_intervals(block, columns, details.channels, as_json)


def _words(columns: tuple[FolderColumn, ...]) -> str:
    """Columns as `triggerlog folders add` takes them."""
    return " ".join(":".join([each.name, each.dtype, *([str(each.width)] if each.width else [])]) for each in columns)
