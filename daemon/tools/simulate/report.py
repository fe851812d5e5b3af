"""The exact account of what a simulation sent, and the report of what the daemon acknowledged."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.files import whole_file
from daemon.tools.simulate.plan import Numbering
from schemas.ledger import bitmap_bytes, pack_missing
from schemas.readings import Array


@dataclass(frozen=True, kw_only=True)
class TriggerAccount:
    """A row a trigger, in the order they were sent.

    run: int64, 0 for the first run; trigger: int64; sent: int64, sendings that carried this trigger's number, copies
    too; distinct: int64, instruments among them; missing: uint8 of shape (triggers, bytes), the bitmap of a ledger row.
    """

    run: Array
    trigger: Array
    sent: Array
    distinct: Array
    missing: Array


class Account:
    """Counts what is handed over. Rows settle into bitmaps, or into sums when the rows are not wanted."""

    def __init__(self, instruments: int, *, keep: bool) -> None:
        self._instruments = instruments
        self._keep = keep
        self._base = 0
        self._present = np.zeros((256, instruments), bool)
        self._sent = np.zeros(256, np.int64)
        self._settled: list[tuple[Array, Array, Array]] = []
        self._behind: dict[int, int] = {}  # sendings for settled triggers: of an instrument that is stuck
        self._settled_distinct = 0
        self.triggers = 0
        self.sent = 0

    @property
    def distinct(self) -> int:
        """Different (trigger, instrument) sent."""
        return self._settled_distinct + int(np.count_nonzero(self._present))

    def add(self, target: Array, instrument: Array) -> None:
        """Readings of these trigger indexes and instruments were handed over."""
        self.sent += len(target)
        behind = target < self._base
        if behind.any():
            for index in target[behind].tolist():
                self._behind[index] = self._behind.get(index, 0) + 1
            target, instrument = target[~behind], instrument[~behind]
        if len(target):
            self._reach(int(target.max()) + 1)
            self._present[target - self._base, instrument] = True
            self._sent += np.bincount(target - self._base, minlength=len(self._sent))

    def add_whole(self, start: int, stop: int) -> None:
        """Every instrument's reading was handed over once for the triggers start ... stop - 1."""
        self._reach(stop)
        self.sent += (stop - start) * self._instruments
        self._present[start - self._base : stop - self._base] = True
        self._sent[start - self._base : stop - self._base] += self._instruments

    def settle(self, before: int) -> None:
        """Nothing more comes for triggers with an index below this, but from an instrument that is stuck."""
        rows = min(before, self.triggers) - self._base
        if rows <= 0:
            return
        present, sent = self._present[:rows], self._sent[:rows]
        distinct = np.count_nonzero(present, axis=1)
        self._settled_distinct += int(distinct.sum())
        if self._keep:
            self._settled.append((sent.copy(), distinct, pack_missing(present)))
        self._base += rows
        left = self.triggers - self._base
        for array in (self._present, self._sent):
            array[:left] = array[rows : rows + left].copy()
            array[left : left + rows] = 0

    def rows(self, numbering: Numbering) -> TriggerAccount:
        """The whole account; settles everything."""
        self.settle(self.triggers)
        empty = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, bitmap_bytes(self._instruments)), np.uint8))
        sent, distinct, missing = (np.concatenate(parts) for parts in zip(empty, *self._settled, strict=True))
        for behind, times in self._behind.items():
            sent[behind] += times
        index = np.arange(len(sent))
        return TriggerAccount(
            run=numbering.run(index), trigger=numbering.trigger(index), sent=sent, distinct=distinct, missing=missing
        )

    def _reach(self, stop: int) -> None:
        self.triggers = max(self.triggers, stop)
        wanted = self.triggers - self._base
        if wanted > len(self._sent):
            more = max(wanted, 2 * len(self._sent)) - len(self._sent)
            self._sent = np.concatenate([self._sent, np.zeros(more, np.int64)])
            self._present = np.concatenate([self._present, np.zeros((more, self._instruments), bool)])


@dataclass(frozen=True, kw_only=True)
class GroupReport:
    """One group. All counts are readings unless they say something else.

    expected: triggers times instruments. sent: handed over, copies too; sent again after a reconnect counts once.
    distinct: different (trigger, instrument). missing: expected less distinct. duplicated: sent less distinct; of
    these `stuck` carry the number of a trigger long past. slipped: sent with a number that is off.
    late, out_of_order: sent that way.
    acknowledged, refused: by the daemon, refused among the acknowledged; None over UDP.
    sent_again: sent once more after a reconnect. elapsed_s: the time triggers went on;
    late readings may follow.
    """

    group: str
    instruments: int
    connections: int
    triggers: int
    expected: int
    sent: int
    distinct: int
    missing: int
    duplicated: int
    late: int
    out_of_order: int
    stuck: int
    slipped: int
    acknowledged: int | None
    refused: int | None
    reconnects: int
    sent_again: int
    elapsed_s: float
    triggers_a_second: float
    readings_a_second: float

    @property
    def settled(self) -> bool:
        """Whether everything sent is acknowledged; over UDP there are no acknowledgements."""
        return self.acknowledged is None or self.acknowledged == self.sent


@dataclass(frozen=True, kw_only=True)
class SimulateReport:
    """All groups; what went wrong with the connections; the exact account by group, if it was asked for."""

    protocol: str
    groups: tuple[GroupReport, ...]
    problems: tuple[str, ...]
    accounts: dict[str, TriggerAccount]

    @property
    def settled(self) -> bool:
        """Whether everything sent is acknowledged."""
        return all(group.settled for group in self.groups)

    def to_json(self) -> str:
        """The counts as JSON; the accounts go to a file of their own."""
        body: dict[str, Any] = asdict(replace(self, accounts={}))
        del body["accounts"]
        return json.dumps({**body, "settled": self.settled}, indent=2)

    def render(self) -> str:
        """The counts as lines for a terminal."""
        lines = [line for group in self.groups for line in _lines(group)]
        return "\n".join([*lines, *(f"connection problem: {problem}" for problem in self.problems)])

    def save_account(self, path: Path) -> None:
        """Write the account as .npz: arrays `<group>.run`, `.trigger`, `.sent`, `.distinct`, `.missing`."""
        arrays = {
            f"{group}.{name}": getattr(account, name)
            for group, account in self.accounts.items()
            for name in ("run", "trigger", "sent", "distinct", "missing")
        }
        with whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **arrays)


def _lines(group: GroupReport) -> list[str]:
    rows: list[tuple[str, int | None, str]] = [
        ("triggers", group.triggers, f"{group.triggers_a_second:,.1f} a second for {group.elapsed_s:,.1f} s"),
        ("sent", group.sent, f"{group.readings_a_second:,.0f} readings a second"),
        ("distinct", group.distinct, f"of {group.expected:,} expected"),
        ("missing", group.missing, "not sent"),
        ("duplicated", group.duplicated, f"of these stuck: {group.stuck:,}" if group.stuck else ""),
        *([("slipped", group.slipped, "with the number of another trigger")] if group.slipped else []),
        ("late", group.late, ""),
        ("out of order", group.out_of_order, ""),
        ("acknowledged", group.acknowledged, "" if group.settled else f"{_left(group):,} NOT acknowledged"),
        ("refused", group.refused, ""),
    ]
    if group.reconnects:
        rows.append(("reconnects", group.reconnects, f"{group.sent_again:,} readings sent again"))
    head = f"{group.group}: {group.instruments:,} instruments over {group.connections:,} connections"
    return [
        head,
        *(f"  {name:<13}{'-' if count is None else f'{count:,}':>14}  {note}".rstrip() for name, count, note in rows),
    ]


def _left(group: GroupReport) -> int:
    return group.sent - (group.acknowledged or 0)
