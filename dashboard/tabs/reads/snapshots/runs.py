"""Runs of snapshot readers as the page knows them: asked for once for all browsers, and only while somebody looks."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.feed.relay import RUN, NotThere, TtlCache, answer_of
from dashboard.tabs.runs import KnownRuns, ShownRun, Tick
from schemas.api.snapshots import (
    CliffPoint,
    SnapshotCycles,
    Snapshots,
    SnapshotSample,
    SnapshotSettings,
    SnapshotsLive,
    SnapshotsRun,
    SnapshotsStatus,
    SnapshotsSummary,
)

EVERY_S = 2.0
KEPT_S = 60.0
MOST = 4
"""Runs whose cycles are held."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a run has measured so far.

    record: all of it, of one that was. following: the cycles and the samples that the daemon was asked for after those
    that are here. stamp: another one whenever there is more.
    """

    id: str
    settings: SnapshotSettings
    cliff: Sequence[CliffPoint] = ()
    cycles: SnapshotCycles
    samples: Sequence[SnapshotSample] = ()
    record: SnapshotsRun | None = None
    following: tuple[int, int] = (0, 0)
    stamp: int


@dataclass(frozen=True, kw_only=True)
class Shown(ShownRun[SnapshotsStatus, SnapshotsSummary]):
    """The run that is shown, and what it has measured."""

    known: Known | None = None

    @property
    def settings(self) -> SnapshotSettings | None:
        """What was asked of it."""
        return self.live.settings if self.live else self.known.settings if self.known else None


class SnapshotRuns(KnownRuns[SnapshotsStatus, Snapshots, Known]):
    """Runs of snapshot readers."""

    def __init__(self, hub: Hub, api: DaemonApi) -> None:
        super().__init__(
            "snapshots", "Runs of snapshot readers", hub, lambda: answer_of(api, Snapshots, "/snapshots"), MOST
        )
        self._api = api
        self._due = TtlCache[Known]()

    async def ask(self, run: str) -> Known:
        """What a run has measured.

        Raises:
            DaemonUnavailable, NotThere: the daemon does not answer, or knows no such run.
        """
        status = self.status
        if status is not None and status.id == run:
            key = (run, status.state)
            return await self._due.get(key, EVERY_S, lambda: self._ask_live(status))
        return await self._due.get((run, "kept"), KEPT_S, lambda: self._ask_kept(run))

    def shown(self, tick: Tick) -> Shown:
        """The run that is chosen, as far as it is known."""
        run = self.chosen_run(tick)
        return Shown(**run, known=self.known(run["id"]))

    async def _ask_live(self, status: SnapshotsStatus) -> Known:
        before = self._known.get(status.id)
        cycles, samples = (0, 0) if before is None else before.following
        found = await answer_of(self._api, SnapshotsLive, "/snapshots/live", cycles=cycles, samples=samples)
        if found.id != status.id:  # another run has begun since that status
            raise NotThere(f"the daemon tells of the run {found.id}")
        return self.hold(status.id, followed(before, found, status.settings))

    async def _ask_kept(self, run: str) -> Known:
        if not RUN.fullmatch(run):
            raise NotThere("it is no id of a run")
        record = await answer_of(self._api, SnapshotsRun, f"/snapshots/{run}")
        known = Known(
            id=run,
            settings=record.settings,
            cliff=record.cliff,
            cycles=record.cycles,
            samples=record.timeline,
            record=record,
            stamp=_stamp(),
        )
        before = self._known.get(run)
        return self.hold(run, before if before is not None and before.record == record else known)


def followed(before: Known | None, found: SnapshotsLive, settings: SnapshotSettings) -> Known:
    """What is known of a run with what came since."""
    if before is not None and not len(found.cycles) and not found.samples and found.cliff == before.cliff:
        return before
    return Known(
        id=found.id,
        settings=settings,
        cliff=found.cliff,
        cycles=found.cycles if before is None else joined(before.cycles, found.cycles),
        samples=[*([] if before is None else before.samples), *found.samples],
        following=(found.next_cycle, found.next_sample),
        stamp=_stamp() if before is None else before.stamp + 1,
    )


def joined(before: SnapshotCycles, after: SnapshotCycles) -> SnapshotCycles:
    """Cycles one behind the other."""
    columns = SnapshotCycles.model_fields
    return SnapshotCycles.model_construct(**{name: getattr(before, name) + getattr(after, name) for name in columns})


def _stamp() -> int:
    """Another one after a restart of the page."""
    return time.time_ns() // 1_000_000
