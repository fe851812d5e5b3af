"""The intake's log against a model: what was synced and not trimmed is there, once and in order, whatever fails."""

import contextlib
import errno
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.pipeline.files import LogError, LogFull
from daemon.pipeline.log import RUN, Log, Received, RunKind, readings_in
from daemon.pipeline.log.log import ELSEWHERE, ENDING
from tests.support.disks import REAL, FaultyDisk, StoppedClock, faulty
from tests.support.readings import make_block, make_group

GROUP = make_group()
ROOMY = {"max_bytes": 2**30, "segment_bytes": 2**20}
BAD = OSError(errno.EIO, "input/output error")
ALL = 2**40
ON_DISK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def record(number: int, trigger: int | None = None, session: int = 7) -> Received:
    """A record of one reading, told by its trigger."""
    trigger = number if trigger is None else trigger
    runs = np.array([(session, trigger, 1, RunKind.READINGS)], RUN)
    return Received(number=number, received_ns=10 * number, runs=runs, readings=make_block(GROUP, [(trigger, 1)]))


class Opened(Log):
    """A log, and what was found in it."""

    def __init__(
        self, folder: Path, disk: FaultyDisk | None = None, clock: StoppedClock | None = None, **limits: int
    ) -> None:
        outside = faulty(disk, clock=clock or StoppedClock()) if disk else REAL
        super().__init__(folder, GROUP, outside, **{**ROOMY, **limits})
        self.found = self.open()


def put(log: Log, *numbers: int) -> None:
    log.append([record(number) for number in numbers])
    log.sync()


def triggers(received: list[Received]) -> list[int]:
    return [int(trigger) for each in received for trigger in each.readings["trigger"]]


def test_what_was_appended_is_read_once_and_found_by_the_next(tmp_path: Path) -> None:
    log = Opened(tmp_path)
    put(log, 1, 2, 3)
    assert triggers(log.read(ALL)) == [1, 2, 3]
    put(log, 4)
    assert triggers(log.read(ALL)) == [4]
    assert log.read(ALL) == []
    log.close()
    again = Opened(tmp_path)
    assert (again.found.readings, again.found.sessions, again.next) == (4, frozenset({7}), 5)
    found = again.read(ALL)
    assert triggers(found) == [1, 2, 3, 4]
    assert [each.received_ns for each in found] == [10, 20, 30, 40]
    assert readings_in(tmp_path, REAL.disk) == 4


def test_reading_begins_again_with_the_first_record_that_is_there(tmp_path: Path) -> None:
    clock = StoppedClock()
    log = Opened(tmp_path, FaultyDisk(), clock)
    put(log, 1, 2)
    clock.move(6.0)
    put(log, 3)
    assert triggers(log.read(2 * record(1).nbytes)) == [1, 2]
    log.read_again()
    assert triggers(log.read(ALL)) == [1, 2, 3]
    log.trim(2)
    log.read_again()
    put(log, 4)
    assert triggers(log.read(ALL)) == [3, 4]
    log.trim(4)
    log.read_again()
    put(log, 5)
    assert triggers(log.read(ALL)) == [5]


def test_each_start_has_another_id_and_knows_those_before(tmp_path: Path) -> None:
    """A position of another id was written from another folder."""
    first, second, other = Opened(tmp_path / "a"), Opened(tmp_path / "a"), Opened(tmp_path / "b")
    assert len({first.id, second.id, other.id}) == 3
    assert first.id not in first.former
    assert first.id in second.former
    assert second.id not in second.former
    assert first.id not in other.former
    assert Opened(tmp_path / "a").former >= {first.id, second.id}


def test_a_read_is_about_as_large_as_asked_for(tmp_path: Path) -> None:
    log = Opened(tmp_path)
    put(log, *range(1, 10))
    sizes = [len(log.read(2 * record(1).nbytes)) for _ in range(6)]
    assert sizes == [2, 2, 2, 2, 1, 0]


def test_a_segment_goes_when_all_of_it_is_trimmed_and_not_before(tmp_path: Path) -> None:
    clock = StoppedClock()
    log = Opened(tmp_path, FaultyDisk(), clock)
    put(log, 1, 2)
    clock.move(6.0)
    put(log, 3)
    assert log.trim(1) == 0
    assert log.trim(2) == 2
    assert log.trim(3) == 3
    assert list(tmp_path.glob(f"*{ENDING}")) == []
    put(log, 4)
    assert triggers(log.read(ALL)) == [4]


def test_what_is_trimmed_and_was_never_written_is_gone(tmp_path: Path) -> None:
    """With a disk that fails for an hour its sessions would else never be forgotten."""
    assert Opened(tmp_path).trim(17) == 17


def test_a_name_that_may_come_back_is_not_gone(tmp_path: Path) -> None:
    """A removed segment counted as gone at the second attempt, though its folder was never synced."""
    disk = FaultyDisk()
    log = Opened(tmp_path / "log", disk)
    put(log, 1, 2)
    disk.failing = {"sync_folder": BAD}
    for _ in range(2):
        with pytest.raises(OSError, match="input/output"):
            log.trim(2)
    disk.after_power_cut(tmp_path / "log", tmp_path / "after")
    assert triggers(Opened(tmp_path / "after").read(ALL)) == [1, 2]
    disk.failing = {}
    assert log.trim(2) == 2
    disk.after_power_cut(tmp_path / "log", tmp_path / "later")
    assert Opened(tmp_path / "later").found.readings == 0


def test_what_an_earlier_process_removed_does_not_come_back(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = Opened(tmp_path / "log", disk)
    put(log, 1, 2)
    disk.failing = {"sync_folder": BAD}
    with pytest.raises(OSError, match="input/output"):
        log.trim(2)
    disk.failing = {}
    assert Opened(tmp_path / "log", disk).found.sessions == frozenset()
    disk.after_power_cut(tmp_path / "log", tmp_path / "after")
    assert Opened(tmp_path / "after").found.sessions == frozenset()


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_a_disk_that_fails_for_long_is_not_filled_with_copies(tmp_path: Path, operation: str) -> None:
    """Each attempt left a segment behind: the log was full of them when the disk was well again."""
    disk = FaultyDisk()
    log = Opened(tmp_path, disk, max_bytes=4096)
    put(log, 1)
    before = log.nbytes
    disk.failing = {operation: BAD}
    for _ in range(200):
        with pytest.raises(OSError, match="input/output"):
            put(log, 2, 3)
    disk.failing = {}
    assert len(list(tmp_path.glob(f"*{ENDING}"))) <= 2
    assert log.nbytes <= before + 2 * 200
    put(log, 2, 3)
    assert triggers(log.read(ALL)) == [1, 2, 3]
    assert triggers(Opened(tmp_path).read(ALL)) == [1, 2, 3]


def test_what_was_read_before_its_sync_failed_is_not_read_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = Opened(tmp_path, disk)
    put(log, 1)
    log.append([record(2), record(3)])
    assert triggers(log.read(ALL)) == [1, 2, 3]
    disk.failing = {"sync": BAD}
    with pytest.raises(OSError, match="input/output"):
        log.sync()
    disk.failing = {}
    put(log, 2, 3, 4)
    assert triggers(log.read(ALL)) == [4]


def test_a_full_log_takes_more_when_it_is_trimmed(tmp_path: Path) -> None:
    clock = StoppedClock()
    log = Opened(tmp_path, FaultyDisk(), clock, max_bytes=2000, segment_bytes=500)
    last = 1
    with contextlib.suppress(LogFull):
        for last in range(1, 100):
            put(log, last)
    assert last < 99
    assert log.nbytes <= 2000
    log.trim(last - 1)
    put(log, last)
    assert triggers(log.read(ALL))[-1] == last


def test_readings_of_other_instruments_are_refused(tmp_path: Path) -> None:
    put(Opened(tmp_path), 1)
    other = Log(tmp_path, make_group(instruments=3), REAL, **ROOMY)
    with pytest.raises(LogError, match="other instruments"):
        other.open()


def test_damage_costs_what_it_hit_and_is_kept(tmp_path: Path) -> None:
    put(Opened(tmp_path), 1, 2, 3)
    (path,) = tmp_path.glob(f"*{ENDING}")
    data = bytearray(path.read_bytes())
    at = data.index(record(2).readings.tobytes())
    data[at] ^= 255
    path.write_bytes(data)
    log = Opened(tmp_path)
    assert triggers(log.read(ALL)) == [1, 3]
    (copy,) = log.found.damaged
    assert record(3).readings.tobytes() not in copy.read_bytes()


def test_what_is_in_doubt_stays_so_until_it_is_gone(tmp_path: Path) -> None:
    """After its first commit nobody else told that another daemon had taken it for lost."""
    log = Opened(tmp_path)
    put(log, 1, 2)
    log.close()
    log = Opened(tmp_path)
    log.doubt()
    log.close()
    log = Opened(tmp_path)
    put(log, 3)
    log.close()
    log = Opened(tmp_path)
    assert log.found.doubtful_upto == 2
    assert log.trim(2) == 2
    assert not (tmp_path / ELSEWHERE).exists()
    log.close()
    assert Opened(tmp_path).found.doubtful_upto == 0


STEP = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 4)),
    st.tuples(st.just("fail"), st.sampled_from(["create", "append", "sync", "sync_folder"])),
    st.tuples(st.just("trim"), st.integers(0, 12)),
    st.tuples(st.just("wait"), st.just(6)),
    st.tuples(st.just("kill"), st.just(0)),
    st.tuples(st.just("cut"), st.just(0)),
    st.tuples(st.just("look"), st.integers(1, 2000)),
)


class Model:
    """What a log must hold. synced: told to be on the disk; gone: told to be gone from there."""

    def __init__(self, folder: Path) -> None:
        self.folders = (folder / str(k) for k in range(1000))
        self.folder = next(self.folders)
        self.made = 0
        self.synced: set[int] = set()
        self.needless: set[int] = set()  # trimmed: may be there, or not
        self.gone: set[int] = set()
        self.begin()

    def begin(self) -> None:
        self.disk, self.clock = FaultyDisk(), StoppedClock()
        for path in self.folder.glob("*"):  # what is there at the start of a life is on the disk
            self.disk.keep(path)
        self.log = Opened(self.folder, self.disk, self.clock, segment_bytes=600)
        self.triggers: dict[int, int] = {}  # by the number of the record, in this life
        self.read: list[int] = []
        self.waiting: list[Received] = []
        self.next = self.log.next
        whole = Opened(self.folder).read(ALL)
        self.triggers = {each.number: int(each.readings["trigger"][0]) for each in whole}
        found = triggers(whole)
        assert len(set(found)) == len(found)
        assert found == sorted(found)
        assert self.synced - self.needless <= set(found)
        assert not self.gone & set(found)
        self.synced |= set(found)

    def put(self, count: int) -> None:
        for _ in range(count):
            self.made += 1
            self.triggers[self.next] = self.made
            self.waiting.append(record(self.next, self.made))
            self.next += 1
        self.write()

    def write(self) -> None:
        if not self.waiting:
            return
        try:
            self.log.append(self.waiting)
            self.log.sync()
        except OSError:
            return
        self.synced |= {self.triggers[each.number] for each in self.waiting}
        self.waiting = []

    def fail(self, operation: str) -> None:
        self.disk.failing = {operation: BAD}
        self.put(1)
        self.disk.failing = {}

    def trim(self, back: int) -> None:
        number = max(0, self.next - 1 - back - len(self.waiting))
        trimmed = {trigger for each, trigger in self.triggers.items() if each <= number}
        self.needless |= trimmed
        gone = self.log.trim(number)
        self.gone |= {trigger for each, trigger in self.triggers.items() if each <= min(gone, number)}

    def wait(self, seconds: int) -> None:
        self.clock.move(seconds)

    def look(self, most: int) -> None:
        self.read += triggers(self.log.read(most))
        assert self.read == sorted(set(self.read))

    def kill(self, _: int) -> None:
        self.log.close()
        self.begin()

    def cut(self, _: int) -> None:
        self.log.close()
        after = next(self.folders)
        self.disk.after_power_cut(self.folder, after)
        self.folder = after
        self.begin()


@ON_DISK
@given(st.lists(STEP, max_size=40))
def test_what_is_synced_and_not_trimmed_is_there_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list
) -> None:
    model = Model(tmp_path_factory.mktemp("log"))
    for name, argument in steps:
        getattr(model, name)(argument)
    model.write()
    model.cut(0)
