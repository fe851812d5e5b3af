"""Looks now and then whether a limit asks for something to be dropped, and drops it; never two at a time."""

from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

from backends.base import Store, StoreError
from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.outside import Outside
from daemon.pipeline.pipeline import Pipeline
from daemon.retention.limits import Usage, are_limited, disk_of, folder_of, states_of, usage_of, what_waits
from daemon.retention.looking import Looking, patiently
from daemon.retention.planner import Drop, Plan, Short, plan
from schemas.api.retention import DroppedPeriod, NextPeriod, RetentionStatus
from schemas.config import Config
from schemas.retention import Dropped, Period

NAMED = 3
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
        super().__init__(outside, events, "retention can drop nothing now")
        self._store = store
        self._config = config
        self._state_dir = state_dir
        self._pipelines = pipelines
        self._usage = usage
        self._dropped: Mapping[str, Sequence[Dropped]] = {}
        self._plan = Plan()
        self._dropping: str | None = None

    def change(self, config: Config) -> None:
        """Drop by these limits from now on."""
        self._config = config

    @property
    def every_s(self) -> float:
        """How long it is from one look to the next."""
        return self._config.retention.check_every_s

    async def _look(self) -> str | None:
        """Go on with what was begun, and drop all that has to be dropped now."""
        begun: list[Dropped] = []
        try:
            self._dropped = await self._store.dropped()
            begun = [each for group in self._dropped.values() for each in group if each.dropped_ns is None]
            for found in begun:
                # The process before has ended in the middle of it.
                await self._drop(Drop(period=found.period, rule=found.rule, reason="it was begun", nbytes=0))
            await self._drop_all()
        except (StoreError, OSError) as error:
            # With nothing to drop it is no problem of retention that the database is away.
            if begun or are_limited(self._config):
                return str(error) if isinstance(error, StoreError) else self._disk_problem(error)
            return self._problem
        return None

    async def _drop_all(self) -> None:
        """One at a time, each by a plan of its own: what a drop really frees shows in the next.

        Where a file system, or a server's estimate, shows that late, no more goes than was planned at first.
        """
        if not are_limited(self._config):
            self._plan = Plan()
            return
        self._plan = await self._planned()
        for _ in range(len(self._plan.drops)):
            if not self._plan.drops or not await self._drop(self._plan.drops[0]):
                break
            self._plan = await self._planned()

    async def _planned(self) -> Plan:
        partitions = await self._store.partitions()
        self._dropped = await self._store.dropped()
        waited_for = {
            name: await what_waits(pipeline, partitions.get(name, ())) for name, pipeline in self._pipelines.items()
        }
        states = states_of(self._config, partitions, self._dropped, waited_for)
        return plan(states, disk_of(self._config, self._state_dir, self._usage), self._outside.clock.now().utc_ns)

    async def _drop(self, drop: Drop) -> bool:
        """Drop a period; False where it has to wait for something."""
        period, pipeline = drop.period, self._pipelines.get(drop.period.group)
        is_new = pipeline is not None and not pipeline.dropped.has(period)
        if pipeline is not None and is_new:
            # In one step of the event loop: what comes from now on finds that it is dropped.
            if pipeline.waits_for(period):
                return False
            pipeline.dropped.add(period)
        self._dropping = f"{period.name} of {period.group}: {drop.reason}"
        try:
            dropped = await self._drop_patiently(drop)
        except StoreError:
            if pipeline is not None and is_new and not await self._is_begun(period):
                pipeline.dropped.take_out(period)
            raise
        finally:
            self._dropping = None
        self._dropped = {**self._dropped, period.group: (*self._dropped.get(period.group, ()), dropped)}
        self._events.info(
            f"retention dropped {period.name} of group {period.group}, {dropped.readings:,} readings of"
            f" {dropped.triggers:,} triggers, {dropped.size_bytes / GIB:,.3g} GiB: {drop.reason}; the ledger stays"
        )
        return True

    async def _drop_patiently(self, drop: Drop) -> Dropped:
        period = drop.period

        def once(patience_s: float) -> Awaitable[Dropped]:
            at_ns = self._outside.clock.now().utc_ns
            return self._store.drop(period, drop.rule, at_ns=at_ns, patience_s=patience_s)

        return await patiently(
            once, f"{period.name} of group {period.group} cannot be dropped: its table is always in use"
        )

    async def _is_begun(self, period: Period) -> bool:
        """Whether a period was set apart before something failed; where nobody knows it is taken to be so."""
        try:
            return any(each.period == period for each in (await self._store.dropped()).get(period.group, ()))
        except StoreError:
            return True

    def _disk_problem(self, error: OSError) -> str:
        return f"the disk of {folder_of(self._config, self._state_dir)} cannot be looked at: {reason_of(error)}"

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
            held=[f"{held.period.name} of {held.period.group}: {held.reason}" for held in self._plan.held[:NAMED]],
            short=[words_of(short) for short in self._plan.short],
            problem=self._problem,
            checked_ns=self._checked_ns,
        )


def words_of(short: Short) -> str:
    """What a limit is short of, in one line."""
    missing = f"{short.nbytes / GIB:,.3g} GiB"
    if short.group is None:
        return f"the disk of the database lacks {missing} of what has to be free"
    return f"group {short.group} takes {missing} more than it may"
