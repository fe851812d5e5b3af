"""TLS of the sources that have a certificate."""

import ssl

from daemon.core.configuration import LoadedConfig
from daemon.web.tls import server_context
from schemas.config import TcpSource


def contexts_of(loaded: LoadedConfig) -> dict[int, ssl.SSLContext]:
    """What sources speak that do not speak plain TCP, by their place in the configuration.

    Raises:
        ConfigError: a file cannot be used; the problem names the field and the mend.
    """
    found = {}
    for index, section in enumerate(loaded.config.sources):
        if isinstance(section, TcpSource) and section.tls_certificate and section.tls_key:
            ca = section.tls_client_ca
            found[index] = server_context(
                loaded.beside(section.tls_certificate),
                loaded.beside(section.tls_key),
                f"sources[{index}]",
                None if ca is None else loaded.beside(ca),
            )
    return found
