"""`triggerlog marks`: lists events that people noted, or withdraws one."""

import time
from typing import Annotated
from urllib.parse import urlencode
from uuid import UUID

import typer

from daemon.client.api.asking import ask_daemon
from daemon.client.api.reach import Reach, reach
from daemon.core.moments import duration_ns, moment, rfc3339
from daemon.core.outcome import examples
from daemon.tools.commands.mark import NOT_YET, PATH
from daemon.tools.options import AsJson, CaFile, ConfigFile, DaemonUrl, TokenFile
from schemas.api.marks import MarkKept, Marks
from schemas.marks import Mark

EPILOG = examples(
    "triggerlog marks beam.toml --last 12h",
    "triggerlog marks beam.toml --from 2026-11-21 --to 2026-11-22 --json",
    "triggerlog marks beam.toml --withdraw 6f1c8f0e-6d0b-4a3f-9f0a-0c6a5a1c2b3d",
)


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
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """List the events that were noted, or withdraw one."""
    found = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    if withdraw is not None:
        _withdraw(found, withdraw)
        return
    wanted = {"last": most}
    if last is not None:
        wanted["start_ns"] = time.time_ns() - duration_ns(last, "--last")
    if from_ is not None:
        wanted["start_ns"] = moment(from_, "--from")
    if to is not None:
        wanted["end_ns"] = moment(to, "--to")
    answer = ask_daemon(found, "GET", f"{PATH}?{urlencode(wanted)}")
    if as_json:
        typer.echo(answer.text)
        return
    listed = Marks.model_validate_json(answer.content)
    for mark in listed.marks:
        typer.echo(_line(mark))
    if not listed.marks:
        typer.echo("There are no such marks.")
    elif listed.cut:
        typer.echo(f"There may be earlier ones: these are the newest {most:,} (--most).")


def _withdraw(daemon: Reach, mark: UUID) -> None:
    answer = ask_daemon(daemon, "DELETE", f"{PATH}/{mark}")
    waits = "" if MarkKept.model_validate_json(answer.content).stored else f"; {NOT_YET}"
    typer.echo(f"{mark}: withdrawn{waits}")


def _line(mark: Mark) -> str:
    until = "" if mark.until_ns is None else f" to {rfc3339(mark.until_ns)}"
    about = [*([f"group {mark.group}"] if mark.group else []), *([mark.author] if mark.author else [])]
    noted = f" ({', '.join(about)})" if about else ""
    return f"{rfc3339(mark.time_ns)}{until}  {mark.text}{noted}  {mark.id}"
