"""Conditions: the server for those by global tag, and whether and how the daemon serves folders of channels."""

from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from schemas.checking.problems import refuse, wrong
from schemas.conditions.calibration import By
from schemas.conditions.intervals import NAME_MOST
from schemas.config.listeners import Listener
from schemas.config.section import Host, Name, Port, Section


class ConditionsConfig(Listener):
    """The server of conditions: calibrations and settings by global tag, in processes of its own. Not for MongoDB."""

    serve: bool = Field(
        default=False,
        description="Whether the daemon runs the server; `triggerlog conditions serve FILE` runs it by itself.",
    )
    host: Host = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all.")
    port: Port = Field(default=8123, description="Port to listen on; 0 takes a free one.")
    reads_freely: bool = Field(
        default=False,
        description="Whether reading needs no token on other addresses than loopback, too; on loopback it never does. "
        "Orders always need the token of `[api]`.",
    )
    schema_name: Name = Field(
        default="triggerlog_conditions",
        alias="schema",
        description="Schema the tables of conditions live in; in MariaDB, the database. It is in that of `database`.",
    )
    payloads: str | None = Field(
        default=None,
        min_length=1,
        description="Where the payloads of calibrations are: a folder (relative to the configuration file), or an "
        "address that begins with `file:`, `http:` or `https:`; the URLs of intervals are relative to it.",
    )
    tag: str | None = Field(
        default=None,
        min_length=1,
        max_length=NAME_MOST,
        description="Global tag by which the API, the page and reader workloads calibrate readings; nothing is "
        "calibrated there when left out.",
    )
    by: By = Field(
        default=By.TRIGGER,
        description="What the keys of the intervals of calibrations are: `trigger`: (run, trigger); `time`: (0, the "
        "reading's own time in ns since 1970-01-01 UTC).",
    )
    processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="How many processes serve; several share the port, each with its own memory.",
    )
    connections: int = Field(
        default=4, ge=1, le=64, description="Connections of each process to the database, at most."
    )
    memory_mib: float = Field(
        default=512.0,
        ge=1,
        le=1024 * 1024,
        description="What each process keeps of tags and answers in memory, at most. A tag takes about 200 bytes an "
        "interval; one that does not fit is answered from the database.",
    )

    @model_validator(mode="after")
    def _has_payloads(self) -> "ConditionsConfig":
        if self.tag is not None and self.payloads is None:
            fix = "name the folder or address that the payloads of calibrations are below, or take `tag` out"
            refuse([wrong("missing, and `tag` is given", fix, "payloads")])
        return self

    @field_validator("payloads")
    @classmethod
    def _folder_or_address(cls, place: str | None) -> str | None:
        if place is not None and not _can_be_read(place):
            fix = "give a folder, or an address like file:///data/payloads or https://host/payloads"
            refuse([wrong(f"payloads cannot be read from {place[:60]!r}", fix)])
        return place


def _can_be_read(place: str) -> bool:
    try:
        parts = urlsplit(place)
    except ValueError:  # of brackets
        return False
    if parts.scheme == "file":
        return parts.hostname in (None, "localhost") and parts.path.startswith("/")
    return (parts.scheme in ("http", "https") and bool(parts.hostname)) or "://" not in place


class FoldersConfig(Section):
    """Folders of channels: conditions by channel, in the database of `[database]`. Not for MongoDB."""

    serve: bool = Field(
        default=False, description="Whether the daemon serves folders: it makes their schema when it starts."
    )
    schema_name: Name = Field(
        default="triggerlog_folders",
        alias="schema",
        description="Schema the folders live in; in MariaDB, the database. It is in that of `database`.",
    )
    connections: int = Field(
        default=4,
        ge=1,
        le=64,
        description="Connections to the database, at most; further questions and insertions wait for their turn.",
    )
    timeout_s: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="A question or an insertion that the database has not answered then is given up.",
    )
    answer_mib: float = Field(
        default=32.0,
        ge=0.1,
        le=1024,
        description="Intervals that the API gives in one answer, at most, in the size that they have as records; a "
        "question for more is refused.",
    )
