"""The report of a simulation: what it sent, and what the daemon acknowledged."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backends.files import whole_file
from daemon.tools.simulate.account import TriggerAccount


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
