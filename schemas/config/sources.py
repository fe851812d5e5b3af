"""Where readings come from."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.config.section import Name, Port, Section


class TcpSource(Section):
    """Readings over TCP: acknowledged, with backpressure."""

    kind: Literal["tcp"] = Field(description="Says which kind of source this is.")
    host: str = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all.")
    port: Port = Field(default=8122, description="Port to listen on; 0 takes a free one.")
    max_connections: int = Field(default=1024, ge=1, le=65_536, description="Further senders are turned away.")
    handshake_timeout_s: float = Field(default=5.0, gt=0, le=600, description="Time a sender has for its greeting.")
    acknowledge_every_ms: float = Field(
        default=50.0, ge=0, le=10_000, description="At most one acknowledgement a connection in this time."
    )


class UdpSource(Section):
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


class SimulatedSource(Section):
    """Simulated instruments inside the daemon, to try it out without any hardware."""

    kind: Literal["simulated"] = Field(description="Says which kind of source this is.")
    group: Name = Field(description="The group to simulate.")
    rate: float = Field(default=10.0, gt=0, le=100_000, description="Triggers a second.")
    missing: float = Field(default=0.0, ge=0, le=1, description="Fraction of readings left out.")
    seed: int = Field(default=1, ge=0, description="Seed of the random values.")


Source = Annotated[TcpSource | UdpSource | SimulatedSource, Field(discriminator="kind")]
