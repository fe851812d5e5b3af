"""What `GET /api/v1/storage` tells: put together from what the daemon knows anyway, and the partitions now and then."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from backends.base import Partition, Store, StoreError
from backends.ending import end_tasks
from daemon.pipeline.figures import PipelineFigures
from daemon.pipeline.pipeline import Pipeline
from daemon.telemetry.status.reporter import Reporter
from daemon.telemetry.store import DAY_S, StoreReport, full_in_days
from schemas.api.storage import GroupStorage, JournalStorage, PartitionStorage, ReducedStorage, Storage
from schemas.batch import Layout
from schemas.config import JournalConfig
from schemas.decimation import Decimated
from schemas.retention import Dropped, spans_of

PARTITIONS_EVERY_S = 30.0
"""Asking for them looks at every partition's size: seldom enough not to slow the writing."""

PATIENCE_S = 1.0
"""An answer waits so long for the server; what the daemon knows by itself does not wait for one that hangs."""

MIB = 2**20


class StorageReport:
    """Reports on storage; the server is asked for nothing but the partitions, however many want to know.

    dropped, reduced: what retention has dropped of a group, and decimation reduced. tier_named: the tier that a place
    is. heat_of: how hot a group's partition is, in s a day.
    """

    def __init__(
        self,
        store: Store,
        report: StoreReport,
        reporter: Reporter,
        *,
        dropped: Callable[[str], Sequence[Dropped]] = lambda group: (),
        reduced: Callable[[str], Sequence[Decimated]] = lambda group: (),
        tier_named: Callable[[str | None], str | None] = lambda place: None,
        heat_of: Callable[[str, str], float | None] = lambda group, name: None,
    ) -> None:
        self._heat_of = heat_of
        self._tier_named = tier_named
        self._dropped = dropped
        self._reduced = reduced
        self._store = store
        self._report = report
        self._reporter = reporter
        self._looking: asyncio.Task[None] | None = None
        self._asked_s: float | None = None
        self._known_s: float | None = None
        self._partitions: Mapping[str, tuple[Partition, ...]] = {}
        self._problem: str | None = None

    async def storage(self) -> Storage:
        """Storage now. A server that is away leaves its part as it was, and says why."""
        await self._look_at_partitions()
        facts = self._report.facts
        groups = {name: self._group(name, pipeline) for name, pipeline in self._reporter.pipelines.items()}
        disk = self._reporter.disk
        is_here = facts is not None and facts.embedded
        free = None if disk is None else disk.free_bytes
        return Storage(
            time_ns=time.time_ns(),
            sizes_age_s=self._report.growth.age_s(),
            partitions_age_s=None if self._known_s is None else time.monotonic() - self._known_s,
            partitions_problem=self._problem,
            database_is_here=is_here,
            free_bytes=free,
            full_in_days=full_in_days(free, _growth(groups)) if is_here and free is not None else None,
            groups=groups,
        )

    async def close(self) -> None:
        """Ask the server nothing more."""
        if self._looking is not None:
            await end_tasks(self._looking)

    async def _look_at_partitions(self) -> None:
        now_s = time.monotonic()
        if self._looking is None and (self._asked_s is None or now_s - self._asked_s >= PARTITIONS_EVERY_S):
            self._asked_s = now_s
            self._looking = asyncio.create_task(self._ask_for_partitions(), name="partitions")
        looking = self._looking  # others may ask meanwhile
        if looking is None:
            return
        # Once for each question to the server: while it hangs, every other answer would come late, too.
        left_s = PATIENCE_S - (now_s - (self._asked_s or now_s)) if self._problem is None else 0.0
        await asyncio.wait([looking], timeout=max(0.0, left_s))
        if not looking.done():
            self._problem = f"the database has not answered for {time.monotonic() - (self._asked_s or now_s):.0f} s"
            return
        if self._looking is looking:
            self._looking = None
        looking.result()

    async def _ask_for_partitions(self) -> None:
        try:
            self._partitions = await self._store.partitions()
        except StoreError as error:
            self._problem = str(error)
        else:
            self._problem, self._known_s = None, time.monotonic()

    def _group(self, name: str, pipeline: Pipeline) -> GroupStorage:
        facts = self._report.facts
        rows = facts.rows.get(name, 0) if facts else 0
        size = facts.size_bytes.get(name, 0) if facts else 0
        figures = pipeline.figures()
        account = self._reduced(name)
        gone = sum(each.readings for each in self._dropped(name)) + sum(each.readings for each in account)
        readings = max(rows * _readings_a_row(pipeline), figures.account - gone)
        each = size / readings if readings and size else None
        measured, over_s = self._report.growth.bytes_a_day(name)
        return GroupStorage(
            rows=rows,
            readings=readings,
            size_bytes=size,
            bytes_a_reading=each,
            growth_bytes_a_day=None if each is None else each * self._reporter.commit_rate(name) * DAY_S,
            measured_bytes_a_day=measured,
            measured_over_s=over_s,
            partitions=[self._partition(name, found, account) for found in self._partitions.get(name, ())],
            reduced=_reduced(account, self._partitions.get(name, ())),
            journal=_journal(figures, self._reporter.config.journal) if pipeline.has_log else None,
        )

    def _partition(self, group: str, found: Partition, account: Sequence[Decimated]) -> PartitionStorage:
        return PartitionStorage(
            name=found.name,
            start_ns=found.start_ns,
            end_ns=found.end_ns,
            rows=found.rows,
            size_bytes=found.size_bytes,
            tier=None if found.readings_bytes is None else self._tier_named(found.place),
            reduced=next((each.how.words for each in account if each.period.name == found.name), None),
            heat_s_a_day=None if found.readings_bytes is None else self._heat_of(group, found.name),
        )


def _readings_a_row(pipeline: Pipeline) -> int:
    return pipeline.group.size if pipeline.layout == Layout.ARRAYS else 1


def _journal(figures: PipelineFigures, section: JournalConfig) -> JournalStorage:
    return JournalStorage(
        size_bytes=figures.journal_bytes,
        room_bytes=max(0, figures.room_bytes),
        limit_bytes=int(section.max_mib * MIB),
        segment_bytes=int(section.segment_mib * MIB),
        problem=figures.journal_problem,
    )


def _growth(groups: Mapping[str, GroupStorage]) -> float:
    growth = 0.0
    for group in groups.values():
        measured = group.measured_bytes_a_day
        growth += (group.growth_bytes_a_day or 0.0) if measured is None else measured
    return growth


def _reduced(account: Sequence[Decimated], partitions: Sequence[Partition]) -> ReducedStorage | None:
    ended = [each for each in account if each.ended_ns is not None]
    if not ended:
        return None
    names = {each.period.name for each in ended}
    there = [each for each in partitions if each.name in names]
    spans = spans_of(each.period for each in ended)
    gone = sum(rows for each in ended for rows in each.stored.values())
    stayed = sum(each.rows for each in there)
    return ReducedStorage(
        periods=len(ended),
        readings=sum(each.readings for each in ended),
        rows_before=gone + stayed,
        rows_after=stayed,
        bytes_before=sum(each.size_bytes for each in ended),
        bytes_after=sum(each.readings_bytes or 0 for each in there),
        from_ns=[span.start_ns for span in spans],
        to_ns=[span.end_ns for span in spans],
    )
