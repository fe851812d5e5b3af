"""One descriptor a source: its settings, how it is made, and which metrics it has."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from daemon.core.configuration import LoadedConfig
from daemon.core.monitoring.events import Events
from daemon.sources.base import Intakes, Source
from daemon.sources.simulated import SimulatedSource
from daemon.sources.tcp import TcpSource
from daemon.sources.tcp.tls import context_of
from daemon.sources.udp import UdpSource
from schemas import config
from schemas.api.status import SourceStatus


@dataclass(frozen=True, kw_only=True)
class SourceMetric:
    """A metric of a source. name: without `triggerlog_source_`; value: taken from its status."""

    name: str
    text: str
    is_counter: bool
    value: Callable[[SourceStatus], float]


@dataclass(frozen=True, kw_only=True)
class SourceKind:
    """A kind of source.

    settings: its section of the configuration, which also tells where it listens.
    tls: what it speaks in place of plain text, by its settings; raises ConfigError where a file cannot be used.
    make: takes its settings, the intakes, what it speaks, and where to report in one line what was turned away.
    """

    settings: type[config.SourceSection]
    metrics: tuple[SourceMetric, ...]
    make: Callable[[Any, Intakes, ssl.SSLContext | None, Callable[[str], None]], Source]
    tls: Callable[[Any, LoadedConfig, str], ssl.SSLContext | None] = lambda section, loaded, field: None


CONNECTIONS = SourceMetric(
    name="connections",
    text="Senders connected; of datagrams, those heard within a minute.",
    is_counter=False,
    value=lambda status: status.connections,
)
BYTES = SourceMetric(
    name="bytes", text="Bytes of readings received.", is_counter=True, value=lambda status: status.bytes
)
LOST_DATAGRAMS = SourceMetric(
    name="lost_datagrams",
    text="Gaps in datagram numbers, less what came of them after all.",
    is_counter=False,  # it may fall
    value=lambda status: status.lost_datagrams,
)

KINDS: Mapping[str, SourceKind] = {
    "tcp": SourceKind(
        settings=config.TcpSource,
        metrics=(CONNECTIONS, BYTES),
        make=lambda section, intakes, tls, report: TcpSource(section, intakes, tls=tls, report=report),
        tls=context_of,
    ),
    "udp": SourceKind(
        settings=config.UdpSource,
        metrics=(CONNECTIONS, BYTES, LOST_DATAGRAMS),
        make=lambda section, intakes, tls, report: UdpSource(section, intakes, report=report),
    ),
    "simulated": SourceKind(
        settings=config.SimulatedSource,
        metrics=(CONNECTIONS, BYTES),
        make=lambda section, intakes, tls, report: SimulatedSource(section, intakes),
    ),
}
"""By the `kind` of a section."""


def tls_contexts(loaded: LoadedConfig) -> list[ssl.SSLContext | None]:
    """What each source of a configuration speaks in place of plain text, in order.

    Raises:
        ConfigError: a file cannot be used; the problem names the field and the fix.
    """
    return [
        KINDS[section.kind].tls(section, loaded, f"sources[{index}]")
        for index, section in enumerate(loaded.config.sources)
    ]


def make_source(section: config.Source, intakes: Intakes, events: Events, tls: ssl.SSLContext | None = None) -> Source:
    """Make the source that a section of the configuration describes; tls: one of `tls_contexts`."""
    return KINDS[section.kind].make(section, intakes, tls, events.warning)
