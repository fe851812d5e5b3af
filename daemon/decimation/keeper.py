"""Looks now and then whether a partition has to be reduced, and reduces it; never two at a time."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress

from backends.base import Decimating, PeriodTouched, Store, StoreBusy, StoreError, Tiered
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.decimation.planner import Plan, PlannedReduction, aging, planned
from daemon.pipeline.pipeline import Pipeline
from daemon.retention.limits import newest_of, waits_of, was_dropped
from daemon.retention.looking import NAMED, PATIENCE_S, LeftAlone, Looking, patiently
from daemon.tiers.pace import Allowance, Paced
from schemas.api.decimation import DecimationStatus, LastReduction, NextReduction, ReducingPeriod
from schemas.config import Config
from schemas.decimation import Decimated
from schemas.retention import Period, Span, spans_of


class DecimationKeeper(Looking):
    """Reduces what a configuration asks for.

    pipelines: by group, filled when the store is open. marks_waiting: how many orders about marks wait for the
    database: what lies around a mark stays, so that nothing is reduced before it is there.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        outside: Outside,
        events: Events,
        *,
        pipelines: Mapping[str, Pipeline],
        marks_waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(outside, events, "decimation cannot reduce all that it has to")
        self._store = store
        self._config = config
        self._pipelines = pipelines
        self._marks_waiting = marks_waiting
        self._allowance = Allowance(config.readers.governor, pipelines)
        self._plan = Plan()
        self._account: Mapping[str, Sequence[Decimated]] = {}
        self._looked_at: set[tuple[str, str]] = set()
        """Periods that were gone through since the start: before it, readings may have come that nobody knows of."""
        self._touched = LeftAlone(outside.clock)
        self._refused: dict[tuple[str, str], str] = {}
        self._reducing: tuple[PlannedReduction, Paced] | None = None
        self._begun: list[Period] = []
        """Periods that were begun since the account was read last."""
        self._read: set[tuple[str, str]] = set()

    @property
    def is_asked_for(self) -> bool:
        """True where something is to be reduced."""
        return bool(self._config.reductions)

    def change(self, config: Config) -> None:
        """Reduce by this configuration from now on; where it asks for something else, it is looked at once."""
        if config.reductions != self._config.reductions:
            self.look_now()
        self._config = config
        self._allowance.change(config.readers.governor)

    async def _look(self) -> str | None:
        """Go on with what was begun, and reduce all that has to be reduced now."""
        if not isinstance(self._store, Decimating) or not (self._config.reductions or self._checked_ns is None):
            self._plan = Plan()
            return None
        self._refused = {}
        await self._plan_again(self._store)
        await self._clear_up()
        for _ in range(len(self._plan.reductions)):
            if not self._plan.reductions:
                break
            await self._try_to_reduce(self._store, self._plan.reductions[0])
            await self._plan_again(self._store)
        return "; ".join(dict.fromkeys(self._refused.values())) or None

    async def _plan_again(self, store: Decimating) -> None:
        partitions, dropped = await self._store.partitions(), await self._store.dropped()
        self._account = await store.decimated()
        self._begun = []
        self._tell_pipelines()
        newest = await newest_of(self._store, aging(self._config))
        left_alone = {name: await self._left_alone(name) for name in partitions}
        waited_for = await waits_of(self._pipelines, partitions, left_alone)
        if self._marks_waiting():
            wait = "marks wait for the database, and what lies around them stays"
            waited_for = {name: dict.fromkeys((each.name for each in of), wait) for name, of in partitions.items()}
        self._plan = planned(
            self._config,
            partitions,
            dropped,
            self._account,
            waited_for,
            late={name: self._late(store, name) for name in partitions},
            newest=newest,
            now_ns=self._now_ns(),
        )

    async def _clear_up(self) -> None:
        """Remove what is left of giving room back where the period was dropped meanwhile; with tiers, these do."""
        if not isinstance(self._store, Tiered) or self._config.tiers:
            return
        wanted = {each.period.label for each in self._plan.reductions}
        for move in await self._store.moves():
            if (move.group, move.name) not in wanted:
                # Where somebody is at it, it is looked again.
                with suppress(StoreBusy):
                    await self._store.give_up_move(move, patience_s=PATIENCE_S[0])

    async def _left_alone(self, group: str) -> dict[str, str]:
        touched = dict.fromkeys(self._touched.names(group), "readings came for it while its room was given back")
        moves = await self._store.moves() if isinstance(self._store, Tiered) else ()
        own = {each.period.name for each in self._account.get(group, ()) if each.ended_ns is None}
        moved = {each.name: "it is being moved" for each in moves if each.group == group and each.name not in own}
        return touched | moved | {name: why for (of, name), why in self._refused.items() if of == group}

    def _late(self, store: Decimating, group: str) -> Collection[str]:
        """Names of a group's periods that readings came for, or may have come for, since they were reduced."""
        ended = {each.period.name for each in self._account.get(group, ()) if each.ended_ns is not None}
        return {*store.late(group), *(name for name in ended if (group, name) not in self._looked_at)}

    async def _try_to_reduce(self, store: Decimating, reduction: PlannedReduction) -> None:
        """Reduce a period; one that the database refuses, or cannot reduce now, holds up no other.

        Raises:
            StoreUnavailable: the database does not answer at all.
        """
        period = reduction.period
        before = next((each for each in self._account.get(period.group, ()) if each.period == period), None)
        # There and back: it is gone through, and what is left of it is written again.
        paced = Paced(2 * reduction.nbytes, self._config.decimation.mib_per_s, self._allowance.share)
        self._reducing = reduction, paced
        self._begun.append(period)
        self._read.add(period.label)
        self._tell_pipelines(period)
        try:
            after = await _reduced_patiently(store, reduction, paced, self._now_ns())
        except PeriodTouched as error:
            self._touched.add(period)
            self._events.info(f"{error}; its readings are reduced, and its room is given back later")
        except StoreError as error:
            # Where a disk is full or not there it is as unavailable for that period, and answers.
            if not await was_dropped(self._store, period):
                self._refused[period.label] = str(error)
        else:
            self._touched.forget(period)
            self._looked_at.add(period.label)
            self._tell(reduction, after.readings - (0 if before is None else before.readings))
        finally:
            self._reducing = None

    def _tell_pipelines(self, *more: Period) -> None:
        """Tell what was reduced, and what is about to be, before any of it is."""
        for name, pipeline in self._pipelines.items():
            there = [each.period for each in self._account.get(name, ())]
            pipeline.dropped.reduce([*there, *(period for period in more if period.group == name)])

    def _tell(self, reduction: PlannedReduction, readings: int) -> None:
        if readings:
            self._events.info(
                f"{reduction.period.name} of group {reduction.period.group} was reduced to {reduction.how.words},"
                f" {readings:,} readings: {reduction.reason}; the ledger stays"
            )

    # --- what others ask ----------------------------------------------------------------------------------------

    def busy(self, group: str) -> Collection[str]:
        """Names of a group's periods that are being reduced."""
        if self._reducing is None or self._reducing[0].period.group != group:
            return ()
        return (self._reducing[0].period.name,)

    def take_read(self) -> Collection[tuple[str, str]]:
        """Groups and names of periods that were read to reduce them since it was last asked."""
        read = self._read
        self._read = set() if self._reducing is None else read & {self._reducing[0].period.label}
        return read

    def spans(self, group: str) -> tuple[Span, ...]:
        """The stretches of time of which readings of a group were reduced, or are being reduced, as last looked."""
        return self._spans(self._account, group)

    async def spans_now(self, group: str) -> tuple[Span, ...]:
        """The same; where nobody looked yet, the store is asked.

        Raises:
            StoreError: it does not answer.
        """
        if not self._account and isinstance(self._store, Decimating):
            return self._spans(await self._store.decimated(), group)
        return self.spans(group)

    def _spans(self, account: Mapping[str, Sequence[Decimated]], group: str) -> tuple[Span, ...]:
        begun = (period for period in self._begun if period.group == group)
        return spans_of([*(each.period for each in account.get(group, ())), *begun])

    def account(self, group: str) -> Sequence[Decimated]:
        """What was reduced of a group, or is being reduced, as last looked."""
        return self._account.get(group, ())

    def status(self) -> DecimationStatus | None:
        """How it is; None where nothing is to be reduced."""
        if not self._config.reductions:
            return None
        account = [each for of in self._account.values() for each in of]
        ended = [(each.ended_ns, each) for each in account if each.ended_ns is not None]
        last = max(ended, key=lambda each: each[0], default=None)
        following = self._plan.next
        return DecimationStatus(
            periods=len(ended),
            readings=sum(each.readings for each in account),
            size_bytes=sum(each.size_bytes for _, each in ended),
            last=None
            if last is None
            else LastReduction(group=last[1].period.group, name=last[1].period.name, at_ns=last[0]),
            reducing=None if self._reducing is None else _reducing(*self._reducing),
            waiting=max(0, len(self._plan.reductions) - (self._reducing is not None)),
            next=None
            if following is None
            else NextReduction(group=following.period.group, name=following.period.name, at_ns=following.at_ns),
            held=[held.words for held in self._plan.held[:NAMED]],
            problem=self._problem,
            checked_ns=self._checked_ns,
        )


async def _reduced_patiently(store: Decimating, reduction: PlannedReduction, paced: Paced, at_ns: int) -> Decimated:
    period = reduction.period

    def once(patience_s: float) -> Awaitable[Decimated]:
        return store.decimate(
            period,
            reduction.how,
            window_ns=reduction.window_ns,
            at_ns=at_ns,
            pace=paced,
            patience_s=patience_s,
        )

    return await patiently(once, f"{period.name} of group {period.group} cannot be reduced")


def _reducing(reduction: PlannedReduction, paced: Paced) -> ReducingPeriod:
    return ReducingPeriod(
        group=reduction.period.group,
        name=reduction.period.name,
        how=reduction.how.words,
        done=paced.done,
        left_s=paced.left_s(),
    )
