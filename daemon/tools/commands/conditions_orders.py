"""`triggerlog conditions add-tag|add-type|attach|clone|lock|unlock|freeze`: what needs the API's token."""

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from daemon.client.api.conditions import ConditionsApi
from daemon.client.api.reach import Reach
from daemon.core.outcome import CommandFailed, examples, reason_of
from daemon.tools.conditions.options import Major, Minor, ServerUrl, Tag, Type, asked, key_of, server_of
from daemon.tools.options import CaFile, ConfigFile, TokenFile
from schemas.conditions.intervals import END, TagStatus
from schemas.conditions.rows import intervals_of_rows

app = typer.Typer()


@app.command("add-tag", epilog=examples("triggerlog conditions add-tag summer_2026 beam.toml"))
def add_tag(
    tag: Tag,
    *,
    author: Annotated[str | None, typer.Option(help="Who makes it.", show_default=False)] = None,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Add a global tag, unlocked and without payload lists. This needs the API's token."""
    asked(server_of(config, server, token_file, ca), lambda api: api.add_tag(tag, author))
    typer.echo(f"{tag}: added, unlocked")


@app.command("add-type", epilog=examples("triggerlog conditions add-type bpm beam.toml"))
def add_type(
    type_: Type,
    *,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Add a payload type. This needs the API's token."""
    asked(server_of(config, server, token_file, ca), lambda api: api.add_type(type_))
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
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Attach an interval to a global tag, whose list of the type is made if there is none. Needs the API's token.

    In an unlocked tag it trims and splits what is valid there; a locked one takes only what changes no answer, or a
    newer open interval at the end.
    """
    if payload is not None and checksum:
        raise CommandFailed("--checksum: --payload gives it already; give one of them")
    start, until = key_of(major, minor), END if end is None else key_of(*end, field="--end")
    if not start < until:
        raise CommandFailed(f"--end: {until.major} {until.minor} is not after {major} {minor}; give a later key")
    size = None
    if payload is not None:
        checksum, size = _of_content(payload)
    interval = intervals_of_rows([(type_, url, checksum, size, *start, *until)])

    async def order(api: ConditionsApi) -> None:
        await api.tag(tag)
        await api.insert(await api.list_of(tag, type_), interval)

    asked(server_of(config, server, token_file, ca), order)
    said = "on" if until == END else f"to {until.major} {until.minor}"
    typer.echo(f"{tag}: {url} is valid for {type_} from {start.major} {start.minor} {said}")


@app.command(epilog=examples("triggerlog conditions clone summer_2026 summer_2026_v2 beam.toml"))
def clone(
    tag: Tag,
    name: Annotated[str, typer.Argument(metavar="NEW", help="Name of the new global tag.", show_default=False)],
    *,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Make an unlocked global tag that answers as another one does. This needs the API's token."""
    asked(server_of(config, server, token_file, ca), lambda api: api.clone_tag(tag, name))
    typer.echo(f"{name}: a clone of {tag}, unlocked")


@app.command(epilog=examples("triggerlog conditions lock summer_2026 beam.toml"))
def lock(
    tag: Tag, *, config: ConfigFile = None, server: ServerUrl = None, token_file: TokenFile = None, ca: CaFile = None
) -> None:
    """Lock a global tag: no answer that it gives changes any more. This needs the API's token."""
    _set(tag, TagStatus.LOCKED, server_of(config, server, token_file, ca))


@app.command(epilog=examples("triggerlog conditions unlock summer_2026 beam.toml"))
def unlock(
    tag: Tag, *, config: ConfigFile = None, server: ServerUrl = None, token_file: TokenFile = None, ca: CaFile = None
) -> None:
    """Unlock a global tag: everything may be changed. This needs the API's token."""
    _set(tag, TagStatus.UNLOCKED, server_of(config, server, token_file, ca))


@app.command(epilog=examples("triggerlog conditions freeze summer_2026 --yes beam.toml"))
def freeze(
    tag: Tag,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Freeze it; without this option nothing changes.")] = False,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Freeze a global tag for ever: nothing of it can be changed, its status neither. This needs the API's token."""
    if not yes:
        raise CommandFailed(f"this would freeze {tag} for ever; add --yes to freeze it, or lock it")
    _set(tag, TagStatus.FROZEN, server_of(config, server, token_file, ca))


def _set(tag: str, status: TagStatus, server: Reach) -> None:
    asked(server, lambda api: api.set_status(tag, status))
    typer.echo(f"{tag}: {status}")


def _of_content(path: Path) -> tuple[str, int]:
    """sha256 and size of a payload."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size
    except OSError as error:
        raise CommandFailed(f"--payload: {path} cannot be read ({reason_of(error)}); name the payload's file") from None
