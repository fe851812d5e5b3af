"""`triggerlog dead-letters`: lists, retries, exports and discards what the database rejected for good."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from backends.files import whole_file
from daemon.client.api.asking import ask_daemon
from daemon.client.api.reach import reach
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.outcome import CommandFailed, examples
from daemon.core.process.state_folder import StateFolderInUse, only_one
from daemon.pipeline.closed_blocks import words_of
from daemon.pipeline.dead_letters import DeadLetters, Letter, folder_of
from daemon.tools.options import AsJson, DaemonUrl, File, TokenFile
from schemas.readings import InstrumentGroup

app = typer.Typer(
    name="dead-letters",
    help="List, retry, export or discard what the database rejected for good.",
    no_args_is_help=True,
    add_completion=False,
)

Group = Annotated[str | None, typer.Option(help="Only this group.", show_default="all")]
NAMED = 10
"""How many letters an export names that it could not read."""

PATIENCE_S = 60.0
"""As long as a daemon takes for an answer."""

Letters = Sequence[tuple[InstrumentGroup, DeadLetters]]


@app.command(
    "list", epilog=examples("triggerlog dead-letters list beam.toml", "triggerlog dead-letters list beam.toml --json")
)
def list_(
    file: File,
    group: Group = None,
    as_json: AsJson = False,
) -> None:
    """Show the dead letters by their cause: how many, of which triggers, since when. The daemon may run meanwhile."""
    from daemon.tools.dead_letters.causes import lines_of  # noqa: PLC0415
    from daemon.tools.dead_letters.export import as_json as json_of  # noqa: PLC0415

    opened = _opened(load_config(file), group)
    if as_json:
        typer.echo(
            json.dumps(
                [{"group": each.name, **json_of(letter)} for each, letters in opened for letter in letters.pending]
            )
        )
        return
    pending = [(each.name, letters.pending) for each, letters in opened]
    every = [letter for _, letters in pending for letter in letters]
    if not every:
        typer.echo("There are no dead letters.")
        return
    for line in lines_of(pending, {each.name for each, _ in opened if each.reports}):
        typer.echo(line)
    if not all(letter.is_aside for letter in every):
        typer.echo(f"Fix the cause, then: triggerlog dead-letters retry {file}")
    if any(letter.is_aside for letter in every):
        typer.echo(f"What was set aside no database takes: triggerlog dead-letters export {file} writes it to a file")


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
    """Write the dead letters into a file for numpy or a spreadsheet; they stay where they are.

    The daemon may run meanwhile. The exit code is 1 if a letter cannot be read; it is named.
    """
    from daemon.tools.dead_letters.causes import counted  # noqa: PLC0415
    from daemon.tools.dead_letters.export import export_csv, export_npz  # noqa: PLC0415

    opened = [(each, letters) for each, letters in _opened(load_config(file), group) if letters.amount.blocks]
    if not opened:
        raise CommandFailed("there are no dead letters to export")
    if to.exists() and not force:
        raise CommandFailed(f"--to: {to} is there already; name another file, or add --force to overwrite it")
    match to.suffix:
        case ".npz":
            with whole_file(to) as part:
                taken = export_npz(part, opened)
        case ".csv":
            if len(opened) > 1:
                names = ", ".join(each.name for each, _ in opened)
                raise CommandFailed(f"--to: a CSV file holds one group, and there are {names}; choose with --group")
            with whole_file(to) as part:
                taken = export_csv(part, *opened[0])
        case _:
            raise CommandFailed(f"--to: {to} ends in neither .npz nor .csv; name one that does")
    typer.echo(f"{to}: {taken.readings} readings of {taken.letters} dead letters")
    if taken.done:
        typer.echo(f"{counted(taken.done, 'letter')} left out: committed or discarded meanwhile")
    if taken.missing:
        raise CommandFailed(
            f"{counted(len(taken.missing), 'dead letter')} cannot be read any more, and {to} lacks"
            f" {_named(taken.missing, [each for each, _ in opened])}: export once more with --force; if they are"
            f" missing again, their file is damaged: `triggerlog dead-letters list {file}` names it"
        )


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

    A running daemon does this itself, and goes on when the command is interrupted; without one the command does. What
    was set aside is not offered. The exit code is 1 while another letter stays.
    """
    from daemon.tools.dead_letters.retry import Retry  # noqa: PLC0415

    loaded = load_config(file)
    chosen = _chosen(loaded, group)
    retrying = Retry()
    try:
        try:
            with only_one(loaded.state_dir):
                retrying.here(loaded, chosen)
        except StateFolderInUse:
            retrying.by_daemon(reach(file, daemon=daemon, token_file=token_file), _path("retry", group))
    finally:
        for name, outcome in retrying.outcomes.items():
            typer.echo(f"{name}: {outcome.summary}")
    if any(outcome.rejected or outcome.unreadable or outcome.problem for outcome in retrying.outcomes.values()):
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
    from daemon.tools.dead_letters.causes import counted  # noqa: PLC0415
    from daemon.tools.dead_letters.offline import discard as discard_offline  # noqa: PLC0415

    loaded = load_config(file)
    if not yes:
        opened = [letters for _, letters in _opened(loaded, group)]
        readings = sum(letters.amount.readings for letters in opened)
        rejected = readings - sum(letters.aside_readings for letters in opened)
        may_store = f", {rejected:,} of which `retry` may still store" if rejected else ""
        raise CommandFailed(f"this would delete {readings:,} readings for good{may_store}; add --yes to delete them")
    chosen = _chosen(loaded, group)
    try:
        with only_one(loaded.state_dir):
            gone = asyncio.run(discard_offline(loaded, chosen))
    except StateFolderInUse:
        found = reach(file, daemon=daemon, token_file=token_file)
        gone = ask_daemon(found, "POST", _path("discard", group), patience_s=PATIENCE_S).json()
    for name, amount in gone.items():
        amounts = [counted(amount[f"{noun}s"], noun) for noun in ("reading", "trigger") if amount[f"{noun}s"]]
        typer.echo(f"{name}: {' of '.join(amounts) or 'nothing was'} discarded")


def _path(what: str, group: str | None) -> str:
    return f"/api/v1/dead-letters/{what}" + (f"?{urlencode({'group': group})}" if group else "")


def _chosen(loaded: LoadedConfig, group: str | None) -> list[InstrumentGroup]:
    groups = {section.name: section.group() for section in loaded.config.groups}
    if group is not None and group not in groups:
        raise CommandFailed(f"--group: there is no group {group!r} in {loaded.path}; there is: {', '.join(groups)}")
    return list(groups.values()) if group is None else [groups[group]]


def _named(missing: Sequence[Letter], groups: Sequence[InstrumentGroup]) -> str:
    """Which letters, the first of them, in words."""
    reporting = {group.name for group in groups if group.reports}
    words = []
    for letter in missing[:NAMED]:
        name = letter.path.parent.name
        what = "readings set aside" if letter.is_aside else words_of(letter.key, reports=name in reporting)
        words.append(f"{what} (group {name})")
    return ", ".join(words) + (f" and {len(missing) - NAMED:,} more" if len(missing) > NAMED else "")


def _opened(loaded: LoadedConfig, group: str | None) -> Letters:
    from daemon.tools.dead_letters.folder import look  # noqa: PLC0415

    opened = []
    for each in _chosen(loaded, group):
        letters, problems = look(folder_of(loaded.state_dir, each.name), each)
        for found in problems:
            typer.echo(f"warning: {found.problem}", err=True)
        opened.append((each, letters))
    return opened
