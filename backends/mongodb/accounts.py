"""What is written down of periods that are dropped or reduced: a notice beside the position, and accounts.

The notice stands in the position's document from the beginning of a drop to its end. Whoever writes documents of that
time meanwhile names them there first: so what is dropped is what was there at the beginning, and nothing else. The
account, a document of `dropped`, comes when that was counted: from then on it is counted as dropped, however much of it
is still there. Of a period that is reduced there is an account from the beginning: `reduced`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from bson import Binary, Int64

from backends.mongodb.protocol.formats import no_ids
from backends.mongodb.reduced import Reduced, ids_in, reduced_in
from backends.mongodb.server.facts import Database
from backends.mongodb.server.lease import NOTICE
from schemas.batch import Layout
from schemas.readings import Array
from schemas.retention import Dropped, Period, Rule, Span

ACCOUNTS = "dropped"
"""The collection of accounts."""
ACCOUNT_INDEXES: list[dict[str, Any]] = [
    {"key": {"group": 1, "start_ns": 1}, "name": "dropped_time"},
    {"key": {"group": 1}, "name": "dropped_open", "partialFilterExpression": {"is_open": True}},
]
"""Of a stretch of time, and of the few that are being reduced: each question for readings asks for these."""
RULES = tuple(rule.value for rule in Rule)
"""What `rule` of an account is where a limit of retention dropped the period; else it says how that was reduced."""
NUMBERS = ("triggers", "readings", "missing", "skipped", "size_bytes")


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A period that is being dropped.

    kept: `_id`s of documents of its time that came since it began, and stay; void, shape (n,).
    """

    period: Period
    rule: Rule
    begun_ns: int
    kept: Array

    @property
    def key(self) -> str:
        """The `_id` of its account."""
        return f"{self.period.group}:{self.period.name}:{self.begun_ns}"

    def fields(self) -> dict[str, Any]:
        """What is stored of it when it begins."""
        return {**_fields(self.period, self.rule, self.begun_ns), "kept": []}

    def account(self) -> Dropped:
        """The account as long as nothing is counted."""
        return Dropped(period=self.period, rule=self.rule, begun_ns=self.begun_ns)


def notice_in(document: Mapping[str, Any] | None, layout: Layout) -> Notice | None:
    """The notice in a position's document, where there is one."""
    found = (document or {}).get(NOTICE)
    if found is None:
        return None
    kept = no_ids(layout)
    parts = [np.frombuffer(ids, kept.dtype) for ids in found["kept"]]
    return Notice(**_told(found), kept=np.concatenate([kept, *parts]))


def account_fields(notice: Notice, account: Dropped) -> dict[str, Any]:
    """The document of an account that was counted."""
    return {
        "_id": notice.key,
        **_fields(account.period, account.rule, account.begun_ns),
        "dropped_ns": None,
        "stored": [{"run": run, "count": Int64(count)} for run, count in account.stored.items()],
        **{name: Int64(getattr(account, name)) for name in NUMBERS},
    }


def account_in(found: Mapping[str, Any]) -> Dropped:
    """The account that a document is."""
    ended = found["dropped_ns"]
    numbers: dict[str, Any] = {name: int(found[name]) for name in NUMBERS}
    return Dropped(
        **_told(found),
        **numbers,
        dropped_ns=None if ended is None else int(ended),
        stored={int(each["run"]): int(each["count"]) for each in found["stored"]},
    )


class Account(NamedTuple):
    """What is written down of a group's periods.

    accounts: of those that were dropped and counted, by their keys. notice: of the one that was begun and has not
    ended. reduced: those that were reduced, or are being reduced, by their keys, by time.
    """

    position: Mapping[str, Any] | None
    notice: Notice | None
    accounts: Mapping[str, Dropped]
    reduced: Mapping[str, Reduced]

    @property
    def dropping(self) -> dict[str, Period]:
        """The periods of which perhaps a part has gone, or is about to, by their keys; one at most."""
        counted = {key: each.period for key, each in self.accounts.items() if each.dropped_ns is None}
        return counted | ({} if self.notice is None else {self.notice.key: self.notice.period})

    def all(self) -> tuple[Dropped, ...]:
        """All periods, in the order in which they were begun."""
        uncounted = self.notice is not None and self.notice.key not in self.accounts
        every = [*self.accounts.values(), *([self.notice.account()] if self.notice and uncounted else [])]
        return tuple(sorted(every, key=lambda each: (each.begun_ns, each.period.start_ns)))

    @property
    def steps(self) -> dict[str, int]:
        """The last step of each period that was reduced, by their keys."""
        return {key: each.step for key, each in self.reduced.items()}

    @property
    def reduced_rows(self) -> int:
        """How many documents any step took out."""
        return sum(sum(each.account.stored.values()) for each in self.reduced.values())

    def gone(self) -> Counter[int]:
        """How many documents were dropped or reduced, by run."""
        dropped = (each.stored for each in self.accounts.values())
        reduced = (each.account.stored for each in self.reduced.values())
        return sum((Counter(each) for each in (*dropped, *reduced)), Counter[int]())

    def going_documents(self, layout: Layout) -> Array:
        """`_id`s of documents that a step has reduced and that may still be there; void, shape (n,)."""
        return np.concatenate([no_ids(layout), *(each.going for each in self.reduced.values())])

    def again_documents(self, layout: Layout) -> Array:
        """`_id`s of documents that were reduced and may be there again; void, shape (n,)."""
        return np.concatenate([no_ids(layout), *(each.again for each in self.figures().values())])

    def reduced_of(self, period: Period) -> Reduced | None:
        """The account of a period that was reduced, whether it was dropped since or not."""
        return next((each for each in self.reduced.values() if each.period == period), None)

    def figures(self) -> dict[str, Reduced]:
        """Those that have figures, or may have some: reduced and not dropped since."""
        gone = {each.period for each in self.accounts.values()}
        return {key: each for key, each in self.reduced.items() if each.period not in gone}


async def account_of(database: Database, group: str, layout: Layout, within: Span | None = None) -> Account:
    """Read what is written down of a group's periods. within: of those that are a part of this alone."""
    # The position first: what is counted or ends in between is then found in both, or in the accounts.
    position = await database.get_collection("positions").find_one({"_id": group})
    wanted: dict[str, Any] = {"group": group}
    if within is not None:
        wanted |= {"start_ns": {"$lt": Int64(within.end_ns)}, "end_ns": {"$gt": Int64(within.start_ns)}}
    found = await database.get_collection(ACCOUNTS).find(wanted).sort("start_ns").to_list()
    return Account(
        position,
        notice_in(position, layout),
        {str(each["_id"]): account_in(each) for each in found if each["rule"] in RULES},
        {str(each["_id"]): reduced_in(each, layout) for each in found if each["rule"] not in RULES},
    )


async def reduced_account(database: Database, period: Period, layout: Layout) -> Reduced | None:
    """Read the account of one period that was reduced; None where there is none, or the period was dropped since."""
    wanted = {"group": period.group, "name": period.name}
    found = await database.get_collection(ACCOUNTS).find(wanted).to_list()
    if any(each["rule"] in RULES for each in found):
        return None
    return next((reduced_in(each, layout) for each in found), None)


async def going_documents(database: Database, group: str, layout: Layout) -> Array:
    """`_id`s of documents that a step has reduced and that may still be there; void, shape (n,)."""
    # Only an attempt that is under way, or was when its daemon ended, has any: an index has these alone.
    wanted = {"group": group, "is_open": True}
    found = await database.get_collection(ACCOUNTS).find(wanted, {"going": 1}).to_list()
    return ids_in((each["going"] for each in found), layout)


def _fields(period: Period, rule: Rule, begun_ns: int) -> dict[str, Any]:
    return {
        "group": period.group,
        "name": period.name,
        "start_ns": Int64(period.start_ns),
        "end_ns": Int64(period.end_ns),
        "rule": rule.value,
        "begun_ns": Int64(begun_ns),
    }


def _told(found: Mapping[str, Any]) -> dict[str, Any]:
    period = Period(
        group=found["group"], name=found["name"], start_ns=int(found["start_ns"]), end_ns=int(found["end_ns"])
    )
    return {"period": period, "rule": Rule(found["rule"]), "begun_ns": int(found["begun_ns"])}


def stored_ids(ids: Array) -> Binary:
    """`_id`s as they are stored together."""
    return Binary(ids.tobytes())
