"""One question to a daemon's control API; most commands ask for the status."""

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import ValidationError

from daemon.client.api.reach import API, CONDITIONS, Reach, Server
from daemon.core.outcome import CommandFailed
from daemon.web.tls import why_untrusted
from schemas.api.folders import NPY
from schemas.api.model import Problem
from schemas.api.status import Status

if TYPE_CHECKING:
    import httpx


STATUS = "/api/v1/status"
STATUS_WITHIN_S = 2.0
PATIENCE_S = 20.0
"""Most answers are there at once; a daemon that is busy is waited for."""


class DaemonGone(CommandFailed):
    """The daemon does not answer, or refuses; the message is one line for an operator."""


class DaemonBusy(DaemonGone):
    """The daemon is there, and does not answer in time."""


async def ask(
    client: "httpx.AsyncClient", method: str, path: str, body: object = None, *, server: Server = API
) -> "httpx.Response":
    """Ask the daemon something, or tell it to do something.

    body: sent as JSON; bytes as they are, for an array of numpy; None sends none.
    server: what answers the client, for the words of an error.

    Raises:
        DaemonBusy: it does not answer in the time of the client.
        DaemonGone: it is not there, or refuses.
    """
    import httpx  # noqa: PLC0415 - other commands start without it

    where = str(client.base_url).rstrip("/")
    # A number that is not finite is no JSON, and the daemon's answer to it names the field.
    content = body if body is None or isinstance(body, bytes) else json.dumps(body)
    kind = NPY if isinstance(body, bytes) else "application/json"
    headers = None if body is None else {"content-type": kind}
    try:
        answer = await client.request(method, path, content=content, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        untrusted = why_untrusted(error)
        if untrusted is not None:
            raise DaemonGone(f"{where}: {untrusted} ({server.option}, --ca)") from None
        reason = str(error) or type(error).__name__
        if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
            raise DaemonBusy(f"the {server.title} at {where} does not answer in time ({reason}); try again") from None
        raise DaemonGone(f"no {server.title} at {where} ({reason}); start it with `{server.start}`") from None
    if answer.is_success:
        return answer
    raise DaemonGone(_refusal(where, answer, server))


def ask_daemon(
    daemon: Reach, method: str, path: str, body: object = None, *, patience_s: float = PATIENCE_S
) -> "httpx.Response":
    """Ask one question outside an event loop.

    Args:
        daemon: where the daemon is, and the token.
        method: the HTTP method.
        path: from the root, e.g. `/api/v1/readers`.
        body: sent as JSON; None sends none.
        patience_s: how long the answer may take, in seconds.

    Raises:
        DaemonGone: it does not answer, or refuses.

    """

    async def answer() -> "httpx.Response":
        async with daemon.client(patience_s) as client:
            return await ask(client, method, path, body, server=daemon.server)

    return asyncio.run(answer())


def _refusal(where: str, answer: "httpx.Response", server: Server) -> str:
    try:
        problem = Problem.model_validate_json(answer.content, extra="ignore")
    except ValidationError:
        return f"{where} answers {answer.status_code}; check that a triggerlog {server.title} listens there"
    if server is CONDITIONS and answer.status_code != HTTPStatus.UNAUTHORIZED:
        # There the detail is the whole line, for clients that show nothing else.
        problem = Problem(detail=problem.detail)
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        fix = "name the configuration file, or give --token-file or TRIGGERLOG_TOKEN"
        problem = problem.model_copy(update={"fix": fix})
    return f"{where} answers {answer.status_code}: {problem}"


async def ask_status(client: "httpx.AsyncClient") -> Status:
    """Ask the daemon for its status.

    Raises:
        DaemonGone: it does not answer, or what answers is no triggerlog daemon of this version.
    """
    answer = await ask(client, "GET", STATUS)
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
    async with daemon.client(STATUS_WITHIN_S) as client:
        return await ask_status(client)
