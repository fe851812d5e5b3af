"""Reducing a period in MongoDB, a step after the other; what each has done is known from one change of one document.

1. Some documents of the period that do not stay are read. What they are reduced to, together with what the account says
   of the same buckets, is written under the mark of the attempt and the number of the step. Nobody sees it yet.
2. The account is changed, between two batches: from now on the step counts. It names the documents that are reduced.
3. These are removed, and figures that others have taken the place of; then the account names none any more.

While a step is under way nothing comes late for triggers of that period. Where the daemon ends in between, what was
written for a step that does not count is removed by the next attempt, and what a step that counts has named, too. An
attempt goes through the period from its begin: where steps were, it finds nothing.
"""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from bson import Int64

from backends.base import Pace, StoreBusy
from backends.decimation.figures import figures_of, together
from backends.diagnosis.retention import no_such, see_clocks
from backends.mongodb.accounts import account_of, reduced_account
from backends.mongodb.marks import MarkDocuments
from backends.mongodb.protocol.formats import (
    data_format,
    decode_readings,
    encode_reduced,
    no_ids,
    reduced_format,
)
from backends.mongodb.protocol.spans import widened_by_ids
from backends.mongodb.reading import documents
from backends.mongodb.reading.counting import ledger_sum, told
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.reading.reduced import known_of
from backends.mongodb.reduced import MARK, Reduced, begun, by_run_of
from backends.mongodb.server.errors import check_answer
from backends.mongodb.server.facts import server_ns
from backends.mongodb.writing.putting import Put
from backends.mongodb.writing.removing import REMOVED_AT_ONCE, remove
from backends.mongodb.writing.unfinished import new_mark
from backends.mongodb.writing.writer import MongodbGroupWriter
from schemas.batch import Layout
from schemas.decimation import Bucket, Decimated, Every, How
from schemas.readings import Array
from schemas.retention import Period, Span

STEP_READINGS = 20_000
"""Readings, present or missing, that one step takes out at most."""
STEP_BYTES = 8 * 2**20
"""What these take as documents at most, but for one alone that is larger."""
PARTS = 32
"""A pass begins with steps of so many parts of the period; they become longer and shorter with what is found."""
ATTEMPTS = 5
"""So often at most a period is begun anew by one call where a batch was taken out meanwhile."""


class _Found(NamedTuple):
    """Documents of a step, uint8, shape (n, width), and whether these are all of its stretch of time."""

    documents: Array
    is_all: bool


class MongodbReducing:
    """Reduces periods of one group.

    Args:
        writer: of the group; it has the lease.
        marks: of the logger.
        concern: how durably figures are written, and documents removed.
        target: what messages call the server.
    """

    def __init__(
        self,
        group: GroupReader,
        writer: MongodbGroupWriter,
        marks: MarkDocuments,
        *,
        concern: dict[str, Any],
        target: str,
    ) -> None:
        self._group = group
        self._of = group.of
        self._database = group.database
        self._writer = writer
        self._marks = marks
        self._concern = concern
        self._target = target
        self._turn = 0
        self._form = data_format(group.of.group, group.of.layout)
        is_arrays = group.of.layout is Layout.ARRAYS
        each = group.of.group.size if is_arrays else 1
        self._at_once = max(1, min(STEP_READINGS // each, STEP_BYTES // self._form.width))

    async def reduce(self, period: Period, how: How, *, window_ns: int, at_ns: int, pace: Pace) -> Decimated:
        """Reduce a period, or go on with it; see `backends.base.Decimating.decimate`."""
        async with self._writer.reducing(period):
            if await self._known(period) is None:
                await self._begin(period, how, at_ns)
            for attempt in range(ATTEMPTS):
                reduced = await self._attempt(period)
                self._turn = reduced.turn
                try:
                    return await self._all(reduced, window_ns, at_ns, pace)
                except _TakenOut:
                    if attempt == ATTEMPTS - 1:
                        raise
        raise AssertionError

    async def _begin(self, period: Period, how: How, at_ns: int) -> None:
        see_clocks(at_ns, await server_ns(self._database))
        within = documents.readings_of_period(period, self._of.group, self._of.layout, self._group.server)
        account = await account_of(self._database, self._of.data, self._of.layout)
        was_dropped = any(each.period == period for each in account.accounts.values())
        if period in account.dropping.values():
            raise _dropping(period)
        if was_dropped or await self._group.data.find_one(within, {"_id": 1}) is None:
            raise no_such(period)
        async with self._writer.between_batches() as (group, beside, _):
            await beside.put_account(group, begun(period, how, at_ns, self._of.layout))

    async def _known(self, period: Period) -> Reduced | None:
        """The account of a period that was not dropped; of the others a step knows nothing."""
        return await reduced_account(self._database, period, self._of.layout)

    async def _account(self, period: Period) -> Reduced:
        found = await self._known(period)
        if found is None:
            raise _dropping(period)
        return found

    async def _ours(self, period: Period) -> Reduced:
        """The account, as long as the attempt is the last one."""
        found = await self._account(period)
        if found.turn != self._turn:
            raise StoreBusy(f"{period.name} of group {period.group} is being reduced by somebody else")
        return found

    async def _attempt(self, period: Period) -> Reduced:
        """Begin an attempt, with a mark of its own; what an earlier one has left is removed."""
        async with self._writer.in_step(), self._writer.between_batches() as (group, beside, _):
            reduced = await self._account(period)
            if len(reduced.going):
                await beside.end_step(group, reduced)
                reduced = replace(reduced, going=no_ids(self._of.layout))
            after = replace(
                reduced,
                marks=np.append(reduced.marks, np.array([(new_mark(), 0)], MARK)),
                turn=reduced.turn + 1,
                is_open=True,
                low_ns=period.start_ns,
                high_ns=period.start_ns,
            )
            await beside.begin_attempt(group, reduced, after)
        if not len(reduced.marks):
            return after
        if reduced.is_open:
            await self._remove_uncounted(reduced.marks)
        # No earlier one writes any more, and of those of which no step counts nothing is there.
        counting = np.append(reduced.marks[reduced.marks["last"] > 0], after.marks[-1:])
        whole = replace(after, marks=counting)
        if len(counting) < len(after.marks):
            async with self._writer.in_step(), self._writer.between_batches() as (group, beside, _):
                await beside.change(group, after, whole)
        return whole

    async def _remove_uncounted(self, marks: Array) -> None:
        """Remove what attempts that did not end have written for steps that do not count."""
        for mark, last in marks.tolist():
            await self._delete({**documents.figures_of_mark(mark), "step": {"$gt": last}})

    async def _all(self, reduced: Reduced, window_ns: int, at_ns: int, pace: Pace) -> Decimated:
        period = reduced.period
        # There is no room to give back: each reading is read and removed, and that is all of the way.
        await self._pass(period, window_ns, pace)
        await pace(1.0)
        # Beside the batches: all of the period's ledger is read, and all that stays.
        triggers, left = await self._recorded(period)
        async with self._writer.in_step(), self._writer.between_batches() as (group, beside, _):
            before = await self._ours(period)
            account = before.account
            if account.reduced_ns is None:
                account = replace(account, triggers=triggers, reduced_ns=at_ns)
            else:
                left = before.left
            # The server uses the room again, and gives none back: there is nothing more to do.
            account = replace(account, ended_ns=account.ended_ns or at_ns)
            after = replace(before, account=account, left=left, is_open=False)
            await beside.change(group, before, after)
        whole = await account_of(self._database, self._of.data, self._of.layout)
        found = await told(self._group, whole)
        return next(each for each in found if each.period == period)

    async def _recorded(self, period: Period) -> tuple[int, int]:
        """How many triggers of the period the ledger has, and how many documents stay; 0 where the account says so."""
        reduced = await self._ours(period)
        if reduced.account.reduced_ns is not None:
            return 0, 0
        within = documents.readings_of_period(period, self._of.group, self._of.layout, self._group.server)
        left, spans = 0, reduced.spans
        async with aclosing(self._group.ids(within)) as found:
            async for ids in found:
                spans = widened_by_ids(spans, ids)
                left += len(ids)
        return await ledger_sum(self._group, period, spans, 1), left

    async def _pass(self, period: Period, window_ns: int, pace: Pace) -> None:
        """Go through a period, and reduce what does not stay."""
        low, span = period.start_ns, max(1, (period.end_ns - period.start_ns) // PARTS)
        while low < period.end_ns:
            await pace((low - period.start_ns) / (period.end_ns - period.start_ns))
            end = min(low + span, period.end_ns)
            async with self._writer.in_step():
                found = await self._step(period, low, end, window_ns)
            if found.is_all:
                low = end
            if len(found.documents) < self._at_once // 2:
                span *= 2
            elif not found.is_all:
                span = max(1, span // 2)

    async def _step(self, period: Period, low: int, end: int, window_ns: int) -> _Found:
        """Reduce some of the documents of a stretch of time; those that were found."""
        async with self._writer.between_batches() as (_, _, breaks):
            before = await self._ours(period)
        found = await self._read(before, low, end, window_ns)
        if not len(found.documents):
            return found
        readings = decode_readings(found.documents.tobytes(), self._of.group, self._of.layout)
        after = replace(
            self._after(before, found.documents, len(readings)), low_ns=low, high_ns=max(before.high_ns, end)
        )
        others: list[Any] = []
        if isinstance(before.account.how, Bucket):
            others = await self._write_figures(before, after, readings, before.account.how.ns)
        async with self._writer.between_batches() as (group, beside, now):
            if now != breaks:
                raise _TakenOut(f"a batch of group {period.group} was taken out while {period.name} was reduced")
            await beside.change(group, before, after)
        await remove(self._group, found.documents, concern=self._concern, target=self._target)
        for start in range(0, len(others), REMOVED_AT_ONCE):
            await self._delete({"_id": {"$in": others[start : start + REMOVED_AT_ONCE]}})
        async with self._writer.between_batches() as (group, beside, _):
            await beside.change(group, after, replace(after, going=no_ids(self._of.layout)))
        return found

    async def _read(self, reduced: Reduced, low: int, end: int, window_ns: int) -> _Found:
        """Read documents that do not stay, as many as a step takes."""
        part = replace(reduced.period, start_ns=low, end_ns=end)
        wanted = documents.readings_of_period(part, self._of.group, self._of.layout, self._group.server)
        spans = await self._marks.around(reduced.period, window_ns)
        stays = [*_between(spans, low, end), *_divided(reduced.account.how)]
        filter_ = {**wanted, "$nor": stays} if stays else wanted
        data = await documents.found(self._group.data, filter_, self._form, most=self._at_once + 1)
        every = self._form.parse(data)
        return _Found(every[: self._at_once], len(every) <= self._at_once)

    def _after(self, before: Reduced, found: Array, readings: int) -> Reduced:
        """The account when the documents, with so many readings, are reduced."""
        account, columns = before.account, self._form.columns(found)
        ids = np.ascontiguousarray(columns["_id"])
        is_again = np.isin(ids, before.again)
        stored = {**account.stored}
        for run, count in by_run_of(ids[~is_again]).items():
            stored[run] = stored.get(run, 0) + count
        marks = before.marks.copy()
        marks["last"][-1] = before.step + 1
        return replace(
            before,
            account=replace(
                account,
                stored=stored,
                readings=account.readings + readings,
                size_bytes=account.size_bytes + int((~is_again).sum()) * self._form.width,
            ),
            step=before.step + 1,
            marks=marks,
            going=ids,
            again=np.setdiff1d(before.again, ids),
            spans=widened_by_ids(before.spans, ids),
        )

    async def _write_figures(self, before: Reduced, after: Reduced, readings: Array, bucket_ns: int) -> list[Any]:
        """Write what readings are reduced to; `_id`s of the figures whose place that takes."""
        group = self._of.group
        figures = await asyncio.to_thread(figures_of, readings, group, bucket_ns)
        if not len(figures):
            return []
        there, others = await known_of(self._group, before, figures)
        whole = encode_reduced(together([there, figures], group), group, int(after.marks["mark"][-1]), after.step)
        put = Put(self._database, self._group.server, self._concern, self._target)
        await put.insert(self._of.reduced, reduced_format(group), whole, _is_new)
        return others

    async def _delete(self, wanted: documents.Filter) -> None:
        deletes = [{"q": wanted, "limit": 0}]
        answer = await self._database.command("delete", self._of.reduced, deletes=deletes, writeConcern=self._concern)
        check_answer(answer, self._target)


class _TakenOut(StoreBusy):
    """Something of a batch that did not end was taken out: a step may have read it."""


def _dropping(period: Period) -> StoreBusy:
    return StoreBusy(f"{period.name} of group {period.group} is being dropped")


async def _is_new(put: Put, name: str, mine: Array, theirs: Array) -> None:
    raise AssertionError("figures of an attempt are there that it has not written")


def _between(spans: list[Span], low: int, end: int) -> Iterator[documents.Filter]:
    """Look for documents of a stretch of time that lie in some spans."""
    for span in spans:
        if span.start_ns < end and span.end_ns > low:
            yield {"time_ns": {"$gte": Int64(max(span.start_ns, low)), "$lt": Int64(min(span.end_ns, end))}}


def _divided(how: How) -> Iterator[documents.Filter]:
    """Look for documents of triggers that stay."""
    if isinstance(how, Every):
        yield {"trigger_id": {"$mod": [how.n, 0]}}
