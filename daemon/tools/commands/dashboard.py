"""`triggerlog dashboard`: starts the page, a program of its own that the code of the daemon never imports."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from daemon.client.api.reach import Reach, file_of, reach
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.outcome import examples
from daemon.tools.options import CaFile, ConfigFile, DaemonUrl, TokenFile
from daemon.web.secrets import from_either
from schemas.config.listeners import LEAST_PASSWORD

EPILOG = examples(
    "triggerlog dashboard beam.toml",
    "triggerlog dashboard --daemon https://node:8120 --ca site-ca.crt --token-file token --port 9000",
)


def dashboard(
    file: ConfigFile = None,
    *,
    daemon: DaemonUrl = None,
    token_file: TokenFile = None,
    ca: CaFile = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address the page listens on; 0.0.0.0 for all. [default: FILE's, or 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="Port of the page; 0 takes a free one. [default: FILE's, or 8121]"),
    ] = None,
) -> None:
    """Serve the live page of a daemon.

    FILE is the configuration of the daemon; the command uses [dashboard] (where to listen, password, TLS, tabs,
    time zone) and [api] (where the daemon is, and its token). On other addresses than loopback the page needs a
    password.
    """
    file = file_of(file, daemon)
    loaded = load_config(file, asks_database=False) if file is not None else None
    found = reach(file, daemon=daemon, token_file=token_file, ca=ca)
    arguments = [*page_arguments(loaded, host=host, port=port), *_of_daemon(found, ca)]
    # The page is a program of its own and this process becomes it.
    command = [sys.executable, "-m", "dashboard", *arguments]
    os.execve(sys.executable, command, page_environment(loaded, found))  # noqa: S606 - no shell is wanted


def page_arguments(loaded: LoadedConfig | None, *, host: str | None = None, port: int | None = None) -> list[str]:
    """Where the page listens: as the options say, or else the configuration."""
    page = loaded.config.dashboard if loaded is not None else None
    chosen_host = host or (page.host if page is not None else "127.0.0.1")
    chosen_port = port if port is not None else (page.port if page is not None else 8121)
    arguments = ["--host", chosen_host, "--port", str(chosen_port)]
    if loaded is not None and page is not None and page.tls_certificate is not None and page.tls_key is not None:
        arguments += ["--tls-certificate", str(loaded.resolve(page.tls_certificate))]
        arguments += ["--tls-key", str(loaded.resolve(page.tls_key))]
    for network in page.trusted_proxies if page is not None else ():
        arguments += ["--trusted-proxy", network]
    if page is not None:
        arguments += ["--time-zone", page.time_zone]
    for tab in tab_files(loaded) if loaded is not None else ():
        arguments += ["--tab", str(tab)]
    return arguments


def tab_files(loaded: LoadedConfig) -> list[Path]:
    """The files of `[dashboard] tabs`, which may not be there."""
    return [loaded.resolve(tab) for tab in loaded.config.dashboard.tabs]


def _of_daemon(found: Reach, ca: Path | None) -> list[str]:
    arguments = ["--daemon", found.url]
    if ca is not None:
        arguments += ["--ca", str(ca)]
    if found.certificate is not None:
        arguments += ["--daemon-certificate", str(found.certificate)]
    return arguments


def page_environment(loaded: LoadedConfig | None, found: Reach) -> dict[str, str]:
    """Pass the secrets of the page in its environment: every user of the machine can read arguments."""
    password = page_password(loaded) if loaded is not None else None
    secrets = {"TRIGGERLOG_TOKEN": found.token, "TRIGGERLOG_PAGE_PASSWORD": password}
    return {**os.environ, **{name: secret for name, secret in secrets.items() if secret is not None}}


def page_password(loaded: LoadedConfig, environment: Mapping[str, str] = os.environ) -> str | None:
    """The password that the configuration names; None when it names none.

    Raises:
        ConfigError: the named place holds none, or one that is too short.
    """
    page = loaded.config.dashboard
    file = None if page.password_file is None else loaded.resolve(page.password_file)
    return from_either(page.password_env, file, environment, field="dashboard.password", least=LEAST_PASSWORD)
