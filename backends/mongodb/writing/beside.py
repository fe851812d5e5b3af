"""What a batch owes to periods of its group that are dropped or reduced, or are about to be."""

from dataclasses import replace
from typing import Any

import numpy as np
from bson import Int64

from backends.base import StoreBusy, StoreUnavailable
from backends.columns.filling import Columns
from backends.diagnosis.retention import dropped_meanwhile
from backends.mongodb.accounts import ACCOUNTS, RULES, Notice, account_in, stored_ids
from backends.mongodb.protocol.formats import data_format, encode_arrays, encode_rows, no_ids
from backends.mongodb.reading.documents import by_ids
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.reduced import Reduced, changing_fields, reduced_in, whole_document
from backends.mongodb.schema.create import GroupCollections
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer
from backends.mongodb.server.facts import Database, Server
from backends.mongodb.server.lease import Lease
from backends.mongodb.writing.removing import remove_going
from schemas.batch import Batch, Durability, Layout
from schemas.readings import Array
from schemas.retention import Period, are_within, spans_of

KEPT_MOST = 500_000
"""Most documents that are named beside the position, of 14 bytes each: a document has 16 MB at most."""


class BesidePeriods:
    """The periods of one group, as its writer sees them.

    notice: of the period that is being dropped.
    """

    def __init__(self, collections: GroupCollections, lease: Lease, *, target: str, timeout_s: float) -> None:
        self.notice: Notice | None = None
        self._unanswered: set[str] = set()
        self._collections = collections
        self._lease = lease
        self._target = target
        self._timeout_s = timeout_s

    async def keep(self, database: Database, server: Server, batch: Batch) -> None:
        """Name what a batch has of the time of a period that is being dropped, by a wrong clock: it stays."""
        notice = self.notice
        if notice is None:
            return
        form, documents = data_format(batch.group, self._collections.layout), self._new_documents(batch)
        columns, period = form.columns(documents), notice.period
        ids = columns["_id"][(columns["time_ns"] >= period.start_ns) & (columns["time_ns"] < period.end_ns)]
        ids = np.setdiff1d(ids, notice.kept)
        if not len(ids):
            return
        if len(notice.kept) + len(ids) > KEPT_MOST:
            raise StoreUnavailable(
                f"more than {KEPT_MOST:,} readings came with times of {period.name}, which is being dropped: what else"
                " comes waits until that has ended"
            )
        await self._lease.keep_documents(database, notice.begun_ns, stored_ids(ids), self._durably(server))
        self.notice = replace(notice, kept=np.concatenate([notice.kept, ids]))

    def _new_documents(self, batch: Batch) -> Array:
        """The documents that a batch adds; of earlier triggers there are arrays already."""
        if self._collections.layout is Layout.ROWS:
            return encode_rows(batch, batch.group)
        return encode_arrays(batch, batch.group)[: len(batch.ledger)]

    async def see_late(self, group: GroupReader, batch: Batch) -> None:
        """See that what comes late for arrays finds them, or is known to be there without them.

        Of a period that is dropped they go, or are gone. Of one that is reduced they may be: what comes late is then
        stored alone, and named in the account before.

        Raises:
            BatchRejected: they were dropped.
        """
        if self._collections.layout is Layout.ROWS or not len(batch.late):
            return
        earlier = encode_arrays(batch, batch.group)[len(batch.ledger) :]
        if not len(earlier):  # all of it is of triggers that this batch adds
            return
        await self.see_answered(group)
        columns = data_format(batch.group, Layout.ARRAYS).columns(earlier)
        ids, times = columns["_id"], columns["time_ns"]
        dropped, reduced = await self._periods_of(group.database, times)
        concerned = are_within(spans_of([*dropped, *(each.period for each in reduced)]), times)
        if not concerned.any():
            return
        for each in reduced:
            if np.isin(ids, each.going).any():
                # Its daemon ended, or another one has it: the step is ended here, before any of its `_id`s is used.
                await self.end_step(group, each)
        gone = concerned & ~np.isin(ids, await self._there(group, ids[concerned]))
        is_dropped = gone & are_within(spans_of(dropped), times)
        if self.notice is not None:
            going = are_within(spans_of([self.notice.period]), times)
            is_dropped |= going & ~np.isin(ids, self.notice.kept)
        for run, trigger in _keys_of(columns, is_dropped):
            raise dropped_meanwhile(run, trigger)
        for each in reduced:
            again = np.setdiff1d(ids[gone & are_within(spans_of([each.period]), times)], each.again)
            if len(again):
                named = {"q": {"_id": each.key}, "u": {"$push": {"again": stored_ids(again)}}}
                await self._update_accounts(group, [named])

    async def _periods_of(self, database: Database, times: Array) -> tuple[list[Period], list[Reduced]]:
        """The periods that were dropped, or are being dropped, and those that were reduced, of some of these times."""
        wanted = {"start_ns": {"$lte": Int64(times.max())}, "end_ns": {"$gt": Int64(times.min())}}
        found = await database.get_collection(ACCOUNTS).find({"group": self._collections.data, **wanted}).to_list()
        dropped = [account_in(each).period for each in found if each["rule"] in RULES]
        dropped += [] if self.notice is None else [self.notice.period]
        reduced = [reduced_in(each, self._collections.layout) for each in found if each["rule"] not in RULES]
        return dropped, [each for each in reduced if each.period not in dropped]

    async def _there(self, group: GroupReader, ids: Array) -> Array:
        """Which documents of readings are there: void, shape (n,), and perhaps others."""
        form = data_format(group.of.group, group.of.layout)
        found = await by_ids(group.data, ids, form, group.server)
        return form.columns(form.parse(found))["_id"]

    # --- reducing, under the lease ------------------------------------------------------------------------------

    async def own(self, group: GroupReader) -> None:
        """Make the periods that another daemon was reducing ours: from now on none of its steps counts."""
        mine = {"q": {"group": self._collections.data, "is_open": True}, "u": {"$set": {"owner": self._lease.owner}}}
        await self._update_accounts(group, [{**mine, "multi": True}])

    async def put_account(self, group: GroupReader, reduced: Reduced) -> None:
        """Write the account of a period that is being reduced from now on, unless another daemon has."""
        document = whole_document(reduced, self._lease.owner)
        answer = await group.database.command(
            "insert", ACCOUNTS, documents=[document], writeConcern=self._durably(group.server)
        )
        check_answer(answer, self._target, but=DUPLICATE_KEY)

    async def begin_attempt(self, group: GroupReader, before: Reduced, after: Reduced) -> None:
        """Write that an attempt of ours is under way.

        Raises:
            GroupLocked: another daemon has taken the lease.
            StoreBusy: another one has begun it meanwhile.
        """
        await self._change(group, before, after, {"owner": self._lease.owner})
        # Who takes the lease after this makes the attempt its own.
        await self._lease.renew(group.database)

    async def see_answered(self, group: GroupReader) -> None:
        """See that no change of an account comes later that was given up without an answer.

        Before anything of its period may change: it names documents as they were then. It demands the attempt's number,
        which is another one from now on.
        """
        for key in [*self._unanswered]:
            await self._update_accounts(group, [{"q": {"_id": key}, "u": {"$inc": {"turn": 1}}}])
            self._unanswered.discard(key)

    async def change(self, group: GroupReader, before: Reduced, after: Reduced) -> None:
        """Change the account of a period that is being reduced.

        Raises:
            StoreBusy: another daemon has changed it, or reduces it now; or it is being dropped.
        """
        if self.notice is not None and self.notice.period == before.period:
            raise StoreBusy(f"{before.period.name} of group {before.period.group} is being dropped")
        await self._change(group, before, after, {}, {"owner": self._lease.owner})

    async def end_step(self, group: GroupReader, reduced: Reduced) -> None:
        """Remove what the last step of a period has reduced, where its daemon did not come to that."""
        concern = self._durably(group.server)
        await remove_going(group, reduced.going, concern=concern, target=self._target)
        await self._change(group, reduced, replace(reduced, going=no_ids(group.of.layout)), {})

    async def _change(
        self,
        group: GroupReader,
        before: Reduced,
        after: Reduced,
        more: dict[str, Any],
        expected: dict[str, Any] | None = None,
    ) -> None:
        wanted = {"_id": before.key, "step": before.step, "turn": before.turn, **(expected or {})}
        known = changing_fields(before)
        # Nothing else: another daemon may have named what came late since this one has read the account.
        values = {name: value for name, value in changing_fields(after).items() if value != known[name]}
        self._unanswered.add(before.key)
        changed = await self._update_accounts(group, [{"q": wanted, "u": {"$set": {**values, **more}}}])
        self._unanswered.discard(before.key)
        if not changed:
            raise StoreBusy(f"another daemon reduces {before.period.name} of group {before.period.group}")

    async def _update_accounts(self, group: GroupReader, updates: list[dict[str, Any]]) -> int:
        answer = await group.database.command(
            "update", ACCOUNTS, updates=updates, writeConcern=self._durably(group.server)
        )
        check_answer(answer, self._target)
        return int(answer["n"])

    def _durably(self, server: Server) -> dict[str, Any]:
        return server.write_concern(Durability.SYNC, self._timeout_s)


def _keys_of(columns: Columns, which: Array) -> list[tuple[int, int]]:
    """Run and trigger of some documents."""
    return list(zip(columns["run"][which].tolist(), columns["trigger_id"][which].tolist(), strict=True))
