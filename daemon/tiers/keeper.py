"""Looks now and then whether a partition has to lie in another tier, and moves it; never two at a time."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress

from backends.base import PeriodTouched, Store, StoreBusy, StoreError, StoreUnavailable, Tiered
from daemon.core.monitoring.events import Events
from daemon.core.outcome import reason_of
from daemon.core.outside import Outside
from daemon.pipeline.pipeline import Pipeline
from daemon.retention.limits import lying_of, newest_of, states_of, waiting_of
from daemon.retention.looking import PATIENCE_S, LeftAlone, Looking, patiently
from daemon.retention.planner import GIB
from daemon.tiers.limits import aging, planned, tiers_of
from daemon.tiers.pace import Allowance, Paced
from daemon.tiers.planner import Plan, PlannedMove, Short, sizes_of, tier_of
from schemas.api.tiers import MovingPeriod, NextMove, TiersStatus, TierStatus
from schemas.config import Config

EVERY_S = 60.0
NAMED = 3


class TierKeeper(Looking):
    """Moves what the tiers of a configuration ask for.

    pipelines: by group, filled when the store is open. busy: names of a group's periods that something else is done
    with.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        outside: Outside,
        events: Events,
        *,
        pipelines: Mapping[str, Pipeline],
        busy: Callable[[str], Collection[str]] = lambda _: (),
    ) -> None:
        super().__init__(outside, events, "tiers cannot move all that their limits ask for")
        self._store = store
        self._config = config
        self._pipelines = pipelines
        self._busy = busy
        self._allowance = Allowance(config.readers.governor, pipelines)
        self._plan = Plan()
        self._sizes: Sequence[int] = ()
        self._counts: Sequence[int] = ()
        self._touched = LeftAlone()
        self._refused: dict[tuple[str, str], str] = {}
        self._moving: tuple[PlannedMove, Paced] | None = None
        self._moved = 0

    @property
    def every_s(self) -> float:
        """How long it is from one look to the next."""
        return EVERY_S

    def change(self, config: Config) -> None:
        """Move by this configuration from now on; where its tiers are others, it is looked at once."""
        if config.tiers != self._config.tiers:
            self.look_now()
        self._config = config
        self._allowance.change(config.readers.governor)

    async def _look(self) -> str | None:
        """Go on with what was begun, clear up what is not wanted any more, and move all that has to be moved now."""
        if not isinstance(self._store, Tiered) or not (self._config.tiers or self._checked_ns is None):
            return None
        self._refused = {}
        try:
            await self._plan_again()
            await self._clear_up(self._store)
            for _ in range(len(self._plan.moves)):
                if not self._plan.moves:
                    break
                await self._try_to_move(self._store, await self._first(self._store))
                await self._plan_again()
        except StoreError as error:
            return str(error)
        except OSError as error:
            return f"dead letters cannot be read: {reason_of(error)}"
        return "; ".join(dict.fromkeys(self._refused.values())) or None

    async def _plan_again(self) -> None:
        tiers = tiers_of(self._config)
        if not tiers:
            self._plan = Plan()
            return
        partitions, dropped = await self._store.partitions(), await self._store.dropped()
        newest = await newest_of(self._store, aging(self._config))
        waited_for = {name: self._left_alone(name) for name in partitions}
        for name, pipeline in self._pipelines.items():
            of = partitions.get(name, ())
            waited_for.setdefault(name, {}).update(await lying_of(pipeline, of) | waiting_of(pipeline, of))
        self._plan = planned(self._config, partitions, dropped, waited_for, newest=newest, now_ns=self._now_ns())
        self._sizes = sizes_of(tiers, states_of(self._config, partitions, dropped, waited_for, newest=newest))
        lie = [
            tier_of(each.place, tiers)
            for of in partitions.values()
            for each in of
            if each.readings_bytes is not None and each.rows
        ]
        self._counts = [lie.count(number) for number in range(len(tiers))]

    def _left_alone(self, group: str) -> dict[str, str]:
        touched = dict.fromkeys(
            self._touched.names(group, self._now_ns()), "readings came for it while it was copied"
        ) | dict.fromkeys(self._busy(group), "it is being reduced")
        return touched | {name: why for (of, name), why in self._refused.items() if of == group}

    async def _clear_up(self, store: Tiered) -> None:
        """Remove what is left of moves that nobody wants any more."""
        wanted = {(each.period.group, each.period.name, each.target.place) for each in self._plan.moves}
        for move in await store.moves():
            if (move.group, move.name, move.place) not in wanted:
                # Where somebody moves it by hand, or reads it, it is looked again.
                with suppress(StoreBusy):
                    await store.give_up_move(move, patience_s=PATIENCE_S[0])

    async def _first(self, store: Tiered) -> PlannedMove:
        """What was begun goes on first."""
        begun = {(move.group, move.name) for move in await store.moves()}
        moves = self._plan.moves
        return next((each for each in moves if (each.period.group, each.period.name) in begun), moves[0])

    async def _try_to_move(self, store: Tiered, move: PlannedMove) -> None:
        """Move a period; one that the database refuses holds up no other."""
        try:
            await self._move(store, move)
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._refused[move.period.group, move.period.name] = str(error)

    async def _move(self, store: Tiered, move: PlannedMove) -> None:
        period, target = move.period, move.target
        rate = next(tier.mib_per_s for tier in self._config.tiers if tier.name == target.name)
        paced = Paced(move.nbytes, rate, self._allowance.share)
        self._moving = move, paced
        try:
            await moved_patiently(store, move, paced)
        except PeriodTouched as error:
            self._touched.add(period, self._now_ns())
            self._events.info(f"{error}; it stays in {move.source}, and is tried again later")
        else:
            self._moved += 1
            self._touched.forget(period)
            self._events.info(
                f"{period.name} of group {period.group} was moved from {move.source} to {target.name},"
                f" {move.nbytes / GIB:,.3g} GiB: {move.reason}"
            )
        finally:
            self._moving = None

    def _now_ns(self) -> int:
        return self._outside.clock.now().utc_ns

    # --- what others ask ----------------------------------------------------------------------------------------

    def tier_named(self, place: str | None) -> str | None:
        """The name of the tier that a place is; None where it is none."""
        tiers = tiers_of(self._config)
        number = tier_of(place, tiers)
        return None if number is None else tiers[number].name

    def status(self) -> TiersStatus | None:
        """How it is; None without tiers."""
        tiers = tiers_of(self._config)
        if not tiers:
            return None
        following = self._plan.next
        known = len(self._sizes) == len(tiers)
        return TiersStatus(
            tiers=[
                TierStatus(
                    name=tier.name,
                    place=tier.place,
                    size_bytes=self._sizes[number] if known else 0,
                    partitions=self._counts[number] if known else 0,
                    max_bytes=tier.max_bytes,
                )
                for number, tier in enumerate(tiers)
            ],
            moved=self._moved,
            moving=None if self._moving is None else _moving(*self._moving),
            waiting=max(0, len(self._plan.moves) - (self._moving is not None)),
            next=None
            if following is None
            else NextMove(
                group=following.period.group,
                name=following.period.name,
                tier=following.tier,
                at_ns=following.at_ns,
            ),
            held=[f"{held.period.name} of {held.period.group}: {held.reason}" for held in self._plan.held[:NAMED]],
            short=[words_of(short) for short in self._plan.short],
            problem=self._problem,
            checked_ns=self._checked_ns,
        )


async def moved_patiently(store: Tiered, move: PlannedMove, paced: Paced) -> None:
    """Move a period.

    Raises:
        PeriodTouched: readings came for it meanwhile.
        StoreError: it cannot be moved.
    """
    period, place = move.period, move.target.place

    def once(patience_s: float) -> Awaitable[None]:
        return store.move(period, place, pace=paced, patience_s=patience_s)

    await patiently(once, f"{period.name} of group {period.group} cannot be moved: its table is always in use")


def _moving(move: PlannedMove, paced: Paced) -> MovingPeriod:
    return MovingPeriod(
        group=move.period.group,
        name=move.period.name,
        source=move.source,
        target=move.target.name,
        size_bytes=move.nbytes,
        done=paced.done,
        left_s=paced.left_s(),
    )


def words_of(short: Short) -> str:
    """What a tier is short of, in one line."""
    return f"tier {short.tier} takes {short.nbytes / GIB:,.3g} GiB more than it may"
