"""The configuration tree: one TOML file, checked field by field.

Every field has a description; `triggerlog config-reference` prints them. Reading files and environment variables is
the daemon's business: here is only what the text means.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from schemas.checking.dsn import Backend, Feature, backend_of, unsupported
from schemas.checking.fields import Step, path
from schemas.checking.problems import (
    ConfigError,
    Problem,
    listed,
    problems,
    refuse,
    suggestion,
    syntax_problem,
    too_long_a_number,
    wrong,
)
from schemas.conditions.calibration import BUTTONS
from schemas.config.conditions import ConditionsConfig, FoldersConfig
from schemas.config.database import DatabaseConfig
from schemas.config.decimation import DecimationConfig, decimation_of, decimation_problems
from schemas.config.groups import GroupConfig
from schemas.config.listeners import ApiConfig, DashboardConfig
from schemas.config.processing import AlarmConfig, AssemblyConfig, CommitterConfig, JournalConfig
from schemas.config.retention import RetentionConfig, too_short
from schemas.config.section import LoggerName, Section, twice
from schemas.config.sources import SOURCES, SimulatedSource, Source, SourceSection, TcpSource, UdpSource
from schemas.config.tiers import Policy, TierConfig, TieringConfig, tier_problems
from schemas.config.visits import VisitsConfig
from schemas.config.workloads import GovernorConfig, ReadersConfig, Workload, WorkloadKind
from schemas.decimation import Reduction

__all__ = [
    "SOURCES",
    "AlarmConfig",
    "ApiConfig",
    "AssemblyConfig",
    "CommitterConfig",
    "ConditionsConfig",
    "Config",
    "ConfigError",
    "DashboardConfig",
    "DatabaseConfig",
    "DecimationConfig",
    "FoldersConfig",
    "GovernorConfig",
    "GroupConfig",
    "JournalConfig",
    "Policy",
    "Problem",
    "ReadersConfig",
    "RetentionConfig",
    "SimulatedSource",
    "Source",
    "SourceSection",
    "TcpSource",
    "TierConfig",
    "TieringConfig",
    "UdpSource",
    "VisitsConfig",
    "Workload",
    "WorkloadKind",
    "parse_config",
    "parse_most",
]


ROUNDS = 5
"""So often what cannot be used is taken out, to see what else is wrong."""


class Config(Section):
    """The whole configuration."""

    logger: LoggerName = Field(
        default="triggerlog", description="Name of this logger; stored with its positions and ledger rows."
    )
    state_dir: str = Field(
        default="state", description="Folder for the daemon's files; relative to the configuration file."
    )
    groups: tuple[GroupConfig, ...] = Field(
        min_length=1,
        description="The instrument groups.",
        examples=['groups = [{ name = "bpm", count = 120, channels = [{ name = "x", unit = "mm" }] }]'],
    )
    sources: tuple[Source, ...] = Field(
        default=(TcpSource(kind="tcp"),), description="Where readings come from; one TCP source when left out."
    )
    database: DatabaseConfig = Field(default_factory=DatabaseConfig, description="Where they go.")
    assembly: AssemblyConfig = Field(default_factory=AssemblyConfig, description="How triggers are put together.")
    committer: CommitterConfig = Field(default_factory=CommitterConfig, description="How they are committed.")
    journal: JournalConfig = Field(default_factory=JournalConfig, description="Where they wait for the database.")
    retention: RetentionConfig = Field(default_factory=RetentionConfig, description="When old readings are dropped.")
    decimation: DecimationConfig = Field(default_factory=DecimationConfig, description="When old readings are reduced.")
    tiers: tuple[TierConfig, ...] = Field(
        default=(), max_length=8, description="Places for readings, from fast to slow; all in one when left out."
    )
    tiering: TieringConfig = Field(
        default_factory=TieringConfig, description="By what readings move between these places."
    )
    alarms: AlarmConfig = Field(default_factory=AlarmConfig, description="What counts as wrong.")
    readers: ReadersConfig = Field(default_factory=ReadersConfig, description="Who reads while it is written.")
    visits: VisitsConfig = Field(default_factory=VisitsConfig, description="Mock DIA visits of a telescope.")
    conditions: ConditionsConfig = Field(default_factory=ConditionsConfig, description="Calibrations and settings.")
    folders: FoldersConfig = Field(default_factory=FoldersConfig, description="Conditions by channel.")
    api: ApiConfig = Field(default_factory=ApiConfig, description="The control API.")
    dashboard: DashboardConfig = Field(default_factory=DashboardConfig, description="The page.")

    @model_validator(mode="after")
    def _check(self) -> "Config":
        names = [group.name for group in self.groups]
        refuse(
            [
                *twice("group", "groups", ".name", names),
                *_shared_folders(self.groups),
                *_unknown_groups(self.sources, names),
                *_unread_groups(self.readers, names),
                *_read_folders(self),
                *_other_database(self),
                *_uncalibrated(self),
                *_unkept(self),
                *_unsupported(self),
                *decimation_problems(
                    self.decimation,
                    [(group.decimation, group.retention) for group in self.groups],
                    self.retention,
                    self.database,
                ),
                *tier_problems(self.tiers, self.tiering, self.database),
                *_shared_schemas(self),
                *_shared_ports(self),
            ]
        )
        return self

    @property
    def schemas(self) -> dict[str, str]:
        """All schemas that triggerlog may make in the database (MariaDB and MongoDB: databases), by section.

        Each section with the key `schema` has one: a backup copies them all.
        """
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: section.schema_name for name, section in sections.items() if hasattr(section, "schema_name")}

    @property
    def reductions(self) -> dict[str, Reduction]:
        """What becomes of the readings of each group that has tables, by name; without those that stay as they are."""
        found = {each.name: decimation_of(self.decimation, each.decimation) for each in self.trigger_groups}
        return {name: asked for name, asked in found.items() if asked is not None}

    @property
    def trigger_groups(self) -> tuple[GroupConfig, ...]:
        """The groups whose readings belong to triggers, and lie in tables; the others report on change."""
        return tuple(group for group in self.groups if group.folder is None)

    def calibrated_by(self, group: str) -> str | None:
        """Global tag by which readings of a group can be calibrated; None where there is none."""
        return self.conditions.tag if any(g.name == group and g.calibrated_as for g in self.groups) else None


def parse_config(text: str) -> Config:
    """Parse and check a configuration.

    Raises:
        ConfigError: with every problem found, each naming the field and the fix.

    """
    config, found = parse_most(text)
    if config is None or found:
        raise ConfigError(found)
    return config


def parse_most(text: str) -> tuple[Config | None, list[Problem]]:
    """Parse a configuration as far as it goes, so that all that is wrong can be said at once.

    Returns:
        What is left without the keys that cannot be used, None where that says nothing; and every problem.
    """
    try:
        tree = _tree(text)
    except ConfigError as error:
        return None, list(error.problems)
    found, judges_rest = list[Problem](), True
    # What checks a section, or all of them, waits until each key is right: let it look at what is left. Without what is
    # refused then, the configuration is another one, which is not judged.
    for attempt in range(ROUNDS):
        config, errors = _validated(tree)
        if config is not None:
            break
        every, known = problems(Config, errors), {problem.field for problem in found}
        more = [problem for problem in every if problem.field not in known]
        if judges_rest:
            found += more
        judges_rest = not attempt and not any(error["type"] == "refused" for error in errors)
        # A key that is missing now was taken out: its section needs it.
        out = [problem.field for problem in more] or [_section_of(problem) for problem in every]
        if [field for field in out if not _take_out(tree, field)]:
            break
    return config, found


def _section_of(problem: Problem) -> str:
    return re.split(r"[.\[]", problem.field)[0]


def _validated(tree: dict[str, Any]) -> tuple[Config | None, list[ErrorDetails]]:
    try:
        # By way of JSON, because pydantic's strict mode takes lists for tuples and texts for enumerations only there;
        # without strict mode `port = "8122"` and `count = true` would pass.
        return Config.model_validate_json(json.dumps(tree, default=str), strict=True), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _take_out(tree: dict[str, Any], field: str) -> bool:
    """Take a key out of a tree; False where it has none there, or where what is left would be another configuration.

    That is so of the groups, of the database and its DSN, which all else depends on, and of a part of an array.
    """
    *outer, key = [int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", field) or [""]]
    section: Any = tree
    for step in outer:
        try:
            section = section[step]
        except (KeyError, IndexError, TypeError):
            return False
    if not isinstance(section, dict) or key not in section or key in ("groups", "database", "dsn"):
        return False
    del section[key]
    return True


def _tree(text: str) -> dict[str, Any]:
    try:
        tree = tomllib.loads(text)
        refused = list(_with_nul(tree))
    except tomllib.TOMLDecodeError as error:
        refused = [syntax_problem(text, str(error))]
    except RecursionError:
        refused = [wrong("arrays or tables lie in each other too deeply", "write them side by side", "(file)")]
    except ValueError:  # of `int`
        refused = [too_long_a_number(text)]
    if refused:
        raise ConfigError(refused)
    return tree


def _with_nul(tree: object, *steps: Step) -> Iterator[Problem]:
    """Texts with a NUL, which neither the system nor a database takes."""
    if isinstance(tree, str) and "\0" in tree:
        yield wrong("the text has a NUL character", "take it out", path(steps))
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, value in items:
        yield from _with_nul(value, *steps, step)


def _unknown_groups(sources: Iterable[Source], names: Sequence[str]) -> Iterator[Problem]:
    for i, source in enumerate(sources):
        group = source.only_group
        if group is not None and group not in names:
            yield wrong(f"there is no group {group!r}", suggestion(group, names), f"sources[{i}].group")


def _unread_groups(readers: ReadersConfig, names: Sequence[str]) -> Iterator[Problem]:
    for i, workload in enumerate(readers.workloads):
        if workload.group is not None and workload.group not in names:
            fix = suggestion(workload.group, names)
            yield wrong(f"there is no group {workload.group!r}", fix, f"readers.workloads[{i}].group")


def _shared_folders(groups: Sequence[GroupConfig]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for i, group in enumerate(groups):
        if group.folder is not None and first.setdefault(group.folder, i) != i:
            problem = f"groups[{first[group.folder]}] reports into {group.folder}, too"
            yield wrong(problem, "give each group a folder of its own", f"groups[{i}].folder")


def _read_folders(config: Config) -> Iterator[Problem]:
    """Reader workloads that would read a group without triggers."""
    folders = {group.name for group in config.groups if group.folder is not None}
    for i, workload in enumerate(config.readers.workloads):
        if workload.group in folders:
            fix = "name a group without `folder`"
            yield wrong(f"group {workload.group!r} has no triggers to read", fix, f"readers.workloads[{i}].group")
        elif workload.group is None and not config.trigger_groups:
            fix = "take it out, or add a group without `folder`"
            yield wrong("no group has triggers to read", fix, f"readers.workloads[{i}]")


def _other_database(config: Config) -> Iterator[Problem]:
    dsn = config.readers.dsn
    if dsn is None:
        return
    if config.database.dsn is None:
        yield wrong("what is written is in an embedded PostgreSQL, which has no other", "take it out", "readers.dsn")
    elif backend_of(dsn) is not config.database.backend:
        fix = "name a server that has what is written, or take it out"
        yield wrong(f"it is no {config.database.backend}, as `database.dsn` is", fix, "readers.dsn")


def _uncalibrated(config: Config) -> Iterator[Problem]:
    if config.conditions.tag is not None and not any(group.calibrated_as for group in config.groups):
        fix = f"take it out, or give a group the channels {listed(BUTTONS)}"
        yield wrong("no group gives the four buttons that are calibrated", fix, "conditions.tag")
    first = next((group.name for group in config.trigger_groups), "")
    for i, workload in enumerate(config.readers.workloads):
        if workload.kind is WorkloadKind.ORBIT and config.calibrated_by(workload.group or first) is None:
            fix = f"set `tag` in [conditions], and read a group with the channels {listed(BUTTONS)}"
            yield wrong("there is nothing to calibrate by", fix, f"readers.workloads[{i}].kind")


def _unkept(config: Config) -> Iterator[Problem]:
    section, database = config.retention, config.database
    yield from too_short(section.keep_days, database.partition, "retention.keep_days")
    for i, group in enumerate(config.groups):
        yield from too_short(group.retention.keep_days, database.partition, f"groups[{i}].retention.keep_days")
    if section.min_free_percent is not None and database.backend is Backend.MONGODB:
        problem = "MongoDB's files stay as large when documents are removed: no drop would make its disk freer"
        yield wrong(problem, "use `max_gib`", "retention.min_free_percent")
    elif section.min_free_percent is not None and section.disk is None and database.dsn is not None:
        fix = "name a folder of that disk in `retention.disk`, or use `max_gib` where it is on another node"
        yield wrong("nothing tells which disk `database.dsn` is on", fix, "retention.min_free_percent")
    names = [tier.name for tier in config.tiers]
    if section.disk_tier is not None and section.disk_tier not in names:
        fix = f"name one of {', '.join(names)}" if names else "take it out: there are no `[[tiers]]`"
        yield wrong(f"there is no tier {section.disk_tier!r}", fix, "retention.disk_tier")
    if section.min_free_percent is not None and section.disk_tier is None and names:
        fix = f"name it in `retention.disk_tier`: {', '.join(names)}"
        yield wrong("nothing tells which tier lies on that disk", fix, "retention.min_free_percent")


def _unsupported(config: Config) -> Iterator[Problem]:
    """Sections and fields that ask for a feature which the database lacks."""
    fields = type(config).model_fields
    asked: list[tuple[Feature, str]] = [
        (each, each) for each in Feature if getattr(config, each) != fields[each].get_default(call_default_factory=True)
    ]
    for i, group in enumerate(config.groups):
        of_group = {"folder": Feature.FOLDERS, "decimation": Feature.DECIMATION, "payload_type": Feature.CONDITIONS}
        asked += [(of_group[name], f"groups[{i}].{name}") for name in of_group if name in group.model_fields_set]
    for feature, field in asked:
        yield from unsupported(config.database.backend, feature, field)


def _shared_schemas(config: Config) -> Iterator[Problem]:
    taken = {"database": config.database.schema_name, "visits": config.visits.schema_name}
    for section, schema in (("conditions", config.conditions.schema_name), ("folders", config.folders.schema_name)):
        for other in (each for each, name in taken.items() if name == schema):
            problem = f"{other}.schema is {schema!r}, too"
            yield wrong(problem, f"give {section} a schema of their own", f"{section}.schema")
        taken[section] = schema


def _shared_ports(config: Config) -> Iterator[Problem]:
    # TCP and UDP ports are different things: only what speaks the same protocol can be in each other's way.
    listeners: list[tuple[str, str, str, int]] = [
        ("api.port", "tcp", config.api.host, config.api.port),
        ("dashboard.port", "tcp", config.dashboard.host, config.dashboard.port),
    ]
    # A site without conditions may have anything at their port.
    if config.conditions.serve or "port" in config.conditions.model_fields_set:
        listeners.append(("conditions.port", "tcp", config.conditions.host, config.conditions.port))
    for i, source in enumerate(config.sources):
        at = source.listening
        if at is not None:
            listeners.append((f"sources[{i}].port", at.transport, at.host, at.port))
    taken: dict[tuple[str, str, int], str] = {}
    for field, kind, host, port in listeners:
        first = taken.setdefault((kind, host, port), field)
        if port and first != field:
            yield wrong(f"{first} is {port} on {host} too", "give each its own port", field)
