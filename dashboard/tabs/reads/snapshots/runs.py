"""Runs of snapshot readers as the page knows them: asked for once for all browsers, and only while somebody looks."""

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.feed.cache import TtlCache
from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.feed.relay import RUN, NotThere, answer_of
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
PAST_EVERY_S = 10.0
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
class Shown:
    """The run that is shown.

    id: empty is none. live: its status, where it is the one that the daemon tells of. kept: its line among the past
    runs. is_listed: whether these are known at all. is_dead: whether nothing comes from the daemon. is_busy: whether a
    run is under way, this one or another.
    """

    id: str
    live: SnapshotsStatus | None = None
    kept: SnapshotsSummary | None = None
    known: Known | None = None
    is_listed: bool = True
    is_dead: bool = False
    is_busy: bool = False

    @property
    def settings(self) -> SnapshotSettings | None:
        """What was asked of it."""
        return self.live.settings if self.live else self.known.settings if self.known else None


class SnapshotRuns:
    """What is known of the run under way, which the status stream tells of, and of those that were.

    listed: the past runs. version: of that list, another one whenever it changes.
    """

    def __init__(self, hub: Hub, api: DaemonApi) -> None:
        self._hub = hub
        self._api = api
        self._lists = TtlCache[Snapshots]()
        self._due = TtlCache[Known]()
        self._known: OrderedDict[str, Known] = OrderedDict()
        self.listed: Snapshots | None = None
        self.version = 0

    @property
    def status(self) -> SnapshotsStatus | None:
        """Of the run under way, or of the last one since the daemon started."""
        return None if self._hub.status is None else self._hub.status.snapshots

    async def ask_list(self) -> None:
        """Have `listed` be no older than is seen.

        Raises:
            DaemonUnavailable, NotThere: the daemon does not answer, or does not know such runs.
        """
        now = None if self.status is None else (self.status.id, self.status.state)
        before = self.listed
        self.listed = await self._lists.get(now, PAST_EVERY_S, lambda: answer_of(self._api, Snapshots, "/snapshots"))
        if before is None or before.past != self.listed.past:
            self.version += 1

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

    def known(self, run: str) -> Known | None:
        """What was asked for last of a run."""
        return self._known.get(run)

    def chosen(self, view: Mapping[str, Any]) -> str:
        """The run that the address names; without one what runs now or ran last; empty where there is none."""
        newest = self.listed.past[0].id if self.listed is not None and self.listed.past else ""
        return str(view.get("snapshots") or (newest if self.status is None else self.status.id))

    def shown(self, tick: Mapping[str, Any] | None) -> Shown:
        """The run that is chosen, as far as it is known; tick: see parts.tick."""
        given = tick or {"view": {}, "dead": True}
        run = self.chosen(given["view"])
        past = [] if self.listed is None else self.listed.past
        return Shown(
            id=run,
            live=self.status if self.status is not None and self.status.id == run else None,
            kept=next((one for one in past if one.id == run), None),
            known=self._known.get(run),
            is_listed=self.listed is not None,
            is_dead=bool(given["dead"]),
            is_busy=self.status is not None and self.status.is_active,
        )

    async def _ask_live(self, status: SnapshotsStatus) -> Known:
        before = self._known.get(status.id)
        cycles, samples = (0, 0) if before is None else before.following
        found = await answer_of(self._api, SnapshotsLive, "/snapshots/live", cycles=cycles, samples=samples)
        if found.id != status.id:  # another run has begun since that status
            raise NotThere(f"the daemon tells of the run {found.id}")
        return self._hold(followed(before, found, status.settings))

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
        return self._hold(before if before is not None and before.record == record else known)

    def _hold(self, known: Known) -> Known:
        self._known[known.id] = known
        self._known.move_to_end(known.id)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return known


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
