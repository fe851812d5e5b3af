"""Where readings come from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from schemas.checking.addresses import host_and_port, wrong_networks
from schemas.checking.problems import Problem, refuse, wrong
from schemas.config.section import Host, Name, Port, Section

Networks = Annotated[
    tuple[str, ...],
    Field(
        description="Networks whose senders may connect, such as `10.1.0.0/16`, `192.168.7.20` or `fd00::/8`; all when "
        "empty."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a source listens. transport: `tcp` or `udp`, whose ports do not get in each other's way."""

    transport: str
    host: str
    port: int


class SourceSection(Section):
    """What all sources have in common. RELOADABLE: fields that change while the daemon runs."""

    RELOADABLE: ClassVar[frozenset[str]] = frozenset()

    @property
    def listening(self) -> Listening | None:
        """Where it listens; None where it does not."""
        return None

    @property
    def summary(self) -> str:
        """What it is, in a few words."""
        at = self.listening
        assert at is not None, "one that does not listen has words of its own"
        return f"{at.transport} {host_and_port(at.host, at.port)}"

    @property
    def only_group(self) -> str | None:
        """The one group that it has readings of; None where senders name theirs."""
        return None


class _Listening(SourceSection):
    """What sources that listen have in common."""

    @field_validator("allow", check_fields=False)
    @classmethod
    def _networks(cls, allow: tuple[str, ...]) -> tuple[str, ...]:
        refuse(wrong_networks(allow))
        return allow


class TcpSource(_Listening):
    """Readings over TCP: acknowledged, with backpressure."""

    RELOADABLE: ClassVar[frozenset[str]] = frozenset(
        {"acknowledge_every_ms", "max_connections", "max_connections_per_address", "max_ungreeted"}
    )

    kind: Literal["tcp"] = Field(description="Says which kind of source this is.")
    host: Host = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all.")
    port: Port = Field(default=8122, description="Port to listen on; 0 takes a free one.")
    allow: Networks = ()
    max_connections: int = Field(
        default=1024, ge=1, le=65_536, description="Senders connected at once; further ones are refused."
    )
    max_connections_per_address: int = Field(
        default=512, ge=1, le=65_536, description="The same, of the senders behind one address."
    )
    max_ungreeted: int = Field(
        default=512,
        ge=1,
        le=65_536,
        description="Connections that have not greeted yet; with more the oldest of them is closed, so that they keep "
        "nobody out.",
    )
    handshake_timeout_s: float = Field(
        default=5.0, gt=0, le=600, description="Time a sender has for its greeting, and before it for TLS."
    )
    acknowledge_every_ms: float = Field(
        default=50.0, ge=0, le=10_000, description="At most one acknowledgement a connection in this time."
    )
    tls_certificate: str | None = Field(
        default=None,
        description="File with the certificate to show to senders (PEM, the authority's chain behind it), relative to "
        "the configuration file; with it the source speaks TLS and nothing else.",
    )
    tls_key: str | None = Field(default=None, description="File with its private key (PEM, without a passphrase).")
    tls_client_ca: str | None = Field(
        default=None,
        description="File with the authorities of the senders (PEM): with it only those get in who show a certificate "
        "of theirs.",
    )

    @model_validator(mode="after")
    def _whole(self) -> "TcpSource":
        refuse(_incomplete_tls(self))
        return self

    @property
    def listening(self) -> Listening:
        """Where it listens."""
        return Listening(transport="tcp", host=self.host, port=self.port)


class UdpSource(_Listening):
    """Readings over UDP: not acknowledged; what is lost on the way is seen as gaps and counted."""

    kind: Literal["udp"] = Field(description="Says which kind of source this is.")
    host: Host = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all.")
    port: Port = Field(default=8122, description="Port to listen on; 0 takes a free one.")
    allow: Networks = ()
    receive_buffer_kib: int = Field(
        default=4096,
        ge=64,
        le=1_048_576,
        description="Socket buffer asked of the kernel, in KiB (see net.core.rmem_max).",
    )

    @property
    def listening(self) -> Listening:
        """Where it listens."""
        return Listening(transport="udp", host=self.host, port=self.port)


class SimulatedSource(SourceSection):
    """Simulated instruments inside the daemon, to try it out without any hardware."""

    kind: Literal["simulated"] = Field(description="Says which kind of source this is.")
    group: Name = Field(description="The group to simulate.")
    rate: float = Field(default=10.0, gt=0, le=100_000, description="Triggers a second.")
    missing: float = Field(default=0.0, ge=0, le=1, description="Fraction of readings left out.")
    seed: int = Field(default=1, ge=0, description="Seed of the random values.")

    @property
    def summary(self) -> str:
        """What it is, in a few words."""
        return f"simulated: {self.group} at {self.rate:g} triggers/s"

    @property
    def only_group(self) -> str:
        """The group that it simulates."""
        return self.group


Source = Annotated[TcpSource | UdpSource | SimulatedSource, Field(discriminator="kind")]

SOURCES: tuple[type[SourceSection], ...] = (TcpSource, UdpSource, SimulatedSource)


def _incomplete_tls(source: TcpSource) -> Iterator[Problem]:
    if source.tls_key is None and (source.tls_certificate or source.tls_client_ca):
        yield wrong("missing", "give the private key of `tls_certificate`", "tls_key")
    if source.tls_certificate is None and (source.tls_key or source.tls_client_ca):
        yield wrong("missing", "give the certificate that `tls_key` belongs to", "tls_certificate")
