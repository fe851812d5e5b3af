"""The page's connection to the daemon: its status stream, and the questions a person asks by clicking."""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from daemon.web.rates import Backoff
from daemon.web.tls import why_untrusted
from schemas.api.marks import Marks
from schemas.api.model import Problem
from schemas.api.readings import GroupDescription, Missing, OneTrigger, Readings
from schemas.api.status import Status

RECONNECT_FIRST_S = 0.1
RECONNECT_MOST_S = 2.0
SILENCE_S = 4.0
"""Without a frame for so long the daemon counts as gone (it sends four a second), though the connection may stand."""

ANSWER_S = 5.0
ORDER_S = 30.0
"""A process that is to be started has to load a database's driver first."""

LARGEST_FRAME = 32 * 1024 * 1024

log = logging.getLogger(__name__)


class DaemonUnavailable(Exception):
    """The daemon did not answer, or not with what was asked; the message is one line for the person who asked."""


A = TypeVar("A", bound=BaseModel)
Asked = Mapping[str, int | str]


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """Where the daemon is, and what gets in there.

    url: http(s)://host:port.
    token: None asks only what is open to everybody.
    context: of TLS; None where there is none.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """What a request carries."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


class DaemonApi:
    """Questions to the daemon's control API, or to a server that runs beside it.

    prefix: what the paths are below. named: what answers there, in messages.
    """

    def __init__(self, daemon: Daemon, *, prefix: str = "/api/v1", named: str = "the daemon") -> None:
        self._http = httpx.AsyncClient(
            base_url=f"{daemon.url}{prefix}",
            headers=daemon.headers,
            verify=daemon.context or True,
            # A proxy named in the environment must not come between the page and a daemon on loopback.
            trust_env=False,
        )
        self.daemon = daemon
        self.url = daemon.url
        self.named = named

    async def group(self, name: str) -> GroupDescription:
        """Names and channels of a group's instruments. Raises DaemonUnavailable."""
        return await self._get(f"/groups/{name}", {}, GroupDescription)

    async def readings(
        self, group: str, instrument: str, *, start_ns: int, end_ns: int, points: int, raw_from_ns: int | None = None
    ) -> Readings:
        """Readings of the instrument of this name, start_ns <= time_ns < end_ns, thinned to `points`.

        By name: what is the number of one may be the name of another. raw_from_ns: readings only from here on, where
        that is after start_ns; figures of what was reduced are of all of the time. Raises DaemonUnavailable.
        """
        raw_from_ns = start_ns if raw_from_ns is None else raw_from_ns
        stretch = {"start_ns": start_ns, "end_ns": end_ns, "points": points, "raw_from_ns": raw_from_ns}
        asked: Asked = {"instrument": instrument, **stretch}
        return await self._get(f"/groups/{group}/readings", asked, Readings)

    async def newest(self, group: str, *, complete: bool, calibrated: bool = False) -> OneTrigger:
        """The newest complete trigger, or the newest of all; with x_mm and y_mm where calibrated.

        Raises DaemonUnavailable.
        """
        asked: Asked = {"complete": int(complete)} | ({"calibrated": 1} if calibrated else {})
        return await self._get(f"/groups/{group}/newest", asked, OneTrigger)

    async def missing(self, group: str, *, last: int, instrument: str | None = None) -> Missing:
        """Who was missing from the last triggers, of all instruments or that of this name. Raises DaemonUnavailable."""
        asked: Asked = {"last": last} | ({} if instrument is None else {"instrument": instrument})
        return await self._get(f"/groups/{group}/missing", asked, Missing)

    async def marks(self, *, last: int) -> Marks:
        """The newest marks, in order of time. Raises DaemonUnavailable."""
        return await self._get("/marks", {"last": last}, Marks)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def order(
        self, method: str, path: str, *, body: Any, authorization: str, client: str | None = None
    ) -> httpx.Response:
        """Give an order, with this Authorization in place of the page's; any answer. Raises DaemonUnavailable.

        client: address of the browser that it came from, which the daemon's events then name.
        """
        headers = {"Authorization": authorization} | ({"X-Forwarded-For": client} if client else {})
        return await self._send(method, path, body=body, headers=headers, within_s=ORDER_S)

    async def ask(self, path: str, /, **asked: int | str) -> httpx.Response:
        """Ask something, as the page; any answer. Raises DaemonUnavailable."""
        return await self._send("GET", path, asked=asked)

    async def fetch(self, path: str) -> httpx.Response:
        """Ask for a file that has to be made first; any answer. Raises DaemonUnavailable."""
        return await self._send("GET", path, within_s=ORDER_S)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        asked: Asked | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        within_s: float = ANSWER_S,
    ) -> httpx.Response:
        try:
            return await self._http.request(
                method,
                path,
                params=asked,
                json=body,
                headers=headers,
                timeout=within_s,
            )
        except httpx.TimeoutException:
            raise DaemonUnavailable(f"{self.named} at {self.url} took longer than {within_s:g} s to answer") from None
        except httpx.LocalProtocolError:
            # Its text would have the token in it.
            raise DaemonUnavailable("the request cannot be sent: the token has letters that no header takes") from None
        except httpx.HTTPError as problem:
            raise DaemonUnavailable(f"{self.named} at {self.url} cannot be reached ({_word(problem)})") from None

    async def _get(self, path: str, asked: Asked, answer: type[A]) -> A:
        return read(await self._send("GET", path, asked=asked), answer)


class StatusStream:
    """Follows the daemon's status stream for ever: reconnects by itself, and says when it is gone and why."""

    def __init__(self, daemon: Daemon, *, on_status: Callable[[Status], None], on_loss: Callable[[str], None]) -> None:
        self._daemon = daemon
        self._url = daemon.url.replace("http", "ws", 1) + "/api/v1/stream"
        self._on_status = on_status
        self._on_loss = on_loss
        self._fault = ""

    async def run(self) -> None:
        """Follow until cancelled."""
        backoff = Backoff(RECONNECT_FIRST_S, RECONNECT_MOST_S)
        while True:
            frames = 0
            try:
                async with connect(
                    self._url,
                    open_timeout=SILENCE_S,
                    close_timeout=1.0,
                    max_size=LARGEST_FRAME,
                    proxy=None,
                    additional_headers=self._daemon.headers,
                    ssl=self._daemon.context,
                ) as socket:
                    while True:
                        async with asyncio.timeout(SILENCE_S):
                            text = await socket.recv()
                        self._give(Status.model_validate_json(text))
                        frames += 1
            except TimeoutError:
                self._on_loss(f"no frame for {SILENCE_S:g} s")
            except ValidationError as problem:
                self._on_loss(
                    f"its status is not one this page knows, start page and daemon alike ({_first_of(problem)})"
                )
            except InvalidStatus as problem:
                self._on_loss(_refusal(problem))
            except InvalidHandshake as problem:
                self._on_loss(f"it does not offer a status stream ({problem})")
            except (OSError, WebSocketException) as problem:
                self._on_loss(_word(problem))
            if frames:
                backoff.reset()
            await backoff.pause()

    def _give(self, status: Status) -> None:
        """Hand a snapshot on. One that the page fails at counts as lost, and must not end the stream."""
        try:
            self._on_status(status)
        except Exception as problem:
            fault = f"{type(problem).__name__}: {_word(problem)}"
            if fault != self._fault:  # there are four a second
                log.exception("the page cannot show a status of the daemon")
            self._fault = fault
            self._on_loss(f"the page cannot show its status ({fault}), see the log of the page")


def _refusal(problem: InvalidStatus) -> str:
    """Why the daemon opens no stream, and what to do about it."""
    status = problem.response.status_code
    try:
        refusal = Problem.model_validate_json(problem.response.body or b"")
    except ValidationError:
        return f"it does not offer a status stream ({problem})"
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS):
        return f"it refuses the token of this page: {refusal}; start the page with --token-file, or TRIGGERLOG_TOKEN"
    return f"it refuses the page: {refusal}"


def _word(problem: Exception) -> str:
    untrusted = why_untrusted(problem)
    if untrusted is not None:
        return f"{untrusted}: --ca, --daemon"
    if isinstance(problem, OSError) and problem.errno:
        # asyncio's own text names the call and the address, and not what is wrong with it.
        return os.strerror(problem.errno).lower()
    return str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__


def read(response: httpx.Response, model: type[A], named: str = "the daemon") -> A:
    """What was answered. Raises DaemonUnavailable: it refused, or answered something else; named: who, in messages."""
    if response.status_code == HTTPStatus.CONFLICT:
        raise DaemonUnavailable(detail_of(response))
    if not response.is_success:
        raise DaemonUnavailable(f"{named} answered {response.status_code}: {detail_of(response)}")
    try:
        return model.model_validate_json(response.content)
    except ValidationError as problem:
        raise DaemonUnavailable(f"the answer of {named} is not one this page knows: {_first_of(problem)}") from None


def detail_of(response: httpx.Response) -> str:
    """Return what is wrong and what to do, as the daemon answers, in one line; of a conflict in sentences.

    A conflict is about what there is in the daemon, and not about a field of what was asked.
    """
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        return response.reason_phrase
    if response.status_code != HTTPStatus.CONFLICT:
        return str(problem)
    every = (problem, *problem.further)
    said = (text.rstrip(".") for one in every for text in (one.detail, one.fix) if text)
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in said)


def _first_of(problem: ValidationError) -> str:
    """The first thing that is wrong, in one line."""
    error = problem.errors()[0]
    return f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}"
