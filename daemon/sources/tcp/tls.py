"""TLS of a TCP source that has a certificate."""

import ssl

from daemon.core.configuration import LoadedConfig
from daemon.web.tls import server_context
from schemas.config import TcpSource


def context_of(section: TcpSource, loaded: LoadedConfig, field: str) -> ssl.SSLContext | None:
    """What its connections speak; None for plain TCP. field: where the section is, e.g. `sources[0]`.

    Raises:
        ConfigError: a file cannot be used; the problem names the field and the fix.
    """
    if not (section.tls_certificate and section.tls_key):
        return None
    ca = section.tls_client_ca
    return server_context(
        loaded.resolve(section.tls_certificate),
        loaded.resolve(section.tls_key),
        field,
        None if ca is None else loaded.resolve(ca),
    )
