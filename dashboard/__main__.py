"""`python -m dashboard`: the page as a process of its own."""

import argparse
import asyncio
import logging
import os
import socket
import ssl
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import FastAPI

from daemon.web.access import is_origin
from daemon.web.http import LimitedServer, Limits, bound
from daemon.web.rates import SeldomLines
from daemon.web.secrets import from_file, long_enough
from daemon.web.tls import Identity, client_context, pinned_context
from dashboard.app import build_app
from dashboard.feed.client import Daemon
from schemas.checking.addresses import host_and_port, in_url, is_loopback, wrong_networks
from schemas.checking.problems import ConfigError, wrong
from schemas.config.listeners import LEAST_PASSWORD as LEAST
from schemas.config.listeners import wrong_tabs, wrong_time_zone

LIMITS = Limits(connections=1024, body_bytes=1024 * 1024)
"""A browser keeps one connection for its stream and a few for what is clicked on."""


def main(argv: list[str] | None = None) -> int:
    """Serve the page until told to stop; returns the exit status."""
    given = _parser().parse_args(argv)
    lines = logging.StreamHandler()
    lines.addFilter(SeldomLines())
    logging.basicConfig(level=logging.WARNING, handlers=[lines])
    try:
        app, identity = _made(given, os.environ)
    except ConfigError as error:
        sys.stderr.writelines(f"triggerlog page: {problem}\n" for problem in error.problems)
        return 1
    try:
        listening = bound(given.host, given.port)
    except OSError as problem:
        sys.stderr.write(f"{_cannot_listen(given.host, given.port, problem)}\n")
        return 1
    server = _Announced(
        app,
        LIMITS,
        identity,
        proxies=given.trusted_proxy,
        # The frames are small, and compressing them anew for every browser would cost what encoding them once saves.
        ws_per_message_deflate=False,
        # Streams never end by themselves: without a limit a stop would wait for the last browser to leave.
        timeout_graceful_shutdown=1,
    )
    with listening:
        asyncio.run(server.serve(sockets=[listening]))
    return 0


def _made(given: argparse.Namespace, environment: Mapping[str, str]) -> tuple[FastAPI, Identity | None]:
    password = _password(given, environment)
    identity = _identity(given)
    daemon = Daemon(url=given.daemon, token=_token(given, environment), context=_context(given))
    app = build_app(
        daemon=daemon,
        origins=frozenset(given.origin),
        password=password,
        is_secure=identity is not None or any(origin.startswith("https:") for origin in given.origin),
        own_tabs=_tabs(given.tab),
        time_zone=_time_zone(given.time_zone),
    )
    return app, identity


def _password(given: argparse.Namespace, environment: Mapping[str, str]) -> str | None:
    password = environment.get("TRIGGERLOG_PAGE_PASSWORD") or None
    field = "TRIGGERLOG_PAGE_PASSWORD"
    if given.password_file is not None:
        field = "--password-file"
        password = from_file(given.password_file, field=field)
    if password is not None:
        return long_enough(password, LEAST, field=field)
    if not is_loopback(given.host):
        problem = f"{given.host} is reachable from other machines, and everybody who reaches it could look on"
        fix = "give the page a password with --password-file or TRIGGERLOG_PAGE_PASSWORD, or listen on 127.0.0.1"
        raise ConfigError([wrong(problem, fix, "--host")])
    return None


def _identity(given: argparse.Namespace) -> Identity | None:
    if given.tls_certificate is None and given.tls_key is None:
        return None
    if given.tls_certificate is None or given.tls_key is None:
        missing = "--tls-key" if given.tls_key is None else "--tls-certificate"
        raise ConfigError([wrong("it takes a certificate and its key", "give both, or none", missing)])
    return Identity(given.tls_certificate, given.tls_key, "dashboard")


def _tabs(given: list[Path]) -> list[Path]:
    problems = [replace(problem, field="--tab") for problem in wrong_tabs([str(path) for path in given])]
    if problems:
        raise ConfigError(problems)
    return [path.absolute() for path in given]


def _time_zone(name: str) -> str:
    problems = [replace(problem, field="--time-zone") for problem in wrong_time_zone(name)]
    if problems:
        raise ConfigError(problems)
    return name


def _token(given: argparse.Namespace, environment: Mapping[str, str]) -> str | None:
    if given.token_file is not None:
        return from_file(given.token_file, field="--token-file", what="token")
    return environment.get("TRIGGERLOG_TOKEN") or None


def _context(given: argparse.Namespace) -> ssl.SSLContext | None:
    if not given.daemon.startswith("https:"):
        return None
    if given.daemon_certificate is not None:
        return pinned_context(given.daemon_certificate, "--daemon-certificate")
    return client_context(given.ca)


class _Announced(LimitedServer):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets is not None
        if self.started:
            host, port = sockets[0].getsockname()[:2]
            sys.stdout.write(f"page: {self.scheme}://{in_url(host)}:{port}\n")
            sys.stdout.flush()


def _cannot_listen(host: str, port: int, problem: OSError) -> str:
    reason = (problem.strerror or str(problem)).lower()
    fix = "give another --port, or 0 for a free one"
    if isinstance(problem, socket.gaierror):
        fix = "give an address of this machine as --host, such as 127.0.0.1, or 0.0.0.0 for all"
    return f"triggerlog page: cannot listen on {host_and_port(host, port)} ({reason}); {fix}"


def _daemon(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address; write http://host:port")
    return text.rstrip("/")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give 0 to 65535")
    return int(text)


def _network(text: str) -> str:
    for problem in wrong_networks([text]):
        raise argparse.ArgumentTypeError(f"{problem.problem}; {problem.fix}")
    return text


def _origin(text: str) -> str:
    if not is_origin(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an origin; write https://host or https://host:port")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dashboard",
        description="The live page of triggerlog, fed by the daemon's status stream.",
        epilog="Example: python -m dashboard --daemon http://127.0.0.1:8120 --port 8121",
    )
    parser.add_argument("--daemon", type=_daemon, default="http://127.0.0.1:8120", help="the daemon's control API")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all")
    parser.add_argument("--token-file", type=Path, metavar="PATH", help="file with the API's token")
    parser.add_argument("--ca", type=Path, metavar="PATH", help="certificate of the authority that signed the daemon's")
    parser.add_argument(
        "--daemon-certificate",
        type=Path,
        metavar="PATH",
        help="the daemon's own certificate, trusted as it is, whatever it names",
    )
    parser.add_argument(
        "--password-file",
        type=Path,
        metavar="PATH",
        help="file with the password that opens the page; or TRIGGERLOG_PAGE_PASSWORD. Needed off loopback.",
    )
    parser.add_argument("--tls-certificate", type=Path, metavar="PATH", help="the page's certificate: turns TLS on")
    parser.add_argument("--tls-key", type=Path, metavar="PATH", help="the certificate's private key")
    parser.add_argument("--port", type=_port, default=8121, help="port to listen on; 0 takes a free one")
    parser.add_argument(
        "--trusted-proxy",
        type=_network,
        action="append",
        default=[],
        metavar="NETWORK",
        help="address or network of a proxy whose X-Forwarded-For is believed; may be given several times",
    )
    parser.add_argument(
        "--origin",
        type=_origin,
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a further origin (https://host) whose pages may open the stream, for a proxy that changes the Host; "
        "may be given several times",
    )
    parser.add_argument(
        "--tab",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="Python file with a tab of your own; may be given several times",
    )
    parser.add_argument("--time-zone", default="UTC", metavar="NAME", help="zone of all times, such as Europe/Berlin")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
