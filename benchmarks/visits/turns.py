"""Measures the conditions of a group by turns: in each round every one of them does its next visits."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo
from pymysql.err import MySQLError

from backends import open_visit_store
from backends.base import StoreError
from benchmarks.servers.base import Server
from benchmarks.servers.mysql import connect
from benchmarks.visits.plan import Condition, Group, Measured
from daemon.workloads.frame.runner import ProcessFailed
from daemon.workloads.visits.expected import rows
from daemon.workloads.visits.messages import (
    Compacting,
    CompactionDone,
    Troubled,
    Visited,
    spec_of,
    visits_process,
)
from schemas.api.visits import Compaction, TableSize, VisitMeasure, VisitsRun
from schemas.checking.dsn import Backend
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.states import RunState

PATIENCE_S = 600.0
STANDS_S = 180.0
"""A condition that does nothing in so long, as when its server went away for good, is left out from there on."""
GROWTH = 1.15
"""A round is expected to take so much longer than the one before."""


@dataclass
class Turns:
    """A condition under measurement: where, and what it has done so far.

    problem: why it does no more. settle_s: seconds that its server took after its turns to settle. unsettled: why it
    had not settled, a line a turn after which it had not.
    """

    condition: Condition
    server: Server
    database: DatabaseConfig
    settings: VisitsConfig
    log: Path
    began_ns: int
    visits: list[VisitMeasure] = field(default_factory=list)
    compactions: list[Compaction] = field(default_factory=list)
    problem: str | None = None
    settle_s: float = 0.0
    unsettled: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name, with the backend."""
        return f"{self.condition.backend} {self.condition.name}"


def set_up(group: Group, servers: Mapping[str, Server], folder: Path) -> list[Turns]:
    """Give each condition a schema of its own, on its server. Those without a server are left out.

    folder: for the logs of the processes of visits.
    """
    found = []
    for number, condition in enumerate(group.conditions):
        server = servers.get(group.server_of(condition))
        if server is None:
            continue
        schema = server.new_name()
        fields = {"dsn": server.dsn, "command_timeout_s": PATIENCE_S}
        found.append(
            Turns(
                condition=condition,
                server=server,
                database=DatabaseConfig.model_validate(fields),
                settings=condition.settings.model_copy(update={"schema_name": schema}),
                log=folder / f"{group.name}-{number}.log",
                began_ns=time.time_ns(),
            )
        )
    return found


def measure(
    group: Group,
    turns: Sequence[Turns],
    *,
    seed: int,
    print_line: Callable[[str], None],
    on_estimate: Callable[[float], None],
) -> list[str]:
    """Let all conditions do their visits, round by round in a shuffled order; return what was cut short.

    After each turn its server does what the turn left behind before the next one begins; that is not timed as a visit.

    on_estimate: takes after each turn the estimate of the seconds that the group still needs.
    """
    order = random.Random(f"{seed} {group.name}")  # noqa: S311 - an order, no secret
    began, before = time.monotonic(), 0.0
    for number in range(group.rounds):
        round_began = time.monotonic()
        left = 60 * group.minutes - (round_began - began)
        if number and GROWTH * before > left:
            done = number * group.chunk
            cut = f"ended after {done:,} of {group.visits:,} visits, as the next would have gone beyond its"
            return [f"{group.title}: {cut} {group.minutes:g} minutes."]
        until = min((number + 1) * group.chunk, group.visits)
        for place, turn in enumerate(order.sample(list(turns), len(turns))):
            if turn.problem is None:
                _take(turn, until, print_line)
                _settle(turn)
            so_far = time.monotonic() - round_began
            a_round = max(before * GROWTH, so_far / (place + 1) * len(turns))
            later = min(left - a_round, a_round * GROWTH * (group.rounds - number - 1))
            on_estimate(a_round - so_far + max(0.0, later))
        before = time.monotonic() - round_began
        each = [f"{turn.name} {_last(turn, group.chunk):.0f} ms" for turn in turns if turn.problem is None]
        print_line(f"  {group.name}, visit {until} of {group.visits}: {', '.join(each)}")
    return []


def _last(turn: Turns, chunk: int) -> float:
    last = turn.visits[-chunk:]
    return 1e3 * sum(visit.visit_s for visit in last) / len(last)


def _take(turn: Turns, until: int, print_line: Callable[[str], None]) -> None:
    try:
        visits, compactions = asyncio.run(_visits(turn, until))
    except (ProcessFailed, StoreError) as error:
        turn.problem = str(error)
        print_line(f"  {turn.name} is left out from here on: {error}")
    else:
        turn.visits += visits
        turn.compactions += compactions


async def _visits(turn: Turns, until: int) -> tuple[list[VisitMeasure], list[Compaction]]:
    spec = spec_of(turn.database, turn.settings, state_dir=turn.log.parent, until=until)
    visits: list[VisitMeasure] = []
    compactions: list[Compaction] = []
    problem = "no word from it"
    try:
        async with asyncio.timeout(STANDS_S) as limit, aclosing(visits_process(spec, turn.log).messages()) as messages:
            async for message in messages:
                match message:
                    case Visited():
                        visits.append(message.visit)
                    case CompactionDone():
                        compactions.append(message.compaction)
                    case Troubled():
                        problem = message.problem
                if isinstance(message, Visited | Compacting | CompactionDone):
                    limit.reschedule(asyncio.get_running_loop().time() + STANDS_S)
    except TimeoutError:
        raise ProcessFailed(f"nothing was done in {STANDS_S:g} s: {problem}") from None
    return visits, compactions


def _settle(turn: Turns) -> None:
    began = time.monotonic()
    try:
        settle(turn.server)
    except NotSettled as error:
        turn.unsettled.append(str(error))
    turn.settle_s += time.monotonic() - began


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a server says of itself; settings: those that decide about the figures."""

    product: str
    version: str
    settings: dict[str, str]


def facts_of(server: Server) -> Facts:
    """Ask a server."""
    facts = server.facts()
    return Facts(product=facts.backend, version=facts.version, settings={**facts.settings, **server.settings()})


def finished(group: Group, turn: Turns, facts: Facts, machine: dict[str, str]) -> Measured:
    """What a condition measured, with its tables counted and weighed; then they are removed."""
    counts, sizes = asyncio.run(_weigh(turn))
    return Measured(
        group=group.name,
        condition=turn.condition.name,
        title=turn.condition.title,
        backend=turn.condition.backend.value,
        chunk=group.chunk,
        settle_s=turn.settle_s,
        run=VisitsRun(
            id=f"{group.name}-{turn.condition.backend}-{turn.condition.name}",
            began_ns=turn.began_ns,
            ended_ns=time.time_ns(),
            settings=turn.settings,
            product=facts.product,
            version=facts.version,
            server=facts.settings,
            machine=machine,
            visits=tuple(turn.visits),
            compactions=tuple(turn.compactions),
            sizes=sizes,
            counts=counts,
            expected=_expected(turn),
            state=RunState.FINISHED if turn.problem is None else RunState.FAILED,
            problem=turn.problem,
        ),
    )


def _expected(turn: Turns) -> dict[str, float]:
    settings = turn.settings
    return rows(settings.survey, len(turn.visits), settings.tiles, settings.index_mode) if turn.visits else {}


async def _weigh(turn: Turns) -> tuple[dict[str, int], dict[str, TableSize]]:
    store = open_visit_store(turn.database, turn.settings, state_dir=turn.log.parent)
    try:
        await store.connect()
        if turn.problem is not None:
            return {}, {}
        return dict(await store.counts()), dict(await store.sizes())
    finally:
        await store.drop()
        await store.close()


# --- what a turn leaves to its server --------------------------------------------------------------------------------

SETTLED_S = 60.0
POLL_S = 0.02


class NotSettled(Exception):
    """The server was not quiet in time, or went away; the message is one line."""


def settle(server: Server, patience_s: float = SETTLED_S) -> None:
    """Wait until a server has done what is left to do, and have it do so at once.

    PostgreSQL: its running autovacuums, and a checkpoint. MariaDB: purging old versions of rows, and writing changed
    pages out with a checkpoint. FerretDB has nothing that could be asked for.

    Raises:
        NotSettled: it takes longer, or the server does not answer.
    """
    try:
        SETTLE[server.backend](server.dsn, time.monotonic() + patience_s)
    except (psycopg.Error, MySQLError) as error:
        raise NotSettled(" ".join(str(error).split())) from None


def _postgresql(dsn: str, deadline: float) -> None:
    with psycopg.connect(make_conninfo(dsn, connect_timeout=_left(deadline)), autocommit=True) as connection:
        connection.execute(f"SET statement_timeout = '{_left(deadline)}s'")

        def vacuuming() -> int:
            asked = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"
            ((workers,),) = connection.execute(asked).fetchall()
            return int(workers)

        _wait(vacuuming, deadline, "autovacuum still runs")
        connection.execute("CHECKPOINT")


def _mariadb(dsn: str, deadline: float) -> None:
    patience = _left(deadline)
    with (
        closing(connect(dsn, autocommit=True, connect_timeout=patience, read_timeout=2 * patience)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET SESSION max_statement_time = %s", (patience,))
        # No settings, but commands. The first returns when nothing is left to purge, which changes pages.
        cursor.execute("SET GLOBAL innodb_max_purge_lag_wait = 0")
        cursor.execute("SET GLOBAL innodb_log_checkpoint_now = ON")


def _nothing(dsn: str, deadline: float) -> None:
    return


def _wait(left: Callable[[], int], deadline: float, problem: str) -> None:
    while left():
        if time.monotonic() > deadline:
            raise NotSettled(problem)
        time.sleep(POLL_S)


def _left(deadline: float) -> int:
    """Whole seconds, as servers and drivers want them."""
    return max(1, round(deadline - time.monotonic()))


SETTLE: Mapping[Backend, Callable[[str, float], None]] = {
    Backend.POSTGRESQL: _postgresql,
    Backend.MYSQL: _mariadb,
    Backend.MONGODB: _nothing,
}
