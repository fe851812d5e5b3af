"""What the database has of a group at the start."""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass

from backends.base import Decimating, Store
from daemon.pipeline.assembly import RUNS_MOST
from daemon.pipeline.dead_letters import position_of_letters
from daemon.pipeline.durable_state import DurableState, runs_in
from schemas.batch import JournalPosition
from schemas.config import Config
from schemas.ledger import own_rows
from schemas.queries import LedgerTail
from schemas.readings import Array, InstrumentGroup
from schemas.retention import Dropped, Period


@dataclass(frozen=True, kw_only=True)
class InStore:
    """What the database has of one group. tail: ledger rows of the newest runs, ascending.

    position, retried: of this logger's journal, and of its dead letters; see `position_of_letters`. state: what is kept
    beside `position`. others: epoch and run, of all epochs of this logger's other groups, those that are not
    configured, too. dropped, reduced: periods whose readings were dropped, or reduced, or are being that.
    """

    tail: Array
    position: JournalPosition
    retried: JournalPosition | None
    state: DurableState
    others: Set[tuple[int, int]] = frozenset()
    dropped: Sequence[Dropped] = ()
    reduced: Sequence[Period] = ()


async def ask_store(store: Store, group: InstrumentGroup, config: Config) -> InStore:
    """Ask the database for what it has of a group; raises StoreUnavailable."""
    position = await store.position(group.name) or JournalPosition(sequence=0)
    retried = await position_of_letters(store, group)
    state = DurableState.decode(position.state)
    tail = await _ledger_tail(store, group, config.assembly.window, state.runs.values())
    _, others = runs_in(await store.states(), group.name)
    dropped = (await store.dropped()).get(group.name, ())
    account = (await store.decimated()).get(group.name, ()) if isinstance(store, Decimating) else ()
    return InStore(
        tail=tail,
        position=position,
        retried=retried,
        state=state,
        others=others,
        dropped=dropped,
        reduced=[each.period for each in account],
    )


def heard_last(runs: Iterable[int]) -> list[int]:
    """Return the runs of epochs that are remembered, of these in the order in which they were heard."""
    return list(runs)[-RUNS_MOST:]


async def _ledger_tail(store: Store, group: InstrumentGroup, most: int, runs: Collection[int]) -> Array:
    """The newest ledger rows of the newest runs, ascending; ledger dtype.

    runs: those of known epochs, the one heard last at the end.
    """
    newest = await store.ask(LedgerTail(group=group, most=most))
    last = int(newest["run"][-1]) if len(newest) else 1
    others = {run for run in heard_last(runs) if run < last} or ({last - 1} if last > 1 else set())
    tails = [await store.ask(LedgerTail(group=group, most=most, run=run)) for run in sorted(others)]
    return own_rows([*tails, newest], group.size)
