"""The world: one run of a plan, from the first trigger until all is healed, drained and compared."""

import asyncio
import contextlib
import contextvars
import errno
import gc
import hashlib
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from daemon.client.sender import Sender, SenderError
from daemon.core.outcome import CommandFailed
from daemon.core.supervision.fail_stop import process_ends
from daemon.pipeline.dead_letters import Letter
from schemas.batch import Batch, Durability, Stream
from schemas.sessions import session_key
from schemas.wire import Ack, Answer, ProtocolError
from tests.simulation.daemon import PORT, SimulatedDaemon, contents_of, dead_letters_on, marks_in, patched
from tests.simulation.defects import Defect, Defects
from tests.simulation.disk import Drive, Fault
from tests.simulation.loop import LIFE, START_NS, Killed, Life, Stuck, VirtualLoop, run_in, virtual_loop
from tests.simulation.machine import Crate, Machine, from_address, is_mark, run_crate
from tests.simulation.network import Network
from tests.simulation.oracle import Finding, Oracle
from tests.simulation.outside import outside_of
from tests.simulation.plain_sender import PlainSender
from tests.simulation.plan import Event, Plan
from tests.simulation.store import Client, Database, Moment, Rejection, marks_of

DRAINED_WITHIN_S = 240.0
"""In virtual time: what is not settled so long after the last fault never will be."""

GOODBYE_S = 2.0

HOSTS = 2

FAILING = ("fail", "fail_sync_then_cut_power", "full")
"""Events with which a file may not be written."""


@dataclass(frozen=True)
class Result:
    """What came of a plan. digest: of all that happened, the same for the same plan."""

    findings: tuple[Finding, ...]
    digest: str
    readings: int
    lives: int
    trace: tuple[str, ...]


@dataclass
class Host:
    """A host on which the daemon may run."""

    name: str
    drive: Drive
    has_run: bool = False
    has_noted: bool = False  # the last daemon that committed here ended in order


class World:
    """All that there is in one run."""

    def __init__(self, plan: Plan, loop: VirtualLoop) -> None:
        settings = plan.settings
        self.plan, self.loop = plan, loop
        self.machine = Machine(plan, loop)
        self.defects = Defects()
        self.network = Network(loop, lambda address, number: plan.stream(f"network {address} {number}"))
        self.hosts = [Host(f"host {k}", Drive(rng=plan.stream(f"disk {k}"))) for k in range(HOSTS)]
        for host in self.hosts:
            host.drive.kept, host.drive.torn = settings.kept, settings.torn
        group = self.machine.group
        self.database = Database(loop, {group.name: group}, plan.stream("store"), in_parts=settings.in_parts)
        kinds = {event.kind for event in plan.events}
        drives = [host.drive for host in self.hosts]
        self.oracle = Oracle(
            settings,
            self.machine,
            self.database.store,
            drives,
            is_honest=not kinds & {"clock", "clocks", "no_clock", "no_clocks", "wrong_number", "odd"},
            restarts="restart_numbers" in kinds,
            has_odd="odd" in kinds,
        )
        self.at_host = 0
        self.daemon: SimulatedDaemon | None = None
        self.life: Life | None = None
        self._lost_under: Life | None = None  # the database lost what it had acknowledged
        self.lives = 0
        self.failed_starts = 0
        self.is_held = False  # nobody starts a daemon but the end
        self._crate_of: dict[int, Crate] = {}  # by session
        self.dies_starting: list[int] = []  # at which disk calls the next lives die that are not there yet
        self._resumed_in: dict[int, int] = {}  # by crate: the life of the daemon that it resumed in last
        self.trace: list[str] = []
        self._may_fail = any(event.kind in FAILING for event in plan.events)
        self._rng = plan.stream("daemon")
        self._context = contextvars.copy_context()
        self.committed_here: set[int] = set()  # by the life that goes on
        self.gone_here: set[int] = set()  # of these, what the database lost again
        self._in_journal: set[int] = set()  # committed by daemons whose journal's disk has kept all since
        self._to_come_again: set[int] = set()  # of these, what the database lost again
        self.gone_unseen: set[int] = set()  # what it lost with no daemon running, and none has started since
        self.retried: set[int] = set()  # committed from the dead letters: in no account that a daemon notes
        self._thrown_away: list[int] = []  # by the discard that is under way
        self.database.on_write = self._written
        self.database.on_commit = self._committed

    def note(self, text: str) -> None:
        """Add to the trace."""
        self.trace.append(f"{(self.loop.now_ns - START_NS) / 1e9:.6f} {text}")

    def _written(self, batch: Batch) -> None:
        # Also where the daemon dies before it knows.
        self.oracle.stored_from.update(dict.fromkeys(marks_of(batch), self.at_host))

    def _committed(self, batch: Batch) -> None:
        self.note(f"commit {batch.position.sequence} {len(batch.ledger)} {len(batch.late)} {len(batch.revised)}")
        marks = marks_of(batch)
        self.committed_here.update(marks)
        self._in_journal.update(marks)
        if batch.stream is Stream.DEAD_LETTERS:
            self.retried.update(marks)

    # --- daemons ------------------------------------------------------------------------------------------------

    def start_daemon(self) -> None:
        """Begin a life on the present host."""
        host = self.hosts[self.at_host]
        host.has_run = True
        self.oracle.has_moved = all(each.has_run for each in self.hosts)
        self.lives += 1
        self.committed_here.clear()
        self.gone_here.clear()
        life = self.life = Life(f"{host.name}, life {self.lives}")
        self.note(f"start {life.name}")
        client = Client(self.database, life, self.plan.stream(f"client {self.lives}"))
        outside = outside_of(self.loop, host.drive, life, self.plan.stream(f"outside {self.lives}"))

        def begin() -> "asyncio.Task[None]":
            self.daemon = SimulatedDaemon(
                settings=self.plan.settings,
                group=self.machine.group,
                client=client,
                network=self.network,
                outside=outside,
                joined=self._joined,
                announced=self.oracle.see_announced,
                began=self._began,
                discarding=self._discarding,
                discarded=self._discarded,
            )
            return self.loop.create_task(self.daemon.serve())

        if self.dies_starting:
            life.kill_after("disk", self.dies_starting.pop(0))
            life.on_death(lambda: self.start_later(0.2))
        task = run_in(life, begin)
        life.on_death(lambda: self._died(life))
        task.add_done_callback(lambda done: self._ended(life, done), context=self._context)

    def fail_stop(self, where: str, error: Exception) -> NoReturn:
        """The process ends: an exception in its data path, which is a finding unless it was planted."""
        life = LIFE.get()
        if life is None:
            raise error
        if not life.is_dead:
            self.note(f"fail-stop {where} {error!r}")
            is_expected = isinstance(error, CommandFailed) and self.oracle.has_bad_sectors
            if not isinstance(error, Defect) and not is_expected:
                last = traceback.extract_tb(error.__traceback__)[-1]
                at = f"{last.name}, line {last.lineno} of {last.filename.rpartition('/')[2]}"
                self.oracle.find("an exception in the data path", f"{error!r} in {where}: {at}")
            self.start_later(1.0)
            life.kill()
        raise Killed

    def _joined(self, session: int, lost: int) -> None:
        self.note(f"lost {self._crate_of[session].number} {lost}")
        self.oracle.see_declared_lost(self._crate_of[session], lost, self.hosts[self.at_host].drive)

    def _began(self, lost: int) -> None:
        host = self.hosts[self.at_host]
        surely = self.gone_unseen - self.retried if host.has_noted and not self.oracle.has_moved else set()
        self.oracle.see_lost_before(lost, host.drive, surely)
        host.has_noted = False
        self.gone_unseen.clear()

    def _died(self, life: Life) -> None:
        if not life.has_ended:
            self._keep_journal()
        self.note(f"dead {life.name} after {life.disk_calls} disk calls")
        self.network.daemon_died(life, lambda: self._rng.choice((0.0, 0.001, 0.5)) * self._rng.random())
        self.loop.call_soon(life.close_tasks, context=self._context)

    def _ended(self, life: Life, task: "asyncio.Task[None]") -> None:
        """The process ended by itself: in order, or because it could not go on."""
        if life.is_dead:
            return
        error = task.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        life.has_ended = error is None
        life.kill()
        if error is None:
            self._note_end()
            return
        self.failed_starts += 1
        self.note(f"failed {error!r}")
        if not isinstance(error, OSError) and "cannot be used" not in str(error):
            self.oracle.find("the daemon failed", f"{error!r}")
        self.start_later(1.0)

    def _note_end(self) -> None:
        if not self._may_fail and self.daemon is not None and self.daemon.pipeline is not None:
            self.hosts[self.at_host].has_noted = True

    def start_later(self, after_s: float) -> None:
        """As a service manager does."""
        self.loop.call_later(after_s, self._start_if_none, context=self._context)

    def _start_if_none(self) -> None:
        if not self.is_held and (self.life is None or self.life.is_dead):
            self.start_daemon()

    async def stop_daemon(self) -> None:
        """End it in order, and wait for that."""
        life, daemon = self.life, self.daemon
        if life is None or daemon is None or life.is_dead:
            return
        ended = asyncio.Event()
        life.on_death(ended.set)
        daemon.stop.set()
        await ended.wait()

    def take_back(self, gone: list[int]) -> None:
        """The database lost what it had acknowledged asynchronously: it comes again, if the journal has it still."""
        self.note(f"gone {len(gone)}")
        self.oracle.see_taken_back(gone, for_good=False)
        self.gone_here |= set(gone) & self.committed_here
        self._lost_under = self.life
        self._to_come_again |= set(gone) & self._in_journal
        self.oracle.may_be_lost |= set(gone) - self._in_journal

    def _discarding(self, letters: Sequence[Letter]) -> None:
        """Dead letters are being thrown away, as somebody wanted."""
        drive = self.hosts[self.at_host].drive
        blocks = contents_of(letters, self.machine.group, drive, self.loop)
        self._thrown_away = [mark for block in blocks for mark in marks_in(block)]
        self.note(f"discarded {len(self._thrown_away)}")
        self.oracle.may_be_lost.update(self._thrown_away)

    def _discarded(self, declared: int) -> None:
        self.oracle.see_discarded(declared, self._thrown_away)

    def _keep_journal(self) -> None:
        """A daemon was killed: what it committed last may not be written yet, or not be written whole."""
        if self.plan.settings.risk_ms:
            drive = self.hosts[self.at_host].drive
            self.lose_journal(but=set() if self._may_fail else drive.written_marks(is_mark, below="intake"))

    def lose_journal(self, but: Collection[int] = ()) -> None:
        """The next daemon's journal may lack what was committed, but for these: it is another, or its power was cut."""
        lost = self._to_come_again.difference(but)
        self.oracle.may_be_lost |= {mark for mark in lost if self.database.store.marks[mark] < 1}
        self._to_come_again -= lost
        self._in_journal.intersection_update(but)

    # --- the run ------------------------------------------------------------------------------------------------

    async def play(self) -> None:
        """Run the plan, heal, drain, and compare."""
        self.start_daemon()
        crates = [from_address(crate.address, lambda c=crate: self._send(c)) for crate in self.machine.crates]
        events = Events(self)
        for event in self.plan.events:
            self.loop.call_at((START_NS + event.at_s * 1e9) / 1e9, events.happen, event)
        await self.machine.run()
        self.note("heal")
        self._heal()
        try:
            async with asyncio.timeout(DRAINED_WITHIN_S):
                await self._drain(crates)
        except TimeoutError:
            waiting = self.daemon.pipeline.waiting if self.daemon and self.daemon.pipeline else None
            left = [len(crate.sent) - self.oracle.acknowledged_of(crate) for crate in self.machine.crates]
            self.oracle.find("never drained", f"{waiting}; unacknowledged by crate: {left}")
            for task in crates:
                task.cancel()
            await asyncio.gather(*crates, return_exceptions=True)
        self._compare()

    def _heal(self) -> None:
        self.database.heal()
        self.defects.take_out()
        self.dies_starting.clear()
        for host in self.hosts:
            host.drive.faults.clear()
            host.drive.capacity, host.drive.delay_s = 1 << 40, 0.0
        for crate in self.machine.crates:
            conditions = self.network.conditions(crate.address)
            conditions.is_cut, conditions.delay_s, conditions.jitter_s = False, 0.0002, 0.0005
            crate.stopped_until_ns = 0

    async def _drain(self, crates: "list[asyncio.Task[None]]") -> None:
        if any(event.kind == "unreadable" for event in self.plan.events):
            # A sender whose readings a damaged record held hears of its last ones when it connects again.
            _, waiting = await asyncio.wait(crates, timeout=DRAINED_WITHIN_S / 4)
            if waiting:
                await self.stop_daemon()
                self.start_daemon()
        for task in crates:
            await task
        # A death that waits for a daemon's last disk calls may still move the next one to another host.
        is_settled = False
        while not is_settled:
            is_settled = True
            for where in [(self.at_host + k) % HOSTS for k in range(HOSTS)]:
                if self.hosts[where].has_run:
                    await self._drain_host(where)
                    is_settled = is_settled and self.at_host == where

    async def _drain_host(self, where: int) -> None:
        """Let the daemon of a host commit what it has, and end."""
        self.is_held = where != self.at_host
        if where != self.at_host:
            await self.stop_daemon()
            self.at_host = where
        # What the database lost last no commit shows to the daemon; the next one finds it in the journal.
        life = None
        while life is None or life is self._lost_under:
            self.is_held = False
            life = await self._drain_daemon()

    async def _drain_daemon(self) -> Life:
        """Let a daemon of this host commit what it has, and end; return its life."""
        while True:
            self._start_if_none()
            if self.daemon is not None and self.daemon.waits_for_nothing:
                break
            await asyncio.sleep(0.05)
        self.is_held = True
        life = self.life
        assert life is not None
        self.oracle.see_lost_commits(self.daemon.lost_commits, self.gone_here)
        await self.stop_daemon()
        return life

    async def _send(self, crate: Crate) -> None:
        """Run a crate: it sends all of its readings, through restarts of its own."""
        is_over = False
        while not is_over:
            crate.restart.clear()
            crate.leaves.clear()
            sender = await self._connect(crate)
            self._resumed_in[crate.number] = self.lives
            self._watch_acknowledgements(crate, sender)
            sending = self.loop.create_task(run_crate(crate, self.machine, self.loop, sender))
            restart = self.loop.create_task(crate.restart.wait())
            await asyncio.wait([sending, restart], return_when=asyncio.FIRST_COMPLETED)
            is_over = sending.done() and crate.is_over
            if sending.done():
                self._see_sent(crate, sender, sending)
            else:
                self.oracle.see_forgotten(crate)
            for task in (sending, restart):
                task.cancel()
            await asyncio.gather(sending, restart, return_exceptions=True)
            if crate.leaves.is_set() and not is_over:
                await self._say_goodbye(sender)
            await sender.close()

    async def _say_goodbye(self, sender: Sender | PlainSender) -> None:
        """As a program does that ends in order; where the daemon does not close in time, it ends all the same."""
        if isinstance(sender, Sender):
            with contextlib.suppress(SenderError):
                await sender.finish(GOODBYE_S)

    def _see_sent(self, crate: Crate, sender: Sender | PlainSender, sending: "asyncio.Task[None]") -> None:
        error = sending.exception()
        if error is not None:
            self.oracle.find("a sender failed", f"crate {crate.number}: {error!r}")
        elif sender.refused:
            self.oracle.find("refused", f"{sender.refused} of crate {crate.number}")

    async def _connect(self, crate: Crate) -> Sender | PlainSender:
        ack, has_session = self.plan.settings.crates[crate.number]
        name, level = f"crate-{crate.number}", Ack(ack)
        rng = self.plan.stream(f"session {crate.number} {len(crate.streams)}")
        while True:
            try:
                if not has_session:
                    return await PlainSender.connect("daemon", PORT, "bpm", sender=name, ack=level)
                return await Sender.connect("daemon", PORT, "bpm", sender=name, ack=level, reconnect=True, rng=rng)
            except (SenderError, ProtocolError):
                await asyncio.sleep(0.2)

    def _watch_acknowledgements(self, crate: Crate, sender: Sender | PlainSender) -> None:
        """Have the oracle look at each acknowledgement at the moment when the sender believes it."""
        if isinstance(sender, Sender):
            greeting = sender._greeting
            assert greeting.sender is not None
            assert greeting.session is not None
            self._crate_of[session_key(greeting.sender, greeting.session)] = crate
        take, check = sender.acknowledgements, sender.check

        def acknowledgements(frames: bytes) -> None:
            take(frames)
            self.note(f"acknowledged {crate.number} {sender.acknowledged}")
            self.oracle.see_acknowledged(crate, sender.acknowledged)

        def checked(answer: Answer) -> None:
            check(answer)
            self.note(f"resume {crate.number} {answer.resume}")
            # The answer of a daemon that has died since says nothing of the disk, nor of the daemon after it.
            life = self.life
            is_alive = life is not None and not life.is_dead and life is self.network.life_of_newest(crate.address)
            if answer.resume is not None and is_alive and self.lives != self._resumed_in.get(crate.number):
                self._resumed_in[crate.number] = self.lives
                self.oracle.see_resumed(crate, answer.resume)

        sender.acknowledgements, sender.check = acknowledgements, checked  # type: ignore[method-assign]

    def _compare(self) -> None:
        dead: list[Counter[int]] = []
        for host in self.hosts:
            marks = Counter[int]()
            if host.has_run:
                retried = self.database.retried(self.machine.group.name)
                marks = dead_letters_on(self.machine.group, host.drive, self.loop, retried)
            dead.append(marks)
            if host.drive.idle_syncs_most > 200:
                self.oracle.find("goes round", f"{host.drive.idle_syncs_most} syncs in a row with nothing to write")
        self.oracle.see_end(dead)
        for failure in self.loop.failures:
            self.oracle.find("a callback failed", failure)


class Events:
    """What events do, by their kinds."""

    def __init__(self, world: World) -> None:
        self._world = world

    def happen(self, event: Event) -> None:
        """Let an event happen now."""
        self._world.note(f"event {event.kind} {event.settings}")
        getattr(self, f"_{event.kind}")(**event.settings)

    # --- the daemon ---------------------------------------------------------------------------------------------

    def _die(self, what: str, count: int, down_s: float, then: Callable[[], None]) -> None:
        world, life = self._world, self._world.life
        if life is None or life.is_dead:
            return

        def dead() -> None:
            then()
            world.start_later(down_s)

        life.on_death(dead)
        if what == "now":
            life.kill()
        else:
            life.kill_after(what, count)

    def _kill(self, what: str, count: int, down_s: float) -> None:
        self._die(what, count, down_s, lambda: None)

    _kill_again = _kill

    def _cut_power(self, what: str, count: int, down_s: float) -> None:
        host = self._world.hosts[self._world.at_host]
        self._die(what, count, down_s, lambda: self._power_off(host))

    def _power_off(self, host: Host) -> None:
        host.drive.cut_power()
        self._world.lose_journal()

    def _kill_then_cut_power(self, what: str, count: int, down_s: float, after_s: float) -> None:
        """What the first life left, and the second believes, is put to the test."""
        life = self._world.life
        self._kill(what, count, down_s)
        if life is not None and not life.is_dead:
            life.on_death(lambda: self._later(after_s, lambda: self._cut_power("now", 0, 0.5)))
        else:
            self._later(after_s, lambda: self._cut_power("now", 0, 0.5))

    def _restart(self, down_s: float) -> None:
        world = self._world

        async def restart() -> None:
            await world.stop_daemon()
            world.start_later(down_s)

        world.loop.create_task(restart())

    def _move(self, what: str, count: int, down_s: float, power: int) -> None:
        world = self._world
        host = world.hosts[world.at_host]

        def move() -> None:
            if power:
                host.drive.cut_power()
            world.lose_journal()
            world.at_host = (world.at_host + 1) % HOSTS

        self._die(what, count, down_s, move)

    def _node_clock(self, off_s: float) -> None:
        """The clock of the daemon's node is off from now on: it was set, or instruments send TAI."""
        self._world.loop.node_off_ns = int(off_s * 1e9)

    # --- several faults at once ---------------------------------------------------------------------------------

    def _kill_in_outage(self, count: int, down_s: float, outage_s: float, power_after_s: float) -> None:
        """With the database away only the journal has what one life wrote last, and the next one believes."""
        self._outage(outage_s)
        self._kill_then_cut_power("disk", count, down_s, power_after_s)

    def _die_starting(self, count: int, down_s: float) -> None:
        """The daemon moves to the other host, and dies at one of its first disk calls there."""
        self._world.dies_starting.append(count)
        self._move("now", 0, down_s, 0)

    def _cut_power_in_commit(self, part: float, down_s: float) -> None:
        """The database dies within a commit, and the daemon's host with it: what was on its way comes otherwise."""
        world = self._world

        def then() -> None:
            world.database.be_down(down_s)
            self._cut_power("now", 0, down_s)

        world.database.crash_at_commit(Moment.IN, part, down_s, then)

    def _defect(self, place: str, count: int, after: int) -> None:
        """The daemon's data path fails at one of the next calls of a function, and the daemon ends itself."""
        self._world.defects.plant(place, count, after)

    # --- the network --------------------------------------------------------------------------------------------

    def _address(self, crate: int) -> str:
        return self._world.machine.crates[crate].address

    def _cut(self, crate: int, nbytes: int, notice_s: float, other_s: float) -> None:
        for end in self._world.network.of(self._address(crate)):
            end.cut_after, end.notices_s = nbytes, (notice_s, other_s)

    def _cut_acknowledgements(self, crate: int, nbytes: int) -> None:
        for end in self._world.network.of(self._address(crate)):
            assert end.other is not None
            end.other.cut_after = nbytes

    def _stale(self, crate: int, notice_s: float) -> None:
        """The sender's end is reset; what is under way to the daemon still arrives, which learns of it later."""
        network = self._world.network
        for end in network.of(self._address(crate)):
            assert end.other is not None
            self._world.loop.call_soon(end.other.lose, ConnectionResetError("stale"), context=end.other._context)
            later = self._world.loop.time() + notice_s
            self._world.loop.call_at(later, end.lose, ConnectionResetError("stale"), context=end._context)

    def _partition(self, crate: int, for_s: float) -> None:
        network = self._world.network
        conditions = network.conditions(self._address(crate))
        conditions.is_cut = True
        for end in network.of(self._address(crate)):
            network.cut(end, "no way", for_s * 0.7, for_s)
        self._later(for_s, lambda: setattr(conditions, "is_cut", False))

    def _delay(self, crate: int, delay_s: float, for_s: float) -> None:
        conditions = self._world.network.conditions(self._address(crate))
        conditions.delay_s = delay_s
        self._later(for_s, lambda: setattr(conditions, "delay_s", 0.0002))

    def _slow_all(self, jitter_s: float, for_s: float) -> None:
        for crate in self._world.machine.crates:
            conditions = self._world.network.conditions(crate.address)
            conditions.jitter_s = jitter_s
            self._later(for_s, lambda c=conditions: setattr(c, "jitter_s", 0.0005))

    def _later(self, after_s: float, what: Callable[[], None]) -> None:
        self._world.loop.call_later(after_s, what)

    # --- the disk -----------------------------------------------------------------------------------------------

    def _fail(self, call: str, times: int, skip: int, short: float, where: str = "") -> None:
        drive = self._world.hosts[self._world.at_host].drive
        drive.faults.append(Fault(call, times, skip, errno.EIO, short, where))

    def _fail_sync_then_cut_power(self, times: int, skip: int, after_s: float) -> None:
        self._fail("sync", times, skip, 0.0)
        self._later(after_s, lambda: self._cut_power("now", 0, 0.5))

    def _unreadable(self, where: str, file: float, part: float) -> None:
        """A sector of a file goes bad, with what is there."""
        drive = self._world.hosts[self._world.at_host].drive
        lost, settings = drive.lose_sector(where, file, part, is_mark), self._world.plan.settings
        if not settings.risk_ms:  # who waits for `committed` still has what is not in the database
            waiting = [crate for crate in self._world.machine.crates if settings.crates[crate.number][0] == "committed"]
            lost -= {reading.mark for crate in waiting for reading in crate.sent}
        self._world.oracle.may_be_lost |= lost
        self._world.oracle.has_bad_sectors = True

    def _slow(self, delay_s: float, for_s: float) -> None:
        drive = self._world.hosts[self._world.at_host].drive
        drive.delay_s = delay_s
        self._later(for_s, lambda: setattr(drive, "delay_s", 0.0))

    def _full(self, room: int, for_s: float) -> None:
        drive = self._world.hosts[self._world.at_host].drive
        drive.capacity = drive.used() + room
        self._later(for_s, lambda: setattr(drive, "capacity", 1 << 40))

    # --- the database -------------------------------------------------------------------------------------------

    def _outage(self, for_s: float) -> None:
        self._world.database.be_down(for_s)

    def _crash(self, moment: str, part: float, down_s: float, daemon_too: int, lost_s: float, skip: int = 0) -> None:
        world = self._world

        def then() -> None:
            self._lose(lost_s, down_s)
            if daemon_too and world.life is not None and not world.life.is_dead:
                world.life.on_death(lambda: world.start_later(down_s))
                world.life.kill()

        world.database.crash_at_commit(Moment(moment), part, down_s, then, skip=skip)

    def _lose(self, part: float, down_s: float) -> None:
        """The server crashes: an asynchronous one loses what it acknowledged last."""
        world = self._world
        world.database.be_down(down_s)
        risk_ms = world.plan.settings.risk_ms
        if risk_ms:
            to_ns = world.loop.now_ns - int(part * risk_ms * 1e6)
            gone = world.database.store.take_back(to_ns, Durability.ASYNC)
            world.take_back(gone)

    def _fall_back(self, age_s: float, down_s: float, while_down: int) -> None:
        """A backup is put back; what is not in the journal any more is lost, and no promise covers it."""
        world = self._world
        world.database.be_down(down_s)
        gone = world.database.store.take_back(world.loop.now_ns - int(age_s * 1e9))
        world.note(f"gone {len(gone)}")
        world.oracle.see_taken_back(gone, for_good=True)
        world.gone_here |= set(gone) & world.committed_here
        if world.life is None or world.life.is_dead:
            world.gone_unseen |= set(gone)
        if while_down and world.life is not None and not world.life.is_dead:
            world.life.on_death(lambda: world.start_later(down_s))
            world.life.kill()

    def _lack(self, call: str, for_s: float) -> None:
        """The database answers, and refuses one kind of call with an error that nobody knows."""
        self._world.database.lacking[call] = self._world.loop.now_ns + int(for_s * 1e9)

    def _reject(self, modulus: int, remainder: int, for_s: float) -> None:
        database = self._world.database
        until_ns = self._world.loop.now_ns + int(for_s * 1e9)
        database.rejections.append(Rejection(modulus=modulus, remainder=remainder % modulus, until_ns=until_ns))

    def _retry(self) -> None:
        world = self._world
        if world.daemon is not None and world.life is not None and not world.life.is_dead:
            daemon = world.daemon
            run_in(world.life, lambda: world.loop.create_task(daemon.retry()))

    def _discard(self) -> None:
        """An operator throws the dead letters away."""
        world = self._world
        if world.daemon is not None and world.life is not None and not world.life.is_dead:
            daemon = world.daemon
            run_in(world.life, lambda: world.loop.create_task(daemon.discard()))

    # --- the machine --------------------------------------------------------------------------------------------

    def _restart_numbers(self, first: str, by: int, pause_s: float) -> None:
        self._world.machine.restart_numbers(first, by, pause_s)

    def _jump(self, by: int) -> None:
        self._world.machine.jump(by)

    def _clock(self, instrument: int, off_ms: float, for_s: float) -> None:
        self._world.machine.clock(instrument, off_ms, for_s)

    def _announce(self, known: int) -> None:
        """The restart of the timing system is announced, with its epoch or without."""
        world = self._world
        if world.daemon is not None and world.life is not None and not world.life.is_dead:
            daemon, epoch = world.daemon, world.machine.start + 1 if known else 0
            run_in(world.life, lambda: world.loop.create_task(daemon.announce(epoch)))

    def _odd(self, instrument: int, how_often: float, for_s: float) -> None:
        self._world.machine.odd(instrument, how_often, for_s)

    def _clocks(self, off_ms: float, for_s: float) -> None:
        for instrument in range(self._world.plan.settings.instruments):
            self._clock(instrument, off_ms, for_s)

    def _no_clocks(self, for_s: float) -> None:
        for instrument in range(self._world.plan.settings.instruments):
            self._no_clock(instrument, for_s)

    def _dead(self, instrument: int, for_s: float) -> None:
        self._world.machine.dead(instrument, for_s)

    def _no_clock(self, instrument: int, for_s: float) -> None:
        self._world.machine.no_clock(instrument, for_s)

    def _wrong_number(self, instrument: int, by: int, for_s: float) -> None:
        self._world.machine.wrong_number(instrument, by, for_s)

    def _restart_crate(self, crate: int) -> None:
        self._world.machine.crates[crate].restart.set()

    def _goodbye(self, crate: int) -> None:
        self._world.machine.crates[crate].leave()

    def _stop_crate(self, crate: int, for_s: float) -> None:
        self._world.machine.crates[crate].stopped_until_ns = self._world.loop.now_ns + int(for_s * 1e9)


# What is imported stays: a collection that walks through it would take longer than some plans do.
gc.freeze()


def play(plan: Plan) -> Result:
    """Play a plan; what it does is the same each time."""
    logging.disable(logging.CRITICAL)
    # No collector runs in between, whose moment would be another each time.
    gc.collect()
    gc.disable()
    try:
        with virtual_loop() as loop, patched(loop, plan.stream("pauses")):
            world = World(plan, loop)
            with process_ends(world.fail_stop), world.defects.ready():
                try:
                    loop.run_until_complete(world.play())
                except Stuck as error:
                    world.oracle.find("stuck", str(error))
            if world.life is not None:
                world.life.kill()
                world.life.close_tasks()
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)
    digest = hashlib.sha256("\n".join(world.trace).encode()).hexdigest()[:16]
    return Result(
        tuple(sorted(world.oracle.findings)), digest, len(world.machine.readings), world.lives, tuple(world.trace)
    )
