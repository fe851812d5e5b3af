"""What is written down of periods that are dropped: a notice beside the position, and accounts.

The notice stands in the position's document from the beginning of a drop to its end. Whoever writes documents of that
time meanwhile names them there first: so what is dropped is what was there at the beginning, and nothing else. The
account, a document of `dropped`, comes when that was counted: from then on it is counted as dropped, however much of it
is still there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from bson import Binary, Int64

from backends.mongodb.protocol.formats import READING_ID, TRIGGER_ID
from backends.mongodb.server.facts import Database
from backends.mongodb.server.lease import NOTICE
from schemas.batch import Layout
from schemas.readings import Array
from schemas.retention import Dropped, Period, Rule

ACCOUNTS = "dropped"
"""The collection of accounts."""
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


def no_ids(layout: Layout) -> Array:
    """No `_id`s of readings' documents; void, shape (0,)."""
    return np.empty(0, TRIGGER_ID if layout is Layout.ARRAYS else READING_ID)


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

    accounts: of those that were counted, by their keys. notice: of the one that was begun and has not ended.
    """

    position: Mapping[str, Any] | None
    notice: Notice | None
    accounts: Mapping[str, Dropped]

    @property
    def going(self) -> dict[str, Period]:
        """The periods of which perhaps a part has gone, or is about to, by their keys; one at most."""
        counted = {key: each.period for key, each in self.accounts.items() if each.dropped_ns is None}
        return counted | ({} if self.notice is None else {self.notice.key: self.notice.period})

    def all(self) -> tuple[Dropped, ...]:
        """All periods, in the order in which they were begun."""
        uncounted = self.notice is not None and self.notice.key not in self.accounts
        every = [*self.accounts.values(), *([self.notice.account()] if self.notice and uncounted else [])]
        return tuple(sorted(every, key=lambda each: (each.begun_ns, each.period.start_ns)))


async def account_of(database: Database, group: str, layout: Layout) -> Account:
    """Read what is written down of a group's periods."""
    # The position first: what is counted or ends in between is then found in both, or in the accounts.
    position = await database.get_collection("positions").find_one({"_id": group})
    found = await database.get_collection(ACCOUNTS).find({"group": group}).to_list()
    return Account(position, notice_in(position, layout), {str(each["_id"]): account_in(each) for each in found})


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
