"""The oracle: it knows every reading that was made, and compares what the daemon said and what there is with it."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from daemon.pipeline.assembly.progress import ONE_MOMENT_NS
from schemas.batch import Stream
from schemas.ledger import unpack_missing
from schemas.readings import Array
from tests.simulation.disk import Drive
from tests.simulation.machine import Crate, Machine, Reading, is_mark
from tests.simulation.plan import Settings
from tests.simulation.store import RecordingStore

Key = tuple[int, int]
"""Run and number of a trigger."""

SHOWN = 4
"""Readings that a finding names."""


@dataclass(frozen=True, order=True)
class Finding:
    """What must not be. kind: by which findings are counted; text: with the readings."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass
class Oracle:
    """What is true, and what was found.

    drives: of all hosts. is_honest: numbers and clocks of the instruments are right; where they are not, and there are
    no epochs, the vote for a run may be deceived (docs/promise.md). restarts: the numbers begin again: without epochs a
    daemon on another host may find another run for what one took then (there, too). has_odd: an instrument sends any
    epoch. may_be_lost: marks that no promise covers any more, by what was done to the database, or to their sender.
    taken_back: what the database has had, and lost. older_database: it was put back, and knows less of sessions.
    has_moved: there were daemons on several hosts. has_bad_sectors: some of a disk could not be read. stored_from: by
    mark, the host whose daemon committed it last. announced: the starts of the timing system that were announced
    between the last acknowledgement of a reading before and the first reading.
    """

    settings: Settings
    machine: Machine
    store: RecordingStore
    drives: Sequence[Drive]
    is_honest: bool = True
    restarts: bool = False
    has_odd: bool = False
    findings: list[Finding] = field(default_factory=list)
    may_be_lost: set[int] = field(default_factory=set)
    older_database: bool = False
    has_moved: bool = False
    has_bad_sectors: bool = False
    taken_back: set[int] = field(default_factory=set)
    stored_from: dict[int, int] = field(default_factory=dict)
    announced: set[int] = field(default_factory=set)
    acknowledged: dict[int, tuple[int, int]] = field(default_factory=dict)  # by crate: its start, and so many readings

    def find(self, kind: str, text: str) -> None:
        """Note a finding, the first ten of a kind."""
        if sum(finding.kind == kind for finding in self.findings) < 10:
            self.findings.append(Finding(kind, text))

    # --- while it runs ------------------------------------------------------------------------------------------

    def see_acknowledged(self, crate: Crate, done: int) -> None:
        """The first `done` readings of the crate's newest stream are acknowledged to it now."""
        before = self.acknowledged_of(crate)
        if done <= before:
            return
        self.acknowledged[crate.number] = len(crate.streams), done
        self._see_kept(crate.streams[-1][before:done], *self.settings.crates[crate.number])

    def acknowledged_of(self, crate: Crate) -> int:
        """So many readings of its newest stream are acknowledged."""
        stream, done = self.acknowledged.get(crate.number, (0, 0))
        return done if stream == len(crate.streams) else 0

    def see_resumed(self, crate: Crate, resume: int) -> None:
        """A daemon that has just started goes on there: it must have what lies before.

        It needs not be durable again, where a process was killed and the machine was not: the crate still holds it.
        """
        before = self.acknowledged_of(crate)
        taken = [reading for reading in crate.streams[-1][before:resume] if not self._is_stored(reading.mark)]
        written = {mark for drive in self.drives for mark in drive.written_marks(is_mark)}
        absent = [reading for reading in taken if reading.mark not in written]
        if absent:
            self.find("resumed behind what is there", _named(absent))

    def see_forgotten(self, crate: Crate) -> None:
        """The crate starts again, and has lost what is not acknowledged: only its sender had promised it."""
        if crate.streams:
            self.may_be_lost.update(reading.mark for reading in crate.streams[-1][self.acknowledged_of(crate) :])

    def _see_kept(self, readings: Sequence[Reading], ack: str, has_session: bool) -> None:
        absent = [reading for reading in readings if not self._is_stored(reading.mark)]
        if not absent:
            return
        durable = self._durable_marks(only_dead_letters=ack == "committed")
        absent = [reading for reading in absent if reading.mark not in durable]
        if not has_session or self.older_database or self.has_odd:
            absent = self._distinct(absent)
        if absent:
            where = "in the database" if ack == "committed" else "on the disk"
            self.find(f"acknowledged, and not {where}", _named(absent))

    def _is_stored(self, mark: int) -> bool:
        return self.store.marks[mark] > 0 or mark in self.taken_back or mark in self.may_be_lost

    def _durable_marks(self, *, only_dead_letters: bool) -> set[int]:
        """Marks in what a power cut now could not take."""
        found: set[int] = set()
        for drive in self.drives:
            for path, inode in drive.durable_inodes():
                if not only_dead_letters or "dead-letters" in path.parts:
                    found |= inode.durable_marks(is_mark)
        return found

    def see_declared_lost(self, crate: Crate, lost: int, drive: Drive) -> None:
        """A daemon with this drive says that so many readings are not here, and that the crate has them no more.

        By an older database, or where another host has written in between, it knows only up to where all of a session
        is there, and not which readings beyond: the figure is an upper bound then (docs/promise.md). So it is where the
        disk could not read what the log had.
        """
        if self.older_database or self.has_moved or self.has_bad_sectors:
            return
        written = drive.written_marks(is_mark)
        gone = [r for r in crate.streams[-1][: self.acknowledged_of(crate)] if r.mark not in written]
        gone = [r for r in gone if self.store.marks[r.mark] < 1]
        if lost > len(gone):
            self.find(
                "called lost, and there", f"{lost} of crate {crate.number}, and only these are not: {_named(gone)}"
            )

    def see_lost_before(self, declared: int, drive: Drive, surely: Collection[int]) -> None:
        """What a daemon that starts with this drive says that the database lost of what it had acknowledged.

        surely: what it did lose, and a note on the drive must tell of.
        """
        in_journal = drive.written_marks(is_mark, below="intake")
        gone = {mark for mark in self.taken_back if self.store.marks[mark] < 1}
        lost = {mark for mark in surely if self.store.marks[mark] < 1}
        if not len(lost) - len(in_journal) <= declared <= len(gone):
            text = f"{declared}, and {len(lost)} to {len(gone)} are not there, {len(in_journal)} in the journal"
            self.find("what was lost before the start is other", text)

    def see_lost_commits(self, declared: int | None, gone: Collection[int]) -> None:
        """What a daemon that has committed all it has calls lost of that; gone: what the database lost of that."""
        if declared is None:
            return
        dead = self._durable_marks(only_dead_letters=True)  # it came again, and was rejected
        lost = [mark for mark in gone if self.store.marks[mark] < 1 and mark not in dead]
        if not len(lost) <= declared <= len(gone):
            self.find("the lost commits are others", f"{declared}, and {len(lost)} of {len(gone)} did not come again")

    def see_discarded(self, declared: int, thrown_away: Sequence[int]) -> None:
        """How many readings the daemon says that it threw away; who wanted it may have seen less of them before."""
        if declared != len(thrown_away):
            self.find("what was discarded is other", f"{declared}, and {len(thrown_away)} were there")

    def see_announced(self) -> None:
        """A daemon says that the restart was announced."""
        is_settled = all(
            not crate.waiting and self.acknowledged_of(crate) == len(crate.streams[-1]) for crate in self.machine.crates
        )
        if is_settled and all(reading.start < self.machine.start for reading in self.machine.readings.values()):
            self.announced.add(self.machine.start)

    def see_taken_back(self, marks: Iterable[int], *, for_good: bool) -> None:
        """The database lost these again; for_good: nobody promised that they would come back."""
        self.taken_back.update(marks)
        self.older_database = True
        if for_good:
            self.may_be_lost.update(marks)

    # --- at the end ---------------------------------------------------------------------------------------------

    def see_end(self, dead_of: Sequence[Counter[int]]) -> None:
        """All is healed and drained. dead_of: by host, how often each mark is in its dead letters."""
        (kept,) = self.store._groups.values()
        rows, ledger = kept.everything(), kept.rows()
        self._see_each_once(Counter(rows["mark"].tolist()), dead_of)
        self._see_values(rows)
        self._see_runs(rows)
        self._see_ledger(rows, ledger)
        self._see_gaps(rows, ledger)
        self._see_account(rows, ledger, kept.positions)

    def _see_each_once(self, stored: Counter[int], dead_of: Sequence[Counter[int]]) -> None:
        dead: Counter[int] = sum(dead_of, Counter())
        for crate in self.machine.crates:
            _, has_session = self.settings.crates[crate.number]
            sent = [r for r in crate.sent if r.mark not in self.may_be_lost]
            if not has_session or self.older_database or self.has_odd:
                sent = self._distinct(sent)
            lost = [r for r in sent if not stored[r.mark] and not dead[r.mark]]
            if lost:
                self.find("lost", f"{len(lost)} of {len(crate.sent)} of crate {crate.number}: {_named(lost)}")
            twice = [r for r in crate.sent if stored[r.mark] > 1]
            if not self.settings.epochs:
                twice = [r for r in twice if has_session and self._is_run_known and not self._came_again_at_once(r)]
            # Of an odd reading without an epoch nothing tells the run where others have one.
            twice = [r for r in self._distinct(twice) if r.odd_epoch != 0] if self.has_odd else twice
            if twice:
                self.find("stored twice", f"{len(twice)} of crate {crate.number}: {_named(twice)}")
            aside = [r for r in crate.sent if stored[r.mark] and self._is_dead_where_stored(r.mark, dead_of)]
            # Without a time of its own, what is sent again differs from itself. Whether a run of odd epochs begins
            # depends on what came before them: after a crash that may be other.
            aside = [r for r in self._distinct(aside) if r.is_timed and r.odd_epoch is None] if self.has_odd else aside
            if aside and has_session and self.settings.epochs:
                self.find("stored and a dead letter", f"{len(aside)} of crate {crate.number}: {_named(aside)}")

    @property
    def _is_run_known(self) -> bool:
        """Whether a reading without an epoch has to end in one run."""
        return self.is_honest and not (self.has_moved and self.restarts)

    def _came_again_at_once(self, reading: Reading) -> bool:
        """Whether its trigger's number is one of another start within a moment: no time tells these apart."""
        others = self._at[reading.trigger]
        return any(o.start != reading.start and abs(o.time_ns - reading.time_ns) < ONE_MOMENT_NS for o in others)

    @cached_property
    def _at(self) -> Mapping[int, Sequence[Reading]]:
        """Every reading by the number of its trigger; only asked for at the end."""
        found = defaultdict[int, list[Reading]](list)
        for reading in self.machine.readings.values():
            found[reading.trigger].append(reading)
        return found

    def _is_dead_where_stored(self, mark: int, dead_of: Sequence[Counter[int]]) -> bool:
        """Whether a stored reading is a dead letter of the host that stored it.

        Where a host dies before it has acknowledged a dead letter, the sender sends the reading again, and another
        host, which cannot know of the letter, may store it: docs/promise.md says so.
        """
        return any(dead[mark] for host, dead in enumerate(dead_of) if self.stored_from.get(mark, host) == host)

    def _distinct(self, readings: Sequence[Reading]) -> list[Reading]:
        """Those that can be told from all others without the numbers of a session.

        An instrument with wrong numbers gives a key twice. Without an epoch only their times tell the runs apart.
        """
        every = defaultdict[tuple[int, ...], list[Reading]](list)
        for reading in self.machine.readings.values():
            every[self._known(reading)].append(reading)
        return [each for each in readings if not any(self._is_alike(each, one) for one in every[self._known(each)])]

    def _known(self, reading: Reading) -> tuple[int, ...]:
        return reading.key if self.settings.epochs and not self.has_odd else reading.key[1:]

    def _is_alike(self, reading: Reading, other: Reading) -> bool:
        if reading.mark == other.mark:
            return False
        if self.settings.epochs:
            return reading.key == other.key or not (reading.epoch and other.epoch)
        if not (reading.is_timed and other.is_timed):
            return True
        return reading.start == other.start or abs(reading.time_ns - other.time_ns) < ONE_MOMENT_NS

    def _is_odd(self, mark: int) -> bool:
        return mark in self.machine.readings and self.machine.readings[mark].odd_epoch is not None

    def _see_values(self, rows: Array) -> None:
        for row in rows:
            reading = self.machine.readings.get(int(row["mark"]))
            if reading is None:
                self.find("nobody sent it", f"{row}")
            elif (reading.trigger, reading.instrument) != (int(row["trigger"]), int(row["instrument"])):
                self.find("stored as another", f"{reading} as {row}")

    def _see_runs(self, rows: Array) -> None:
        """One start of the timing system is one run. Without epochs that is a guess, but where it was announced."""
        readings = self.machine.readings
        marks = zip(rows["mark"].tolist(), rows["run"].tolist(), strict=True)
        pairs = {
            (readings[mark].start, run) for mark, run in marks if mark in readings and readings[mark].odd_epoch is None
        }
        if not self.settings.epochs:
            self._see_announced_runs(pairs)
            return
        for k, name in ((0, "start of the timing system in two runs"), (1, "run of two starts of the timing system")):
            for value, times in sorted(Counter(pair[k] for pair in pairs).items()):
                if times > 1:
                    self.find(name, f"{value}: {sorted(pair for pair in pairs if pair[k] == value)}")

    def _see_announced_runs(self, pairs: Collection[tuple[int, int]]) -> None:
        """See that an announced restart began a run that no start before it has; pairs: starts and their runs."""
        if self.older_database or self.has_odd:
            return
        for start in sorted(self.announced):
            earlier = {run for before, run in pairs if before < start}
            both = sorted(run for of, run in pairs if of == start and run in earlier)
            if both:
                self.find("an announced restart in the run before", f"start {start}: {both} of {sorted(pairs)}")
            split = sorted(run for of, run in pairs if of == start)
            if self.is_honest and len(split) > 1:
                self.find("an announced restart in two runs", f"start {start}: {split} of {sorted(pairs)}")

    def _see_ledger(self, rows: Array, ledger: Array) -> None:
        instruments = self.settings.instruments
        there = Counter((int(r["run"]), int(r["trigger"]), int(r["instrument"])) for r in rows)
        for key, times in there.items():
            if times > 1:
                self.find("two readings of one key", f"{key}")
        said: set[tuple[int, int, int]] = set()
        for row in ledger:
            missing = unpack_missing(row["missing"], instruments)
            key = int(row["run"]), int(row["trigger"])
            said |= {(*key, int(i)) for i in np.flatnonzero(~missing)}
            if int(row["arrived"]) != int((~missing).sum()):
                self.find("the ledger's count is not its bitmap", f"{key}: {row['arrived']}")
        for name, keys in (
            ("the ledger has it, the data does not", said - set(there)),
            ("the data has it, the ledger does not", set(there) - said),
        ):
            if keys:
                self.find(name, f"{len(keys)}: {sorted(keys)[:SHOWN]}")

    def _see_gaps(self, rows: Array, ledger: Array) -> None:
        """A row behind a gap says that there is one, or no question finds it.

        What was sent, and was rejected, or lost by a disk or the database, is not skipped. Below the row that a run
        began with nothing was missed. Of what an instrument that sends any number has alone nobody knows where it
        belongs.
        """
        if not self.settings.epochs or self.older_database:
            return
        honest = (
            {(int(row["run"]), int(row["trigger"])) for row in rows if not self._is_odd(int(row["mark"]))}
            if self.has_odd
            else None
        )
        sent = {reading.trigger for crate in self.machine.crates for reading in crate.sent}
        for run in np.unique(ledger["run"]).tolist():
            rows = np.sort(ledger[ledger["run"] == run], order="trigger")
            began_ns = rows["closed_ns"].min()
            for before, row in itertools.pairwise(rows):
                low, high = int(before["trigger"]), int(row["trigger"])
                if honest is not None and not {(run, low), (run, high)} <= honest:
                    continue
                is_behind_gap = high - low > 1 and high - 1 not in sent and row["closed_ns"] > began_ns
                if is_behind_gap and not row["skipped"]:
                    self.find("a gap that no question finds", f"run {run}, {low} to {high}")

    def _see_account(self, rows: Array, ledger: Array, positions: dict[Stream, Any]) -> None:
        readings = sum(position.readings for position in positions.values())
        triggers = sum(position.triggers for position in positions.values())
        if readings != len(rows):
            self.find("the account is not the rows", f"{readings} readings, and there are {len(rows)}")
        if triggers != len(ledger):
            self.find("the account is not the ledger", f"{triggers} triggers, and there are {len(ledger)}")


def _named(readings: Sequence[Reading]) -> str:
    first = ", ".join(
        f"(start {r.start}, trigger {r.trigger}, instrument {r.instrument}, mark {r.mark & 0xFFFFFF})"
        for r in readings[:SHOWN]
    )
    return f"{len(readings)} readings: {first}"
