"""`triggerlog mark`, `marks` and `announce-run`: what people tell a daemon about its data."""

import getpass
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated
from urllib.parse import urlencode
from uuid import UUID, uuid4

import typer
from pydantic import ValidationError

from daemon.client.api.asking import DaemonGone, ask_daemon
from daemon.core.moments import duration_ns, moment, rfc3339
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.answers import print_answer
from daemon.tools.options import AsJson, ConfigFile, Credentials, File
from schemas.api.marks import MarkKept, Marks
from schemas.checking.problems import problems
from schemas.marks import AUTHOR_MOST, Mark, is_shown

EPILOG = {
    "mark": examples(
        'triggerlog mark beam.toml "beam study began"',
        'triggerlog mark beam.toml "valve 3 closed" --at 2026-11-21T18:00 --until 2026-11-21T18:20 --group bpm',
    ),
    "marks": examples(
        "triggerlog marks beam.toml --last 12h",
        "triggerlog marks beam.toml --from 2026-11-21 --to 2026-11-22 --json",
        "triggerlog marks beam.toml --withdraw 6f1c8f0e-6d0b-4a3f-9f0a-0c6a5a1c2b3d",
    ),
    "announce-run": examples(
        "triggerlog announce-run beam.toml --epoch 41",
        "triggerlog announce-run --daemon https://node:8120 --token-file token",
    ),
}
PATH = "/api/v1/marks"
RUN_WITHIN_S = 10.0


def marks(
    file: ConfigFile = None,
    *,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="From this time on; UTC without a zone.")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time; UTC without a zone.")] = None,
    last: Annotated[str | None, typer.Option(metavar="DURATION", help="The last 90s, 30m, 12h, 7d or 2w.")] = None,
    most: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, the newest.")] = 100,
    withdraw: Annotated[
        UUID | None, typer.Option(metavar="ID", help="Withdraw this mark for good.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    credentials: Credentials,
) -> None:
    """List the events that were noted, or withdraw one."""
    found = credentials.reach(file)
    if withdraw is not None:
        kept = MarkKept.model_validate_json(ask_daemon(found, "DELETE", f"{PATH}/{withdraw}").content)
        typer.echo(f"{withdraw}: withdrawn{_waits(kept)}")
        return
    wanted = {"last": most}
    if last is not None:
        wanted["start_ns"] = time.time_ns() - duration_ns(last, "--last")
    if from_ is not None:
        wanted["start_ns"] = moment(from_, "--from")
    if to is not None:
        wanted["end_ns"] = moment(to, "--to")
    answer = ask_daemon(found, "GET", f"{PATH}?{urlencode(wanted)}")

    def lines() -> Iterator[str]:
        listed = Marks.model_validate_json(answer.content)
        yield from map(_line, listed.marks)
        if listed.marks and listed.cut:
            yield f"There may be earlier ones: these are the newest {most:,} (--most)."

    print_answer(as_json, answer.text, lines, "There are no such marks.")


def _line(found: Mark) -> str:
    until = "" if found.until_ns is None else f" to {rfc3339(found.until_ns)}"
    about = [*([f"group {found.group}"] if found.group else []), *([found.author] if found.author else [])]
    noted = f" ({', '.join(about)})" if about else ""
    return f"{rfc3339(found.time_ns)}{until}  {found.text}{noted}  {found.id}"


def _waits(kept: MarkKept) -> str:
    if kept.stored:
        return ""
    return "; the database does not have it yet: the daemon keeps it, and writes it when the database takes it"


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
    credentials: Credentials,
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
    try:
        answer = ask_daemon(credentials.reach(file), "POST", PATH, made.model_dump(mode="json"))
    except DaemonGone as gone:
        again = f"--id {made.id}{f' --at {made.time_ns}' if at is None else ''}"
        raise CommandFailed(f"{gone}; a repeat with {again} makes no second mark") from None
    waits = _waits(MarkKept.model_validate_json(answer.content))
    typer.echo(f"{rfc3339(made.time_ns)} {made.text}: marked as {made.id}{waits}")


def _user() -> str | None:
    """The user's name; None where it cannot be said."""
    with suppress(KeyError, OSError):
        name = getpass.getuser()[:AUTHOR_MOST]
        return name if all(map(is_shown, name)) and name.strip() else None
    return None


Epoch = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, help="The timing system's counter of restarts; 0 where nobody knows it.")
]


def announce_run(file: ConfigFile = None, *, epoch: Epoch = 0, credentials: Credentials) -> None:
    """Tell every group that the timing system starts its trigger numbers again.

    With its epoch a new run begins at once; without it, with the next reading that has no epoch, whatever its number
    and time. It is followed after a restart of the daemon, too, and is accepted before the database answers: then it
    takes its place behind what was received by then, and the epoch has no number yet. This changes the state of the
    daemon and needs the token of the API, which FILE names.
    """
    path = f"/api/v1/run?epoch={epoch}"
    runs: dict[str, int | None] = ask_daemon(credentials.reach(file), "POST", path, patience_s=RUN_WITHIN_S).json()
    later = "announced; its run has a number when the database has answered"
    without = later if epoch else "a run begins with the next reading"
    for group, run in runs.items():
        typer.echo(f"{group}: run {run}" if run else f"{group}: {without}")
