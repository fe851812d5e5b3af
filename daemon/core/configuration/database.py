"""The database of a configuration: its store, and what is known of it before anything is written."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from backends import open_conditions_store, open_folders_store, open_store, open_visit_store
from backends.base import (
    ConfigurationRefused,
    Partition,
    PlaceRefused,
    ReadOnly,
    SchemaMismatch,
    Store,
    StoreError,
    StoreFacts,
    StoreLacks,
    StoreUnavailable,
)
from backends.columns.partitions import partition_of
from backends.conditions import ConditionsStore
from backends.folders.base import FoldersStore
from backends.folders.reporting import ReportingStore
from backends.visits.base import VisitStore
from daemon.core.configuration import LoadedConfig
from schemas.batch import Durability, Layout
from schemas.checking.problems import Problem, without_passwords, wrong
from schemas.conditions.rules import ConditionsRefused
from schemas.config import Config, DatabaseConfig, GroupConfig
from schemas.queries import LedgerTail
from schemas.readings import InstrumentGroup

LOOK_S = 5.0
"""How long a look at a database may take: an operator waits for it."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a look at the database found.

    creates: what the daemon would create at its start, in words.
    facts: what the server says of itself; None when it was not asked.
    warnings: what works, or may later, and an operator should know all the same.
    """

    creates: tuple[str, ...] = ()
    facts: StoreFacts | None = None
    warnings: tuple[Problem, ...] = ()


def layout_of(section: GroupConfig, config: Config) -> Layout:
    """The layout of a group: its own, or the database's."""
    return section.layout or config.database.layout


class Tables(TypedDict):
    """The groups that have tables, by name, and how they lie there."""

    groups: dict[str, InstrumentGroup]
    layouts: dict[str, Layout]


def tables_of(config: Config) -> Tables:
    """What a store of readings is to know; those that report on change go into folders."""
    sections = config.trigger_groups
    return Tables(
        groups={section.name: section.group() for section in sections},
        layouts={section.name: layout_of(section, config) for section in sections},
    )


def durability_of(section: GroupConfig, config: Config) -> Durability:
    """The durability a group asks for: its own, or the database's; a folder has one alone."""
    if section.folder is not None:
        return Durability.SYNC
    return section.durability or config.database.durability


def in_use(asked: Collection[Durability]) -> list[Durability]:
    """Those that any group asks for, the strongest first."""
    return [durability for durability in Durability if durability in asked]


def store_of(loaded: LoadedConfig, *, timeout_s: float | None = None) -> Store:
    """Make the store of a configuration; `timeout_s` is less patient than its `command_timeout_s`."""
    config, database = loaded.config, loaded.config.database
    if timeout_s is not None:
        database = database.model_copy(update={"command_timeout_s": min(timeout_s, database.command_timeout_s)})
    tables = open_store(
        database,
        logger=config.logger,
        **tables_of(config),
        state_dir=loaded.state_dir,
        password=loaded.password,
        places=[tier.place for tier in config.tiers],
    )
    reporting = {section.name: section.group() for section in config.groups if section.folder is not None}
    if not reporting:
        return tables
    folders = open_folders_store(
        database,
        schema=config.folders.schema_name,
        state_dir=loaded.state_dir,
        password=loaded.password,
        connections=min(len(reporting), config.folders.connections),
    )
    return ReportingStore(tables, folders, reporting, logger=config.logger)


def reading_from(loaded: LoadedConfig) -> tuple[DatabaseConfig, str | None]:
    """The database that readers ask, and its password: their own, or the one that is written to."""
    dsn = loaded.config.readers.dsn
    if dsn is None:
        return loaded.config.database, loaded.password
    return loaded.config.database.model_copy(update={"dsn": dsn}), loaded.readers_password


def asked_store_of(loaded: LoadedConfig, *, give_up_s: float) -> Store:
    """Make the store that a command asks: not opened, with one connection, where readers read.

    An embedded server that does not run is started for it.
    """
    if loaded.config.database.dsn is None:
        return store_of(loaded)
    config = loaded.config
    database, password = reading_from(loaded)
    return open_store(
        database,
        logger=config.logger,
        **tables_of(config),
        state_dir=loaded.state_dir,
        password=password,
        read_only=ReadOnly(connections=1, give_up_s=give_up_s),
    )


def asked_conditions_store_of(loaded: LoadedConfig) -> ConditionsStore:
    """Make the store of conditions that a command asks, where readers read; an embedded server has to run already."""
    database, password = reading_from(loaded)
    return open_conditions_store(
        database,
        schema=loaded.config.conditions.schema_name,
        state_dir=loaded.state_dir,
        password=password,
        connections=1,
    )


def conditions_store_of(loaded: LoadedConfig, *, connections: int) -> ConditionsStore:
    """Make the store of conditions that the daemon asks, in its own database."""
    return open_conditions_store(
        loaded.config.database,
        schema=loaded.config.conditions.schema_name,
        state_dir=loaded.state_dir,
        password=loaded.password,
        connections=connections,
    )


def asked_folders_store_of(loaded: LoadedConfig, *, give_up_s: float) -> FoldersStore:
    """Make the store of folders that a command asks, where readers read; an embedded server has to run already."""
    database, password = reading_from(loaded)
    return open_folders_store(
        database.model_copy(update={"command_timeout_s": give_up_s}),
        schema=loaded.config.folders.schema_name,
        state_dir=loaded.state_dir,
        password=password,
        connections=1,
    )


def folders_store_of(loaded: LoadedConfig) -> FoldersStore:
    """Make the store of folders that the daemon opens, in its own database."""
    folders = loaded.config.folders
    return open_folders_store(
        loaded.config.database.model_copy(update={"command_timeout_s": folders.timeout_s}),
        schema=folders.schema_name,
        state_dir=loaded.state_dir,
        password=loaded.password,
        connections=folders.connections,
    )


async def look_at_database(loaded: LoadedConfig) -> Look:
    """Ask the database whether the daemon could use it as configured, and change nothing in it.

    Raises:
        StoreError: it could not, and waiting will not help.
    """
    store = store_of(loaded, timeout_s=LOOK_S)
    try:
        async with asyncio.timeout(2 * LOOK_S):
            creates = await store.check()
            # The embedded server would be started by the question, and it keeps what its own settings say.
            facts = None if loaded.config.database.dsn is None else await store.facts()
            partitions = {} if facts is None or creates else await store.partitions()
    except (StoreUnavailable, TimeoutError) as error:
        if isinstance(error, StoreLacks):
            raise
        problem = str(error) or f"{loaded.target} does not answer in time"
        return Look(warnings=(wrong(problem, "a daemon would wait for it", "database.dsn"),))
    finally:
        await store.close()
    warnings = (*_shortfalls(facts, loaded.config), *_other_partitions(partitions, loaded.config))
    return Look(creates=tuple(creates), facts=facts, warnings=warnings)


async def look_at_readers(loaded: LoadedConfig) -> tuple[Problem, ...]:
    """Ask the readers' own database, where there is one, for what they will ask; say what they would find wrong."""
    config = loaded.config
    if config.readers.dsn is None:
        return ()
    database, password = reading_from(loaded)
    tables = tables_of(config)
    store = open_store(
        database,
        logger=config.logger,
        **tables,
        state_dir=loaded.state_dir,
        password=password,
        read_only=ReadOnly(connections=1, give_up_s=LOOK_S),
    )
    try:
        async with asyncio.timeout(2 * LOOK_S):
            for group in tables["groups"].values():
                await store.ask(LedgerTail(group=group, most=1))
            if not tables["groups"]:  # folders and conditions are read there, too
                await store.facts()
    except TimeoutError:
        problem = f"{without_passwords(config.readers.dsn)} does not answer in time"
        return (wrong(problem, "readers would fail until it does", "readers.dsn"),)
    except StoreError as error:
        if error.is_away:
            return (wrong(str(error), "readers would fail until it does", "readers.dsn"),)
        fix = f"see that it holds schema {database.schema_name} as it is written, and that its user may read that"
        problem, has_own, own_fix = str(error).rpartition("; ")
        if isinstance(error, ConfigurationRefused) and has_own:
            return (wrong(problem, own_fix, "readers.dsn"),)
        return (wrong(str(error), fix, "readers.dsn"),)
    finally:
        await store.close()
    return ()


async def look_beside(loaded: LoadedConfig) -> list[str]:
    """Ask whether the stores of conditions, folders and visits could be opened, where the daemon does; a line each.

    An embedded database is not asked: it would have to run.
    """
    config = loaded.config
    if config.database.dsn is None:
        return []
    stores: dict[str, ConditionsStore | FoldersStore | VisitStore] = {}
    if config.conditions.serve:
        stores["conditions"] = conditions_store_of(loaded, connections=1)
    if config.folders.serve:
        stores["folders"] = folders_store_of(loaded)
    if config.visits.start:
        stores["visits"] = open_visit_store(
            config.database, config.visits, state_dir=loaded.state_dir, password=loaded.password
        )
    problems = []
    for section, store in stores.items():
        try:
            async with asyncio.timeout(2 * LOOK_S):
                await store.check()
        except TimeoutError:
            continue  # the look at the database says so
        except StoreError as error:
            if not error.is_away:
                named = str(error).startswith(f"{section}.")
                problems.append(str(error) if named else f"{section}.schema: {error}")
        finally:
            await store.close()
    return problems


async def look_at_calibrations(loaded: LoadedConfig) -> tuple[Problem, ...]:
    """Ask for the global tag that readings are calibrated by; say what is missing of it.

    An embedded database is not asked: it would have to run.
    """
    tag = loaded.config.conditions.tag
    if tag is None or loaded.config.database.dsn is None:
        return ()
    store = conditions_store_of(loaded, connections=1)
    try:
        async with asyncio.timeout(LOOK_S):
            lists = await store.tag_lists(tag)
    except ConditionsRefused as refused:
        return (wrong(refused.problem, refused.fix, "conditions.tag"),)
    except TimeoutError:
        return ()  # the look at the database has said so
    except StoreError as error:
        if error.is_away:
            return ()
        problem = f"{loaded.config.conditions.schema_name} cannot be read ({error})"
        return (wrong(problem, "name the one that a server of conditions has made", "conditions.schema"),)
    finally:
        await store.close()
    types = ((i, section.calibrated_as) for i, section in enumerate(loaded.config.groups))
    return tuple(
        wrong(f"{tag!r} has no list of type {type_!r}", "attach one to it", f"groups[{i}].payload_type")
        for i, type_ in types
        if type_ is not None and type_ not in lists
    )


async def why_refused(store: Store, error: StoreError) -> StoreError:
    """Find the words of a check for what an opening failed with: it looks for the cause, one right after the other."""
    if not isinstance(error, SchemaMismatch):
        try:
            await store.check()
        except StoreUnavailable:
            return error
        except StoreError as found:
            return found
    return error


def in_its_field(error: StoreError, config: Config) -> str:
    """Tell what a store cannot do as the problem of a field of the configuration, in one line."""
    if isinstance(error, PlaceRefused):
        number = [tier.place for tier in config.tiers].index(error.place)
        field = "directory" if config.tiers[number].directory else "tablespace"
        return f"tiers[{number}].{field}: {error}"
    return f"{'database' if isinstance(error, SchemaMismatch) or not config.database.dsn else 'database.dsn'}: {error}"


def _other_partitions(found: Mapping[str, Sequence[Partition]], config: Config) -> Iterator[Problem]:
    """Say from when on partitions hold what `partition` says, where those that are there hold another stretch."""
    unit = config.database.partition
    for group, partitions in found.items():
        newest = max((each for each in partitions if each.name.isdigit()), key=lambda each: each.end_ns, default=None)
        if newest is None or newest.end_ns == partition_of(newest.start_ns, unit).end_ns:
            continue
        ends = np.datetime64(newest.end_ns, "ns").astype("datetime64[m]")
        problem = f"group {group} has partitions of another stretch up to {ends} UTC"
        yield wrong(problem, f"they stay, and partitions of one {unit} begin there", "database.partition")


def _shortfalls(facts: StoreFacts | None, config: Config) -> Iterator[Problem]:
    """Say where the server does not keep a durability that is asked for, by the first field that asks for it."""
    asked = [durability_of(section, config) for section in config.groups]
    for durability in in_use(asked):
        shortfall = facts.durability[durability].shortfall if facts else None
        if shortfall is not None:
            index = asked.index(durability)
            field = f"groups[{index}].durability" if config.groups[index].durability else "database.durability"
            yield wrong(f"{durability} is not kept: {shortfall.problem}", shortfall.fix, field)
