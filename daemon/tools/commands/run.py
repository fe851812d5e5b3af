"""`triggerlog run` and `triggerlog dashboard`: become the daemon, or the page, a program of its own."""

import asyncio
import importlib.util
import os
import sys
from collections.abc import Coroutine, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from daemon.client.api.reach import Reach, file_of
from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.imports import uncollected
from daemon.core.monitoring.logs import LogLevel, start_logging
from daemon.core.outcome import CommandFailed, examples
from daemon.core.process.state_folder import close_to_others
from daemon.tools.options import Connection, File
from daemon.web.secrets import from_either
from schemas.config.listeners import LEAST_PASSWORD

EPILOG = {
    "run": examples("triggerlog run beam.toml", "triggerlog run beam.toml --log-level debug --loop asyncio"),
    "dashboard": examples(
        "triggerlog dashboard beam.toml",
        "triggerlog dashboard --daemon https://node:8120 --ca site-ca.crt --token-file token --port 9000",
    ),
}


class Loop(StrEnum):
    """Which event loop runs the daemon."""

    AUTO = "auto"  # uvloop where it is installed
    UVLOOP = "uvloop"
    ASYNCIO = "asyncio"


def run(
    file: File,
    loop: Annotated[Loop, typer.Option(help="Event loop; auto is uvloop where it is installed.")] = Loop.AUTO,
    log_level: Annotated[LogLevel, typer.Option(help="How much is logged to stderr.")] = LogLevel.INFO,
) -> None:
    """Run the daemon until SIGTERM or Ctrl-C; it commits what it has received before it ends."""
    start_logging(log_level)
    close_to_others()
    loaded = load_config(file)
    # Imported here: a wrong configuration is told of, and every help is shown, without the server's libraries.
    with uncollected():
        from daemon.service import serve  # noqa: PLC0415

    _run_async(serve(loaded), loop)


def _run_async(main: Coroutine[None, None, None], loop: Loop) -> None:
    uvloop = importlib.util.find_spec("uvloop") is not None
    if loop is Loop.UVLOOP and not uvloop:
        main.close()
        raise CommandFailed("uvloop is not installed; install it, or use --loop asyncio")
    with asyncio.Runner(loop_factory=_new_uvloop if uvloop and loop is not Loop.ASYNCIO else None) as runner:
        runner.run(main)


def _new_uvloop() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415

    return uvloop.new_event_loop()


def dashboard(
    connection: Connection,
    *,
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
    file = file_of(connection.config, connection.daemon)
    loaded = load_config(file, asks_database=False) if file is not None else None
    found = connection.reach()
    arguments = [*page_arguments(loaded, host=host, port=port), *_of_daemon(found, connection.ca)]
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
