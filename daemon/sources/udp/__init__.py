"""Readings over UDP: not acknowledged. `datagram_numbers` counts what was lost on the way by the gaps in them."""

from daemon.sources.udp.source import UdpSource

__all__ = ["UdpSource"]
