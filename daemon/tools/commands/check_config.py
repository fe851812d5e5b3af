"""`triggerlog check-config`: checks a configuration, and the database that it names."""

import asyncio
import contextlib
import errno
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, NoReturn

import typer

from backends.base import StoreError
from daemon.core.configuration import LoadedConfig, identity_of, load_most, warnings
from daemon.core.configuration.api_token import FILE, configured_token
from daemon.core.configuration.database import (
    Look,
    durability_of,
    in_its_field,
    in_use,
    layout_of,
    look_at_calibrations,
    look_at_database,
    look_at_readers,
    look_beside,
)
from daemon.core.outcome import CommandFailed, cannot_listen, examples, reason_of
from daemon.core.outside import SystemDisk
from daemon.core.process.state_folder import is_in_use
from daemon.pipeline.recovery import refuse_unknown_groups
from daemon.sources.kinds import tls_contexts
from daemon.tools.commands.run import page_password, tab_files
from daemon.tools.commands.tiers import look_at_tiers
from daemon.tools.options import File
from daemon.web.http import bound
from daemon.workloads.visits.facts import visits_problems, visits_words
from schemas.checking.addresses import in_url
from schemas.checking.problems import without_passwords, wrong
from schemas.config import ConfigError, Problem
from schemas.config.workloads import described

ASKED = ("groups", "database", "readers", "state_dir", "conditions", "folders", "visits", "tiers")
"""Sections that say what is asked of databases."""
SECTION = re.compile(r"[.:\[]")
"""Ends the name of a section in a field."""

EPILOG = examples("triggerlog check-config beam.toml", "triggerlog check-config beam.toml --offline")


def check_config(
    file: File,
    offline: Annotated[bool, typer.Option("--offline", help="Check only the file; ask nothing else.")] = False,
) -> None:
    """Check a configuration: print each problem with its field and the fix.

    The database is asked too, and not changed. A database that is away is no error: the daemon waits for it. The
    addresses to listen on are tried, too.
    """
    loaded, found = load_most(file)
    look, problems = Look(), list(map(str, found))
    if loaded is None:
        _fail(problems)
    # Without what cannot be used a section is another one, of which nothing is said.
    others = {SECTION.split(each.field)[0] for each in found}
    more = [*_of_file(loaded), *(() if offline else _of_addresses(loaded))]
    problems += [line for line in more if SECTION.split(line)[0] not in others]
    if not offline and others.isdisjoint(ASKED):
        look, more = asyncio.run(_look(loaded))
        problems += more
    if problems:
        _fail(problems)
    typer.echo(f"{file}: nothing is wrong.")
    for name, text in _summary(loaded, look):
        typer.echo(f"  {name:<10} {text}")
    for warning in (*warnings(loaded), *page_problems(loaded), *_of_visits(loaded), *look.warnings):
        typer.echo(f"warning: {warning}", err=True)


def _of_file(loaded: LoadedConfig) -> list[str]:
    """The problems of what the file names on this machine, a line each."""
    problems: list[str] = []
    for check in (_check_listeners, _check_tabs, _check_state):
        try:
            check(loaded)
        except ConfigError as error:
            problems += map(str, error.problems)
        except CommandFailed as error:
            problems.append(str(error))
    return problems


def _of_addresses(loaded: LoadedConfig) -> Iterator[str]:
    """The addresses that nobody could listen on here, a line each."""
    config = loaded.config
    places = [("api", config.api.host, config.api.port, socket.SOCK_STREAM)]
    if config.conditions.serve:
        places.append(("conditions", config.conditions.host, config.conditions.port, socket.SOCK_STREAM))
    for index, source in enumerate(config.sources):
        if (at := source.listening) is not None:
            kind = socket.SOCK_STREAM if at.transport == "tcp" else socket.SOCK_DGRAM
            places.append((f"sources[{index}]", at.host, at.port, kind))
    for section, host, port, kind in places:
        try:
            bound(host, port, kind=kind).close()
        except PermissionError:
            continue  # the daemon may run as another user
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not is_in_use(loaded.state_dir):
                yield str(cannot_listen(section, host, port, error))


async def _look(loaded: LoadedConfig) -> tuple[Look, list[str]]:
    """Return the answers of the databases, and the problems there, a line each."""
    look = Look()
    problems: list[str] = []
    try:
        look = await look_at_database(loaded)
        if not look.creates and look.facts is not None:
            problems += map(str, await look_at_tiers(loaded))
    except StoreError as error:
        problems.append(in_its_field(error, loaded.config))
    for line in await look_beside(loaded):
        # A login that is refused is refused everywhere.
        if not any(line.partition(": ")[2] == said.partition(": ")[2] for said in problems):
            problems.append(line)
    more = () if problems else (*await look_at_readers(loaded), *await look_at_calibrations(loaded))
    return replace(look, warnings=(*look.warnings, *more)), problems


def _check_state(loaded: LoadedConfig) -> None:
    # It may belong to another user, whose daemon looks for itself.
    with contextlib.suppress(PermissionError):
        refuse_unknown_groups(loaded.state_dir, {group.name for group in loaded.config.groups}, SystemDisk())


def _check_listeners(loaded: LoadedConfig) -> None:
    configured_token(loaded)
    identity_of(loaded, loaded.config.api, "api")
    identity_of(loaded, loaded.config.conditions, "conditions")
    tls_contexts(loaded)


def _check_tabs(loaded: LoadedConfig) -> None:
    problems = []
    for i, path in enumerate(tab_files(loaded)):
        try:
            path.open("rb").close()
        except PermissionError:
            continue  # the page may run as another user
        except OSError as error:
            problem = f"{path} cannot be read ({reason_of(error)})"
            problems.append(wrong(problem, "give the path of a Python file with a tab", f"dashboard.tabs[{i}]"))
    if problems:
        raise ConfigError(problems)


def page_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """Problems that keep the page from starting, as far as this user may read: the page may run as another user."""
    for look in (lambda: page_password(loaded), lambda: identity_of(loaded, loaded.config.dashboard, "dashboard")):
        try:
            look()
        except ConfigError as error:
            yield from error.problems


def _has_visits(loaded: LoadedConfig) -> bool:
    """Whether the file configures visits; most sites have none."""
    return "visits" in loaded.config.model_fields_set


def _of_visits(loaded: LoadedConfig) -> Iterator[Problem]:
    return visits_problems(loaded) if _has_visits(loaded) else iter(())


def _fail(lines: Iterator[str] | list[str]) -> NoReturn:
    for line in lines:
        typer.echo(line, err=True)
    raise typer.Exit(1) from None


def _summary(loaded: LoadedConfig, look: Look) -> Iterator[tuple[str, str]]:
    config = loaded.config
    yield "logger", config.logger
    for section in config.groups:
        group = section.group()
        layout, durability = layout_of(section, config), durability_of(section, config)
        channels = f"{len(group.channels)} channel{'s' if len(group.channels) > 1 else ''}"
        instruments = f"{group.size} instrument{'s' if group.size > 1 else ''}"
        size = f"{instruments} x {channels}, {group.record.itemsize} bytes a reading"
        where = f"layout {layout}, durability {durability}"
        if group.reports:
            where = f"reports on change into folder {group.folder}, schema {config.folders.schema_name}"
        yield "group", f"{group.name}: {size}; {where}"
    for source in config.sources:
        yield "source", source.summary
    yield "database", f"{loaded.target}, schema {config.database.schema_name}"
    yield from _found(loaded, look)
    if config.readers.dsn is not None:
        yield "readers", f"ask {without_passwords(config.readers.dsn)}"
    for workload in config.readers.workloads:
        yield "readers", f"{workload.name}: {described(workload)}"
    if _has_visits(loaded):
        yield "visits", visits_words(config.visits)
    if config.conditions.serve:
        served = config.conditions
        at = f"{served.scheme}://{in_url(served.host)}:{served.port}"
        yield (
            "conditions",
            f"{at}, schema {served.schema_name}; {served.memory_mib:g} MiB in each of {served.processes}",
        )
    if config.folders.serve:
        yield "folders", f"schema {config.folders.schema_name}; {config.folders.connections} connections"
    if config.conditions.tag is not None:
        types = ", ".join(f"{each.name} as {each.calibrated_as}" for each in config.groups if each.calibrated_as)
        yield "calibrated", f"{types}; by {config.conditions.tag}, keys of {config.conditions.by}"
    yield "state", str(loaded.state_dir)
    kept = f"token in {loaded.state_dir / FILE}, made at the start"
    own = config.api.token_env is not None or config.api.token_file is not None
    yield "API", f"{config.api.scheme}://{in_url(config.api.host)}:{config.api.port}; {'own token' if own else kept}"
    tabs = f"; tabs {', '.join(path.name for path in tab_files(loaded))}" if config.dashboard.tabs else ""
    yield "page", f"{config.dashboard.scheme}://{in_url(config.dashboard.host)}:{config.dashboard.port}{tabs}"


def _found(loaded: LoadedConfig, look: Look) -> Iterator[tuple[str, str]]:
    """The answer of the database, and what the daemon would create in it."""
    if look.facts is not None:
        asked = in_use([durability_of(section, loaded.config) for section in loaded.config.groups])
        words = "; ".join(dict.fromkeys(look.facts.durability[durability].words for durability in asked))
        yield "server", f"{look.facts.backend} {look.facts.version}; {words}"
    for text in look.creates:
        yield "to create", text
