"""Readings over TCP, plain or in TLS: acknowledged, with backpressure.

`acceptor` turns a listening socket into connections, `admission` limits them, `connection` speaks `docs/protocol.md`
with one sender, and `source` joins them and sends the acknowledgements.
"""

from daemon.sources.tcp.source import TcpSource

__all__ = ["TcpSource"]
