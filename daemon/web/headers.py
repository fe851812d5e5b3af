"""Headers: those of every answer of a page, and the encodings that a client takes."""

from functools import lru_cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),  # for browsers that do not know frame-ancestors
    # Not no-referrer: a form of ours would then be sent with no origin that could be told from another page's.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class SecurityHeaders:
    """Stamps them on every answer, with a Content-Security-Policy."""

    def __init__(self, app: ASGIApp, policy: str) -> None:
        self._app = app
        self._headers = ((b"content-security-policy", policy.encode()), *HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, and stamp."""

        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        await self._app(scope, receive, stamped if scope["type"] == "http" else send)


@lru_cache(maxsize=64)
def takes_gzip(accepted: str) -> bool:
    """Whether a client would have an answer compressed with gzip, rather than as it is (RFC 9110, 12.5.3).

    accepted: its Accept-Encoding; empty where it sent none.
    """
    weights = dict(filter(None, map(_weighed, accepted.lower().split(","))))
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def _weighed(member: str) -> tuple[str, float] | None:
    """A coding and its weight, 1 where none is given; None where the weight is no number of 0 to 1."""
    coding, *parameters = (part.strip() for part in member.split(";"))
    for name, _, value in (parameter.partition("=") for parameter in parameters):
        if name.strip() == "q":
            weight = value.strip()
            is_number = weight.replace(".", "", 1).isdecimal() and weight.isascii() and len(weight) <= 5
            return (coding, float(weight)) if is_number and float(weight) <= 1 else None
    return coding, 1.0
