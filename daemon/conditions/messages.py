"""The messages of a process of the server, in the protocol of `daemon.workloads.frame.messages`."""

from pathlib import Path

from pydantic import Field

from daemon.workloads.frame.messages import Message, ProcessSpec
from schemas.config import ConditionsConfig

REPORT_EVERY_S = 0.5


class ServerSpec(ProcessSpec):
    """All that a process of the server has to know."""

    conditions: ConditionsConfig
    port: int = Field(description="that all processes share")
    writes: Path = Field(description="memory that all processes share, of `Writes`")
    number: int = Field(description="of this process among them")
    token: str = Field(repr=False, description="needed for orders")
    tls_certificate: Path | None = None
    tls_key: Path | None = None


class Report(Message):
    """What a process has done since its last report, and how it is.

    answers: by route and status. latencies_ms: how many questions for what is valid took so long, by the upper bound of
    their bucket. clients: address, User-Agent, requests and bytes of each that is told apart; others: requests and
    bytes of the others. problem: why only what is known without the database is answered, None where it answers.
    """

    answers: dict[str, dict[int, int]] = Field(default_factory=dict)
    latencies_ms: dict[float, int] = Field(default_factory=dict)
    clients: list[tuple[str, str, int, int]] = Field(default_factory=list)
    others: tuple[int, int] = (0, 0)
    memory_hits: int = 0
    database_reads: int = 0
    tags: int = 0
    intervals: int = 0
    memory_bytes: int = 0
    problem: str | None = None


class Told(Message):
    """What an operator should know, in one line."""

    text: str
    is_warning: bool
