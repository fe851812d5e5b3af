"""The configuration tree: one TOML file, checked field by field.

Every field has a description; `triggerlog config-reference` prints them. Reading files and environment variables is
the daemon's business: here is only what the text means.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from schemas.batch import Durability, Layout
from schemas.dsn import Backend, backend_of, wrong_dsn
from schemas.fields import Form
from schemas.problems import (
    ConfigError,
    Problem,
    problems,
    refuse,
    suggestion,
    syntax_problem,
    wrong,
)
from schemas.readings import CHANNEL_DTYPES, HEADER, MAX_INSTRUMENTS, Channel, InstrumentGroup

__all__ = ["Config", "ConfigError", "Problem", "parse_config"]

RESERVED_GROUPS = frozenset({"ledger", "instruments", "positions", "groups", "runs"})
RESERVED_ENDINGS = ("_ledger", "_readings")
RESERVED_CHANNELS = frozenset({name for name, _ in HEADER} | {"run", "trigger_id", "time", "name", "time_offset_ns"})

Name = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=32),
    Form(words="1 to 32 lower-case letters, digits and underscores, a letter first"),
]
LoggerName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64),
    Form(words="1 to 64 letters, digits, `_`, `.` and `-`, a letter or digit first"),
]
InstrumentName = Annotated[
    str,
    Field(pattern=r"^\S+$", min_length=1, max_length=64),
    Form(words="1 to 64 characters without a space"),
]
Port = Annotated[int, Field(ge=0, le=65_535)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)


class ChannelConfig(_Section):
    """One measured quantity of an instrument."""

    name: Name = Field(description="Name of the quantity and of its column.")
    unit: str = Field(default="", max_length=32, description="Unit, e.g. `mm`, `V`, `count`; shown, stored, exported.")
    dtype: str = Field(default="float64", description=f"Type of the value: {', '.join(CHANNEL_DTYPES)}.")

    @field_validator("dtype")
    @classmethod
    def _known(cls, dtype: str) -> str:
        if dtype not in CHANNEL_DTYPES:
            refuse([wrong(f"unknown dtype {dtype!r}", suggestion(dtype, CHANNEL_DTYPES))])
        return dtype

    @field_validator("name")
    @classmethod
    def _free(cls, name: str) -> str:
        if name in RESERVED_CHANNELS:
            refuse([wrong(f"{name!r} is a column of every table", "give the channel another name")])
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
    instruments: tuple[InstrumentName, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_INSTRUMENTS,
        description="Names of the instruments, in the order of their numbers. Instead of `count`.",
    )
    channels: tuple[ChannelConfig, ...] = Field(min_length=1, max_length=256, description="What each of them measures.")
    layout: Layout | None = Field(default=None, description="Layout of this group, where it differs from `[database]`.")
    durability: Durability | None = Field(
        default=None, description="Durability of this group, where it differs from `[database]`."
    )

    @field_validator("name")
    @classmethod
    def _free(cls, name: str) -> str:
        if name in RESERVED_GROUPS:
            refuse([wrong(f"{name!r} is a table of triggerlog's own", "give the group another name")])
        if name.endswith(RESERVED_ENDINGS):
            ends = " and ".join(RESERVED_ENDINGS)
            refuse([wrong(f"the endings {ends} are for tables that go with a group", "give the group another name")])
        return name

    @model_validator(mode="after")
    def _check(self) -> "GroupConfig":
        refuse(
            [
                *_count_or_names(self.count, self.instruments),
                *_twice("instrument", "instruments", "", self.instruments or ()),
                *_twice("channel", "channels", ".name", [channel.name for channel in self.channels]),
            ]
        )
        return self

    def group(self) -> InstrumentGroup:
        """Give the group as the rest of the daemon knows it."""
        count = self.count or 0
        digits = max(3, len(str(count - 1)))
        names = self.instruments or tuple(f"{self.name}_{i:0{digits}d}" for i in range(count))
        channels = tuple(Channel(name=c.name, unit=c.unit, dtype=c.dtype) for c in self.channels)
        return InstrumentGroup(name=self.name, instruments=names, channels=channels)


class TcpSource(_Section):
    """Readings over TCP: acknowledged, with backpressure."""

    kind: Literal["tcp"] = Field(description="Says which kind of source this is.")
    host: str = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all.")
    port: Port = Field(default=8122, description="Port to listen on; 0 takes a free one.")
    max_connections: int = Field(default=1024, ge=1, le=65_536, description="Further senders are turned away.")
    handshake_timeout_s: float = Field(default=5.0, gt=0, le=600, description="Time a sender has for its greeting.")
    acknowledge_every_ms: float = Field(
        default=50.0, ge=0, le=10_000, description="At most one acknowledgement a connection in this time."
    )


class UdpSource(_Section):
    """Readings over UDP: not acknowledged; what is lost on the way is seen as gaps and counted."""

    kind: Literal["udp"] = Field(description="Says which kind of source this is.")
    host: str = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all.")
    port: Port = Field(default=8122, description="Port to listen on; 0 takes a free one.")
    receive_buffer_kib: int = Field(
        default=4096,
        ge=64,
        le=1_048_576,
        description="Socket buffer asked of the kernel, in KiB (see net.core.rmem_max).",
    )


class SimulatedSource(_Section):
    """Simulated instruments inside the daemon, to try it out without any hardware."""

    kind: Literal["simulated"] = Field(description="Says which kind of source this is.")
    group: Name = Field(description="The group to simulate.")
    rate: float = Field(default=10.0, gt=0, le=100_000, description="Triggers a second.")
    missing: float = Field(default=0.0, ge=0, le=1, description="Fraction of readings left out.")
    seed: int = Field(default=1, ge=0, description="Seed of the random values.")


Source = Annotated[TcpSource | UdpSource | SimulatedSource, Field(discriminator="kind")]


class DatabaseConfig(_Section):
    """Where readings go."""

    dsn: str | None = Field(
        default=None,
        description="`postgresql://user@host:5432/name`, `mysql://user@host:3306` (MariaDB or MySQL) or "
        "`mongodb://user@host:27017`. Without it an embedded PostgreSQL runs under `state_dir`.",
    )
    password_env: str | None = Field(default=None, description="Environment variable that holds the DSN's password.")
    password_file: str | None = Field(default=None, description="File that holds the DSN's password (first line).")
    schema_name: Name = Field(
        default="triggerlog",
        alias="schema",
        description="Schema the tables live in; in MariaDB and MongoDB, the database.",
    )
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

    @property
    def backend(self) -> Backend:
        """Which database it is."""
        return backend_of(self.dsn)

    @field_validator("dsn")
    @classmethod
    def _known_scheme(cls, dsn: str | None) -> str | None:
        if dsn is not None:
            refuse(wrong_dsn(dsn))
        return dsn

    @model_validator(mode="after")
    def _one_password(self) -> "DatabaseConfig":
        given = [key for key in ("password_env", "password_file") if getattr(self, key) is not None]
        if len(given) == 2:
            refuse([wrong("`password_env` is given too", "give one of them, not both", "password_file")])
        if given and self.dsn is None:
            mend = "add the `dsn` it is for, or take it out: the embedded PostgreSQL has no password"
            refuse([wrong("a password without a `dsn`", mend, given[0])])
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
            low, high = 1 << (window.bit_length() - 1), 1 << window.bit_length()
            refuse([wrong(f"{window} is not a power of two", f"use {low} or {high}")])
        return window

    @model_validator(mode="after")
    def _fits(self) -> "AssemblyConfig":
        if self.max_open > self.window // 2:
            problem = f"{self.max_open} triggers do not fit into the half of `window` that lies behind the newest"
            refuse([wrong(problem, f"use at most {self.window // 2}, or a larger `window`", "max_open")])
        return self


class CommitterConfig(_Section):
    """How closed triggers become transactions."""

    max_batch_mib: float = Field(default=8.0, gt=0, le=1024, description="Most that one transaction carries, in MiB.")
    max_waiting_mib: float = Field(
        default=256.0,
        gt=0,
        le=65_536,
        description="Most that waits in memory for the database, in MiB and for each group; what is beyond it waits in "
        "the journal alone.",
    )
    retry_first_ms: float = Field(default=50.0, gt=0, le=60_000, description="Pause after the first failed commit.")
    retry_most_ms: float = Field(default=1_000.0, gt=0, le=600_000, description="The pause doubles up to this.")

    @model_validator(mode="after")
    def _grows(self) -> "CommitterConfig":
        if self.retry_most_ms < self.retry_first_ms:
            mend = f"use at least {self.retry_first_ms:g}"
            refuse([wrong("shorter than the first pause, `retry_first_ms`", mend, "retry_most_ms")])
        if self.max_batch_mib > self.max_waiting_mib:
            mend = f"use at most {self.max_waiting_mib:g}, or a larger `max_waiting_mib`"
            refuse([wrong("one batch is more than may wait", mend, "max_batch_mib")])
        return self


class JournalConfig(_Section):
    """Where closed triggers wait for the database, on disk under `state_dir`; a journal a group."""

    max_mib: float = Field(
        default=4096.0,
        ge=0,
        le=16_777_216,
        description="Most that a journal may hold, in MiB; 0 keeps none: then only memory is there to wait in. With it "
        "full TCP senders are held back and datagrams are refused.",
    )
    segment_mib: float = Field(
        default=64.0, ge=1, le=4096, description="Size of its files, in MiB; each goes once the database has all of it."
    )


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

    stale_s: float = Field(
        default=2.0, gt=0, description="An instrument silent for longer, while others go on, is stale."
    )
    commit_p99_ms: float = Field(default=100.0, gt=0, description="Budget for the commit latency, p99.")


class Config(_Section):
    """The whole configuration."""

    logger: LoggerName = Field(
        default="triggerlog", description="Name of this logger; kept with its positions and ledger rows."
    )
    state_dir: str = Field(
        default="state", description="Folder for what the daemon keeps; relative to the configuration file."
    )
    groups: tuple[GroupConfig, ...] = Field(min_length=1, description="The instrument groups.")
    sources: tuple[Source, ...] = Field(
        default=(TcpSource(kind="tcp"),), description="Where readings come from; one TCP source when left out."
    )
    database: DatabaseConfig = Field(default_factory=DatabaseConfig, description="Where they go.")
    assembly: AssemblyConfig = Field(default_factory=AssemblyConfig, description="How triggers are put together.")
    committer: CommitterConfig = Field(default_factory=CommitterConfig, description="How they are committed.")
    journal: JournalConfig = Field(default_factory=JournalConfig, description="Where they wait for the database.")
    alarms: AlarmConfig = Field(default_factory=AlarmConfig, description="What counts as wrong.")
    api: ApiConfig = Field(default_factory=ApiConfig, description="The control API.")
    dashboard: DashboardConfig = Field(default_factory=DashboardConfig, description="The page.")

    @model_validator(mode="after")
    def _check(self) -> "Config":
        names = [group.name for group in self.groups]
        refuse(
            [
                *_twice("group", "groups", ".name", names),
                *_unknown_groups(self.sources, names),
                *_shared_ports(self),
            ]
        )
        return self


def parse_config(text: str) -> Config:
    """Parse and check a configuration.

    Raises:
        ConfigError: with every problem found, each naming the field and the mend.

    """
    try:
        tree: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([syntax_problem(text, str(error))]) from None
    try:
        # By way of JSON, because pydantic's strict mode takes lists for tuples and texts for enumerations only there;
        # without strict mode `port = "8122"` and `count = true` would pass.
        return Config.model_validate_json(json.dumps(tree, default=str), strict=True)
    except ValidationError as error:
        raise ConfigError(problems(Config, error.errors(include_url=False))) from None


def _twice(what: str, key: str, inner: str, names: Sequence[str]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if first.setdefault(name, i) != i:
            other = f"{key}[{first[name]}]{inner}"
            yield wrong(f"{what} {name!r} is named by {other} already", "give it another name", f"{key}[{i}]{inner}")


def _count_or_names(count: int | None, instruments: Sequence[str] | None) -> Iterator[Problem]:
    if count is None and instruments is None:
        yield wrong("missing", "give `count`, or the names of the `instruments`", "count")
    if count is not None and instruments is not None:
        yield wrong("`instruments` is given too", "give one of them, not both", "count")


def _unknown_groups(sources: Iterable[Source], names: Sequence[str]) -> Iterator[Problem]:
    for i, source in enumerate(sources):
        if isinstance(source, SimulatedSource) and source.group not in names:
            yield wrong(f"there is no group {source.group!r}", suggestion(source.group, names), f"sources[{i}].group")


def _shared_ports(config: Config) -> Iterator[Problem]:
    # TCP and UDP ports are different things: only what speaks the same protocol can be in each other's way.
    listeners: list[tuple[str, str, str, int]] = [
        ("api.port", "tcp", config.api.host, config.api.port),
        ("dashboard.port", "tcp", config.dashboard.host, config.dashboard.port),
    ]
    for i, source in enumerate(config.sources):
        if not isinstance(source, SimulatedSource):
            listeners.append((f"sources[{i}].port", source.kind, source.host, source.port))
    taken: dict[tuple[str, str, int], str] = {}
    for field, kind, host, port in listeners:
        first = taken.setdefault((kind, host, port), field)
        if port and first != field:
            yield wrong(f"{first} is {port} on {host} too", "give each its own port", field)
