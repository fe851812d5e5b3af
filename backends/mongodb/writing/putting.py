"""Write commands: documents in messages, some at a time, and what to do where an `_id` is taken."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from backends.base import BatchRejected
from backends.diagnosis.refusals import shortened
from backends.mongodb.protocol.documents import DocumentFormat, NotOurDocuments, Raw
from backends.mongodb.reading.documents import by_ids
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer
from backends.mongodb.server.facts import Database, Server
from backends.mongodb.writing.unfinished import in_commands
from schemas.readings import Array

MESSAGE_BYTES = 8 * 1024 * 1024
"""Most that is sent as one message. pymongo takes a message for one document, of which a server allows 16 MB."""
MESSAGE_DOCUMENTS = 50_000
"""Most documents a message: a server allows 100,000."""
LANES = 2
"""Messages under way at the same time, each on a connection of its own."""
LANE_DOCUMENTS = 100
"""Fewer documents than this are not worth a second message; and FerretDB commits as many at a time."""

Resolve = Callable[["Put", str, Array, Array], Awaitable[None]]


class Put:
    """The write commands of one batch, or of another unit."""

    def __init__(self, database: Database, server: Server, concern: dict[str, Any], target: str) -> None:
        self.server = server
        self._database = database
        self._concern = concern
        self._target = target

    async def insert(self, name: str, form: DocumentFormat, documents: Array, resolve: Resolve) -> None:
        """Insert documents (uint8, shape (documents, width)).

        Of those whose `_id` is taken `resolve` gets ours and what is there, document by document.
        """
        if not len(documents):
            return
        if not self.server.keeps_all_doubles:
            form.mark_specials(documents)
        messages = _messages(len(documents), form.width)
        taken: list[int] = []
        for start in range(0, len(messages), LANES):
            lanes = messages[start : start + LANES]
            # All of them end before one's failure is raised: nothing may be under way when the batch comes again.
            found = await asyncio.gather(
                *(self._send(name, documents[message]) for message in lanes), return_exceptions=True
            )
            for message, indices in zip(lanes, found, strict=True):
                if isinstance(indices, BaseException):
                    raise indices
                taken += [message.start + index for index in indices]
        if taken:
            mine = documents[np.array(taken)]
            theirs = await self._there(name, form, mine)
            await resolve(self, name, mine, theirs)

    async def update(self, name: str, updates: list[dict[str, Any]]) -> int:
        """Apply updates; how many documents they have found."""
        count = 0
        for some in in_commands(updates):
            answer = await self._database.command("update", name, updates=some, writeConcern=self._concern)
            check_answer(answer, self._target)
            count += int(answer["n"])
        return count

    async def _send(self, name: str, documents: Array) -> list[int]:
        answer = await self._database.command(
            "insert", name, documents=[Raw(documents)], ordered=False, writeConcern=self._concern
        )
        return check_answer(answer, self._target, but=DUPLICATE_KEY)

    async def _there(self, name: str, form: DocumentFormat, mine: Array) -> Array:
        ids = form.columns(mine)["_id"]
        try:
            theirs = form.parse(await by_ids(self._database.get_collection(name), ids, form, self.server))
        except NotOurDocuments as error:
            raise BatchRejected(
                f"{self._target} has other documents in {name!r} under the same key", shortened(str(error))
            ) from None
        order = np.argsort(found := form.columns(theirs)["_id"])
        at = np.searchsorted(found, ids, sorter=order) if len(found) else np.zeros(len(ids), np.intp)
        at = order[np.minimum(at, len(found) - 1)] if len(found) else at
        if not len(found) or (found[at] != ids).any():
            raise BatchRejected(f"{self._target}: documents of {name!r} were taken away while they were compared")
        return theirs[at]


def _messages(documents: int, width: int) -> list[slice]:
    most = max(1, min(MESSAGE_BYTES // width, MESSAGE_DOCUMENTS))
    if documents > LANE_DOCUMENTS:
        # As even as can be, a whole number for each lane, and whole commits of FerretDB.
        even = -(-documents // (LANES * LANE_DOCUMENTS)) * LANE_DOCUMENTS
        most = min(most, even)
    return [slice(start, min(start + most, documents)) for start in range(0, documents, most)]
