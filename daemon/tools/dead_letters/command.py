"""`triggerlog dead-letters`: lists, retries, exports and discards what the database rejected for good."""

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer
from rich.table import Table

from daemon.client.api.asking import ask_daemon
from daemon.client.api.reach import Reach, reach
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.outcome import CommandFailed, examples
from daemon.core.outside import Outside
from daemon.core.process.state_folder import StateFolderInUse, only_one
from daemon.pipeline.dead_letters import DeadLetters, Letter, folder_of
from daemon.pipeline.dead_letters.format import kind_of
from daemon.tools.console import make_console
from daemon.tools.options import AsJson, DaemonUrl, File, TokenFile
from schemas.readings import InstrumentGroup

app = typer.Typer(
    name="dead-letters",
    help="What the database rejected for good: list it, retry it, export it, discard it.",
    no_args_is_help=True,
    add_completion=False,
)

Group = Annotated[str | None, typer.Option(help="Only this group.", show_default="all")]
PATIENCE_S = 86_400.0
"""A daemon answers once it has retried everything."""

Letters = Sequence[tuple[InstrumentGroup, DeadLetters]]


@app.command(
    "list", epilog=examples("triggerlog dead-letters list beam.toml", "triggerlog dead-letters list beam.toml --json")
)
def list_(
    file: File,
    group: Group = None,
    as_json: AsJson = False,
) -> None:
    """Show the dead letters: of which triggers, since when, and why. The daemon may run meanwhile."""
    from daemon.tools.dead_letters.export import as_json as json_of  # noqa: PLC0415

    opened = _opened(load_config(file), group)
    if as_json:
        typer.echo(
            json.dumps(
                [{"group": each.name, **json_of(letter)} for each, letters in opened for letter in letters.pending]
            )
        )
        return
    if not any(letters.amount.blocks for _, letters in opened):
        typer.echo("There are no dead letters.")
        return
    make_console().print(_table(opened))
    typer.echo(f"Fix the cause, then: triggerlog dead-letters retry {file}")


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
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it is there.")] = False,
) -> None:
    """Write the dead letters into a file for numpy or a spreadsheet; they stay where they are."""
    from daemon.tools.dead_letters.export import export_csv, export_npz  # noqa: PLC0415

    opened = [(each, letters) for each, letters in _opened(load_config(file), group) if letters.amount.blocks]
    if not opened:
        raise CommandFailed("there are no dead letters to export")
    if to.exists() and not force:
        raise CommandFailed(f"--to: {to} is there already; name another file, or add --force to overwrite it")
    match to.suffix:
        case ".npz":
            count = export_npz(to, opened)
        case ".csv":
            if len(opened) > 1:
                names = ", ".join(each.name for each, _ in opened)
                raise CommandFailed(f"--to: a CSV file holds one group, and there are {names}; choose with --group")
            count = export_csv(to, *opened[0])
        case _:
            raise CommandFailed(f"--to: {to} ends in neither .npz nor .csv; name one that does")
    typer.echo(f"{to}: {count} readings of {sum(letters.amount.blocks for _, letters in opened)} dead letters")


@app.command(
    epilog=examples("triggerlog dead-letters retry beam.toml", "triggerlog dead-letters retry beam.toml --group bpm")
)
def retry(
    file: File,
    group: Group = None,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Offer the dead letters to the database again; each is committed once, or stays with the reason.

    A running daemon does this itself; without one the command does. The exit code is 1 while a letter stays.
    """
    from daemon.pipeline.dead_letters.retrying import Outcome  # noqa: PLC0415
    from daemon.tools.dead_letters.offline import retry as retry_offline  # noqa: PLC0415

    answers = _carried_out(
        "retry", load_config(file), group, partial(reach, file, daemon=daemon, token_file=token_file), retry_offline
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
    yes: Annotated[bool, typer.Option("--yes", help="Delete them; without this option nothing is deleted.")] = False,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
) -> None:
    """Delete the dead letters for good; `export` them first."""
    from daemon.tools.dead_letters.offline import discard as discard_offline  # noqa: PLC0415

    loaded = load_config(file)
    if not yes:
        readings = sum(letters.amount.readings for _, letters in _opened(loaded, group))
        raise CommandFailed(f"this would delete {readings:,} readings for good; add --yes to delete them")
    found = partial(reach, file, daemon=daemon, token_file=token_file)
    for name, gone in _carried_out("discard", loaded, group, found, discard_offline).items():
        typer.echo(f"{name}: {gone['readings']:,} readings of {gone['triggers']:,} triggers discarded")


def _chosen(loaded: LoadedConfig, group: str | None) -> list[InstrumentGroup]:
    groups = {section.name: section.group() for section in loaded.config.groups}
    if group is not None and group not in groups:
        raise CommandFailed(f"--group: there is no group {group!r} in {loaded.path}; there is: {', '.join(groups)}")
    return list(groups.values()) if group is None else [groups[group]]


def _opened(loaded: LoadedConfig, group: str | None) -> Letters:
    opened = []
    for each in _chosen(loaded, group):
        letters = DeadLetters(folder_of(loaded.state_dir, each.name), each, Outside.real())
        for found in letters.look():
            typer.echo(f"warning: {found.problem}", err=True)
        opened.append((each, letters))
    return opened


Offline = Callable[[LoadedConfig, Sequence[InstrumentGroup]], Coroutine[Any, Any, dict[str, dict[str, Any]]]]


def _carried_out(
    what: str, loaded: LoadedConfig, group: str | None, daemon: Callable[[], Reach], offline: Offline
) -> dict[str, dict[str, Any]]:
    """Let the running daemon do it; where none runs, do it here."""
    chosen = _chosen(loaded, group)
    try:
        with only_one(loaded.state_dir):
            return asyncio.run(offline(loaded, chosen))
    except StateFolderInUse:
        path = f"/api/v1/dead-letters/{what}" + (f"?{urlencode({'group': group})}" if group else "")
        answers: dict[str, dict[str, Any]] = ask_daemon(daemon(), "POST", path, patience_s=PATIENCE_S).json()
        return answers


def _table(opened: Letters) -> Table:
    from daemon.tools.dead_letters.export import clock  # noqa: PLC0415

    table = Table("group", "kept", "run", "triggers", "letters", "readings", "reason", box=None, pad_edge=False)
    for group, letters in opened:
        for alike in _alike(letters.pending):
            first, last = alike[0], alike[-1]
            triggers = str(first.key[1]) if first.key == last.key else f"{first.key[1]} to {last.key[1]}"
            run, triggers = ("-", "-") if first.is_aside else (str(first.key[0]), triggers)
            readings = sum(letter.readings for letter in alike)
            row = (group.name, clock(first.kept_ns), run, triggers, len(alike), readings, first.reason)
            table.add_row(*(str(cell) for cell in row))
    return table


def _alike(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """Letters that follow each other with the same run and the same kind of reason, in one line."""
    for _, alike in itertools.groupby(letters, key=lambda letter: (letter.key[0], kind_of(letter.reason))):
        yield list(alike)
