"""Ninety days by a clock that is given: readings are moved, reduced and dropped, and each of them is accounted for.

A daemon with three groups, its own senders, and a real server: what is late comes in time, after its period was
reduced, and after it was dropped; the server refuses some, which are retried when their period is to be reduced, or
dropped. After every look what lies on the disk keeps to the limits, and what is asked is answered as by all that was
sent. `make test-old-readings` runs twelve days of it, and `make ninety-days` all.
"""

import asyncio
import os
import time
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import asyncpg
import numpy as np
import pytest

from daemon.client.sender import Sender
from daemon.service import Service
from schemas.config import Config
from schemas.decimation import figure_bytes
from schemas.marks import Mark
from schemas.queries import Totals
from schemas.retention import Rule, Span, are_within, spans_of
from schemas.wire import Ack
from tests.daemon.retention.test_keeper import GivenClock
from tests.support.ninety_days.answers import Answers
from tests.support.ninety_days.course import COURSES, MIB, Course, configured
from tests.support.ninety_days.daemon import serving
from tests.support.ninety_days.instruments import DAY_NS, HOUR_NS, SECOND_NS, STEP_NS, Coming, Instruments
from tests.support.ninety_days.sent import Fate, Sent
from tests.support.pipelines import eventually
from tests.support.places import SLOW, PostgresqlPlaces
from tests.support.processes import here

pytestmark = pytest.mark.slow

COURSE = COURSES[int(os.environ.get("TRIGGERLOG_DAYS") or 12)]
LOOKED_WITHIN_S = 600.0
WINDOW_NS = 1_800 * SECOND_NS
MINUTE_NS = 60 * SECOND_NS
DELAY_NS = 30 * HOUR_NS
LOOKS = 3
NOT_TOLD_BYTES = 128 * 1024
"""Of the figures of some days: the server tells their number some seconds late."""
MOMENTS = 6
"""So often all is asked for."""


REFUSED = {
    "bpm": "ALTER TABLE bpm ADD CONSTRAINT bad CHECK (x <> {})",
    "ict": "ALTER TABLE ict ADD CONSTRAINT bad CHECK ({} <> ALL (x))",
}
TAKEN = "ALTER TABLE {} DROP CONSTRAINT bad"
SIZES = """
    WITH tables AS (
        SELECT oid, reltoastrelid AS toast FROM pg_class
        WHERE relnamespace = $1::regnamespace AND relkind = 'r' AND relname ~ $2 AND relname !~ '_reduced$'
    ), files AS (
        SELECT oid FROM tables UNION SELECT toast FROM tables
        UNION SELECT indexrelid FROM pg_index JOIN tables ON indrelid IN (oid, toast)
    )
    SELECT coalesce(spcname, '') AS place,
           sum(pg_relation_size(c.oid) + pg_relation_size(c.oid, 'fsm') + pg_relation_size(c.oid, 'vm'))::int8 AS nbytes
    FROM files JOIN pg_class c USING (oid) LEFT JOIN pg_tablespace t ON t.oid = reltablespace GROUP BY 1
"""


class Days:
    """A daemon, what sends to it, and the clock of both. connection: of somebody else, to the same schema."""

    def __init__(self, file: Path, course: Course, schema: str, connection: asyncpg.Connection) -> None:
        self.file = file
        self.course = course
        self.connection = connection
        self._schema = schema
        self.begin_ns = (time.time_ns() // DAY_NS - course.days - 1) * DAY_NS
        self.clock = GivenClock(self.begin_ns)
        delays_ns = STEP_NS, course.reduced * DAY_NS + DELAY_NS, course.kept * DAY_NS + DELAY_NS
        self.instruments = {
            section.name: Instruments(
                sent=Sent(section.group()),
                is_rows=section.layout is None,
                delays_ns=delays_ns,
                rng=np.random.default_rng(number),
            )
            for number, section in enumerate(Config.model_validate(tomllib.loads(file.read_text())).groups)
        }
        self.marks: list[Mark] = []
        self.bad = 1_000.0
        self.service: Service
        self._senders: dict[str, Sender] = {}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Let a daemon run, with a sender a group."""
        async with serving(self.file, self.clock) as self.service:
            (address,) = self.service.addresses.sources
            port = int(address.rsplit(":", 1)[1])
            for name in self.instruments:
                self._senders[name] = await Sender.connect("127.0.0.1", port, name, ack=Ack.COMMITTED)
            yield
            for sender in self._senders.values():
                await sender.finish()

    def day_ns(self, day: int) -> int:
        """When a day begins."""
        return self.begin_ns + day * DAY_NS

    # --- what comes ---------------------------------------------------------------------------------------------

    async def pass_day(self) -> None:
        """Let a day's readings come, and what is due of earlier ones; look every few hours what has to be done."""
        for _ in range(DAY_NS // STEP_NS):
            start_ns = self.clock.utc_ns // STEP_NS * STEP_NS
            self.clock.utc_ns = start_ns + STEP_NS
            for name, each in self.instruments.items():
                for coming in (each.take(start_ns), *each.due(start_ns)):
                    await self.send(name, coming)
            await self.settle()
            await self.look()

    async def send(self, group: str, coming: Coming, fate: Fate | None = None) -> None:
        """Send readings. fate: what becomes of them; unless it is given, what was dropped tells."""
        gone = (await self.service.store.dropped())[group]
        is_gone = are_within(spans_of(each.period for each in gone), coming.rows_ns)
        fates = np.where(is_gone, Fate.ASIDE, Fate.COMMITTED) if fate is None else np.full(len(is_gone), fate)
        self.instruments[group].sent.add(coming.block, coming.rows_ns, fates)
        await self._senders[group].send(coming.block)

    async def settle(self) -> None:
        """Let time go on until all triggers are closed, and all is acknowledged."""
        pipelines, senders = self.service.pipelines, self._senders
        await eventually(lambda: all(pipelines[name].figures().received >= senders[name].sent for name in senders))
        self.clock.utc_ns += SECOND_NS
        for sender in senders.values():
            await sender.drain_acknowledged(LOOKED_WITHIN_S)

    async def look(self) -> None:
        """Have retention, decimation and tiers look once, at the same time, as they do in a daemon."""
        keepers = (self.service.retention, self.service.decimation, self.service.tiers)
        self.clock.utc_ns += 1
        for keeper in keepers:
            keeper.look_now()
        now_ns = self.clock.utc_ns
        await eventually(
            lambda: all((status := each.status()) and status.checked_ns == now_ns for each in keepers),
            timeout_s=LOOKED_WITHIN_S,
        )

    async def make_mark(self, day: int) -> None:
        """Make a mark at noon of a day: a moment for all groups, or a stretch for one; or withdraw it again."""
        noon_ns = self.day_ns(day) + DAY_NS // 2
        is_moment = day % 2
        until_ns, group = (None, None) if is_moment else (noon_ns + 2 * HOUR_NS, "bpm")
        mark = Mark(id=uuid4(), time_ns=noon_ns, until_ns=until_ns, text="it trips", group=group)
        assert await self.service.marks.keep(mark)
        if day % 3:
            self.marks.append(mark)
        else:
            assert await self.service.marks.withdraw(mark.id)

    async def refuse(self) -> None:
        """Have the server refuse bad values from now on, others than those that it took."""
        self.bad += 1
        for statement in REFUSED.values():
            await self.connection.execute(statement.format(self.bad))

    async def retry(self) -> None:
        """Have the server take bad values, retry all dead letters, and have it refuse others from then on."""
        for name in REFUSED:
            await self.connection.execute(TAKEN.format(name))
            outcome = await self.service.pipelines[name].letters.retry()
            fates = self.instruments[name].sent.fates
            assert (outcome.rejected, outcome.readings) == (0, np.count_nonzero(fates == Fate.REFUSED))
            fates[fates == Fate.REFUSED] = Fate.COMMITTED
        await self.refuse()

    # --- what is there ------------------------------------------------------------------------------------------

    async def see_limits(self) -> None:
        """See that groups and the first tier take no more than they may, by the files of the server."""
        for _ in range(LOOKS):
            found = await self._beyond_limits()
            if not found:
                return
            # The server itself has made a file since, when it vacuumed a table.
            await self.look()
        raise AssertionError(f"more than they may take: {found}")

    async def _beyond_limits(self) -> list[str]:
        service, first, found = self.service, 0, []
        for keeper in (service.retention, service.tiers, service.decimation):
            status = keeper.status()
            assert status is not None
            assert (status.problem, getattr(status, "short", [])) == (None, [])
        for name in self.instruments:
            sizes = await self.sizes(name)
            first += sizes[""]
            if sum(sizes.values()) > self.course.most_bytes(name) + NOT_TOLD_BYTES:
                found.append(name)
        return found if first <= self.course.fast_mib * MIB + NOT_TOLD_BYTES else [*found, "fast"]

    async def sizes(self, group: str) -> dict[str, int]:
        """What the files of a group take, by tablespace; figures count by their number where that is less."""
        rows = await self.connection.fetch(SIZES, self._schema, f"^{group}([_$]|$)")
        sizes = {row["place"]: int(row["nbytes"]) for row in rows}
        each = figure_bytes(self.instruments[group].sent.group)
        figures = f"SELECT least(pg_total_relation_size('{group}_reduced'), {each} * count(*)) FROM {group}_reduced"
        return {**sizes, "": sizes[""] + int(await self.connection.fetchval(figures))}

    async def see_counts(self) -> None:
        """See that all that was sent is stored, reduced, dropped, set aside or refused, and nothing is called lost."""
        for name, each in self.instruments.items():
            found = await self.service.store.ask(Totals(group=each.sent.group, within_s=LOOKED_WITHIN_S))
            fates = each.sent.fates
            assert found["arrived"].sum() == found["account_readings"][0] == np.count_nonzero(fates == Fate.COMMITTED)
            recorded = found["arrived" if each.is_rows else "triggers"]
            assert (found["stored"] + found["dropped"]).tolist() == recorded.tolist()
            figures = self.service.pipelines[name].figures()
            assert figures.dead_letters.readings == np.count_nonzero(fates != Fate.COMMITTED)
            assert figures.letters_aside == np.count_nonzero(fates == Fate.ASIDE)
            readings = self.service.reporter.status().groups[name].readings
            assert (readings.unaccounted, readings.lost, readings.refused) == (0, {}, {})

    async def see_answers(self) -> None:
        """See that what is asked is answered as by each reading that was sent."""
        for each in self.instruments.values():
            await Answers(self.service.store, each, self._windows(each.sent.group.name)).see_all()

    def _windows(self, group: str) -> tuple[Span, ...]:
        """What lies around marks of a group."""
        return tuple(
            Span(start_ns=mark.time_ns - WINDOW_NS, end_ns=mark.last_ns + WINDOW_NS + 1)
            for mark in self.marks
            if mark.group in (None, group)
        )

    async def see_reconciled(self) -> None:
        """See that the command finds that all agree."""
        api = self.service.addresses.api
        done = await asyncio.to_thread(here, "reconcile", str(self.file), "--daemon", api)
        assert done.returncode == 0, done.stdout + done.stderr

    def see_held(self, what: str, group: str, day: int) -> None:
        """See that a keeper says that it cannot deal with a day, of which dead letters are."""
        status = getattr(self.service, what).status()
        (period,) = np.datetime_as_string(np.array([self.day_ns(day)], "datetime64[ns]"), "D")
        name = period.replace("-", "")
        assert any(line.startswith(f"{name} of {group}: dead letters") for line in status.held), status.held

    async def line(self, day: int) -> str:
        """What is there at the end of a day."""
        service = self.service
        mib = {name: sum((await self.sizes(name)).values()) / MIB for name in self.instruments}
        fast = sum([(await self.sizes(name))[""] for name in self.instruments]) / MIB
        sizes = ", ".join(f"{name} {size:.1f}" for name, size in mib.items())
        tiers, decimation = service.tiers.status(), service.decimation.status()
        assert tiers is not None
        assert decimation is not None
        done = f"moved {tiers.moved}, reduced {decimation.periods}, dropped {service.retention.status().periods}"
        return f"day {day + 1}: {done} periods; MiB: {sizes}, in the first tier {fast:.1f}"


@pytest.fixture(autouse=True)
def by_the_given_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store makes partitions for times near the server's; a keeper looks when it is told to."""
    monkeypatch.setattr("backends.columns.partitions.PAST_NS", 200 * DAY_NS)
    for module in ("retention.looking", "tiers.keeper"):
        monkeypatch.setattr(f"daemon.{module}.EVERY_S", 86_400.0)


async def begin_day(days: Days, day: int) -> None:
    """Let happen what a day begins with: marks, what the server refuses, and what of that is retried later."""
    bad, late = days.course.bad, days.course.bad + days.course.reduced + 2
    dropped = 1 + days.course.kept
    if day % 2 == 0 or day % 5 == 0:
        await days.make_mark(day)
    if day == bad:
        for name in REFUSED:
            await days.send(
                name, days.instruments[name].bad_trigger(days.day_ns(day) + MINUTE_NS, days.bad), Fate.REFUSED
            )
    if day == late:
        for name in REFUSED:
            days.see_held("decimation", name, bad)
        await days.send("bpm", days.instruments["bpm"].bad_late(days.day_ns(bad - 1), days.bad), Fate.REFUSED)
    if day == dropped:
        await days.send("bpm", days.instruments["bpm"].bad_late(days.day_ns(1), days.bad), Fate.REFUSED)
    if day == dropped + 2:
        days.see_held("retention", "bpm", 1)
    if day in (late + 1, dropped + 2):
        await days.settle()
        await days.retry()


async def pass_days(days: Days, which: range) -> None:
    """Let days pass, and see at the end of each that all is as it has to be."""
    course = days.course
    for day in which:
        await begin_day(days, day)
        await days.pass_day()
        await days.see_limits()
        await days.see_counts()
        if day % (course.days // MOMENTS) == 0 or day == course.days - 1:
            await days.see_answers()
            print(await days.line(day), flush=True)  # noqa: T201 - the log of `make ninety-days`


@pytest.mark.timeout(14_400)
async def test_days_pass_and_each_reading_is_accounted_for(postgresql_dsn: str, schema: str, tmp_path: Path) -> None:
    course = COURSE
    place = f'tablespace = "{SLOW}"'
    file = configured(tmp_path, course, dsn=postgresql_dsn, schema=schema, place=place)
    async with PostgresqlPlaces.opened(postgresql_dsn, schema) as places:
        days = Days(file, course, schema, places.connection)
        async with days.serving():
            await days.refuse()
            await pass_days(days, range(course.days // 2))
        for each in days.instruments.values():
            each.restart()
        async with days.serving():
            await pass_days(days, range(course.days // 2, course.days))
            await days.see_reconciled()
            await see_all_happened(days)


async def see_all_happened(days: Days) -> None:
    """See that each limit was met by something, and each reading that was sent is somewhere."""
    store, course = days.service.store, days.course
    dropped = await store.dropped()
    rules = {name: {each.rule for each in of} for name, of in dropped.items()}
    assert rules == {"bpm": {Rule.AGE}, "ict": {Rule.SIZE}, "blm": {Rule.AGE}}
    for name in ("bpm", "blm"):
        ended = [each for each in dropped[name] if each.period.start_ns >= days.begin_ns]
        assert len(ended) == course.days - 1 - course.kept
    for name, each in days.instruments.items():
        counts = {fate.name: int(np.count_nonzero(each.sent.fates == fate)) for fate in Fate}
        assert counts["ASIDE"]
        assert not counts["REFUSED"]
        gone, aside = sum(one.readings for one in dropped[name]), counts["ASIDE"]
        sent = f"{name}: {len(each.sent.fates)} readings sent"
        print(f"{sent}, {counts['COMMITTED']} committed, {gone} of them dropped, {aside} set aside")  # noqa: T201
