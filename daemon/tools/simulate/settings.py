"""The settings of a simulation."""

import math
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas.readings import InstrumentGroup
from schemas.wire import DATAGRAM_MAX, Ack

VIRTUAL_RATE = 10_000.0
"""Triggers a second of the readings' own clock when they are sent as fast as possible."""


class SettingsError(ValueError):
    """A setting cannot be used.

    setting: its name, a field of `SimulateSettings`. fix: what to give instead, one line.
    """

    def __init__(self, setting: str, fix: str) -> None:
        super().__init__(f"{setting}: {fix}")
        self.setting = setting
        self.fix = fix


@dataclass(frozen=True, kw_only=True)
class Step:
    """From `from_s` seconds on, by the triggers' times, something of an instrument is off by `size`."""

    instrument: int
    size: float
    from_s: float

    @classmethod
    def parse(cls, text: str, name: str) -> "Step":
        """Read INSTRUMENT:SIZE@SECONDS, e.g. `7:-1@5`. Raises SettingsError, which calls it `name`."""
        found = re.fullmatch(r"(\d+):([+-]?\d+(?:\.\d+)?)@(\d+(?:\.\d+)?)", text)
        _check(found is not None, name, f"instrument:size@seconds, like 7:-1@5 (this is {text!r})")
        assert found is not None
        return cls(instrument=int(found[1]), size=float(found[2]), from_s=float(found[3]))


@dataclass(frozen=True, kw_only=True)
class SimulateSettings:
    """What is sent, where to, and what goes wrong with it. Raises SettingsError.

    host, port, protocol: the daemon's source. ack: what it shall acknowledge over TCP. sessions: whether senders go on
        after a loss of their connection, in a session.
    groups: names of the groups; over TCP the daemon says how many instruments each has and how its records look.
    layouts: the groups themselves, which UDP needs because the daemon does not answer there.
    rate: triggers a second; 0 is as fast as possible.
    triggers, duration_s: where to end, whichever comes first; without both at Ctrl-C.
    connections: how many a group; the instruments are dealt out over them. `each`: one an instrument.
    jitter_ms: every reading is sent up to this much after its trigger.
    missing, late, duplicated, out_of_order: fractions of the readings that are not sent, sent `late_by_ms` after their
        trigger, sent twice, swapped with the next one of their connection.
    stuck, stuck_from: instrument number whose trigger number stays what it was at the trigger with this index.
    slips: the trigger numbers of an instrument are off by `size`, a whole number, from then on; ahead if positive.
    clock_steps: the timestamps of an instrument are off by `size` ms from then on.
    first_trigger: number of the first trigger. epoch: of the timing system; 0 is unknown.
    restart_after: after so many triggers, again and again, the numbers start from 1, after a pause of restart_pause_ms.
    seed: same seed, same readings, same faults.
    account: file (.npz) for the exact account of what was sent.
    buffer_mib: what may wait for its acknowledgement on the one connection; a sixteenth of it on each of several.
    finish_timeout_s: how long to wait for the last acknowledgements.
    tls: for a TCP source with a certificate; None is plain TCP.
    datagram_bytes: size of a datagram at most; 1472 fits an Ethernet frame.
    """

    host: str = "127.0.0.1"
    port: int = 8122
    protocol: Literal["tcp", "udp"] = "tcp"
    ack: Ack = Ack.COMMITTED
    sessions: bool = True
    groups: tuple[str, ...] = ("bpm",)
    layouts: tuple[InstrumentGroup, ...] = ()
    rate: float = 100.0
    triggers: int | None = None
    duration_s: float | None = None
    connections: int | Literal["each"] = 1
    jitter_ms: float = 0.0
    missing: float = 0.0
    late: float = 0.0
    late_by_ms: float = 1000.0
    duplicated: float = 0.0
    out_of_order: float = 0.0
    stuck: int | None = None
    stuck_from: int = 0
    slips: tuple[Step, ...] = ()
    clock_steps: tuple[Step, ...] = ()
    first_trigger: int = 1
    epoch: int = 0
    restart_after: int | None = None
    restart_pause_ms: float = 0.0
    seed: int = 1
    account: Path | None = None
    buffer_mib: float = 64.0
    finish_timeout_s: float = 60.0
    datagram_bytes: int = 1472
    sender: str = "simulate"
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        for name in ("missing", "late", "duplicated", "out_of_order"):
            _check(0 <= getattr(self, name) <= 1, name, "a fraction from 0 to 1")
        for name in ("rate", "jitter_ms", "late_by_ms", "restart_pause_ms", "first_trigger", "stuck_from", "seed"):
            _check(0 <= getattr(self, name) < math.inf, name, "0 or more")
        _check(0 <= self.epoch < 2**31, "epoch", "0 (unknown) to 2147483647")
        for name in ("triggers", "restart_after"):
            value = getattr(self, name)
            _check(value is None or value >= 1, name, "1 or more, or nothing")
        _check(self.duration_s is None or self.duration_s > 0, "duration_s", "more than 0 seconds")
        _check(self.buffer_mib > 0, "buffer_mib", "more than 0")
        _check(self.stuck is None or self.stuck >= 0, "stuck", "the number of an instrument, from 0")
        for slip in self.slips:
            _check(slip.size == int(slip.size), "slips", "a whole number of triggers, like 7:-1@5")
            begins = math.ceil(slip.from_s * 1e9 / self.period_ns)
            _check(begins + slip.size >= 0, "slips", "a later start: there is no trigger so far back yet")
        _check(not self.slips or self.restart_after is None, "slips", "either a slip or a restart of the numbers")
        _check(self.connections == "each" or self.connections >= 1, "connections", "1 or more, or `each`")
        _check(self.protocol in ("tcp", "udp"), "protocol", "tcp or udp")
        _check(
            len(self.groups) > 0 and len(set(self.groups)) == len(self.groups),
            "groups",
            "different names, at least one",
        )
        _check(256 <= self.datagram_bytes <= DATAGRAM_MAX, "datagram_bytes", f"256 to {DATAGRAM_MAX}")
        known = {group.name for group in self.layouts}
        if self.protocol == "udp":
            _check(
                set(self.groups) <= known,
                "layouts",
                "the groups as configured: over UDP the daemon does not send their layout",
            )

    @property
    def period_ns(self) -> float:
        """Time between two triggers on the readings' own clock, in ns."""
        return 1e9 / (self.rate or VIRTUAL_RATE)

    @property
    def instruments(self) -> int:
        """How many instruments a group must have for all that are named here; 0 when none is."""
        named = [step.instrument for step in (*self.slips, *self.clock_steps)]
        return max([*named, -1 if self.stuck is None else self.stuck]) + 1

    def setting_of(self, instrument: int) -> str:
        """Name a setting that names this instrument."""
        if self.stuck == instrument:
            return "stuck"
        return "slips" if any(slip.instrument == instrument for slip in self.slips) else "clock_steps"

    @property
    def regular(self) -> bool:
        """Whether every reading is sent once, in order and in time."""
        faults = (self.jitter_ms, self.missing, self.late, self.duplicated, self.out_of_order)
        return self.stuck is None and not any(faults) and not self.slips and not self.clock_steps

    @property
    def end(self) -> int | None:
        """How many triggers there are to be; None when only the clock or the operator ends it."""
        by_clock = math.ceil(self.rate * self.duration_s) if self.rate and self.duration_s else None
        ends = [end for end in (self.triggers, by_clock) if end is not None]
        return min(ends, default=None)


def _check(fits: bool, setting: str, wanted: str) -> None:
    if not fits:
        raise SettingsError(setting, f"give {wanted}")
