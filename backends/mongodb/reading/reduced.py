"""What was reduced: which figures are valid, and answers across them and the readings that are there.

There is no snapshot over several documents on a server of its own. So the account is read before and after: where a
step of reducing came in between, what it may have changed is asked for again. A pass goes on in order of time, and
what lies behind it is little: of a stretch that it is going through, the readings are read from the end to the begin,
until the two have met.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from bson import Binary

from backends.base import StoreBusy
from backends.columns.stored import slack
from backends.columns.windows import between
from backends.decimation.across import Stretch, in_steps, parts_of
from backends.decimation.answers import figures_across, means_across
from backends.decimation.figures import figures_of, together
from backends.mongodb.accounts import account_of
from backends.mongodb.protocol.documents import USER_DEFINED, figure_id_dtype
from backends.mongodb.protocol.formats import data_format, decode_reduced, no_ids, reduced_format
from backends.mongodb.reading import documents
from backends.mongodb.reading.group import CHUNK_BYTES, GroupReader
from backends.mongodb.reduced import Reduced
from schemas.batch import Layout
from schemas.decimation import reduced_dtype
from schemas.queries import Figures, Means, WindowReadings
from schemas.readings import Array
from schemas.retention import Span

LEAST_NS, MOST_NS = -(2**63), 2**63 - 1
FIGURES_AT_ONCE = 50_000
"""About so many figures are asked for at once."""
WITHOUT_INDEX = 20
"""So many times as many of a server that uses no index: it reads all that there is for each question."""
PIECES = 8
"""In so many pieces the readings of such a part are read."""
APART_NS = 2 * 3_600_000_000_000
"""Buckets that are further from each other are asked for apart; none is longer than an hour."""
LOOKS = 40
"""So often a part is asked for again at most."""
AGAIN_S = 0.05
"""So long it is waited before that."""

Account = Mapping[str, Reduced]


async def reduced(group: GroupReader, start_ns: int, end_ns: int, instrument: int | None = None) -> Array:
    """Figures of buckets with start_ns <= begin < end_ns: `reduced_dtype(group)`, by time and instrument.

    Raises:
        StoreBusy: one step of reducing came after the other.
    """
    for _ in range(LOOKS):
        before = await _account(group)
        found = await _figures_between(group, before.values(), start_ns, end_ns, instrument)
        if _steps(before) == _steps(await _account(group)):
            return found
        await asyncio.sleep(AGAIN_S)
    raise _always_reduced(group)


async def answer(group: GroupReader, query: Means | Figures, raw: Callable[[Means], Awaitable[Array]]) -> Array:
    """Answer `Means` or `Figures`. raw: answers means of the readings that are there.

    Raises:
        StoreBusy: one step of reducing came after the other.
    """
    instrument = query.instrument if isinstance(query, Figures) else None
    times = query.start_ns, query.end_ns
    for _ in range(LOOKS):
        before = await _account(group, *times)
        known = [each.account for each in before.values()]

        async def of_stretch(stretch: Stretch) -> Array:
            return await _Stretched(group, stretch, instrument).figures()

        if isinstance(query, Figures):
            found = await figures_across(query, known, of_stretch=of_stretch)
        else:
            found = await means_across(query, known, group.of.layout, raw=raw, of_stretch=of_stretch)
        # Of a period that was begun since, the readings were asked for alone.
        if before.keys() == (await _account(group, *times)).keys():
            return found
    raise _always_reduced(group)


async def known_of(group: GroupReader, account: Reduced, figures: Array) -> tuple[Array, list[Binary]]:
    """What an account has of the buckets and instruments of some figures: valid figures, and `_id`s of all of them."""
    if not len(account.marks):
        return np.empty(0, reduced_dtype(group.of.group)), []
    times = np.unique(figures["time_ns"])
    # A reading of an array has a bucket by its own clock: what is between it and the others may be years of figures.
    near = np.split(times, np.flatnonzero(times[1:] > times[:-1] + APART_NS) + 1)
    found = np.concatenate([await _documents(group, int(each[0]), int(each[-1]) + 1) for each in near])
    there = decode_of(group, found)
    keys = ["time_ns", "instrument"]
    mine = np.isin(there[keys], figures[keys]) & np.isin(_ids(group, found)["mark"], account.marks["mark"])
    found = found[mine]
    ids = reduced_format(group.of.group).columns(found)["_id"]
    valid = found[_valid(_ids(group, found), [account])]
    return decode_of(group, valid), [Binary(each.tobytes(), USER_DEFINED) for each in ids]


# --- figures ---------------------------------------------------------------------------------------------------------


async def _figures_between(
    group: GroupReader, account: Iterable[Reduced], start_ns: int, end_ns: int, instrument: int | None
) -> Array:
    found = await _documents(group, start_ns, end_ns, instrument)
    valid = found[_valid(_ids(group, found), account)]
    # Two periods may have some of one bucket: arrays lie by the time of their trigger.
    return together([decode_of(group, valid)], group.of.group)


async def _documents(group: GroupReader, start_ns: int, end_ns: int, instrument: int | None = None) -> Array:
    form, wanted = reduced_format(group.of.group), documents.figures_of_time(start_ns, end_ns, instrument)
    return form.parse(await documents.found(group.database.get_collection(group.of.reduced), wanted, form))


def decode_of(group: GroupReader, found: Array) -> Array:
    """Figures of documents: `reduced_dtype(group)`, in their order."""
    return decode_reduced(found, group.of.group)


def _ids(group: GroupReader, found: Array) -> Array:
    columns = reduced_format(group.of.group).columns(found)
    return np.ascontiguousarray(columns["_id"]).view(figure_id_dtype())


def _valid(ids: Array, account: Iterable[Reduced]) -> Array:
    """Which figures are valid: of an account's instrument and bucket those of its last step; intp, by account."""
    marks = [(mark, last, number) for number, each in enumerate(account) for mark, last in each.marks.tolist()]
    if not marks or not len(ids):
        return np.empty(0, np.intp)
    known = np.array(sorted(marks), np.dtype([("mark", "<i8"), ("last", "<i8"), ("number", "<i8")]))
    mine = ids["mark"].astype(np.int64)
    at = np.minimum(np.searchsorted(known["mark"], mine), len(known) - 1)
    counts = np.flatnonzero((known["mark"][at] == mine) & (ids["step"] <= known["last"][at]))
    if not len(counts):
        return counts
    keys = known["number"][at][counts], *(ids[name][counts].astype(np.uint64) for name in ("time", "instrument"))
    order = np.lexsort((ids["step"][counts], keys[2], keys[1], keys[0]))
    differs = np.zeros(len(order), bool)
    differs[-1] = True
    for key in keys:
        differs[:-1] |= key[order][1:] != key[order][:-1]
    return counts[order[differs]]


# --- stretches -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _Piece:
    """The readings of a piece of a stretch, as they were at a look at the account: start_ns <= time_ns < end_ns.

    figures: `reduced_dtype(group)`, in the steps of the answer.
    """

    start_ns: int
    end_ns: int
    seen: Account
    figures: Array

    def is_as_before(self, now: Account, layout: Layout) -> bool:
        """Whether no step since may have taken out any of them."""
        times = slack(self.start_ns, self.end_ns) if layout is Layout.ARRAYS else (self.start_ns, self.end_ns)
        return all(key in self.seen and not each.touched(self.seen[key], *times) for key, each in now.items())


class _Stretched:
    """Asks for the figures of a stretch in its steps, of all its readings, or of those of one instrument."""

    def __init__(self, group: GroupReader, stretch: Stretch, instrument: int | None) -> None:
        self._group = group
        self._of = group.of.group
        self._stretch = stretch
        self._instrument = instrument

    async def figures(self) -> Array:
        """All of it: `reduced_dtype(group)`, by time and instrument."""
        at_once = FIGURES_AT_ONCE * (1 if self._group.server.uses_indexes else WITHOUT_INDEX)
        buckets = at_once // (self._of.size if self._instrument is None else 1)
        parts = [await self._part(*ends) for ends in parts_of(self._stretch, buckets)]
        return await asyncio.to_thread(together, parts, self._of)

    async def _part(self, start_ns: int, end_ns: int) -> Array:
        group = self._group
        # A server that uses no index reads all of its documents for each.
        wanted = [*_pieces(start_ns, end_ns, PIECES if group.server.uses_indexes else 1)]
        pieces: list[_Piece] = []
        now = await _account(group, start_ns, end_ns)
        for _ in range(LOOKS):
            for low, high in reversed(wanted):
                pieces.append(await self._piece(low, high, now))
                now = await _account(group, start_ns, end_ns)
            found = await _figures_between(group, now.values(), start_ns, end_ns, self._instrument)
            last, now = now, await _account(group, start_ns, end_ns)
            kept = [each for each in pieces if each.is_as_before(now, group.of.layout)]
            if _steps(last) == _steps(now) and len(kept) == len(pieces):
                steps = in_steps(found, self._of, self._stretch.step_ns)
                return together([steps, *(each.figures for each in pieces)], self._of)
            wanted = sorted((each.start_ns, each.end_ns) for each in pieces if each not in kept)
            pieces = kept
            await asyncio.sleep(AGAIN_S)
        raise _always_reduced(group)

    async def _piece(self, low: int, high: int, account: Account) -> _Piece:
        """Read a piece of the readings that are there and were not reduced."""
        group, of, layout = self._group, self._of, self._group.of.layout
        form = data_format(of, layout)
        window = WindowReadings(group=of, start_ns=low, end_ns=high)
        going = np.concatenate([no_ids(layout), *(each.going for each in account.values())])
        figures = np.empty(0, reduced_dtype(of))
        wanted, enough = documents.readings_in_window(window, layout, group.server), CHUNK_BYTES // form.width
        async with aclosing(documents.batches(group.data, wanted, form, enough=max(1, enough))) as batches:
            async for batch in batches:
                readings = between(group.decoded(batch, going), low, high)
                if self._instrument is not None:
                    readings = readings[readings["instrument"] == self._instrument]
                figures = together([figures, figures_of(readings, of, self._stretch.step_ns)], of)
        return _Piece(start_ns=low, end_ns=high, seen=account, figures=figures)


def _pieces(start_ns: int, end_ns: int, count: int) -> Iterator[tuple[int, int]]:
    ends = [start_ns + (end_ns - start_ns) * k // count for k in range(count + 1)]
    return ((low, high) for low, high in pairwise(ends) if low < high)


async def _account(group: GroupReader, start_ns: int = LEAST_NS, end_ns: int = MOST_NS) -> Account:
    """The accounts of periods that may have readings of a stretch of time: of years there are thousands."""
    layout = group.of.layout
    if layout is Layout.ARRAYS:
        start_ns, end_ns = slack(start_ns, end_ns)
    within = Span(start_ns=start_ns, end_ns=end_ns)
    return (await account_of(group.database, group.of.data, layout, within)).figures()


def _steps(account: Account) -> dict[str, tuple[int, int]]:
    return {key: (each.step, each.turn) for key, each in account.items()}


def _always_reduced(group: GroupReader) -> StoreBusy:
    return StoreBusy(f"readings of group {group.of.data!r} of that time are being reduced; ask again")
