"""What was ordered, and from where: each request that changed something becomes an event, in one place."""

from collections.abc import Collection
from contextlib import suppress
from ipaddress import ip_address

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.core.monitoring.events import Events
from daemon.web.access import READING
from daemon.web.denial import client_of, header


class OrderLog:
    """Has the events that an order causes name where it came from; an order that causes none becomes an event itself.

    What was refused was not done, and is no event.

    data: paths of what only adds data, and as often as data comes.
    """

    def __init__(self, app: ASGIApp, *, events: Events, data: Collection[str] = ()) -> None:
        self._app = app
        self._events = events
        self._data = data

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on."""
        if scope["type"] != "http" or scope["method"] in READING or scope["path"] in self._data:
            await self._app(scope, receive, send)
            return
        with self._events.ordered(origin_of(scope)) as order:

            async def answer(message: Message) -> None:
                if message["type"] == "http.response.start" and message["status"] < 400 and not order.is_recorded:
                    self._events.info(f"order carried out: {_request(scope)}")
                await send(message)

            await self._app(scope, receive, answer)


def origin_of(scope: Scope) -> str:
    """The address that an order came from, and the one for which a page or a proxy says that it passed it on."""
    client = client_of(scope)
    with suppress(ValueError):
        before = str(ip_address((header(scope, b"x-forwarded-for") or "").split(",")[-1].strip()))
        return client if before == client else f"{before} by way of {client}"
    return client


def _request(scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    return f"{scope['method']} {scope['path']}{'?' * bool(query)}{query}"
