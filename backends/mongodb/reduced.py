"""The account of a period that is reduced, and how far that is: one document, which each step changes at once.

A step counts from the moment when its number stands here. From then on the documents in `going` are reduced, though
they are removed only later, and the figures with the mark and the number of the step are valid: of an instrument and
bucket those of the last step of all that are, and none whose mark or number is not here.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from bson import Binary, Int64

from backends.base import StoreError
from backends.mongodb.protocol.documents import keys_of
from backends.mongodb.protocol.formats import no_ids
from backends.mongodb.protocol.spans import STRETCH
from schemas.batch import Layout
from schemas.decimation import Decimated, How, how_of
from schemas.readings import Array
from schemas.retention import Period

MARK = np.dtype([("mark", "<i8"), ("last", "<i4")])
"""An attempt to reduce a period, and the number of its last step; 0 without any."""
NUMBERS = ("triggers", "readings", "size_bytes")


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduced:
    """A period that was reduced, or is being reduced.

    account: `stored` and `readings` are all that any step took out.
    step: number of the last step. low_ns, high_ns: between these times steps of the pass that is under way, or was the
    last one, took documents out; those to come begin at low_ns or later. turn: number of that pass.
    marks: `MARK`, shape (attempts,). is_open: whether an attempt is under way, or was when its daemon ended.
    going: `_id`s of documents that are reduced and perhaps still there; void, shape (n,).
    again: `_id`s of documents that were reduced and may be there again, for late readings alone; void, shape (m,).
    spans: `STRETCH`, a row a run: between which triggers what was taken out lies.
    left: how many documents stayed, when it was reduced.
    """

    account: Decimated
    step: int = 0
    low_ns: int
    high_ns: int
    turn: int = 0
    marks: Array
    is_open: bool = False
    going: Array
    again: Array
    spans: Array
    left: int = 0

    @property
    def period(self) -> Period:
        """The period."""
        return self.account.period

    @property
    def key(self) -> str:
        """The `_id` of the document: whoever begins the same period finds that it is there."""
        return f"{self.period.group}:{self.period.name}:reduced"

    def without(self, again: Mapping[int, int]) -> Decimated:
        """The account without so many documents of each run, which are there again."""
        return replace(self.account, stored={run: n - again.get(run, 0) for run, n in self.account.stored.items()})

    def touched(self, since: "Reduced", start_ns: int, end_ns: int) -> bool:
        """Whether a step since an earlier look may have taken out documents of a stretch of time."""
        if self.step == since.step:
            return False
        return self.turn != since.turn or (since.low_ns < end_ns and self.high_ns > start_ns)


def by_run_of(ids: Array) -> Counter[int]:
    """How many `_id`s there are, by run."""
    runs = keys_of(ids)["run"]
    return Counter(dict(zip(*(each.tolist() for each in np.unique(runs, return_counts=True)), strict=True)))


def begun(period: Period, how: How, at_ns: int, layout: Layout) -> Reduced:
    """The account of a period of which nothing is reduced yet."""
    return Reduced(
        account=Decimated(period=period, how=how, begun_ns=at_ns),
        low_ns=period.start_ns,
        high_ns=period.start_ns,
        marks=np.empty(0, MARK),
        going=no_ids(layout),
        again=no_ids(layout),
        spans=np.empty(0, STRETCH),
    )


def whole_document(of: Reduced, owner: str) -> dict[str, Any]:
    """The document."""
    period = of.period
    return {
        "_id": of.key,
        "group": period.group,
        "name": period.name,
        "start_ns": Int64(period.start_ns),
        "end_ns": Int64(period.end_ns),
        "rule": str(of.account.how),
        "begun_ns": Int64(of.account.begun_ns),
        "owner": owner,
        **changing_fields(of),
    }


def changing_fields(of: Reduced) -> dict[str, Any]:
    """What of the document changes."""
    account = of.account
    return {
        "reduced_ns": _or_null(account.reduced_ns),
        "ended_ns": _or_null(account.ended_ns),
        "stored": [{"run": run, "count": Int64(count)} for run, count in account.stored.items()],
        **{name: Int64(getattr(account, name)) for name in NUMBERS},
        "step": of.step,
        "low_ns": Int64(of.low_ns),
        "high_ns": Int64(of.high_ns),
        "turn": of.turn,
        "marks": Binary(of.marks.tobytes()),
        "is_open": of.is_open,
        "going": Binary(of.going.tobytes()),
        "again": [Binary(of.again.tobytes())] if len(of.again) else [],
        "spans": Binary(of.spans.tobytes()),
        "left": Int64(of.left),
    }


def reduced_in(found: Mapping[str, Any], layout: Layout) -> Reduced:
    """Read the document.

    Raises:
        StoreError: it was reduced in a way that this triggerlog does not know.
    """
    try:
        how = how_of(found["rule"])
    except ValueError as error:
        raise StoreError(f"collection 'dropped': {error}; a newer triggerlog wrote it") from None
    period = Period(
        group=found["group"], name=found["name"], start_ns=int(found["start_ns"]), end_ns=int(found["end_ns"])
    )
    numbers: dict[str, Any] = {name: int(found[name]) for name in NUMBERS}
    account = Decimated(
        period=period,
        how=how,
        begun_ns=int(found["begun_ns"]),
        reduced_ns=_or_none(found["reduced_ns"]),
        ended_ns=_or_none(found["ended_ns"]),
        stored={int(each["run"]): int(each["count"]) for each in found["stored"]},
        **numbers,
    )
    return Reduced(
        account=account,
        step=int(found["step"]),
        low_ns=int(found["low_ns"]),
        high_ns=int(found["high_ns"]),
        turn=int(found["turn"]),
        marks=np.frombuffer(found["marks"], MARK),
        is_open=bool(found["is_open"]),
        going=ids_in([found["going"]], layout),
        again=np.unique(ids_in(found["again"], layout)),
        spans=np.frombuffer(found["spans"], STRETCH),
        left=int(found["left"]),
    )


def ids_in(parts: Iterable[bytes], layout: Layout) -> Array:
    """`_id`s that are stored together, part by part; void, shape (n,)."""
    none = no_ids(layout)
    return np.concatenate([none, *(np.frombuffer(part, none.dtype) for part in parts)])


def _or_null(value: int | None) -> Int64 | None:
    return None if value is None else Int64(value)


def _or_none(value: Any) -> int | None:
    return None if value is None else int(value)
