"""Readings over UDP: not acknowledged.

`receiver` turns a bound socket into datagrams, `datagram_numbers` counts by their gaps what was lost on the way, and
`source` joins them.
"""

from daemon.sources.udp.source import UdpSource

__all__ = ["UdpSource"]
