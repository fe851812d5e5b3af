"""Looks now and then whether a partition has to lie in another tier, and moves it; never two at a time."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from backends.base import Pace, Partition, PeriodTouched, Store, StoreBusy, StoreError, Tiered
from backends.counting import Counting, HourRead
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.pipeline.pipeline import Pipeline
from daemon.retention.limits import newest_of, states_of, waits_of, was_dropped
from daemon.retention.looking import EVERY_S, NAMED, PATIENCE_S, LeftAlone, Looking, patiently
from daemon.retention.planner import GIB
from daemon.tiers.heat import Heat, HeatFile, Label, Reads, heat_of, memory_of, reads_of
from daemon.tiers.limits import MoveRefused, aging, half_life_s, mib_per_s_of, move_by_hand, planned, tiers_of
from daemon.tiers.pace import Allowance, Paced
from daemon.tiers.planner import Plan, PlannedMove, Short, name_of, sizes_of, tier_of
from schemas.api.tiers import MovingPeriod, NextMove, TiersStatus, TierStatus
from schemas.config import Config

KEPT_EVERY_NS = 600_000_000_000
"""So often heat is written to the disk, where the server's counters tell after a restart what was read since."""
SHOWS_NS = 30_000_000_000
"""What a session has read the server counts by then: PostgreSQL after 10 s."""


class TierKeeper(Looking):
    """Moves what the tiers of a configuration ask for.

    state_dir: where heat is kept. pipelines: by group, filled when the store is open. busy: names of a group's periods
    that something else is done with. read: periods that something else has read, to do that, since it was last asked.
    workloads_read: what reader workloads have read since it was called last.
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
        busy: Callable[[str], Collection[str]] = lambda _: (),
        read: Callable[[], Collection[Label]] = lambda: (),
        workloads_read: Callable[[], Iterable[HourRead]] = lambda: (),
    ) -> None:
        super().__init__(outside, events, "tiers cannot move all that their limits ask for")
        self._file = HeatFile(state_dir, outside, events)
        self._heat: Heat | None = None
        self._kept_ns, self._looked_ns = 0, 0
        self._store = store
        self._config = config
        self._pipelines = pipelines
        self._busy = busy
        self._read = read
        self._own: dict[Label, int] = {}
        """When we last read periods ourselves (monotonic, ns), as far as a look may find that yet."""
        self._workloads_read = workloads_read
        self._allowance = Allowance(config.readers.governor, pipelines)
        self._plan = Plan()
        self._sizes: Sequence[int] = ()
        self._lie: Sequence[Sequence[float]] = ()
        """The heat of each partition with readings, by tier."""
        self._touched = LeftAlone(outside.clock)
        self._refused: dict[tuple[str, str], str] = {}
        self._is_clear = False  # of moves that nobody wants any more
        self._moving: tuple[PlannedMove, Paced] | None = None
        self._ordered: list[PlannedMove] = []
        self._moved, self._thrown_away, self._failed = 0, 0, 0

    @property
    def is_asked_for(self) -> bool:
        """True where there are tiers."""
        return bool(self._config.tiers)

    def change(self, config: Config) -> None:
        """Move by this configuration from now on; where its tiers are others, it is looked at once."""
        if (config.tiers, config.tiering) != (self._config.tiers, self._config.tiering):
            self._is_clear = False
            self.look_now()
        self._config = config
        self._allowance.change(config.readers.governor)

    async def _look(self) -> str | None:
        """Go on with what was begun, clear up what is not wanted any more, and move all that has to be moved now."""
        if not isinstance(self._store, Tiered) or not (self._config.tiers or not self._is_clear):
            self._asked({})  # what was read does not pile up where nobody wants to know
            return None
        self._refused = {}
        await self._obey(self._store)
        await self._plan_again()
        await self._clear_up(self._store)
        for _ in range(len(self._plan.moves)):
            await self._obey(self._store)
            if not self._plan.moves:
                break
            await self._try_to_move(self._store, await self._first(self._store))
            await self._plan_again()
        return "; ".join(dict.fromkeys(self._refused.values())) or None

    async def _plan_again(self) -> None:
        tiers = tiers_of(self._config)
        if not tiers:
            self._plan = Plan()
            return
        partitions, dropped = await self._store.partitions(), await self._store.dropped()
        heat = await self._look_at_heat(partitions)
        newest = await newest_of(self._store, aging(self._config))
        left_alone = {name: self._left_alone(name) for name in partitions}
        waited_for = await waits_of(self._pipelines, partitions, left_alone)
        now_ns = self._now_ns()
        self._plan = planned(self._config, partitions, dropped, waited_for, newest=newest, now_ns=now_ns, heat=heat)
        heat.want(self._plan.wanted)
        self._sizes = sizes_of(tiers, states_of(self._config, partitions, dropped, waited_for, newest=newest))
        lie = [
            (tier_of(each.place, tiers), heat.of((group, each.name)) or 0.0)
            for group, of in partitions.items()
            for each in of
            if each.readings_bytes is not None and each.rows
        ]
        self._lie = [[s_a_day for tier, s_a_day in lie if tier == number] for number in range(len(tiers))]

    async def _look_at_heat(self, partitions: Mapping[str, Sequence[Partition]]) -> Heat:
        """Count what was read since the last time, and write it to the disk now and then."""
        now = self._outside.clock.now()
        if self._heat is None:
            self._heat = heat_of(await self._file.load(), half_life_s(self._config), now.utc_ns)
        self._heat.half_life_s = half_life_s(self._config)
        asked = self._asked(partitions)
        self._heat.look(partitions, now, asked=asked, own=self._own_until(now.monotonic_ns))
        self._looked_ns = now.monotonic_ns
        if asked or not self._kept_ns or now.monotonic_ns - self._kept_ns >= KEPT_EVERY_NS:
            await self._keep_heat()
        return self._heat

    def _asked(self, partitions: Mapping[str, Sequence[Partition]]) -> dict[Label, Reads] | None:
        """What our own readers have read since the last time; None where the server counts."""
        by_workloads = self._workloads_read()
        by_daemon = self._store.take_read() if isinstance(self._store, Counting) else None
        return None if by_daemon is None else reads_of((*by_daemon, *by_workloads), partitions)

    def _own_until(self, now_ns: int) -> Collection[Label]:
        """The periods that we may have read since the last look, or so shortly before that it did not show yet."""
        moving = () if self._moving is None else (self._moving[0].period.label,)
        self._own |= dict.fromkeys((*moving, *self._read()), now_ns)
        self._own = {label: at_ns for label, at_ns in self._own.items() if self._looked_ns - at_ns < SHOWS_NS}
        return self._own

    async def _keep_heat(self) -> None:
        now = self._outside.clock.now()
        self._kept_ns = now.monotonic_ns
        if self._heat is not None:
            await self._file.save(memory_of(self._heat, now.utc_ns))

    def _left_alone(self, group: str) -> dict[str, str]:
        touched = dict.fromkeys(self._touched.names(group), "readings came for it while it was copied") | dict.fromkeys(
            self._busy(group), "it is being reduced"
        )
        return touched | {name: why for (of, name), why in self._refused.items() if of == group}

    async def _clear_up(self, store: Tiered) -> None:
        """Remove what is left of moves that nobody wants any more."""
        wanted = {(each.period.group, each.period.name, each.target.place) for each in self._plan.moves}
        for move in await store.moves():
            if (move.group, move.name, move.place) not in wanted:
                # Where somebody moves it by hand, or reads it, it is looked again.
                with suppress(StoreBusy):
                    await store.give_up_move(move, patience_s=PATIENCE_S[0])
        self._is_clear = not await store.moves()

    async def _first(self, store: Tiered) -> PlannedMove:
        """What was begun goes on first."""
        begun = {(move.group, move.name) for move in await store.moves()}
        moves = self._plan.moves
        return next((each for each in moves if each.period.label in begun), moves[0])

    async def order(self, group: str, partition: str, tier: str) -> PlannedMove:
        """Let a partition be moved, after what is being moved now.

        Raises:
            MoveRefused: it cannot be, or lies there already.
            StoreError: the database does not answer.
        """
        if self._moving is not None and self._moving[0].period.label == (group, partition):
            # What the database says of its place is soon not so.
            target = self._moving[0].target.name
            raise MoveRefused("partition", f"{partition} of {group} is being moved to {target} now")
        found = await self._store.partitions() if isinstance(self._store, Tiered) else {}
        move = move_by_hand(self._config, found, group, partition, tier, now_ns=self._now_ns())
        if move is None:
            raise MoveRefused("partition", f"{partition} of {group} lies in {tier} already")
        if partition in self._busy(group):
            raise MoveRefused("partition", f"{partition} of {group} is being reduced")
        self._ordered = [each for each in self._ordered if each.period != move.period] + [move]
        self.look_now()
        return move

    async def _obey(self, store: Tiered) -> None:
        """Move what was ordered; an order that fails is given up, and named."""
        while self._ordered:
            move = self._ordered.pop(0)
            why = None
            if move.period.name in self._busy(move.period.group):
                why = "it is being reduced"
            else:
                try:
                    await self._move(store, move)
                except StoreError as error:
                    why = str(error)
            if why is not None:
                name = f"{move.period.name} of group {move.period.group}"
                self._events.warning(f"{name} was not moved to {move.target.name} as ordered: {why}")

    async def _try_to_move(self, store: Tiered, move: PlannedMove) -> None:
        """Move a period; one that the database refuses, or cannot move now, holds up no other.

        Raises:
            StoreUnavailable: the database does not answer at all.
        """
        try:
            await self._move(store, move)
        except StoreError as error:
            # Where a disk is full or not there it is as unavailable for that move, and answers.
            if not await was_dropped(self._store, move.period):
                self._failed += 1
                self._refused[move.period.label] = str(error)

    async def _move(self, store: Tiered, move: PlannedMove) -> None:
        period, target = move.period, move.target
        rate = mib_per_s_of(self._config, target.name)
        paced = Paced(move.nbytes, rate, self._allowance.share)
        self._moving = move, paced
        try:
            await moved_patiently(store, move, self._counting(paced))
        except PeriodTouched as error:
            self._thrown_away += 1
            self._touched.add(period)
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
            self._own[move.period.label] = self._outside.clock.now().monotonic_ns

    def _counting(self, paced: Paced) -> Pace:
        """A pace of a move that looks at heat meanwhile: the table goes with its counters at the end."""

        async def pace(done: float) -> None:
            is_last = done == 1.0
            if is_last or self._outside.clock.now().monotonic_ns - self._looked_ns >= EVERY_S * 1e9:
                with suppress(StoreError):
                    await self._look_at_heat(await self._store.partitions())
            if is_last:
                await self._keep_heat()
            await paced(done)

        return pace

    # --- what others ask ----------------------------------------------------------------------------------------

    def tier_named(self, place: str | None) -> str | None:
        """The name of the tier that a place is; None where it is none."""
        return name_of(place, tiers_of(self._config))

    def heat_of(self, group: str, name: str) -> float | None:
        """How hot a partition is, in seconds a day; None where nobody knows."""
        return None if self._heat is None else self._heat.of((group, name))

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
                    partitions=len(self._lie[number]) if known else 0,
                    max_bytes=tier.max_bytes,
                    heat_s_a_day=sum(self._lie[number]) if known else 0.0,
                )
                for number, tier in enumerate(tiers)
            ],
            policy=self._config.tiering.policy,
            moved=self._moved,
            thrown_away=self._thrown_away,
            failed=self._failed,
            moving=None if self._moving is None else _moving(*self._moving),
            waiting=max(0, len(self._plan.moves) + len(self._ordered) - (self._moving is not None)),
            next=None
            if following is None
            else NextMove(
                group=following.period.group,
                name=following.period.name,
                tier=following.tier,
                at_ns=following.at_ns,
            ),
            held=[held.words for held in self._plan.held[:NAMED]],
            short=[words_of(short) for short in self._plan.short],
            problem=self._problem,
            checked_ns=self._checked_ns,
        )


async def moved_patiently(store: Tiered, move: PlannedMove, pace: Pace) -> None:
    """Move a period.

    Raises:
        PeriodTouched: readings came for it meanwhile.
        StoreError: it cannot be moved.
    """
    period, place = move.period, move.target.place

    def once(patience_s: float) -> Awaitable[None]:
        return store.move(period, place, pace=pace, patience_s=patience_s)

    await patiently(once, f"{period.name} of group {period.group} cannot be moved")


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
