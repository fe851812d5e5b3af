"""Placing: readings whose trigger is too old for assembly to know it go where the database says.

A crate that was cut off for a minute, a journal that comes back, an epoch that is over: the run and the number are
known, and whether the trigger is there, and which instruments it lacks, is asked of the ledger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.pool import Pool, close_slots
from daemon.pipeline.assembly.progress import ONE_MOMENT_NS
from daemon.pipeline.assembly.window import are_wide, missing_in, note_late
from schemas.batch import Aside, ClosedBlock
from schemas.ledger import ledger_dtype
from schemas.readings import Array, InstrumentGroup, join
from schemas.sessions import NO_SESSIONS
from schemas.states import FOR_THE_DATABASE, AsideReason


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """What placing changed of a block.

    aside: so many readings that assembly had set aside are no longer that; doubtful: so many of these were doubtful.
    late: so many that were late are set aside now. doubles: so many readings were there already. triggers, readings: so
    many more the block has now.
    """

    aside: int = 0
    doubtful: int = 0
    late: int = 0
    doubles: int = 0
    triggers: int = 0
    readings: int = 0


TRIGGERS_AT_ONCE = 1024
"""Triggers asked for, and placed, in one transaction."""


def to_place(block: ClosedBlock) -> Array:
    """Which of the readings that a block sets aside can be placed: bool, shape (n,)."""
    if block.aside is None:
        return np.empty(0, bool)
    return np.asarray(np.isin(block.aside.reason, FOR_THE_DATABASE) & (block.aside.run > 0))


def set_aside_for_good(block: ClosedBlock) -> int:
    """How many readings a block sets aside that cannot be placed."""
    return int(np.count_nonzero(~to_place(block)))


def without(block: ClosedBlock, gone: Array) -> ClosedBlock:
    """The block without some of what it sets aside; gone: bool, shape (n,)."""
    return replace(block, aside=None if block.aside is None or gone.all() else block.aside[~gone])


def late_to_place(block: ClosedBlock) -> ClosedBlock:
    """The block with what came late as readings to be placed, and without its revised rows.

    Where the database has lost triggers that assembly remembers, what it says of them is not true any more. They come
    before what the block sets aside: assembly has put them into the places that others may be doubtful about.
    """
    if not len(block.revised):
        return block
    late = Aside.of(block.late, block.revised["run"][block.late_of], AsideReason.OLDER)
    aside = Aside.joined([late] if block.aside is None else [late, block.aside])
    return replace(block, aside=aside, late=block.late[:0], late_of=block.late_of[:0], revised=block.revised[:0])


def also_set_aside(block: ClosedBlock, readings: Array, reason: AsideReason) -> ClosedBlock:
    """The block with these set aside, too, for good."""
    return _also_aside(block, Aside.of(readings, 0, reason)) if len(readings) else block


def _also_aside(block: ClosedBlock, more: Aside) -> ClosedBlock:
    return replace(block, aside=Aside.joined([more] if block.aside is None else [block.aside, more]))


def place(
    group: InstrumentGroup, run: int, block: Array, rows: Array, now: Instant, *, belong: Array | None = None
) -> tuple[ClosedBlock, Array, Array]:
    """Put readings of one run into its triggers, as the database has them now.

    Args:
        group: theirs.
        run: theirs.
        block: record dtype, shape (n,).
        rows: the ledger rows of these triggers that are there, ascending; ledger dtype.
        now: what is late came by now.
        belong: of which readings it is known that they belong to their triggers; bool, shape (n,). None of none.

    Returns the block to commit; where a reading is already, by what the rows say: bool, shape (n,); and of which
    readings nothing proves that they belong there: bool, shape (n,). The epoch does, or else the time of a trigger that
    is there.
    """
    at, known = _rows_of(rows, block)
    odd = np.where(known, False, block["epoch"] == 0)
    odd[known] = ~_belong(rows, at[known], block[known])
    if belong is not None:
        odd &= ~belong
    new, known = np.flatnonzero(~known & ~odd), np.flatnonzero(known & ~odd)
    readings, present, ledger, taken = _new_triggers(group, run, block[new], now)
    revised = rows.copy()
    at = at[known]
    late = note_late(revised, at, block[known], now.utc_ns)
    changed, late_of = np.unique(at[late], return_inverse=True)
    closed = ClosedBlock(
        readings=readings,
        present=present,
        ledger=ledger,
        late=block[known[late]],
        late_of=late_of.astype(np.intp),
        revised=revised[changed],
        sessions=NO_SESSIONS,
    )
    double = np.zeros(len(block), bool)
    double[new[~taken]] = double[known[~late]] = True
    return closed, double, odd


def are_dropped(rows: Array, block: Array, have: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Which readings are of a period that was dropped, and which of these the ledger has: bool, shape (n,).

    rows: as in `place`. have: which times are of such a period. It is their trigger's time that counts, where it is
    known.
    """
    at, known = _rows_of(rows, block)
    times = block["time_ns"].copy()
    times[known] = rows["time_ns"][at[known]]
    gone = have(times)
    there = gone & known
    there[there] = ~missing_in(rows, at[there], block[there])
    return gone, there


def are_vague(rows: Array, block: Array) -> Array:
    """Of which readings only the time says that they belong to their ledger rows, and not clearly: bool, shape (n,).

    The readings of the trigger lie a moment or more apart, by a wrong clock or of two runs.
    """
    at, vague = _rows_of(rows, block)
    at = at[vague]
    vague[vague] = ~_same_epoch(rows, at, block[vague]) & are_wide(rows, at)
    return vague


def readings_of_run(block: ClosedBlock, run: int) -> Array:
    """The readings that a block has for triggers of a run, late ones too: record dtype, shape (n,)."""
    own = block.readings[block.present & (block.ledger["run"] == run)[:, None]]
    return join([own, block.late[block.revised["run"][block.late_of] == run]])


def comparable(readings: Array, record: np.dtype[Any]) -> Array:
    """Readings of one run, as a store gives them back or as they came, so that the same ones are the same bytes.

    A store keeps no epoch with them, and perhaps neither the sign of a zero nor the bits of a NaN. readings: a dtype
    with the fields of the record dtype but for the epoch, shape (n,). Returns record dtype, shape (n,).
    """
    out = np.zeros(len(readings), record)
    for name in record.names or ():
        if name == "epoch":
            continue
        values = out[name]
        values[:] = readings[name]
        if values.dtype.kind == "f":
            values[np.isnan(values)] = np.nan
            values[values == 0] = 0.0
    return out


def with_counts(block: ClosedBlock, rows: Array, duplicates: Array) -> ClosedBlock:
    """All that is placed of one run, with doubles in its revised rows, and with those that change by nothing else.

    rows: of triggers that are there, as in `place`. duplicates: of each, int64, shape (rows,); -1 where nothing is
    known but what the row says.
    """
    newest = rows.copy()
    newest[np.searchsorted(rows["trigger"], block.revised["trigger"])] = block.revised
    is_revised = np.isin(rows["trigger"], block.revised["trigger"])
    counted = newest.copy()
    counted["duplicates"] = np.maximum(newest["duplicates"], duplicates)
    chosen = is_revised | (counted != newest)
    index = np.cumsum(chosen) - 1
    late_of = index[np.searchsorted(rows["trigger"], block.revised["trigger"])[block.late_of]]
    return replace(block, revised=counted[chosen], late_of=late_of.astype(np.intp))


def with_letters(rows: Array, run: int, letters: Sequence[ClosedBlock], now: Instant) -> Array:
    """Ledger rows of a run as they will be when dead letters are committed: with those that these close.

    What their revised rows say of other readings is not true where the database has lost those. rows: of the database,
    ascending; letters: in the order in which they were kept.
    """
    closed = np.concatenate([rows[:0], *(block.ledger[block.ledger["run"] == run] for block in letters)])
    every = np.concatenate([rows, closed])
    # Of a trigger that is closed twice the database takes the first, and rejects the others.
    every = every[np.unique(every["trigger"], return_index=True)[1]]
    for block in letters:
        late = block.late[block.revised["run"][block.late_of] == run]
        late = late[np.isin(late["trigger"], every["trigger"])]
        note_late(every, np.searchsorted(every["trigger"], late["trigger"]), late, now.utc_ns)
    return every


def with_rows_of(blocks: Sequence[ClosedBlock], run: int, triggers: Array, rows: Array) -> Array:
    """Ledger rows of the database, ascending, with those in their place that blocks have of these triggers of a run."""
    own = np.concatenate([rows[:0], *(part for block in blocks for part in (block.ledger, block.revised))])
    own = own[(own["run"] == run) & np.isin(own["trigger"], triggers)]
    if not len(own):
        return rows
    both = np.concatenate([rows, own])[::-1]
    newest: Array = both[np.unique(both["trigger"], return_index=True)[1]]
    return newest


def _rows_of(rows: Array, block: Array) -> tuple[Array, Array]:
    """The ledger row of each reading's trigger, intp, and whether there is one, bool; both of shape (n,)."""
    at = np.searchsorted(rows["trigger"], block["trigger"])
    if not len(rows):
        return at, np.zeros(len(block), bool)
    return at, np.asarray(rows["trigger"][np.minimum(at, len(rows) - 1)] == block["trigger"])


def _same_epoch(rows: Array, at: Array, block: Array) -> Array:
    return np.asarray((block["epoch"] != 0) & (block["epoch"] == rows["epoch"][at]))


def _belong(rows: Array, at: Array, block: Array) -> Array:
    """Of which readings it is proven that they belong to these ledger rows: bool, shape (n,); at: the row of each."""
    is_missing = missing_in(rows, at, block)
    row, times = rows[at], block["time_ns"]
    no_epoch = (block["epoch"] == 0) | (row["epoch"] == 0)
    near = np.abs(times - row["time_ns"]) < ONE_MOMENT_NS
    within = (times >= row["first_ns"]) & (times <= row["last_ns"])
    return np.asarray(_same_epoch(rows, at, block) | (no_epoch & np.where(is_missing, near, within)))


def _new_triggers(group: InstrumentGroup, run: int, block: Array, now: Instant) -> tuple[Array, Array, Array, Array]:
    """Triggers of numbers that were skipped: readings, presence, ledger rows, and which readings are in them."""
    triggers, slot_of = np.unique(block["trigger"], return_inverse=True)
    if not len(triggers):
        size = group.size
        nothing = np.empty((0, size), group.record), np.empty((0, size), bool), np.empty(0, ledger_dtype(size))
        return *nothing, np.empty(0, bool)
    pool = Pool(group, len(triggers))
    pool.missing_slots(len(triggers))  # it grows to have them
    slots = pool.take(run, triggers, now.utc_ns, now.monotonic_ns)
    taken, _ = pool.scatter(slots[slot_of], block)
    pool.last_received[slots] = now.utc_ns
    readings, present, ledger = close_slots(pool, slots, now)
    first_of_trigger = np.searchsorted(slot_of[order := np.argsort(slot_of, kind="stable")], np.arange(len(triggers)))
    ledger["epoch"] = block["epoch"][order[first_of_trigger]]
    return readings, present, ledger, taken
