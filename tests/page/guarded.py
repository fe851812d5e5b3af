"""The served status behind TLS and a token, as a daemon has it; arguments: port, certificate, key, token."""

import asyncio
import sys
import tempfile
from pathlib import Path

from daemon.web.access import AccessControl
from daemon.web.http import LimitedServer, Limits, bound
from daemon.web.tls import Identity
from tests.page.served import Served, build_app


async def main(port: int, certificate: Path, key: Path, token: str) -> None:
    """Serve on loopback until ended."""
    with tempfile.TemporaryDirectory() as folder:
        await _serve(Served(Path(folder)), port, Identity(certificate, key, "api"), token)


async def _serve(served: Served, port: int, identity: Identity, token: str) -> None:
    app = build_app(served)
    app.get("/health")(lambda: {"status": "alive"})
    app.add_middleware(AccessControl, token=token, reads_freely=False)
    server = LimitedServer(app, Limits(), identity, timeout_graceful_shutdown=1)
    ticking = asyncio.create_task(served.run())
    with bound("127.0.0.1", port) as listening:
        await server.serve(sockets=[listening])
    ticking.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]))
