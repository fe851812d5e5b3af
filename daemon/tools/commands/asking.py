"""One question of a command to a daemon's API."""

import asyncio
from typing import Any

from daemon.client.reach import Reach
from daemon.core.outcome import CommandFailed


def ask_daemon(daemon: Reach, method: str, path: str, body: object = None, *, patience_s: float) -> Any:
    """The answer, an httpx.Response.

    Args:
        daemon: where it is, and the token.
        method: of HTTP.
        path: from the root, e.g. `/api/v1/readers`.
        body: sent as JSON; None sends none.
        patience_s: how long the answer may take, in seconds.

    Raises:
        CommandFailed: it does not answer, or refuses.

    """
    # Imported here: other commands start without the client.
    from daemon.client.terminal import DaemonGone, ask  # noqa: PLC0415

    async def answer() -> Any:
        async with daemon.client(patience_s) as client:
            return await ask(client, method, path, body)

    try:
        return asyncio.run(answer())
    except DaemonGone as gone:
        raise CommandFailed(str(gone)) from None
