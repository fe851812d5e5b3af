"""A plan: all that a simulated run does, drawn beforehand from one seed, as plain data.

Network, disk, store, machine and daemon draw from streams of random numbers of their own, here and while the plan is
played, so that taking one event out leaves the others as they are.
"""

import dataclasses
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from tests.simulation.defects import PLACES

Value = int | float | str

RECEIVED = 0.3
"""Part of the senders that wait for `received`."""

DARK_FROM = 1_000_000
"""In the plans of seeds from here on daemons start, and die, while the database is away."""

ANNOUNCED_FROM = 50_001
"""In the mix of restarts, in the plans of odd seeds from here on, a restart is announced as daemons die around it."""

LEAVING_FROM = 100_000_000
"""In the plans of seeds from here on senders say goodbye, and others begin in their places."""


LETTERS_FROM = 200_000_000
"""In the plans of seeds from here on there are many dead letters, which are retried and discarded."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """What happens `at_s` seconds after the beginning. kind: a method of `world.Events`; settings: its arguments."""

    at_s: float
    kind: str
    settings: dict[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.at_s:.4f} s: {self.kind}({settings})"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What stays the same during a run.

    rate: triggers a second. epochs: whether readings carry the timing system's epoch. clocks_ms: how far the
    instruments' clocks are apart at most. missing: part of the readings that never come. crates: for each sender what
    it waits for (`committed`, `spooled`, `received`), and whether it has a session. in_parts: the database writes
    without transactions. risk_ms: how much an asynchronous database may lose; 0 is a synchronous one.
    """

    instruments: int
    crates: tuple[tuple[str, bool], ...]
    rate: float
    duration_s: float
    first_trigger: int
    epochs: bool
    clocks_ms: float
    missing: float
    timeout_ms: float
    window: int
    in_parts: bool
    risk_ms: float
    segment_bytes: int
    waiting_mib: float
    kept: float
    torn: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings and events of one run."""

    seed: int
    settings: Settings
    events: tuple[Event, ...]

    def without(self, indices: set[int]) -> Self:
        """The same plan without these events."""
        events = tuple(event for k, event in enumerate(self.events) if k not in indices)
        return dataclasses.replace(self, events=events)

    def stream(self, name: str) -> random.Random:
        """Random numbers for one purpose."""
        return random.Random(f"{self.seed} {name}")

    def to_json(self) -> str:
        """As text, to be committed."""
        tree = dataclasses.asdict(self)
        return json.dumps(tree, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        tree = json.loads(text)
        settings = tree["settings"] | {"crates": tuple((ack, session) for ack, session in tree["settings"]["crates"])}
        events = tuple(Event(**event) for event in tree["events"])
        return cls(seed=tree["seed"], settings=Settings(**settings), events=events)


RESTARTS = "restarts"
"""The mix of plans in which one instrument sends anything at all while the timing system restarts again and again, is
announced, and the daemon has defects."""

MIXES = ("all", RESTARTS)


@dataclass(frozen=True)
class Protocol:
    """What the senders of the plans to be drawn can do."""

    epochs: bool = True
    sessions: bool = True


def draw(seed: int, protocol: Protocol = Protocol(), *, mix: str = "all") -> Plan:
    """Draw a plan. mix: one of `MIXES`; that of a plan is not in it, its events are."""
    settings = _with_received(_settings(random.Random(f"{seed} settings"), protocol), random.Random(f"{seed} received"))
    if mix == RESTARTS:
        return _with_restarts(seed, settings)
    events = [
        *_drawn(seed, "daemon", settings, DAEMON, 4),
        *_drawn(seed, "network", settings, NETWORK, 5),
        *_drawn(seed, "disk", settings, DISK, 3),
        *_drawn(seed, "store", settings, STORE, 4),
        *_drawn(seed, "machine", settings, MACHINE, 4),
        *_drawn(seed, "at once", settings, AT_ONCE, 1),
        *(_dark(random.Random(f"{seed} dark"), settings) if seed >= DARK_FROM else ()),
        *(_drawn(seed, "leaving", settings, LEAVING, 4) if seed >= LEAVING_FROM else ()),
        *(_letters(random.Random(f"{seed} letters"), settings) if seed >= LETTERS_FROM else ()),
    ]
    return Plan(seed=seed, settings=settings, events=tuple(sorted(events, key=lambda event: event.at_s)))


def _with_restarts(seed: int, settings: Settings) -> Plan:
    rng = random.Random(f"{seed} restarts")
    if seed >= ANNOUNCED_FROM and seed % 2:
        return _with_announced(seed, settings)
    # One instrument is fewer than half of them, and a restart within the time-out leaves triggers open.
    settings = dataclasses.replace(settings, instruments=rng.randint(4, 8), timeout_ms=rng.choice((300.0, 500.0)))
    # On one host: hosts that have not seen each other's commits number the runs of odd epochs alike.
    others = {**DAEMON, **NETWORK, **DISK, **STORE, **MACHINE}
    del others["move"]
    events = [
        *_restarts(rng, settings),
        *_drawn(seed, "defects", settings, DEFECTS, 2),
        *_drawn(seed, "others", settings, others, 3),
    ]
    return Plan(seed=seed, settings=settings, events=tuple(sorted(events, key=lambda event: event.at_s)))


def _with_announced(seed: int, settings: Settings) -> Plan:
    """A restart that is announced while nothing is on its way, of senders without epochs, as daemons die around it."""
    rng = random.Random(f"{seed} announced")
    settings = dataclasses.replace(settings, epochs=False, duration_s=10.0)
    at_s, pause_s = rng.uniform(1.0, 3.0), rng.uniform(1.5, 2.5)
    announced_s = at_s + rng.uniform(0.5, 0.95) * pause_s
    first = {"first": rng.choice(("far", "far", "same", "zero")), "by": rng.randint(1, 60), "pause_s": pause_s}
    events = [
        Event(at_s=at_s, kind="restart_numbers", settings=first),
        Event(at_s=announced_s, kind="announce", settings={"known": int(rng.random() < 0.2)}),
    ]
    if rng.random() < 0.5:
        away = {"for_s": rng.uniform(0.2, 3.0)}
        events.append(Event(at_s=announced_s - rng.uniform(0.05, 0.4), kind="outage", settings=away))
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(("kill", "kill", "cut_power", "restart"))
        died = DAEMON[kind](rng, settings) | {"down_s": rng.choice((0.05, 0.5))}
        events.append(Event(at_s=announced_s + rng.uniform(-0.3, 1.0), kind=kind, settings=died))
    if rng.random() < 0.3:
        events.append(Event(at_s=at_s, kind="clocks", settings={"off_ms": -3_600_000.0, "for_s": 30.0}))
    others = {**NETWORK, **DISK, **STORE}
    events += _drawn(seed, "others", settings, others, 2)
    return Plan(seed=seed, settings=settings, events=tuple(sorted(events, key=lambda event: event.at_s)))


def _restarts(rng: random.Random, settings: Settings) -> Iterator[Event]:
    """Bursts of restarts within the time-out of assembly; around each an instrument sends anything at all."""
    clocks = rng.choice((None, None, None, "clocks", "no_clocks"))
    if clocks is not None:
        off = {"off_ms": rng.choice((-3_600_000.0, -500.0, 500.0, 3_600_000.0))} if clocks == "clocks" else {}
        yield Event(at_s=0.1, kind=clocks, settings={**off, "for_s": rng.choice((3.0, 30.0))})
    odd = rng.randrange(settings.instruments)
    for _ in range(rng.randint(1, 3)):
        at_s = rng.uniform(0.5, settings.duration_s - 1.0)
        if rng.random() < 0.8:
            sent = {"instrument": odd, "how_often": rng.choice((0.2, 0.5, 1.0)), "for_s": rng.uniform(0.3, 2.0)}
            yield Event(at_s=at_s - rng.uniform(0.0, 0.3), kind="odd", settings=sent)
        for _ in range(rng.randint(1, 4)):
            first = {"first": rng.choice(("zero", "zero", "same", "near")), "by": rng.randint(1, 60), "pause_s": 0.0}
            yield Event(at_s=at_s, kind="restart_numbers", settings=first)
            if rng.random() < 0.4:
                announced_s = at_s + rng.choice((0.0, 0.001, 0.05, 0.3))
                yield Event(at_s=announced_s, kind="announce", settings={"known": int(rng.random() < 0.6)})
            at_s += rng.uniform(0.0, settings.timeout_ms / 1e3)


def _settings(rng: random.Random, protocol: Protocol) -> Settings:
    epochs = protocol.epochs and rng.random() < 0.8
    crates = rng.randint(2, 4)
    has_sessions = rng.random() < 0.8
    return Settings(
        instruments=rng.randint(crates, 8),
        crates=tuple(
            (
                rng.choice(("committed", "committed", "spooled")),
                protocol.sessions and has_sessions and rng.random() < 0.9,
            )
            for _ in range(crates)
        ),
        rate=rng.choice((10.0, 20.0, 40.0)),
        duration_s=rng.uniform(6.0, 10.0),
        first_trigger=rng.choice((0, 1, 1000, 1 << 40)),
        epochs=epochs,
        clocks_ms=rng.choice((0.0, 2.0, 2.0, 20.0)),
        missing=rng.choice((0.0, 0.0, 0.02)),
        timeout_ms=rng.choice((100.0, 300.0, 500.0)),
        window=rng.choice((128, 1024, 1024)),
        in_parts=rng.random() < 0.3,
        risk_ms=rng.choice((0.0, 0.0, 0.0, 600.0)),
        segment_bytes=rng.choice((4_000, 20_000, 1 << 20)),
        waiting_mib=rng.choice((0.01, 256.0, 256.0)),
        kept=rng.choice((0.0, 0.4, 0.8)),
        torn=rng.choice((0.0, 0.2)),
    )


def _with_received(settings: Settings, rng: random.Random) -> Settings:
    """Let some of the senders wait for no more than `received`."""
    crates = (("received" if rng.random() < RECEIVED else ack, has_session) for ack, has_session in settings.crates)
    return dataclasses.replace(settings, crates=tuple(crates))


Draw = Callable[[random.Random, Settings], dict[str, Value]]


def _drawn(seed: int, stream: str, settings: Settings, kinds: dict[str, Draw], most: int) -> Iterator[Event]:
    """Events of one stream; each has random numbers of its own."""
    rng = random.Random(f"{seed} {stream}")
    for k in range(rng.randint(0, most)):
        own = random.Random(f"{seed} {stream} {k}")
        kind = own.choice(list(kinds))
        at_s = own.uniform(0.2, settings.duration_s)
        yield Event(at_s=at_s, kind=kind, settings=kinds[kind](own, settings))


def _dark(rng: random.Random, settings: Settings) -> Iterator[Event]:
    """A long outage, in which daemons die one after the other: of these no life but the last sees the database."""
    at_s, for_s = rng.uniform(0.2, 0.6) * settings.duration_s, rng.uniform(2.0, 8.0)
    yield Event(at_s=at_s, kind="outage", settings={"for_s": for_s})
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(("kill", "kill", "cut_power", "restart", "move"))
        died_s = min(at_s + rng.uniform(0.0, for_s), settings.duration_s)
        yield Event(at_s=died_s, kind=kind, settings=DAEMON[kind](rng, settings) | {"down_s": rng.choice((0.05, 0.5))})


def _letters(rng: random.Random, settings: Settings) -> Iterator[Event]:
    """Triggers, and what comes late for others, are rejected; the database takes them when they are offered again."""
    for _ in range(rng.randint(1, 3)):
        at_s, for_s = rng.uniform(0.1, 0.7) * settings.duration_s, _for_s(rng, 0.5, 1.5)
        rejected = {"modulus": rng.choice((1, 1, 2, 7)), "remainder": rng.randrange(7), "for_s": for_s}
        yield Event(at_s=at_s, kind="reject", settings=rejected)
        for crate in rng.sample(range(len(settings.crates)), 2):
            late_s = rng.choice((0.5, 1.5)) * for_s  # within that, or behind it
            stopped = {"crate": crate, "for_s": rng.uniform(0.3, 1.0) * at_s + late_s * rng.random()}
            yield Event(at_s=max(0.1, at_s + late_s - stopped["for_s"]), kind="stop_crate", settings=stopped)
        if rng.random() < 0.3:
            crash = {"moment": "before", "part": 0.0, "down_s": _for_s(rng, 0.5, 2.0), "daemon_too": rng.randint(0, 1)}
            yield Event(at_s=at_s + rng.random() * for_s, kind="crash", settings=crash | {"lost_s": rng.random()})
        for _ in range(rng.randint(0, 2)):
            kind = rng.choice(("kill", "restart", "move", "move"))
            died_s = min(at_s + rng.uniform(0.0, 2.0), settings.duration_s)
            yield Event(at_s=died_s, kind=kind, settings=DAEMON[kind](rng, settings) | {"down_s": 0.05})
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("retry", "retry", "retry", "discard"))
        yield Event(at_s=rng.uniform(0.3, 1.0) * settings.duration_s, kind=kind)


def _death(rng: random.Random, _: Settings) -> dict[str, Value]:
    """When it dies: so many disk calls, or steps, after the event's moment."""
    what = rng.choice(("disk", "disk", "step", "now"))
    count = 0 if what == "now" else rng.randint(0, 40)
    return {"what": what, "count": count, "down_s": rng.choice((0.05, 0.5, 3.0))}


def _crate(rng: random.Random, settings: Settings) -> int:
    return rng.randrange(len(settings.crates))


def _for_s(rng: random.Random, *lengths: float) -> float:
    return rng.choice(lengths) * rng.uniform(0.5, 1.0)


DAEMON: dict[str, Draw] = {
    "kill": _death,
    "kill_again": _death,
    "cut_power": _death,
    "kill_then_cut_power": lambda rng, s: {**_death(rng, s), "down_s": 0.05, "after_s": _for_s(rng, 0.1, 0.5, 1.5)},
    "restart": lambda rng, _: {"down_s": rng.choice((0.0, 0.5))},
    "move": lambda rng, s: {**_death(rng, s), "power": rng.randint(0, 1)},
}

NETWORK: dict[str, Draw] = {
    "cut": lambda rng, s: {
        "crate": _crate(rng, s),
        "nbytes": rng.randint(1, 400),
        "notice_s": _for_s(rng, 0.0, 0.1, 3.0),
        "other_s": _for_s(rng, 0.0, 0.1, 3.0),
    },
    "cut_acknowledgements": lambda rng, s: {"crate": _crate(rng, s), "nbytes": rng.randint(1, 64)},
    "stale": lambda rng, s: {"crate": _crate(rng, s), "notice_s": _for_s(rng, 0.1, 3.0, 40.0)},
    "partition": lambda rng, s: {"crate": _crate(rng, s), "for_s": _for_s(rng, 0.3, 2.0, 8.0)},
    "delay": lambda rng, s: {
        "crate": _crate(rng, s),
        "delay_s": rng.choice((0.01, 0.2, 1.0)),
        "for_s": _for_s(rng, 1.0, 3.0),
    },
    "slow_all": lambda rng, s: {"jitter_s": rng.choice((0.02, 0.3)), "for_s": _for_s(rng, 1.0, 3.0)},
}

DISK: dict[str, Draw] = {
    "fail": lambda rng, _: {
        "call": rng.choice(("sync", "sync", "append", "create", "sync_folder", "replace", "remove", "any")),
        "times": rng.choice((1, 1, 2, 30)),
        "skip": rng.randint(0, 6),
        "short": rng.choice((0.0, 0.5, 0.9)),
    },
    "fail_sync_then_cut_power": lambda rng, _: {
        "times": rng.choice((1, 2)),
        "skip": rng.randint(0, 6),
        "after_s": _for_s(rng, 0.3, 1.5),
    },
    "slow": lambda rng, _: {"delay_s": rng.choice((0.02, 0.5)), "for_s": _for_s(rng, 0.5, 3.0)},
    "full": lambda rng, _: {"room": rng.choice((0, 100, 2_000)), "for_s": _for_s(rng, 0.5, 3.0)},
}

STORE: dict[str, Draw] = {
    "outage": lambda rng, _: {"for_s": _for_s(rng, 0.1, 1.0, 5.0)},
    "crash": lambda rng, _: {
        "moment": rng.choice(("before", "in", "in", "after")),
        "part": rng.random(),
        "down_s": _for_s(rng, 0.0, 0.5, 3.0),
        "daemon_too": int(rng.random() < 0.3),
        "lost_s": rng.random(),
    },
    "lose": lambda rng, _: {"part": rng.random(), "down_s": _for_s(rng, 0.1, 1.0)},
    "fall_back": lambda rng, _: {
        "age_s": _for_s(rng, 0.2, 2.0),
        "down_s": _for_s(rng, 0.2, 1.0),
        "while_down": rng.randint(0, 1),
    },
    "reject": lambda rng, _: {
        "modulus": rng.choice((7, 20)),
        "remainder": rng.randrange(7),
        "for_s": _for_s(rng, 0.5, 2.0),
    },
    "retry": lambda rng, _: {},
}

MACHINE: dict[str, Draw] = {
    "restart_numbers": lambda rng, _: {
        "first": rng.choice(("zero", "same", "near", "far")),
        "by": rng.randint(1, 60),
        "pause_s": rng.choice((0.0, 0.3, 2.0)),
    },
    "jump": lambda rng, _: {"by": rng.choice((1, 3, 40, 500, 5_000))},
    "clock": lambda rng, s: {
        "instrument": rng.randrange(s.instruments),
        "off_ms": rng.choice((-3_600_000.0, -30.0, 30.0, 3_600_000.0)),
        "for_s": _for_s(rng, 0.5, 10.0),
    },
    "dead": lambda rng, s: {"instrument": rng.randrange(s.instruments), "for_s": _for_s(rng, 0.5, 10.0)},
    "wrong_number": lambda rng, s: {
        "instrument": rng.randrange(s.instruments),
        "by": rng.choice((-3, 1, 100, 10_000)),
        "for_s": rng.choice((0.01, 0.2)),
    },
    "restart_crate": lambda rng, s: {"crate": _crate(rng, s)},
    "stop_crate": lambda rng, s: {"crate": _crate(rng, s), "for_s": _for_s(rng, 0.5, 4.0)},
}

DEFECTS: dict[str, Draw] = {
    "defect": lambda rng, _: {
        "place": rng.choice(list(PLACES)),
        "count": rng.choice((0, 1, 5, 20)),
        "after": rng.randint(0, 1),
    },
    "lack": lambda rng, _: {"call": rng.choice(("commit", "commit", "rehearse", "position", "ask")), "for_s": 1.5},
    "unreadable": lambda rng, _: {"where": ".received", "file": rng.random(), "part": rng.random()},
}

LEAVING: dict[str, Draw] = {"goodbye": lambda rng, s: {"crate": _crate(rng, s)}}

AT_ONCE: dict[str, Draw] = {
    "kill_in_outage": lambda rng, _: {
        "count": rng.randint(0, 12),
        "down_s": rng.choice((0.05, 0.5)),
        "outage_s": _for_s(rng, 2.0, 5.0),
        "power_after_s": _for_s(rng, 0.3, 1.5),
    },
    "die_starting": lambda rng, _: {"count": rng.randint(0, 16), "down_s": rng.choice((0.05, 0.5))},
    "cut_power_in_commit": lambda rng, _: {"part": rng.random(), "down_s": _for_s(rng, 0.1, 1.0)},
}
"""Events by the stream from which they are drawn, each with what draws its settings; here such as need several faults
within a moment, which hardly ever meet by chance."""
