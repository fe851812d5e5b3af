"""The client of the server of conditions: what commands ask it and order, with the names of `schemas.conditions`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ValidationError

from daemon.client.api.asking import DaemonGone, ask
from daemon.client.api.reach import CONDITIONS, Reach
from schemas.api.conditions import TagRow
from schemas.conditions.intervals import FLAT, Intervals, Key, TagStatus, intervals_of_rows

if TYPE_CHECKING:
    import httpx

PREFIX = "/api/cdb_rest"
PATIENCE_S = 120.0
"""The answer with all intervals of a long list, and the storing of a batch, take seconds."""


class Valid(BaseModel):
    """What one type has at a key."""

    type: str
    url: str
    checksum: str
    size: int | None
    start: Key
    end: Key


class ConditionsApi:
    """Asks one server; every method raises DaemonGone where it does not answer, or refuses."""

    def __init__(self, client: "httpx.AsyncClient") -> None:
        self._client = client

    async def tags(self) -> Sequence[TagRow]:
        """All global tags."""
        found = await self._ask("GET", "globalTags")
        try:
            return [TagRow.model_validate(row) for row in found]
        except ValidationError:
            raise self._another() from None

    async def tag(self, name: str) -> TagRow:
        """One global tag.

        Raises:
            DaemonGone: there is none.
        """
        try:
            return TagRow.model_validate(await self._ask("GET", f"globalTag/{_part(name)}?light=1"))
        except ValidationError:
            raise self._another() from None

    async def types(self) -> Sequence[str]:
        """Names of all payload types."""
        return [str(row["name"]) for row in await self._ask("GET", "pt")]

    async def lists(self, tag: str) -> Mapping[str, str]:
        """Names of a tag's lists by type; none of an unknown tag."""
        found: Mapping[str, str] = await self._ask("GET", f"gtPayloadLists/{_part(tag)}")
        return found

    async def intervals(self, name: str) -> Intervals:
        """All intervals of a list."""
        return intervals_of_rows(await self._ask("GET", f"payload-lists/by-name/{_part(name)}/intervals"))

    async def valid_at(self, tag: str, key: Key) -> Sequence[Valid]:
        """What is valid at a key, by type; nothing for an unknown tag."""
        query = urlencode({"gtName": tag, "majorIOV": key.major, "minorIOV": key.minor})
        rows = await self._ask("GET", f"payloadiovs/?{query}")
        return [
            Valid(type=type_, url=url, checksum=checksum, size=size, start=Key(*key[:2]), end=Key(*key[2:]))
            for type_, url, checksum, size, *key in (row[:FLAT] for row in rows)
        ]

    async def add_type(self, name: str) -> None:
        """Add a payload type."""
        await self._ask("POST", "pt", {"name": name})

    async def add_tag(self, name: str, author: str | None = None) -> None:
        """Add a tag, unlocked and without lists."""
        more = {} if author is None else {"author": author}
        await self._ask("POST", "gt", {"name": name, "status": TagStatus.UNLOCKED, **more})

    async def clone_tag(self, source: str, name: str) -> None:
        """Make an unlocked tag that answers as another one does."""
        await self._ask("POST", f"cloneGlobalTag/{_part(source)}/{_part(name)}")

    async def set_status(self, tag: str, status: TagStatus) -> None:
        """Change the status of a tag."""
        await self._ask("PUT", f"gt_change_status/{_part(tag)}/{status}")

    async def list_of(self, tag: str, type_: str) -> str:
        """Name of a tag's list of a type; where it has none, an empty one is attached to it."""
        there = (await self.lists(tag)).get(type_)
        if there is not None:
            return there
        made = str((await self._ask("POST", "pl", {"payload_type": type_}))["name"])
        await self._ask("PUT", "pl_attach", {"global_tag": tag, "payload_list": made})
        return made

    async def insert(self, name: str, intervals: Intervals) -> None:
        """Attach intervals to a list, all or none, in their order."""
        sizes = [{} if size < 0 else {"size": size} for size in intervals.sizes.tolist()]
        columns = (intervals.urls, intervals.checksums, sizes, intervals.starts.tolist(), intervals.ends.tolist())
        rows = [
            {
                "payload_list": name,
                "payload_url": url,
                "checksum": checksum,
                "major_iov": start[0],
                "minor_iov": start[1],
                "major_iov_end": end[0],
                "minor_iov_end": end[1],
                **size,
            }
            for url, checksum, size, start, end in zip(*columns, strict=True)
        ]
        await self._ask("POST", "bulk_piov", rows)

    async def _ask(self, method: str, path: str, body: object = None) -> Any:
        answer = await ask(self._client, method, f"{PREFIX}/{path}", body, server=CONDITIONS)
        try:
            return answer.json() if answer.content else None
        except ValueError:
            raise self._another() from None

    def _another(self) -> DaemonGone:
        where = str(self._client.base_url).rstrip("/")
        return DaemonGone(f"{where} sends what this version cannot read; see that a server of conditions listens there")


@asynccontextmanager
async def conditions_api(server: Reach) -> AsyncIterator[ConditionsApi]:
    """Ask a server of conditions over one client."""
    async with server.client(PATIENCE_S) as client:
        yield ConditionsApi(client)


def _part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
