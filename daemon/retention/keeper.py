"""Looks now and then whether a limit asks for something to be dropped, and drops it; never two at a time."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from backends.base import Store, StoreBusy, StoreError
from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.outside import Outside
from daemon.pipeline.pipeline import Pipeline
from daemon.retention.limits import (
    Usage,
    aging,
    are_limited,
    decimated_of,
    disk_of,
    folder_of,
    lying_of,
    newest_of,
    states_of,
    usage_of,
    waiting_of,
)
from daemon.retention.looking import AGAIN_FIRST_S, AGAIN_MOST_S, NAMED, PATIENCE_S, TRIES, Looking
from daemon.retention.planner import DiskState, Drop, Plan, Short, plan
from daemon.web.rates import Backoff
from schemas.api.retention import DroppedPeriod, NextPeriod, RetentionStatus
from schemas.config import Config, RetentionConfig
from schemas.config.retention import GroupRetentionConfig
from schemas.retention import Dropped, Period, Rule

SHOWS = 0.25
"""The part of a dropped period that at least has to be free afterwards; others may write meanwhile."""
GIB = 2**30


class RetentionKeeper(Looking):
    """Drops what the limits of a configuration ask for.

    pipelines: by group, filled when the store is open. usage: tells the disk.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        state_dir: Path,
        outside: Outside,
        events: Events,
        *,
        pipelines: Mapping[str, Pipeline],
        usage: Usage = usage_of,
    ) -> None:
        super().__init__(outside, events, "retention cannot drop all that its limits ask for")
        self._store = store
        self._config = config
        self._state_dir = state_dir
        self._pipelines = pipelines
        self._usage = usage
        self._dropped: Mapping[str, Sequence[Dropped]] = {}
        self._told: dict[str, set[Period]] = {}
        self._refused: dict[tuple[str, Rule], str] = {}
        self._disk_problem: str | None = None
        self._awaited: tuple[Drop, int] | None = None
        """What was dropped last for the disk, and how many bytes have to be free before more is."""
        self._plan = Plan()
        self._dropping: str | None = None

    def change(self, config: Config) -> None:
        """Drop by these limits from now on; where they are others, it is looked at once."""
        if _limits(config) != _limits(self._config):
            self._awaited = None
            self.look_now()
        self._config = config

    @property
    def every_s(self) -> float:
        """Time from one look to the next, in s."""
        return self._config.retention.check_every_s

    async def _look(self) -> str | None:
        """Go on with what was begun, and drop all that has to be dropped now."""
        self._refused, self._disk_problem = {}, None
        try:
            await self._drop_all()
        except (StoreError, OSError):
            # With nothing to drop it is no problem of retention that the database is away.
            if self._begun() or are_limited(self._config):
                raise
            return self._problem
        finally:
            self._dropping = None
        problems = [*self._refused.values(), *([self._disk_problem] if self._disk_problem else [])]
        return "; ".join(dict.fromkeys(problems)) or None

    async def _drop_all(self) -> None:
        """One at a time, each by a plan of its own: what a drop really frees shows in the next.

        Where a file system, or a server's estimate, shows that late, no more goes than was planned at first. Where a
        table is in use, limits and what waits may be others after the pause. What one group refuses holds up no other.
        """
        pauses, tries, left = Backoff(AGAIN_FIRST_S, AGAIN_MOST_S), 0, None
        while (drop := await self._next()) is not None:
            is_planned = drop in self._plan.drops
            left = len(self._plan.drops) if is_planned and left is None else left
            if is_planned and not left:
                return
            try:
                await self._drop(drop, PATIENCE_S[min(tries, len(PATIENCE_S) - 1)])
            except StoreBusy as error:
                tries += 1
                # Until the next try it stays what it is: what comes late for it is stored.
                await self._look_at_account()
                if tries < TRIES:
                    await pauses.pause()
                    continue
                name, group = drop.period.name, drop.period.group
                in_use = f"{name} of group {group} cannot be dropped: {error}"
                self._refused |= {(group, rule): in_use for rule in Rule}
            except StoreError as error:
                # A partition whose disk is not there is as unavailable as a database, which the next look at the
                # account tells from it.
                self._refused[drop.period.group, drop.rule] = str(error)
            tries = 0
            pauses.reset()
            left = left - 1 if is_planned and left is not None else left

    async def _next(self) -> Drop | None:
        """What to drop now: what was begun and has not ended, then what limits ask for."""
        await self._look_at_account()
        for found in self._begun():
            if (found.period.group, found.rule) not in self._refused:
                # The process before has ended in the middle of it, or the connection was lost.
                return Drop(period=found.period, rule=found.rule, reason="it was begun", nbytes=0)
        self._plan = await self._planned() if are_limited(self._config) else Plan()
        return next(iter(self._plan.drops), None)

    def _begun(self) -> list[Dropped]:
        return [each for group in self._dropped.values() for each in group if each.dropped_ns is None]

    async def _look_at_account(self) -> None:
        """Ask what was dropped, and tell the pipelines: another daemon may have done so, or nothing came of a try."""
        self._dropped = await self._store.dropped()
        for name, pipeline in self._pipelines.items():
            there = {each.period for each in self._dropped.get(name, ())}
            told = self._told.get(name, set())
            for period in there - told:
                if not pipeline.dropped.has(period):
                    pipeline.dropped.add(period)
            for period in told - there:
                pipeline.dropped.take_out(period)
            self._told[name] = there

    async def _planned(self) -> Plan:
        partitions = await self._store.partitions()
        newest = await newest_of(self._store, aging(self._config))
        decimated = await decimated_of(self._store)
        waited_for = {name: waiting_of(each, partitions.get(name, ())) for name, each in self._pipelines.items()}
        disk = self._disk()
        asked: set[str] = set()
        while True:
            states = states_of(
                self._config,
                partitions,
                self._dropped,
                waited_for,
                newest=newest,
                refused=self._refused,
                decimated=decimated,
            )
            made = plan(states, disk, self._now_ns())
            # Dead letters are read only where something would go.
            wanted = {drop.period.group for drop in made.drops} & self._pipelines.keys() - asked
            if not wanted:
                return made
            for name in wanted:
                waited_for[name] |= await lying_of(self._pipelines[name], partitions.get(name, ()))
            asked |= wanted

    def _disk(self) -> DiskState | None:
        """The disk where a limit asks for it; one that cannot be looked at keeps no other limit from being met.

        Nor is one counted on where the last drop has freed nothing: all readings would go, and the disk stay full.
        """
        self._disk_problem = None
        folder = folder_of(self._config, self._state_dir)
        try:
            found = disk_of(self._config, self._state_dir, self._usage)
        except OSError as error:
            self._disk_problem = f"the disk of {folder} cannot be looked at: {reason_of(error)}"
            return None
        if found is None or self._awaited is None:
            return found
        last, free = self._awaited
        if found.free < min(free, found.free_wanted):
            self._disk_problem = (
                f"{last.period.name} of group {last.period.group} was dropped for the disk of {folder}, which freed"
                f" nothing there: something else fills it, or holds what was dropped (a snapshot of the file system, a"
                f" replication slot); no more goes for it until {free / GIB:,.3g} GiB are free"
            )
            return None
        self._awaited = None
        return found

    async def _drop(self, drop: Drop, patience_s: float) -> None:
        """Drop a period, unless it has to wait for something by now."""
        period, pipeline = drop.period, self._pipelines.get(drop.period.group)
        if pipeline is not None and not await self._is_claimed(pipeline, period):
            return
        self._dropping = f"{period.name} of {period.group}: {drop.reason}"
        disk = self._disk() if drop.rule is Rule.DISK else None
        dropped = await self._store.drop(period, drop.rule, at_ns=self._now_ns(), patience_s=patience_s)
        if disk is not None:
            self._awaited = drop, disk.free + int(SHOWS * drop.nbytes)
        self._events.info(
            f"retention dropped {period.name} of group {period.group}, {dropped.readings:,} readings of"
            f" {dropped.triggers:,} triggers, {dropped.size_bytes / GIB:,.3g} GiB: {drop.reason}; the ledger stays"
        )

    async def _is_claimed(self, pipeline: Pipeline, period: Period) -> bool:
        """Have nothing of a period stored from now on; False where something of it waits."""
        if pipeline.dropped.has(period):
            return True
        # In one step of the event loop: what comes from now on finds that it is dropped.
        if pipeline.waits_for(period):
            return False
        pipeline.dropped.add(period)
        self._told.setdefault(period.group, set()).add(period)
        # What waited when it was planned may be a dead letter now.
        return not any(await pipeline.letters.are_of([period]))

    # --- what others ask ----------------------------------------------------------------------------------------

    def account(self, group: str) -> Sequence[Dropped]:
        """What was dropped of a group, as last looked."""
        return self._dropped.get(group, ())

    def status(self) -> RetentionStatus:
        """How it is."""
        ended = [each for group in self._dropped.values() for each in group if each.dropped_ns is not None]
        last = max(ended, key=lambda each: each.dropped_ns or 0, default=None)
        following = self._plan.next
        return RetentionStatus(
            is_limited=are_limited(self._config),
            periods=len(ended),
            readings=sum(each.readings for each in ended),
            size_bytes=sum(each.size_bytes for each in ended),
            last=None if last is None else DroppedPeriod.of(last),
            dropping=self._dropping,
            next=None
            if following is None
            else NextPeriod(group=following.period.group, name=following.period.name, at_ns=following.at_ns),
            held=[held.words for held in self._plan.held[:NAMED]],
            short=[words_of(short) for short in self._plan.short],
            problem=self._problem,
            checked_ns=self._checked_ns,
        )


def _limits(config: Config) -> tuple[RetentionConfig, list[GroupRetentionConfig]]:
    return config.retention, [section.retention for section in config.groups]


def words_of(short: Short) -> str:
    """What a limit is short of, in one line."""
    missing = f"{short.nbytes / GIB:,.3g} GiB"
    if short.group is None:
        return f"the disk of the database lacks {missing} of what has to be free"
    return f"group {short.group} takes {missing} more than it may"
