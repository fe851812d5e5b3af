"""How a command reaches a daemon, or its server of conditions: address, token, and which certificate it trusts."""

import contextlib
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from daemon.core.configuration import LoadedConfig, implied_file, load_config
from daemon.core.configuration.api_token import configured_token, stored_token
from daemon.core.outcome import CommandFailed
from daemon.web.secrets import from_file
from daemon.web.tls import client_context, pinned_context
from schemas.checking.addresses import in_url, is_everywhere, may_be_host
from schemas.checking.dsn import Feature, require
from schemas.config import ConfigError
from schemas.config.listeners import Listener

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, kw_only=True)
class Server:
    """What a command asks.

    title: in words. section: of the configuration that says where it listens. option: gives its address instead.
    local: its address by default. start: the command that starts it.
    """

    title: str
    section: str
    option: str
    local: str
    start: str


API = Server(
    title="daemon", section="api", option="--daemon", local="http://127.0.0.1:8120", start="triggerlog run FILE"
)
CONDITIONS = Server(
    title="server of conditions",
    section="conditions",
    option="--server",
    local="http://127.0.0.1:8123",
    start="triggerlog conditions serve FILE",
)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The address of a daemon, and the credentials; without a token only requests that need none succeed.

    context: None where there is no TLS.
    certificate: that of the daemon, where the configuration names it.
    server: what answers there.
    """

    url: str
    token: str | None = field(repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)
    certificate: Path | None = None
    server: Server = API

    def client(self, patience_s: float) -> "httpx.AsyncClient":
        """A client of this daemon."""
        # Imported here: other commands start without the client.
        import httpx  # noqa: PLC0415

        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        # Reading the authorities that the system trusts takes longer than the request; without TLS they are not used.
        trusted = self.context or not self.url.startswith("http:")
        # A proxy named in the environment must not come between a command and a daemon on this machine.
        return httpx.AsyncClient(
            base_url=self.url, timeout=patience_s, trust_env=False, headers=headers, verify=trusted
        )


def file_of(file: Path | None, daemon: str | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the configuration that was named; else the implied one, which says nothing of a daemon that was named."""
    return file or (None if daemon else implied_file(environment))


def reach(
    file: Path | None = None,
    *,
    daemon: str | None = None,
    token_file: Path | None = None,
    ca: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    server: Server = API,
    feature: Feature | None = None,
) -> Reach:
    """Find out how to reach a daemon, or its server of conditions.

    file: the configuration that was named; without it and `daemon`, the implied one.
    daemon: the address that was given.
    feature: what it is asked about.

    Raises:
        ConfigError: the configuration file, the token file or the authority's certificate cannot be used, or its
            database lacks the feature.
        CommandFailed: the configuration file does not say where it listens, or what is given cannot be used.
    """
    file = file_of(file, daemon, environment)
    loaded = load_config(file, environment, asks_database=False) if file is not None else None
    if loaded is not None and not daemon and feature is not None:
        require(loaded.config.database.backend, feature)
    url = _checked(daemon, server) if daemon else server.local if loaded is None else _address(loaded, server)
    own = _own_certificate(loaded, server) if daemon is None and ca is None else None
    return Reach(
        url=url.rstrip("/"),
        token=_token(loaded, token_file, environment),
        context=_context(url, ca, own, server),
        certificate=own,
        server=server,
    )


def _listener(loaded: LoadedConfig, server: Server) -> Listener:
    return loaded.config.api if server is API else loaded.config.conditions


def _checked(url: str, server: Server) -> str:
    with contextlib.suppress(ValueError):  # of the port, and of brackets
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and may_be_host(parts.hostname or "") and parts.port != 0:
            return url
    raise CommandFailed(f"{server.option}: {url!r} is no address of a {server.title}; write it like {server.local}")


def _address(loaded: LoadedConfig, server: Server) -> str:
    there = _listener(loaded, server)
    if not there.port:
        raise CommandFailed(
            f"{server.section}.port is 0, which takes any free port;"
            f" give the address of the {server.title} with {server.option}"
        )
    return f"{there.scheme}://{in_url('127.0.0.1' if is_everywhere(there.host) else there.host)}:{there.port}"


def _token(loaded: LoadedConfig | None, file: Path | None, environment: Mapping[str, str]) -> str | None:
    if file is not None:
        return _ascii(from_file(file, field="--token-file", what="token"), "--token-file")
    if environment.get("TRIGGERLOG_TOKEN"):
        return _ascii(environment["TRIGGERLOG_TOKEN"], "TRIGGERLOG_TOKEN")
    if loaded is None:
        return None
    try:
        return configured_token(loaded, environment) or stored_token(loaded.state_dir)
    except (ConfigError, OSError):
        # A user who may not read it can still ask what needs no token; the daemon refuses the rest.
        return None


def _ascii(token: str, field: str) -> str:
    if not token.isascii():
        raise CommandFailed(f"{field}: what it holds has other characters than ASCII; give the API's token")
    return token


def _own_certificate(loaded: LoadedConfig | None, server: Server) -> Path | None:
    certificate = None if loaded is None else _listener(loaded, server).tls_certificate
    return None if loaded is None or certificate is None else loaded.resolve(certificate)


def _context(url: str, ca: Path | None, own: Path | None, server: Server) -> ssl.SSLContext | None:
    if not url.startswith("https:"):
        return None
    return client_context(ca) if own is None else pinned_context(own, f"{server.section}.tls_certificate")
