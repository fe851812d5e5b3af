"""What the page asks the server of conditions, at the address that the daemon's status tells."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlsplit

from pydantic import BaseModel, ConfigDict, RootModel

from daemon.web.tls import client_context
from dashboard.feed.client import Daemon, DaemonApi
from dashboard.feed.hub import Hub
from dashboard.feed.relay import NotThere, answer_of
from schemas.api.conditions import TagRow
from schemas.checking.addresses import in_url, is_everywhere
from schemas.conditions.intervals import Intervals, intervals_of_rows

PREFIX = "/api/cdb_rest"
NAMED = "the server of conditions"

FlatRow = tuple[str, str, str, int | None, int, int, int, int, int | None]


class _Tags(RootModel[list[TagRow]]):
    model_config = ConfigDict(frozen=True)


class _Lists(RootModel[dict[str, str]]):
    model_config = ConfigDict(frozen=True)


class _Rows(RootModel[list[FlatRow]]):
    model_config = ConfigDict(frozen=True)


class _List(BaseModel):
    iov_count: int


class ConditionsServer:
    """Asks the server that the daemon runs; every method raises DaemonUnavailable or NotThere."""

    def __init__(self, hub: Hub, daemon: Daemon) -> None:
        self._hub = hub
        self._daemon = daemon
        self._known: DaemonApi | None = None

    @property
    def url(self) -> str | None:
        """Where it is reached; None where the daemon runs none, or is not known yet."""
        status = self._hub.status
        if status is None or status.conditions is None:
            return None
        return reached_at(status.conditions.address, self._daemon.url)

    async def tags(self) -> Sequence[TagRow]:
        """All global tags."""
        return (await answer_of(await self._api(), _Tags, "/globalTags")).root

    async def lists(self, tag: str) -> Mapping[str, str]:
        """Names of a tag's lists by type; none of an unknown tag."""
        return (await answer_of(await self._api(), _Lists, f"/gtPayloadLists/{_part(tag)}")).root

    async def count(self, name: str) -> int:
        """How many intervals a list has."""
        return (await answer_of(await self._api(), _List, f"/payload-lists/by-name/{_part(name)}")).iov_count

    async def intervals(self, name: str) -> Intervals:
        """All intervals of a list."""
        found = await answer_of(await self._api(), _Rows, f"/payload-lists/by-name/{_part(name)}/intervals")
        return intervals_of_rows(found.root)

    async def _api(self) -> DaemonApi:
        """The client for its address, which another daemon may have changed."""
        url, known = self.url, self._known
        if url is None:
            raise NotThere("the daemon runs no server of conditions")
        if known is not None and known.url == url:
            return known
        context = self._daemon.context
        if context is None and url.startswith("https:"):
            context = client_context(None)
        daemon = Daemon(url=url, token=self._daemon.token, context=context)
        made = self._known = DaemonApi(daemon, prefix=PREFIX, named=NAMED)
        if known is not None:
            await known.close()
        return made

    async def close(self) -> None:
        """Close the connections."""
        known, self._known = self._known, None
        if known is not None:
            await known.close()


def reached_at(address: str, daemon_url: str) -> str:
    """The address at which the page reaches it: one that listens everywhere is where the daemon is."""
    parts = urlsplit(address)
    if not is_everywhere(parts.hostname or ""):
        return address
    return f"{parts.scheme}://{in_url(urlsplit(daemon_url).hostname or '')}:{parts.port}"


def _part(name: str) -> str:
    return quote(name, safe="")
