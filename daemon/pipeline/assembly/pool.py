"""The pool: slots that hold the readings of open triggers, and the ledger rows of those that close."""

import numpy as np

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly.progress import ONE_MOMENT_NS
from daemon.pipeline.assembly.window import first_of_each
from schemas.ledger import ledger_dtype, pack_missing
from schemas.readings import Array, InstrumentGroup, field_bits, words

FREE = np.iinfo(np.int64).max
FIRST_SLOTS = 64
_TIME_WORD = 1
"""Where the timestamp lies in a record, in words of 8 bytes (see `schemas.readings.HEADER`)."""


class Pool:
    """Slots of one trigger each; the pool doubles as needed, up to `most`.

    trigger: int64 (slots,), FREE where no trigger is open. run: int32 (slots,), its run.
    present: bool (slots, instruments). arrived, duplicates: int32 (slots,), readings.
    opened: int64 (slots,), monotonic ns; FREE where no trigger is open.
    first_received, last_received: int64 (slots,), UTC ns.
    """

    def __init__(self, group: InstrumentGroup, most: int) -> None:
        self._record = group.record
        self._bits = field_bits(group.record)
        self._most = most
        self._instruments = group.size
        self._words = np.zeros((0, group.size, group.record.itemsize // 8), np.int64)
        self._stack: list[int] = []
        self.trigger = np.zeros(0, np.int64)
        self.run = np.zeros(0, np.int32)
        self.present = np.zeros((0, group.size), bool)
        self.arrived = np.zeros(0, np.int32)
        self.duplicates = np.zeros(0, np.int32)
        self.opened = np.zeros(0, np.int64)
        self.first_received = np.zeros(0, np.int64)
        self.last_received = np.zeros(0, np.int64)
        self._grow(min(FIRST_SLOTS, most))

    @property
    def open(self) -> int:
        """How many triggers are open."""
        return len(self.trigger) - len(self._stack)

    def missing_slots(self, wanted: int) -> int:
        """Grow to have `wanted` free slots; return how many are missing even so."""
        size = len(self.trigger)
        if wanted > len(self._stack) and size < self._most:
            self._grow(min(self._most, max(2 * size, size + wanted - len(self._stack))))
        return max(0, wanted - len(self._stack))

    def take(self, run: int, triggers: Array, utc_ns: int, monotonic_ns: int) -> Array:
        """Give each of these triggers of a run a free slot: intp, shape (n,)."""
        taken = self._stack[len(self._stack) - len(triggers) :]
        del self._stack[len(self._stack) - len(triggers) :]
        slots = np.array(taken, np.intp)
        self.trigger[slots] = triggers
        self.run[slots] = run
        self.opened[slots] = monotonic_ns
        self.first_received[slots] = utc_ns
        return slots

    def scatter(self, slots: Array, block: Array) -> tuple[Array, Array]:
        """Put readings into their slots.

        Returns which were taken, bool, shape (n,) (of the others there was one before), and the slots touched, intp,
        ascending.
        """
        key = slots * np.int64(self._instruments) + block["instrument"]
        touched = np.flatnonzero(np.bincount(slots))
        present = self.present.reshape(-1)
        before = int(self.arrived[touched].sum())
        taken = ~present[key]
        present[key] = True
        # Instruments that came twice within this block fill fewer places than they have readings.
        self.arrived[touched] = np.count_nonzero(self.present[touched], axis=1)
        if int(self.arrived[touched].sum()) - before < len(key):
            taken &= first_of_each(key)
            key, block = key[taken], block[taken]
        rows = self._words.reshape(-1, self._words.shape[2])
        rows[key] = words(block)
        return taken, touched

    def is_same(self, slots: Array, block: Array) -> Array:
        """Which readings are those that their slots have of their instruments, by the time: bool, shape (n,)."""
        return np.asarray(self._words[slots, block["instrument"], _TIME_WORD] == block["time_ns"])

    def fit(self, slots: Array, block: Array) -> Array:
        """Return which readings their slots have, or lack and have another within a moment of: bool, shape (n,)."""
        apart = np.abs(self._words[slots, :, _TIME_WORD] - block["time_ns"][:, None])
        is_near = ((apart < ONE_MOMENT_NS) & self.present[slots]).any(axis=1)
        return np.asarray(is_near & (~self.present[slots, block["instrument"]] | self.is_same(slots, block)))

    def is_copy(self, slots: Array, block: Array) -> Array:
        """Which readings their slots have of their instruments, bit for bit but for padding: bool, shape (n,)."""
        differ = (self._words[slots, block["instrument"]] ^ words(block)) & self._bits
        return np.asarray(~differ.any(axis=1))

    def release(self, slots: Array) -> tuple[Array, Array]:
        """Copy out the readings and presence of these slots and free them.

        Returns record dtype and bool, both of shape (len(slots), instruments).
        """
        readings = self._words[slots].view(self._record)[..., 0]
        present = self.present[slots]
        self.trigger[slots] = FREE
        self.opened[slots] = FREE
        self.present[slots] = False
        self.arrived[slots] = 0
        self.duplicates[slots] = 0
        self._stack.extend(slots.tolist())
        return readings, present

    def complete(self, slots: Array) -> Array:
        """Those of these slots in which every instrument is there."""
        full: Array = slots[self.arrived[slots] == self._instruments]
        return full

    def taken(self) -> Array:
        """The slots of all open triggers: intp, shape (open,)."""
        return np.flatnonzero(self.trigger != FREE)

    def oldest(self, count: int) -> Array:
        """The slots of the open triggers with the lowest runs and numbers: intp, shape (min(count, open),)."""
        slots = self.taken()
        return np.asarray(slots[np.lexsort((self.trigger[slots], self.run[slots]))][:count])

    def of_run(self, run: int) -> Array:
        """The slots of a run's open triggers: intp."""
        slots = self.taken()
        return np.asarray(slots[self.run[slots] == run])

    def heard_since(self, run: int, monotonic_ns: int) -> Array:
        """Return which instruments are in open triggers of a run that were opened since: bool, shape (instruments,)."""
        slots = self.of_run(run)
        return np.asarray(self.present[slots[self.opened[slots] >= monotonic_ns]].any(axis=0))

    def newest(self, run: int, most: int) -> tuple[Array, Array, Array]:
        """The `most` highest open triggers of a run: numbers, int64 (t,); times, presence (t, instruments)."""
        slots = self.of_run(run)
        slots = slots[np.argsort(self.trigger[slots])][-most:]
        times = self._words[slots, :, _TIME_WORD]
        return self.trigger[slots], times, self.present[slots]

    def _grow(self, size: int) -> None:
        more = size - len(self.trigger)
        self._stack.extend(range(size - 1, len(self.trigger) - 1, -1))
        self._words = np.concatenate([self._words, np.zeros((more, *self._words.shape[1:]), np.int64)])
        self.present = np.concatenate([self.present, np.zeros((more, self._instruments), bool)])
        self.trigger = np.pad(self.trigger, (0, more), constant_values=FREE)
        self.run = np.pad(self.run, (0, more))
        self.opened = np.pad(self.opened, (0, more), constant_values=FREE)
        self.arrived = np.pad(self.arrived, (0, more))
        self.duplicates = np.pad(self.duplicates, (0, more))
        self.first_received = np.pad(self.first_received, (0, more))
        self.last_received = np.pad(self.last_received, (0, more))


_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def close_slots(pool: Pool, slots: Array, now: Instant) -> tuple[Array, Array, Array]:
    """Free these slots of the pool and account for them; what only their run knows stays 0.

    Returns readings, record dtype (t, instruments); present, bool of that shape; ledger rows, ledger dtype (t,).
    """
    instruments = pool.present.shape[1]
    ledger = np.zeros(len(slots), ledger_dtype(instruments))
    ledger["run"] = pool.run[slots]
    ledger["trigger"] = pool.trigger[slots]
    ledger["first_received_ns"] = pool.first_received[slots]
    ledger["last_received_ns"] = pool.last_received[slots]
    ledger["closed_ns"] = now.utc_ns
    ledger["expected"] = instruments
    ledger["arrived"] = pool.arrived[slots]
    ledger["duplicates"] = pool.duplicates[slots]
    is_complete = bool((ledger["arrived"] == instruments).all())
    readings, present = pool.release(slots)
    if not is_complete:
        ledger["missing"] = pack_missing(present)
    _set_times(ledger, readings["time_ns"], present, is_complete=is_complete)
    return readings, present, ledger


def _set_times(ledger: Array, times: Array, present: Array, *, is_complete: bool) -> None:
    if is_complete:
        first, last = times.min(axis=1), times.max(axis=1)
    else:
        first = np.where(present, times, _LATEST).min(axis=1)
        last = np.where(present, times, _EARLIEST).max(axis=1)
    ledger["first_ns"], ledger["last_ns"] = first, last
    ledger["time_ns"] = first
    # One instrument with a wrong clock must not decide when the trigger was. As floats: garbage could overflow.
    for k in np.flatnonzero(last.astype(float) - first.astype(float) > ONE_MOMENT_NS):
        mine = np.sort(times[k][present[k]])
        ledger["time_ns"][k] = mine[len(mine) // 2]
