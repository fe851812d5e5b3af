"""`triggerlog mark`: keeps an event that a person noted with the data."""

import getpass
import time
from contextlib import suppress
from typing import Annotated
from uuid import UUID, uuid4

import typer
from pydantic import ValidationError

from daemon.client.api.asking import DaemonGone, ask_daemon
from daemon.client.api.reach import reach
from daemon.core.moments import moment, rfc3339
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.options import CaFile, DaemonUrl, File, TokenFile
from schemas.api.marks import MarkKept
from schemas.checking.problems import problems
from schemas.marks import AUTHOR_MOST, Mark, is_shown

EPILOG = examples(
    'triggerlog mark beam.toml "beam study began"',
    'triggerlog mark beam.toml "valve 3 closed" --at 2026-11-21T18:00 --until 2026-11-21T18:20 --group bpm',
)
PATH = "/api/v1/marks"


def mark(
    file: File,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What happened, in one line.", show_default=False)],
    *,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it happened; UTC without a zone.", show_default="now")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it ended; without it, it is a moment.", show_default=False)
    ] = None,
    group: Annotated[str | None, typer.Option(help="The group that it is about.", show_default="all")] = None,
    author: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who says so.", show_default="the user's name")
    ] = None,
    id_: Annotated[
        UUID | None,
        typer.Option("--id", metavar="ID", help="Of a mark that may be made already.", show_default="a new one"),
    ] = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Note an event: the page draws it on every time axis, and exports contain it.

    This needs the API's token. While the database is away the daemon keeps the mark on its disk.
    """
    said = {
        "id": id_ or uuid4(),
        "time_ns": time.time_ns() if at is None else moment(at, "--at"),
        "until_ns": None if until is None else moment(until, "--until"),
        "text": text,
        "author": author or _user(),
        "group": group,
    }
    try:
        made = Mark.model_validate(said)
    except ValidationError as error:
        raise CommandFailed("; ".join(map(str, problems(Mark, error.errors())))) from None
    found = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    try:
        answer = ask_daemon(found, "POST", PATH, made.model_dump(mode="json"))
    except DaemonGone as gone:
        again = f"--id {made.id}{f' --at {made.time_ns}' if at is None else ''}"
        raise CommandFailed(f"{gone}; a repeat with {again} makes no second mark") from None
    waits = "" if MarkKept.model_validate_json(answer.content).stored else f"; {NOT_YET}"
    typer.echo(f"{rfc3339(made.time_ns)} {made.text}: marked as {made.id}{waits}")


NOT_YET = "the database does not have it yet: the daemon keeps it, and writes it when the database takes it"


def _user() -> str | None:
    """The user's name; None where it cannot be said."""
    with suppress(KeyError, OSError):
        name = getpass.getuser()[:AUTHOR_MOST]
        return name if all(map(is_shown, name)) and name.strip() else None
    return None
