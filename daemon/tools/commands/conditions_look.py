"""`triggerlog conditions tags|types|show|at|history|diff`: what there is, and what is valid when."""

from collections.abc import Sequence
from typing import Any

import orjson
import typer

from daemon.client.api.conditions import ConditionsApi
from daemon.core.outcome import examples
from daemon.tools.conditions.listing import listing
from daemon.tools.conditions.options import (
    Major,
    Minor,
    ServerUrl,
    Tag,
    Type,
    asked,
    intervals_of,
    key_of,
    server_of,
)
from daemon.tools.options import AsJson, CaFile, ConfigFile, TokenFile
from schemas.api.conditions import TagRow
from schemas.conditions.differences import Difference, differences
from schemas.conditions.intervals import Intervals, Key
from schemas.conditions.rows import intervals_of_rows

app = typer.Typer()

NOTHING = intervals_of_rows([])


@app.command(epilog=examples("triggerlog conditions tags", "triggerlog conditions tags beam.toml --json"))
def tags(
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List the global tags with their states."""
    found = asked(server_of(config, server, token_file, ca), lambda api: api.tags())
    rows = [
        (each.name, each.status, each.payload_lists_count, each.payload_iov_count, each.updated, each.author or "")
        for each in found
    ]
    listing(
        ("tag", "status", "types", "intervals", "changed (UTC)", "author"), rows, as_json, "There is no global tag."
    )


@app.command(epilog=examples("triggerlog conditions types"))
def types(
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List the payload types."""
    found = asked(server_of(config, server, token_file, ca), lambda api: api.types())
    listing(("type",), [(name,) for name in found], as_json, "There is no payload type.")


@app.command(epilog=examples("triggerlog conditions show summer_2026"))
def show(
    tag: Tag,
    *,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a global tag: its status, and its payload lists by type."""

    async def question(api: ConditionsApi) -> tuple[TagRow, Sequence[tuple[str, str]]]:
        return await api.tag(tag), sorted((await api.lists(tag)).items())

    found, lists = asked(server_of(config, server, token_file, ca), question)
    if as_json:
        typer.echo(orjson.dumps(found.model_dump(mode="json") | {"payload_lists": dict(lists)}).decode())
        return
    typer.echo(
        f"{found.name}: {found.status}, {found.payload_iov_count:,} intervals of {found.payload_lists_count:,} types,"
        f" changed {found.updated} UTC{f', by {found.author}' if found.author else ''}"
    )
    listing(("type", "list"), lists, False, "It has no payload list.")


@app.command(
    epilog=examples("triggerlog conditions at summer_2026 12 4000", "triggerlog conditions at summer_2026 12 --json")
)
def at(
    tag: Tag,
    major: Major,
    minor: Minor = 0,
    *,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what is valid at a key of a global tag, by type."""
    key = key_of(major, minor)

    async def question(api: ConditionsApi) -> Sequence[tuple[Any, ...]]:
        await api.tag(tag)  # the question below has no answer for an unknown tag, and no error
        found = await api.valid_at(tag, key)
        return [(each.type, each.url, each.checksum, each.size, each.start, each.end) for each in found]

    rows = asked(server_of(config, server, token_file, ca), question)
    listing(("type", "url", "checksum", "size", "start", "end"), rows, as_json, "Nothing is valid there.")


@app.command(epilog=examples("triggerlog conditions history summer_2026 bpm"))
def history(
    tag: Tag,
    type_: Type,
    *,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List the intervals of a type in a global tag, in the order of their keys."""
    found = asked(server_of(config, server, token_file, ca), lambda api: intervals_of(api, tag, type_))
    listing(("start", "end", "url", "checksum", "size"), _rows(found), as_json, "It has no interval.")


@app.command(epilog=examples("triggerlog conditions diff spring_2026 summer_2026"))
def diff(
    tag: Tag,
    other: Tag,
    *,
    config: ConfigFile = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """List where two global tags have different payloads, by type and stretch of keys."""

    async def question(api: ConditionsApi) -> list[tuple[str, Difference]]:
        lists = [(await api.tag(name), await api.lists(name))[1] for name in (tag, other)]
        found = []
        for of_type in sorted(lists[0].keys() | lists[1].keys()):
            both = [await api.intervals(of[of_type]) if of_type in of else NOTHING for of in lists]
            found += [(of_type, each) for each in differences(*both)]
        return found

    rows = [
        (of_type, each.start, each.end, each.left, each.right)
        for of_type, each in asked(server_of(config, server, token_file, ca), question)
    ]
    listing(("type", "start", "end", tag, other), rows, as_json, "There is no difference.")


def _rows(intervals: Intervals) -> Sequence[tuple[Any, ...]]:
    columns = (intervals.starts.tolist(), intervals.ends.tolist(), intervals.urls, intervals.checksums)
    return [
        (Key(*start), Key(*end), url, checksum, None if size < 0 else size)
        for start, end, url, checksum, size in zip(*columns, intervals.sizes.tolist(), strict=True)
    ]
