"""`triggerlog dead-letters`: what the database rejected for good; look at it, retry it, take it out, throw it away."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer
from rich.table import Table

from daemon.client.reach import DaemonUrl, Reach, TokenFile, reach
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.outcome import CommandFailed, examples
from daemon.core.process.state_folder import StateFolderInUse, only_one
from daemon.pipeline.dead_letters import DeadLetters, Letter, folder_of
from daemon.pipeline.dead_letters.format import kind_of
from daemon.tools.console import make_console
from schemas.readings import InstrumentGroup

app = typer.Typer(
    name="dead-letters",
    help="What the database rejected for good: list it, retry it, export it, discard it.",
    no_args_is_help=True,
    add_completion=False,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file (TOML).", show_default=False)]
Group = Annotated[str | None, typer.Option(help="Of this group alone.", show_default="all")]
PATIENCE_S = 86_400.0
"""A daemon answers once it has retried everything."""

Kept = Sequence[tuple[InstrumentGroup, DeadLetters]]


@app.command(
    "list", epilog=examples("triggerlog dead-letters list beam.toml", "triggerlog dead-letters list beam.toml --json")
)
def list_(
    file: File,
    group: Group = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every letter, as JSON.")] = False,
) -> None:
    """Show what lies there: of which triggers, since when, and why. The daemon may run meanwhile."""
    from daemon.tools.dead_letters.export import told  # noqa: PLC0415

    kept = _opened(load_config(file), group)
    if as_json:
        typer.echo(json.dumps([{"group": each.name, **told(letter)} for each, mine in kept for letter in mine.pending]))
        return
    if not any(letters.amount.blocks for _, letters in kept):
        typer.echo("There are no dead letters.")
        return
    make_console().print(_table(kept))
    typer.echo(f"Mend the cause, then: triggerlog dead-letters retry {file}")


@app.command(
    epilog=examples(
        "triggerlog dead-letters export beam.toml --to rejected.npz",
        "triggerlog dead-letters export beam.toml --group bpm --to rejected.csv",
    )
)
def export(
    file: File,
    to: Annotated[Path, typer.Option(metavar="PATH", help="A file that ends in .npz or .csv.", show_default=False)],
    group: Group = None,
) -> None:
    """Write what lies there into a file for numpy or a spreadsheet; it stays where it is."""
    from daemon.tools.dead_letters.export import export_csv, export_npz  # noqa: PLC0415

    kept = [(each, letters) for each, letters in _opened(load_config(file), group) if letters.amount.blocks]
    if not kept:
        raise CommandFailed("there are no dead letters to export")
    match to.suffix:
        case ".npz":
            count = export_npz(to, kept)
        case ".csv":
            if len(kept) > 1:
                names = ", ".join(each.name for each, _ in kept)
                raise CommandFailed(f"--to: a CSV file holds one group, and there are {names}; choose with --group")
            count = export_csv(to, *kept[0])
        case _:
            raise CommandFailed(f"--to: {to} ends in neither .npz nor .csv; name one that does")
    typer.echo(f"{to}: {count} readings of {sum(letters.amount.blocks for _, letters in kept)} dead letters")


@app.command(
    epilog=examples("triggerlog dead-letters retry beam.toml", "triggerlog dead-letters retry beam.toml --group bpm")
)
def retry(
    file: File,
    group: Group = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Offer what lies there to the database again; each letter is committed once, or stays with the reason.

    Where the daemon runs it does so itself; else this command does. Ends with 1 while anything stays.
    """
    from daemon.pipeline.dead_letters.retrying import Outcome  # noqa: PLC0415
    from daemon.tools.dead_letters.retry_all import retry as retry_here  # noqa: PLC0415

    answers = _done(
        "retry", load_config(file), group, partial(reach, file, daemon=daemon, token_file=token_file), retry_here
    )
    outcomes = {name: Outcome(**answer) for name, answer in answers.items()}
    for name, outcome in outcomes.items():
        typer.echo(f"{name}: {outcome.summary}")
    if any(outcome.rejected or outcome.unreadable for outcome in outcomes.values()):
        raise typer.Exit(1)


@app.command(epilog=examples("triggerlog dead-letters discard beam.toml --group bpm --yes"))
def discard(
    file: File,
    group: Group = None,
    yes: Annotated[bool, typer.Option("--yes", help="Without it nothing is done.")] = False,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Throw away for good what lies there; `export` it first."""
    from daemon.tools.dead_letters.retry_all import discard as discard_here  # noqa: PLC0415

    loaded = load_config(file)
    if not yes:
        readings = sum(letters.amount.readings for _, letters in _opened(loaded, group))
        raise CommandFailed(f"this would throw away {readings:,} readings for good; add --yes if that is meant")
    found = partial(reach, file, daemon=daemon, token_file=token_file)
    for name, gone in _done("discard", loaded, group, found, discard_here).items():
        typer.echo(f"{name}: {gone['readings']:,} readings of {gone['triggers']:,} triggers discarded")


def _chosen(loaded: LoadedConfig, group: str | None) -> list[InstrumentGroup]:
    groups = {section.name: section.group() for section in loaded.config.groups}
    if group is not None and group not in groups:
        raise CommandFailed(f"--group: there is no group {group!r} in {loaded.path}; there is: {', '.join(groups)}")
    return list(groups.values()) if group is None else [groups[group]]


def _opened(loaded: LoadedConfig, group: str | None) -> Kept:
    kept = []
    for each in _chosen(loaded, group):
        letters = DeadLetters(folder_of(loaded.state_dir, each.name), each)
        for found in letters.open():
            typer.echo(f"warning: {found.problem}", err=True)
        kept.append((each, letters))
    return kept


Here = Callable[[LoadedConfig, Sequence[InstrumentGroup]], Awaitable[dict[str, dict[str, Any]]]]


def _done(
    what: str, loaded: LoadedConfig, group: str | None, daemon: Callable[[], Reach], here: Here
) -> dict[str, dict[str, Any]]:
    """Have it done by the daemon that runs, or here while none does."""
    chosen = _chosen(loaded, group)

    async def alone() -> dict[str, dict[str, Any]]:
        return await here(loaded, chosen)

    try:
        with only_one(loaded.state_dir):
            return asyncio.run(alone())
    except StateFolderInUse:
        return asyncio.run(_by_daemon(what, daemon(), group))


async def _by_daemon(what: str, daemon: Reach, group: str | None) -> dict[str, dict[str, Any]]:
    # Imported here: other commands start without the client.
    from daemon.client.terminal import DaemonGone, ask  # noqa: PLC0415

    path = f"/api/v1/dead-letters/{what}" + (f"?{urlencode({'group': group})}" if group else "")
    try:
        async with daemon.client(PATIENCE_S) as client:
            answers: dict[str, dict[str, Any]] = (await ask(client, "POST", path)).json()
            return answers
    except DaemonGone as gone:
        raise CommandFailed(str(gone)) from None


def _table(kept: Kept) -> Table:
    from daemon.tools.dead_letters.export import clock  # noqa: PLC0415

    table = Table("group", "kept", "run", "triggers", "letters", "readings", "reason", box=None, pad_edge=False)
    for group, letters in kept:
        for alike in _alike(letters.pending):
            first, last = alike[0], alike[-1]
            triggers = str(first.key[1]) if first.key == last.key else f"{first.key[1]} to {last.key[1]}"
            readings = sum(letter.readings for letter in alike)
            row = (group.name, clock(first.kept_ns), first.key[0], triggers, len(alike), readings, first.reason)
            table.add_row(*(str(cell) for cell in row))
    return table


def _alike(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """Letters that follow each other with the same run and the same kind of reason, in one line."""
    for _, alike in itertools.groupby(letters, key=lambda letter: (letter.key[0], kind_of(letter.reason))):
        yield list(alike)
