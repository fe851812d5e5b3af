"""`python -m dashboard`: the page as a process of its own."""

import argparse
import asyncio
import socket
import sys
from urllib.parse import urlsplit

import uvicorn

from dashboard.app import build_app


def main(argv: list[str] | None = None) -> int:
    """Serve the page until told to stop; returns the exit status."""
    given = _parser().parse_args(argv)
    try:
        listening = _listen(given.host, given.port)
    except OSError as problem:
        sys.stderr.write(f"{_cannot_listen(given.host, given.port, problem)}\n")
        return 1
    app = build_app(daemon=given.daemon, origins=frozenset(given.origin))
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        # The frames are small, and compressing them anew for every browser would cost what encoding them once saves.
        ws_per_message_deflate=False,
        # Streams never end by themselves: without a limit a stop would wait for the last browser to leave.
        timeout_graceful_shutdown=1,
    )
    with listening:
        asyncio.run(_serve(config, listening))
    return 0


class _Announced(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets is not None
        if self.started:
            sys.stdout.write(f"page: {_address(sockets[0])}\n")
            sys.stdout.flush()


async def _serve(config: uvicorn.Config, listening: socket.socket) -> None:
    await _Announced(config).serve(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except BaseException:
        listening.close()
        raise
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _cannot_listen(host: str, port: int, problem: OSError) -> str:
    reason = (problem.strerror or str(problem)).lower()
    return f"triggerlog page: cannot listen on {host}:{port} ({reason}); give another --port, or 0 for a free one"


def _daemon(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address; write http://host:port")
    return text.rstrip("/")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give 0 to 65535")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dashboard",
        description="The live page of triggerlog, fed by the daemon's status stream.",
        epilog="Example: python -m dashboard --daemon http://127.0.0.1:8120 --port 8121",
    )
    parser.add_argument("--daemon", type=_daemon, default="http://127.0.0.1:8120", help="the daemon's control API")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 for all")
    parser.add_argument("--port", type=_port, default=8121, help="port to listen on; 0 takes a free one")
    parser.add_argument(
        "--origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a further origin (https://host) whose pages may open the stream, for a proxy that changes the Host; "
        "may be given several times",
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
