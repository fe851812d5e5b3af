"""`triggerlog conditions import|export`: the intervals of a global tag as a file."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from backends.files import whole_file
from daemon.client.api.conditions import ConditionsApi
from daemon.core.outcome import CommandFailed, examples, fix_of, reason_of, require_extra
from daemon.tools.conditions.options import ServerUrl, Tag, asked, server_of
from daemon.tools.console import make_console
from daemon.tools.console.progress import ProgressBar
from daemon.tools.options import CaFile, ConfigFile, TokenFile

app = typer.Typer()

FORMATS = "its name ends in .jsonl (JSON lines) or .parquet"


@app.command(
    "import",
    epilog=examples(
        "triggerlog conditions import summer_2026 summer.parquet beam.toml",
        "triggerlog conditions import summer_2026 summer.jsonl beam.toml",
    ),
)
def import_(
    tag: Tag,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"The file to read; {FORMATS}.", show_default=False)],
    *,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Attach the intervals of a file to a global tag. This needs the API's token.

    The tag, types and lists that are not there are made. Intervals that the tag has already are left as they are, so
    that an import that was cut short goes on when it is repeated.
    """
    require_extra("export", "an import", {"pyarrow": "pyarrow"})
    from daemon.tools.conditions.files import checked_ending, read_file  # noqa: PLC0415 - of the extra
    from daemon.tools.conditions.transfer import import_tag  # noqa: PLC0415

    checked_ending(file, "FILE")
    found = server_of(config, server, token_file, ca)
    began = time.monotonic()
    with ProgressBar(make_console(stderr=True), f"reading {file.name}") as bar:
        content = read_file(file)
        if not content:
            raise CommandFailed(f"{file}: it has no interval; give a file with a row an interval")
        done = asked(found, lambda api: import_tag(api, tag, content, _progress(bar)))
    there = f", {done.there:,} were there" if done.there else ""
    typer.echo(f"{tag}: {done.new:,} intervals attached{there}, in {time.monotonic() - began:.1f} s")


@app.command(epilog=examples("triggerlog conditions export summer_2026 summer.parquet beam.toml"))
def export(
    tag: Tag,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"The file to write; {FORMATS}.", show_default=False)],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
) -> None:
    """Write the intervals of a global tag into a file, all or none."""
    require_extra("export", "an export", {"pyarrow": "pyarrow"})
    from daemon.tools.conditions.files import checked_ending  # noqa: PLC0415 - of the extra
    from daemon.tools.conditions.transfer import export_tag  # noqa: PLC0415

    ending = checked_ending(file, "FILE")
    if file.exists() and not force:
        raise CommandFailed(f"FILE: {file} exists; give another name, or --force")
    found = server_of(config, server, token_file, ca)
    try:
        with ProgressBar(make_console(stderr=True), f"reading {tag}") as bar, whole_file(file) as part:

            async def question(api: ConditionsApi) -> int:
                return await export_tag(api, tag, part, ending, _progress(bar))

            count = asked(found, question)
    except OSError as error:
        fix = fix_of(error, "name a file in a folder that is there")
        raise CommandFailed(f"FILE: {file} cannot be written ({reason_of(error)}); {fix}") from None
    typer.echo(f"{file}: {count:,} intervals of {tag}, {file.stat().st_size / 2**20:.1f} MiB")


def _progress(bar: ProgressBar) -> Callable[[str, int, int], None]:
    def show(of_type: str, done: int, total: int) -> None:
        bar.show(of_type, f"{done:,} of {total:,} intervals", done=done, total=total or None)

    return show
