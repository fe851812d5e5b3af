"""Dropping a period in MongoDB: its documents lose their readings, and say so; what they say for the ledger stays.

1. The account of the period, a document of `dropped`, says that it has begun.
2. Documents of the period's time are changed, some at a time: times and values go, and `dropped` is set. To do that
   again changes nothing, and each document counts as stored or as dropped at every moment, whoever is killed when.
3. The dropped documents are counted, and the account says that it ended.

A document that comes later with a time of the period keeps its readings.
"""

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from bson import Int64

from backends.base import StoreError
from backends.diagnosis import no_such, see_clocks
from backends.mongodb.protocol.triggers import ids_of
from backends.mongodb.reading import documents
from backends.mongodb.reading.group import GroupReader
from backends.mongodb.reading.queries import count, skipped
from backends.mongodb.server.errors import DUPLICATE_KEY, check_answer
from backends.mongodb.server.facts import Database, server_ns
from schemas.readings import Array
from schemas.retention import Dropped, Period, Rule

ACCOUNTS = "dropped"
"""The collection of accounts."""
NUMBERS = ("triggers", "readings", "missing", "skipped", "size_bytes")
REDUCED_AT_ONCE = 1_000
"""So many documents are changed with one command, which the server has on its disk before the next: the writing
meanwhile does not wait for more."""


async def accounts_of(database: Database, group: str) -> tuple[Dropped, ...]:
    """Return the accounts of a group's periods, in the order in which they were begun."""
    found = await database.get_collection(ACCOUNTS).find({"group": group}).to_list()
    return tuple(sorted(map(_account, found), key=lambda each: (each.begun_ns, each.period.start_ns)))


async def accounts_at(database: Database, group: str, first_ns: int, last_ns: int) -> list[Dropped]:
    """Return the accounts of the periods that have some of the times from first_ns to last_ns."""
    times = {"start_ns": {"$lte": Int64(last_ns)}, "end_ns": {"$gt": Int64(first_ns)}}
    found = await database.get_collection(ACCOUNTS).find({"group": group, **times}).to_list()
    return [_account(each) for each in found]


class MongodbDropping:
    """Drops periods of one group.

    concern: how durably it is written. target: what messages call the server.
    """

    def __init__(self, reader: GroupReader, *, concern: dict[str, Any], target: str) -> None:
        self._reader = reader
        self._database = reader.database
        self._concern = concern
        self._target = target

    async def drop(self, period: Period, rule: Rule, at_ns: int) -> Dropped:
        """Drop a period, or go on where that was begun; see `backends.base.Store.drop`."""
        account = await self._begun(period) or await self._begin(period, rule, at_ns)
        there = {**documents.within(period.start_ns, period.end_ns), "dropped": False}
        async with aclosing(self._reader.heads(there)) as found:
            async for heads in found:
                await self._drop(heads, there)
        counted = await self._counted(replace(account, dropped_ns=at_ns))
        await self._write("update", updates=[{"q": {"_id": _key(period)}, "u": _document(counted)}])
        return counted

    async def _begun(self, period: Period) -> Dropped | None:
        """Return the account of a period that was begun and has not ended."""
        accounts = await accounts_of(self._database, period.group)
        for account in accounts:
            if account.dropped_ns is None and account.period != period:
                name = account.period.name
                raise StoreError(f"{name} of group {period.group!r} is being dropped, and has to end first")
        mine = [each for each in accounts if each.period == period]
        if mine and mine[0].dropped_ns is not None:
            raise no_such(period)
        return mine[0] if mine else None

    async def _begin(self, period: Period, rule: Rule, at_ns: int) -> Dropped:
        if rule is Rule.AGE:
            see_clocks(at_ns, await server_ns(self._database))
        there = {**documents.within(period.start_ns, period.end_ns), "dropped": False}
        if await self._reader.collection.find_one(there, {"_id": 1}) is None:
            raise no_such(period)
        account = Dropped(period=period, rule=rule, begun_ns=at_ns)
        await self._write("insert", documents=[_document(account)])
        return account

    async def _drop(self, heads: Array, there: documents.Filter) -> None:
        gone = {"$set": {"dropped": True}, "$unset": {"times": "", "values": ""}}
        for wanted in documents.with_ids(ids_of(heads["row"], heads["part"]), REDUCED_AT_ONCE):
            # Without an index all is read: the times leave less to compare.
            filter_ = wanted if self._reader.server.uses_indexes else {**there, **wanted}
            await self._write("update", self._reader.of.data, updates=[{"q": filter_, "u": gone, "multi": True}])

    async def _counted(self, account: Dropped) -> Dropped:
        """Count what was dropped."""
        period = account.period
        within = {**documents.within(period.start_ns, period.end_ns), "dropped": True}
        runs = await count(self._reader, within)
        numbers = {
            name: sum(counted[name] for counted in runs.values()) for name in ("triggers", "arrived", "expected")
        }
        nbytes = self._reader.width - self._reader.header_width
        return replace(
            account,
            stored={run: counted["dropped"] for run, counted in runs.items()},
            triggers=numbers["triggers"],
            readings=numbers["arrived"],
            missing=numbers["expected"] - numbers["arrived"],
            skipped=sum(map(skipped, runs.values())),
            size_bytes=numbers["triggers"] * nbytes,
        )

    async def _write(self, command: str, collection: str = ACCOUNTS, **what: Any) -> None:
        answer = await self._database.command(command, collection, writeConcern=self._concern, **what)
        check_answer(answer, self._target, but=DUPLICATE_KEY)


def _key(period: Period) -> str:
    return f"{period.group}:{period.name}:{period.start_ns}"


def _document(account: Dropped) -> dict[str, Any]:
    period, ended = account.period, account.dropped_ns
    return {
        "_id": _key(period),
        "group": period.group,
        "name": period.name,
        "start_ns": Int64(period.start_ns),
        "end_ns": Int64(period.end_ns),
        "rule": account.rule.value,
        "begun_ns": Int64(account.begun_ns),
        "dropped_ns": None if ended is None else Int64(ended),
        "stored": [{"run": run, "count": Int64(counted)} for run, counted in account.stored.items()],
        **{name: Int64(getattr(account, name)) for name in NUMBERS},
    }


def _account(found: Mapping[str, Any]) -> Dropped:
    period = Period(
        group=found["group"], name=found["name"], start_ns=int(found["start_ns"]), end_ns=int(found["end_ns"])
    )
    numbers: dict[str, Any] = {name: int(found[name]) for name in NUMBERS}
    return Dropped(
        period=period,
        rule=Rule(found["rule"]),
        begun_ns=int(found["begun_ns"]),
        dropped_ns=None if found["dropped_ns"] is None else int(found["dropped_ns"]),
        stored={int(each["run"]): int(each["count"]) for each in found["stored"]},
        **numbers,
    )
