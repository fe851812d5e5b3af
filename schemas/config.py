"""The configuration tree: one TOML file, checked field by field.

Every field has a description; `triggerlog config-reference` prints them. Reading files and environment variables is
the daemon's business: here is only what the text means.
"""

import re
import tomllib
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from schemas.batch import Durability, Layout
from schemas.readings import CHANNEL_DTYPES, HEADER, MAX_INSTRUMENTS, Channel, InstrumentGroup

NAME = r"^[a-z][a-z0-9_]*$"
RESERVED_GROUPS = frozenset({"ledger", "instruments", "positions", "groups", "runs"})
RESERVED_CHANNELS = frozenset({name for name, _ in HEADER} | {"run", "trigger_id", "time", "name", "time_offset_ns"})

Name = Annotated[str, Field(pattern=NAME, max_length=32)]
Port = Annotated[int, Field(ge=0, le=65_535)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ChannelConfig(_Section):
    """One measured quantity of an instrument."""

    name: Name = Field(description="Column name: lower-case letters, digits and underscores.")
    unit: str = Field(default="", max_length=32, description="Unit, e.g. `mm`, `V`, `count`; shown, stored, exported.")
    dtype: str = Field(default="float64", description=f"Type of the value: {', '.join(CHANNEL_DTYPES)}.")

    @field_validator("dtype")
    @classmethod
    def _known(cls, dtype: str) -> str:
        if dtype not in CHANNEL_DTYPES:
            raise ValueError(f"unknown dtype {dtype!r}; use one of {', '.join(CHANNEL_DTYPES)}")
        return dtype

    @field_validator("name")
    @classmethod
    def _free(cls, name: str) -> str:
        if name in RESERVED_CHANNELS:
            raise ValueError(f"{name!r} is a column of every table; give the channel another name")
        return name


class GroupConfig(_Section):
    """An instrument group: instruments of one kind with the same channels; one table a group."""

    name: Name = Field(description="Name of the group and of its table, e.g. `bpm`.")
    count: int | None = Field(
        default=None,
        ge=1,
        le=MAX_INSTRUMENTS,
        description="How many instruments; they are named `<group>_000`, `<group>_001`, ... Instead of `instruments`.",
    )
    instruments: tuple[Annotated[str, Field(min_length=1, max_length=64, pattern=r"^\S+$")], ...] | None = Field(
        default=None, description="Names of the instruments, in the order of their numbers. Instead of `count`."
    )
    channels: tuple[ChannelConfig, ...] = Field(min_length=1, max_length=256, description="What each of them measures.")
    layout: Layout | None = Field(default=None, description="Layout of this group, where it differs from `[database]`.")
    durability: Durability | None = Field(
        default=None, description="Durability of this group, where it differs from `[database]`."
    )

    @model_validator(mode="after")
    def _check(self) -> "GroupConfig":
        if self.name in RESERVED_GROUPS:
            raise ValueError(f"{self.name!r} is a table of triggerlog's own; give the group another name")
        if (self.count is None) == (self.instruments is None):
            raise ValueError("give either `count` or `instruments`, not both and not neither")
        if self.instruments is not None:
            if not 1 <= len(self.instruments) <= MAX_INSTRUMENTS:
                raise ValueError(f"`instruments` names {len(self.instruments)}; give 1 to {MAX_INSTRUMENTS}")
            _once("instrument", self.instruments)
        _once("channel", [channel.name for channel in self.channels])
        return self

    def group(self) -> InstrumentGroup:
        """The group as the rest of the daemon knows it."""
        names = self.instruments
        if names is None:
            assert self.count is not None
            digits = max(3, len(str(self.count - 1)))
            names = tuple(f"{self.name}_{i:0{digits}d}" for i in range(self.count))
        channels = tuple(Channel(name=c.name, unit=c.unit, dtype=c.dtype) for c in self.channels)
        return InstrumentGroup(name=self.name, instruments=names, channels=channels)


class TcpSource(_Section):
    """Readings over TCP: acknowledged, with backpressure."""

    kind: Literal["tcp"]
    host: str = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all.")
    port: Port = Field(default=8122, description="Port to listen on; 0 takes a free one.")
    max_connections: int = Field(default=1024, ge=1, le=65_536, description="Further senders are turned away.")
    handshake_timeout_s: float = Field(default=5.0, gt=0, le=600, description="Time a sender has for its greeting.")
    acknowledge_every_ms: float = Field(
        default=20.0, ge=0, le=10_000, description="At most one acknowledgement a connection in this time."
    )


class UdpSource(_Section):
    """Readings over UDP: not acknowledged; what is lost on the way is seen as gaps and counted."""

    kind: Literal["udp"]
    host: str = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all.")
    port: Port = Field(default=8122, description="Port to listen on; 0 takes a free one.")
    receive_buffer_kib: int = Field(
        default=4096, ge=64, le=1_048_576, description="Socket buffer asked of the kernel, in KiB (see net.core.rmem_max)."
    )


class SimulatedSource(_Section):
    """Simulated instruments inside the daemon, to try it out without any hardware."""

    kind: Literal["simulated"]
    group: Name = Field(description="The group to simulate.")
    rate: float = Field(default=10.0, gt=0, le=100_000, description="Triggers a second.")
    missing: float = Field(default=0.0, ge=0, le=1, description="Fraction of readings left out.")
    seed: int = Field(default=1, ge=0, description="Seed of the random values.")


Source = Annotated[TcpSource | UdpSource | SimulatedSource, Field(discriminator="kind")]


class DatabaseConfig(_Section):
    """Where readings go."""

    dsn: str | None = Field(
        default=None,
        description="`postgresql://user@host:5432/name`. Without it an embedded PostgreSQL runs under `state_dir`.",
    )
    password_env: str | None = Field(default=None, description="Environment variable that holds the DSN's password.")
    password_file: str | None = Field(default=None, description="File that holds the DSN's password (first line).")
    schema_name: Name = Field(default="triggerlog", alias="schema", description="Schema the tables live in.")
    layout: Layout = Field(
        default=Layout.ROWS, description="`rows`: a row a reading; `arrays`: a row a trigger, an array a channel."
    )
    durability: Durability = Field(
        default=Durability.SYNC,
        description="`sync`: a commit survives a crash of the server; `async`: the server may lose its last moments.",
    )
    partition: Literal["hour", "day", "month"] = Field(
        default="day", description="Stretch of time a partition of a table holds."
    )
    partitions_ahead: int = Field(default=2, ge=1, le=100, description="Partitions made before they are needed.")
    command_timeout_s: float = Field(
        default=30.0, gt=0, le=3600, description="A transaction that takes longer is given up and tried again."
    )

    @field_validator("dsn")
    @classmethod
    def _known_scheme(cls, dsn: str | None) -> str | None:
        if dsn is not None and not re.match(r"^postgres(ql)?://", dsn):
            raise ValueError("not a DSN this version knows; write postgresql://user@host:port/name, or leave it out")
        return dsn

    @model_validator(mode="after")
    def _one_password(self) -> "DatabaseConfig":
        if self.password_env is not None and self.password_file is not None:
            raise ValueError("give either `password_env` or `password_file`, not both")
        if self.dsn is None and (self.password_env or self.password_file):
            raise ValueError("a password needs a `dsn`: the embedded PostgreSQL has none")
        return self


class AssemblyConfig(_Section):
    """How triggers are put together."""

    timeout_ms: float = Field(
        default=500.0, gt=0, le=600_000, description="An incomplete trigger closes this long after its first reading."
    )
    window: int = Field(
        default=65_536,
        ge=64,
        le=16_777_216,
        description="Trigger numbers kept in mind, half of them behind the newest and half ahead; a power of two. "
        "Late readings within it are merged, those further away are refused.",
    )
    max_open: int = Field(
        default=4096, ge=16, le=1_048_576, description="Triggers open at once; beyond it the oldest closes early."
    )

    @field_validator("window")
    @classmethod
    def _power_of_two(cls, window: int) -> int:
        if window & (window - 1):
            raise ValueError(f"not a power of two; use {1 << (window.bit_length() - 1)} or {1 << window.bit_length()}")
        return window


class CommitterConfig(_Section):
    """How closed triggers become transactions."""

    max_batch_mib: float = Field(default=8.0, gt=0, le=1024, description="Most that one transaction carries, in MiB.")
    max_waiting_mib: float = Field(
        default=256.0,
        gt=0,
        le=65_536,
        description="Most that waits in memory for the database, in MiB and for each group; beyond it TCP senders are "
        "held back and datagrams are refused.",
    )
    retry_first_ms: float = Field(default=50.0, gt=0, le=60_000, description="Pause after the first failed commit.")
    retry_most_ms: float = Field(default=1_000.0, gt=0, le=600_000, description="The pause doubles up to this.")


class ApiConfig(_Section):
    """The control API."""

    host: str = Field(default="127.0.0.1", description="Address to listen on. Anyone who reaches it may read.")
    port: Port = Field(default=8120, description="Port to listen on; 0 takes a free one.")


class DashboardConfig(_Section):
    """The page; a process of its own (`triggerlog dashboard`)."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: Port = Field(default=8121, description="Port to listen on; 0 takes a free one.")


class AlarmConfig(_Section):
    """Limits beyond which the page and the status call something wrong."""

    stale_s: float = Field(default=2.0, gt=0, description="An instrument silent for longer, while others go on, is stale.")
    commit_p99_ms: float = Field(default=100.0, gt=0, description="Budget for the commit latency, p99.")


class Config(_Section):
    """The whole configuration."""

    logger: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)] = Field(
        default="triggerlog", description="Name of this logger; kept with its positions and ledger rows."
    )
    state_dir: str = Field(
        default="state", description="Folder for what the daemon keeps; relative to the configuration file."
    )
    groups: tuple[GroupConfig, ...] = Field(min_length=1, description="The instrument groups.")
    sources: tuple[Source, ...] = Field(default=(), description="Where readings come from. Default: one TCP source.")
    database: DatabaseConfig = Field(default_factory=DatabaseConfig, description="Where they go.")
    assembly: AssemblyConfig = Field(default_factory=AssemblyConfig, description="How triggers are put together.")
    committer: CommitterConfig = Field(default_factory=CommitterConfig, description="How they are committed.")
    alarms: AlarmConfig = Field(default_factory=AlarmConfig, description="What counts as wrong.")
    api: ApiConfig = Field(default_factory=ApiConfig, description="The control API.")
    dashboard: DashboardConfig = Field(default_factory=DashboardConfig, description="The page.")

    @field_validator("sources")
    @classmethod
    def _default_source(cls, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        return sources or (TcpSource(kind="tcp"),)

    @model_validator(mode="after")
    def _check(self) -> "Config":
        names = [group.name for group in self.groups]
        _once("group", names)
        for name in names:
            if name.endswith(("_ledger", "_readings")):
                raise ValueError(f"group {name!r}: the endings _ledger and _readings are for tables that go with a group")
        for source in self.sources:
            if isinstance(source, SimulatedSource) and source.group not in names:
                raise ValueError(f"a simulated source names group {source.group!r}; there is: {', '.join(names)}")
        taken = Counter((s.kind, s.host, s.port) for s in self.sources if not isinstance(s, SimulatedSource) and s.port)
        for (kind, host, port), times in taken.items():
            if times > 1:
                raise ValueError(f"{times} {kind} sources listen on {host}:{port}; give each its own port")
        return self


class Problem(BaseModel):
    """One thing that is wrong with a configuration, by field, with its mend."""

    field: str
    problem: str


class ConfigError(Exception):
    """The configuration cannot be used; `problems` says why, field by field."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{p.field}: {p.problem}" for p in problems))
        self.problems = problems


def parse_config(text: str) -> Config:
    """Parse and check a configuration.

    Raises:
        ConfigError: with every problem found, each naming the field and the mend.
    """
    try:
        tree: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem(field="(file)", problem=f"not valid TOML: {error}")]) from None
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise ConfigError([_problem(detail) for detail in error.errors()]) from None


def _once(what: str, names: Any) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"{what} named twice: {', '.join(map(str, twice))}; names must differ")


def _problem(detail: Any) -> Problem:
    return Problem(field=str(detail["loc"]), problem=detail["msg"])
