"""TLS of the sources: see `doors.tls`."""

from doors.tls import client_context, own_certificate, server_context

__all__ = ["client_context", "own_certificate", "server_context"]
