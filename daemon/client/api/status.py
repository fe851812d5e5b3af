"""The question that most commands ask: the daemon's status."""

import httpx
from pydantic import ValidationError

from daemon.client.api.asking import DaemonGone, ask
from daemon.client.api.reach import Reach
from schemas.api.status import Status

PATH = "/api/v1/status"
PATIENCE_S = 2.0


async def ask_status(client: httpx.AsyncClient) -> Status:
    """Ask the daemon for its status.

    Raises:
        DaemonGone: it does not answer, or what answers is no triggerlog daemon of this version.
    """
    answer = await ask(client, "GET", PATH)
    try:
        return Status.model_validate_json(answer.content)
    except ValidationError:
        where = str(client.base_url).rstrip("/")
        raise DaemonGone(
            f"{where} sends a status that this version cannot read; compare the versions of daemon and command"
        ) from None


async def fetch(daemon: Reach) -> Status:
    """Ask once.

    Raises:
        DaemonGone: the daemon does not answer.
    """
    async with daemon.client(PATIENCE_S) as client:
        return await ask_status(client)
