"""The numbers of runs are those of all groups: a number is one start of the timing system, by epochs or by time."""

from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Runs, Start
from daemon.pipeline.assembly.runs import NEAR_NS, NUMBERS_MOST
from schemas.readings import InstrumentGroup
from tests.support.readings import START_NS, make_block, make_group, time_of

SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS


@dataclass
class Groups:
    """Groups of one daemon; found: by number of a run and group, the starts (hours) whose triggers closed in it."""

    runs: Runs = field(default_factory=Runs)
    assemblies: dict[str, Assembly] = field(default_factory=dict)
    found: dict[int, dict[str, set[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    def take(self, name: str, start: float, *, epoch: int = 0, first: int = 1, after_ns: int = 0) -> None:
        """Take three whole triggers of a start, as long after it."""
        group: InstrumentGroup = make_group(5, name)
        if name not in self.assemblies:
            self.assemblies[name] = Assembly(group, timeout_ns=SECOND_NS, window=256, max_open=64, runs=self.runs)
        moment_ns = round(start * HOUR_NS) + after_ns
        pairs = [(trigger, each) for trigger in range(first, first + 3) for each in range(group.size)]
        block = make_block(group, pairs, lambda trigger: time_of(trigger) + moment_ns)
        block["epoch"] = epoch
        closed = self.assemblies[name].receive(block, None, Instant(START_NS + moment_ns + SECOND_NS, moment_ns))
        closed += self.assemblies[name].close_due(
            Instant(START_NS + moment_ns + 3 * SECOND_NS, moment_ns + 2 * SECOND_NS)
        )
        for each in closed:
            for run in each.ledger["run"].tolist():
                self.found[run][name].add(start)

    def starts(self, name: str) -> dict[int, list[float]]:
        return {run: sorted(of[name]) for run, of in sorted(self.found.items()) if name in of}


def test_restarts_that_come_for_one_group_after_the_other_have_one_number_each() -> None:
    """The database was away, and what the groups' logs hold goes through together, or one after the other."""
    groups = Groups()
    for name in ("bpm", "toroid"):
        for start in range(3):
            groups.take(name, start)
    for start in (3, 4):
        groups.take("bpm", start)
        groups.take("toroid", start)
    assert groups.starts("bpm") == groups.starts("toroid") == {start + 1: [start] for start in range(5)}


def test_a_restart_of_one_group_alone_shifts_no_number() -> None:
    groups = Groups()
    groups.take("bpm", 0)
    groups.take("toroid", 0)
    groups.take("bpm", 1)  # its crates alone were booted
    groups.take("toroid", 1.9, first=7)
    for start in (2, 3):
        groups.take("toroid", start)
        groups.take("bpm", start)
    assert groups.starts("bpm") == {1: [0], 2: [1], 3: [2], 4: [3]}
    assert groups.starts("toroid") == {1: [0, 1.9], 3: [2], 4: [3]}


@pytest.mark.parametrize("order", [("bpm", "toroid"), ("toroid", "bpm")])
def test_a_group_with_epochs_and_one_without_share_numbers_whichever_is_first(order: tuple[str, str]) -> None:
    groups = Groups()
    for start in range(4):
        for name in order:
            groups.take(name, start, epoch=100 + start if name == "bpm" else 0)
    assert groups.starts("bpm") == groups.starts("toroid") == {start + 1: [start] for start in range(4)}


def test_a_group_whose_first_triggers_come_long_after_a_start_shares_its_number() -> None:
    """It takes part in few triggers, or was at rest; of two starts meanwhile it is in the later one."""
    groups = Groups()
    for start in range(3):
        groups.take("bpm", start)
        if start != 1:
            groups.take("toroid", start, after_ns=10 * NEAR_NS)
    assert groups.starts("toroid") == {1: [0], 3: [2]}


def test_clocks_of_two_groups_may_be_37_seconds_apart() -> None:
    """One has UTC, the other TAI."""
    groups = Groups()
    for start in range(4):
        names = ("bpm", "toroid") if start % 2 else ("toroid", "bpm")
        for name in names:
            groups.take(name, start, first=9, after_ns=37 * SECOND_NS if name == "toroid" else 0)
            groups.take(name, start + 0.9, first=12, after_ns=37 * SECOND_NS if name == "toroid" else 0)
    starts = {start + 1: [start, start + 0.9] for start in range(4)}
    assert groups.starts("bpm") == groups.starts("toroid") == starts


def test_clocks_further_apart_prove_nothing_and_give_no_number_to_two_starts() -> None:
    groups = Groups()
    for start in range(3):
        groups.take("bpm", start)
        groups.take("bpm", start + 0.9, first=7)
        groups.take("toroid", start, after_ns=2 * NEAR_NS)
        groups.take("toroid", start + 0.9, first=7, after_ns=2 * NEAR_NS)
    for by_group in groups.found.values():
        assert len({int(start) for starts in by_group.values() for start in starts}) == 1


def test_numbers_of_which_the_beginning_is_known_are_bounded() -> None:
    runs = Runs(3)
    for k in range(2 * NUMBERS_MOST):
        assert runs.after(Start(3 + k, k * HOUR_NS, k * HOUR_NS)) == 4 + k
    assert len(runs._since) == NUMBERS_MOST
    assert runs.join(0) == 3 + NUMBERS_MOST  # of those that began before all of these the last
