"""How a command reaches a daemon: its address, its token, and which certificate it trusts."""

import contextlib
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.configuration.api_token import configured_token, stored_token
from daemon.core.outcome import CommandFailed
from daemon.web.secrets import from_file
from daemon.web.tls import client_context, pinned_context
from schemas.checking.addresses import in_url, is_everywhere, may_be_host
from schemas.config import ConfigError

if TYPE_CHECKING:
    import httpx

LOCAL = "http://127.0.0.1:8120"


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The address of a daemon, and the credentials; without a token only requests that need none succeed.

    context: None where there is no TLS.
    certificate: that of the daemon, where the configuration names it.
    """

    url: str
    token: str | None = field(repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)
    certificate: Path | None = None

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


def reach(
    file: Path | None = None,
    *,
    daemon: str | None = None,
    token_file: Path | None = None,
    ca: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Reach:
    """Find out how to reach a daemon.

    Raises:
        ConfigError: the configuration file, the token file or the authority's certificate cannot be used.
        CommandFailed: the configuration file does not say where the daemon listens, or what is given cannot be used.
    """
    loaded = load_config(file, environment, asks_database=False) if file is not None else None
    url = _checked(daemon) if daemon else LOCAL if loaded is None else _address(loaded)
    own = _own_certificate(loaded) if daemon is None and ca is None else None
    return Reach(
        url=url.rstrip("/"),
        token=_token(loaded, token_file, environment),
        context=_context(url, ca, own),
        certificate=own,
    )


def _checked(url: str) -> str:
    with contextlib.suppress(ValueError):  # of the port, and of brackets
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and may_be_host(parts.hostname or "") and parts.port != 0:
            return url
    raise CommandFailed(f"--daemon: {url!r} is no address of a daemon; write it like {LOCAL}")


def _address(loaded: LoadedConfig) -> str:
    api = loaded.config.api
    if not api.port:
        raise CommandFailed("api.port is 0, which takes any free port; give the address of the daemon with --daemon")
    return f"{api.scheme}://{in_url('127.0.0.1' if is_everywhere(api.host) else api.host)}:{api.port}"


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


def _own_certificate(loaded: LoadedConfig | None) -> Path | None:
    if loaded is None or loaded.config.api.tls_certificate is None:
        return None
    return loaded.resolve(loaded.config.api.tls_certificate)


def _context(url: str, ca: Path | None, own: Path | None) -> ssl.SSLContext | None:
    if not url.startswith("https:"):
        return None
    return client_context(ca) if own is None else pinned_context(own, "api.tls_certificate")
