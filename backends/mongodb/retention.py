"""Dropping a period in MongoDB, where a group is one collection: its documents are counted, and then removed.

1. The notice beside the position, between two batches: what is there of the period's time goes, and whoever writes
   documents of that time later names them in the notice before (`accounts`). So nobody waits while it is counted and
   removed, and it is the same documents.
2. They are counted by their `_id`s, and the account is written: from now on they are counted as dropped.
3. They are removed by their `_id`s, some at a time: a command that is carried out late removes nothing else.
4. The account says that it ended, and the notice is taken away.

Each step is seen by what is written down, so that whoever comes after a kill goes on. What came since it began is read
after the `_id`s were found: a document that has come since has been named by then.
"""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from bson import Int64

from backends.base import StoreBusy, StoreError
from backends.diagnosis.retention import no_such, see_clocks
from backends.mongodb.accounts import ACCOUNTS, RULES, Notice, account_fields, account_in, account_of, notice_in
from backends.mongodb.protocol.formats import data_format, no_ids
from backends.mongodb.protocol.spans import STRETCH, widened_by, widened_by_ids
from backends.mongodb.reading import documents
from backends.mongodb.reading.counting import ledger_sum
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.reduced import Reduced, by_run_of
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer
from backends.mongodb.server.facts import server_ns
from backends.mongodb.writing.removing import REMOVED_AT_ONCE
from backends.mongodb.writing.writer import MongodbGroupWriter
from schemas.batch import Layout
from schemas.readings import Array
from schemas.retention import Dropped, Period, Rule


class _Counted(NamedTuple):
    """How many documents there are by run, and between which triggers: `STRETCH`, shape (runs,)."""

    stored: Counter[int]
    spans: Array


class MongodbDropping:
    """Drops periods of one group.

    Args:
        writer: of the group; it has the lease.
        concern: how durably accounts are written, and documents removed.
        target: what messages call the server.
    """

    def __init__(self, group: GroupReader, writer: MongodbGroupWriter, *, concern: dict[str, Any], target: str) -> None:
        self._group = group
        self._of = group.of
        self._database = group.database
        self._writer = writer
        self._concern = concern
        self._target = target

    async def drop(self, period: Period, rule: Rule, at_ns: int) -> Dropped:
        """Drop a period, or go on where that was begun; see `backends.base.Store.drop`."""
        notice = await self._under_way() or await self._begin(period, rule, at_ns)
        if notice.period != period:
            raise StoreError(f"{notice.period.name} of group {period.group!r} is being dropped, and has to end first")
        account = await self._written(notice) or await self._count(notice)
        if account.dropped_ns is None:
            while await self._remove(notice):
                pass
            await self._remove_figures(period)
            account = await self._end(notice, account, at_ns)
        await self._writer.end_dropping(notice)
        return account

    async def _under_way(self) -> Notice | None:
        """The notice of a drop that was begun and has not ended; one that a kill has left is taken away."""
        notice = await self._writer.dropping()
        account = None if notice is None else await self._written(notice)
        if notice is None or account is None or account.dropped_ns is None:
            return notice
        await self._writer.end_dropping(notice)
        return None

    async def _begin(self, period: Period, rule: Rule, at_ns: int) -> Notice:
        begun = Notice(period=period, rule=rule, begun_ns=at_ns, kept=no_ids(self._of.layout))
        # An account that did not end, without a notice: the position was lost, and made again.
        unfinished = {**_of(period), "rule": {"$in": list(RULES)}, "dropped_ns": None}
        left = await self._database.get_collection(ACCOUNTS).find_one(unfinished)
        if left is not None:
            account = account_in(left)
            begun = replace(begun, rule=account.rule, begun_ns=account.begun_ns)
        else:
            if rule is Rule.AGE:
                see_clocks(at_ns, await server_ns(self._database))
            is_there = await self._group.data.find_one(self._within(period), {"_id": 1}) is not None
            if not is_there and await self._reduced(period) is None:
                raise no_such(period)
        await self._writer.begin_dropping(begun)
        return begun

    async def _written(self, notice: Notice) -> Dropped | None:
        """The account, where it was counted."""
        found = await self._database.get_collection(ACCOUNTS).find_one({"_id": notice.key})
        return None if found is None else account_in(found)

    async def _count(self, notice: Notice) -> Dropped:
        """Count what goes, and what the ledger says of its triggers; write the account."""
        reduced = await self._reduced(notice.period)
        counted = await self._counted(notice, no_ids(self._of.layout) if reduced is None else reduced.again)
        spans = counted.spans if reduced is None else widened_by(counted.spans, reduced.spans)
        triggers, arrived, expected, skipped = [
            await ledger_sum(self._group, notice.period, spans, what)
            for what in (1, "$arrived", "$expected", "$skipped")
        ]
        stored = counted.stored.total()
        left = arrived - (0 if reduced is None else reduced.account.readings) if len(counted.spans) else 0
        account = replace(
            notice.account(),
            stored=dict(counted.stored),
            triggers=triggers,
            readings=stored if self._of.layout is Layout.ROWS else left,
            missing=expected - arrived,
            skipped=skipped,
            size_bytes=stored * data_format(self._of.group, self._of.layout).width,
        )
        await self._write("insert", ACCOUNTS, documents=[account_fields(notice, account)])
        # Another daemon may have written it: then more has gone since than was found here.
        return await self._written(notice) or account

    async def _reduced(self, period: Period) -> Reduced | None:
        """The account of the period where it was reduced."""
        return (await account_of(self._database, self._of.data, self._of.layout)).reduced_of(period)

    async def _counted(self, notice: Notice, again: Array) -> _Counted:
        """Count what goes. again: these are in the account already, of what was reduced."""
        stored: Counter[int] = Counter()
        spans = np.empty(0, STRETCH)
        async with aclosing(self._what_goes(notice)) as found:
            async for ids in found:
                stored += by_run_of(ids[~np.isin(ids, again)])
                spans = widened_by_ids(spans, ids)
        return _Counted(stored, spans)

    async def _remove(self, notice: Notice) -> bool:
        """Remove what goes; whether there was any."""
        there = False
        async with aclosing(self._what_goes(notice)) as found:
            async for ids in found:
                for wanted in documents.with_ids(ids, REMOVED_AT_ONCE):
                    there = True
                    # Without an index all is read: the times leave less to compare.
                    filter_ = wanted if self._group.server.uses_indexes else {**self._within(notice.period), **wanted}
                    await self._write("delete", self._of.data, deletes=[{"q": filter_, "limit": 0}])
        return there

    async def _remove_figures(self, period: Period) -> None:
        """Remove what the period was reduced to: since it was counted nobody has asked for that."""
        reduced = await self._reduced(period)
        for mark in [] if reduced is None else reduced.marks["mark"].tolist():
            await self._write("delete", self._of.reduced, deletes=[{"q": documents.figures_of_mark(mark), "limit": 0}])

    async def _what_goes(self, notice: Notice) -> AsyncGenerator[Array, None]:
        """The `_id`s of what was there of a period when it began; void, shape (n,), as they come."""
        within = self._within(notice.period)
        async with aclosing(self._group.ids(within)) as found:
            async for ids in found:
                kept = await self._kept(notice)
                yield ids[~np.isin(ids, kept)] if len(kept) else ids

    async def _kept(self, notice: Notice) -> Array:
        """What has come since the drop began: as it is written down, since another daemon may write by now."""
        found = await self._database.get_collection("positions").find_one({"_id": self._of.data})
        written = notice_in(found, self._of.layout)
        if written is None or written.key != notice.key:
            raise StoreBusy(f"another daemon has dropped {notice.period.name} of group {notice.period.group!r}")
        return written.kept

    async def _end(self, notice: Notice, account: Dropped, at_ns: int) -> Dropped:
        ended = {"q": {"_id": notice.key, "dropped_ns": None}, "u": {"$set": {"dropped_ns": Int64(at_ns)}}}
        await self._write("update", ACCOUNTS, updates=[ended])
        return await self._written(notice) or account

    async def _write(self, command: str, collection: str, **what: Any) -> None:
        answer = await self._database.command(command, collection, writeConcern=self._concern, **what)
        check_answer(answer, self._target, but=DUPLICATE_KEY)

    def _within(self, period: Period) -> documents.Filter:
        return documents.readings_of_period(period, self._of.group, self._of.layout, self._group.server)


def _of(period: Period) -> dict[str, Any]:
    return {"group": period.group, "name": period.name, "start_ns": Int64(period.start_ns)}
