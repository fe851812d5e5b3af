"""Ways to read what is valid at a key of a tag from PostgreSQL, each a statement in sight, and one without it.

A strategy is made for a connection, or a content in memory, and a tag, and then called with keys. All give the same
rows: type, URL, checksum, size, start and end. Those of the reference's design read its table
(`measure.REFERENCE`), and ours the breakpoints of the store, in which ends are not stored but follow from the next
breakpoint.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import orjson
import psycopg
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.pool import StaticPool

from backends.postgresql.session import SETTINGS
from benchmarks.conditions.asking import MAJORS, MINORS
from benchmarks.rounds.rounds import Round
from benchmarks.rounds.summary import percentiles
from daemon.conditions.content import TagContent
from schemas.conditions.intervals import Key, ValidAt

Row = tuple[str, str, str, int | None, int, int, int, int]
"""Type, URL, checksum, size, major and minor of the start, and of the end."""
Read = Callable[[Key], list[Row]]

COLUMNS = "y.name, p.payload_url, p.checksum, p.size, p.major_iov, p.minor_iov, p.major_end, p.minor_end"
LISTS = "tags t JOIN lists l ON l.tag = t.id JOIN types y ON y.id = l.type"

OR_DISTINCT = f"""
    SELECT DISTINCT ON (p.payload_list) {COLUMNS}
    FROM {LISTS} JOIN reference p ON p.payload_list = l.id
    WHERE t.name = %(tag)s AND (p.major_iov < %(major)s OR p.major_iov = %(major)s AND p.minor_iov <= %(minor)s)
    ORDER BY p.payload_list, p.major_iov DESC, p.minor_iov DESC
    """
OR_LATERAL = f"""
    SELECT {COLUMNS} FROM {LISTS} JOIN LATERAL (
        SELECT * FROM reference p WHERE p.payload_list = l.id
        AND (p.major_iov < %(major)s OR p.major_iov = %(major)s AND p.minor_iov <= %(minor)s)
        ORDER BY p.major_iov DESC, p.minor_iov DESC LIMIT 1) p ON true
    WHERE t.name = %(tag)s
    """
COMB_IOV = "(%(major)s::int8 + %(minor)s::int8 * 0.0000000000000000001::decimal(38, 19))"
COMB_MAX = f"""
    SELECT {COLUMNS} FROM (
        SELECT q.payload_list, max(q.comb_iov) AS newest
        FROM tags t JOIN lists l ON l.tag = t.id JOIN reference q ON q.payload_list = l.id
        WHERE t.name = %(tag)s AND q.comb_iov <= {COMB_IOV} GROUP BY q.payload_list) m
    JOIN reference p ON p.payload_list = m.payload_list AND p.comb_iov = m.newest
    JOIN lists l ON l.id = p.payload_list JOIN types y ON y.id = l.type
    """
COMB_LATERAL = f"""
    SELECT {COLUMNS} FROM {LISTS} JOIN LATERAL (
        SELECT * FROM reference p WHERE p.payload_list = l.id AND p.comb_iov <= {COMB_IOV}
        ORDER BY p.comb_iov DESC LIMIT 1) p ON true
    WHERE t.name = %(tag)s
    """


def row_value(table: str) -> str:
    """The statement with both parts of the key compared at once: one condition of the index."""
    return f"""
    SELECT {COLUMNS} FROM {LISTS} JOIN LATERAL (
        SELECT payload_url, checksum, size, major_iov, minor_iov, major_end, minor_end FROM {table} q
        WHERE q.payload_list = l.id AND (q.major_iov, q.minor_iov) <= (%(major)s::int8, %(minor)s::int8)
        ORDER BY q.major_iov DESC, q.minor_iov DESC LIMIT 1) p ON true
    WHERE t.name = %(tag)s
    """


BREAKPOINTS = f"""
    SELECT y.name, b.url, b.checksum, b.size, b.major, b.minor,
           coalesce(e.major, 9223372036854775807), coalesce(e.minor, 9223372036854775807)
    FROM {LISTS} JOIN LATERAL (
        SELECT * FROM breakpoints WHERE content = l.content AND (major, minor) <= (%(major)s::int8, %(minor)s::int8)
        ORDER BY major DESC, minor DESC LIMIT 1) b ON b.id IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT major, minor FROM breakpoints
        WHERE content = l.content AND (major, minor) > (%(major)s::int8, %(minor)s::int8)
        ORDER BY major, minor LIMIT 1) e ON true
    WHERE t.name = %(tag)s
    """


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way to read.

    title: what it is, in a few words. statement: its SQL, with the places tag, major and minor; None without any.
    settings: of its connection, where they are not the server's own. orm: whether objects are made of the rows.
    """

    title: str
    statement: str | None
    settings: Mapping[str, str] = field(default_factory=dict)
    orm: bool = False


OURS = "breakpoints"
MEMORY = "memory"
STRATEGIES: Mapping[str, Strategy] = {
    "or_distinct": Strategy(title="OR filter, DISTINCT ON", statement=OR_DISTINCT),
    "or_lateral": Strategy(title="OR filter, LATERAL", statement=OR_LATERAL),
    "comb_max": Strategy(title="comb_iov, MAX and a join", statement=COMB_MAX),
    "comb_lateral": Strategy(title="comb_iov, LATERAL", statement=COMB_LATERAL),
    "row_value": Strategy(title="row value, LATERAL", statement=row_value("reference")),
    "covering": Strategy(title="row value, LATERAL, covering index", statement=row_value("covering")),
    "orm": Strategy(title="row value, LATERAL, ORM objects", statement=row_value("reference"), orm=True),
    OURS: Strategy(title="ours: row value, breakpoints", statement=BREAKPOINTS, settings=SETTINGS),
    MEMORY: Strategy(title="ours: from memory", statement=None),
}
"""In the order in which they are shown: as the paper began, and as ours ends."""


def connect(dsn: str, schema: str, strategy: Strategy) -> psycopg.Connection[Row]:
    """Connect as a strategy wants it."""
    settings = {"search_path": schema, **strategy.settings}
    options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())
    return psycopg.connect(dsn, autocommit=True, options=options)


def by_sql(connection: psycopg.Connection[Row], statement: str, tag: str) -> Read:
    """Read by a statement that the server has prepared, into plain tuples."""

    def read(key: Key) -> list[Row]:
        values = {"tag": tag, "major": key.major, "minor": key.minor}
        return connection.execute(statement, values, prepare=True).fetchall()

    return read


class _Base(orm.DeclarativeBase):
    pass


class Valid(_Base):
    """An interval as an object of an ORM; the statement takes the place of the table."""

    __tablename__ = "valid"
    type: orm.Mapped[str] = orm.mapped_column("name", primary_key=True)
    payload_url: orm.Mapped[str]
    checksum: orm.Mapped[str]
    size: orm.Mapped[int | None]
    major_iov: orm.Mapped[int]
    minor_iov: orm.Mapped[int]
    major_end: orm.Mapped[int]
    minor_end: orm.Mapped[int]

    def row(self) -> Row:
        """The same as a tuple."""
        start, end = (self.major_iov, self.minor_iov), (self.major_end, self.minor_end)
        return (self.type, self.payload_url, self.checksum, self.size, *start, *end)


def by_orm(connection: psycopg.Connection[Row], statement: str, tag: str) -> Read:
    """Read by the same statement, a new session and an object a row, as an application with an ORM does."""
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: connection, poolclass=StaticPool)
    text = statement.replace("::int8", "")
    for name in ("tag", "major", "minor"):
        text = text.replace(f"%({name})s", f":{name}")
    wanted = sa.text(text).columns(*Valid.__table__.columns)

    def read(key: Key) -> list[Row]:
        with orm.Session(engine) as session:
            values = {"tag": tag, "major": key.major, "minor": key.minor}
            found = session.scalars(sa.select(Valid).from_statement(wanted), values)
            return [each.row() for each in found]

    return read


def by_memory(content: TagContent) -> Read:
    """Read from memory, and take the rows out of the answer that a client gets."""

    def read(key: Key) -> list[Row]:
        rows = orjson.loads(body_of(content, key))
        return [tuple(row[:8]) for row in rows]

    return read


def body_of(content: TagContent, key: Key) -> bytes:
    """The whole answer from memory: what is timed."""
    return content.body(content.breakpoints.position(key))


def plan_of(connection: psycopg.Connection[Row], statement: str, tag: str, key: Key) -> str:
    """What the server does for a statement, with times and the blocks that it touches."""
    values = {"tag": tag, "major": key.major, "minor": key.minor}
    rows = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS) {statement}", values).fetchall()
    return "\n".join(str(row[0]) for row in rows)


# --- reading by each strategy ----------------------------------------------------------------------------------------

MOST_READS = 400
"""Of one round."""


class WrongAnswer(Exception):
    """A strategy does not answer as the store does; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A strategy that is ready for a tag.

    read: gives rows. timed: what is timed; of memory that is the answer as a client gets it. plan: of its statement.
    """

    name: str
    read: Read
    timed: Callable[[Key], object]
    plan: str


def rows_of(valid: Sequence[ValidAt]) -> list[Row]:
    """What the store answers, as the strategies do, in order."""
    found = [(each.type, each.interval) for each in valid]
    return sorted((type_, i.url, i.checksum, i.size, *i.start, *i.end) for type_, i in found)


def reader(connection: psycopg.Connection[Row], strategy: Strategy, tag: str, content: TagContent) -> Read:
    """A strategy for a tag."""
    if strategy.statement is None:
        return by_memory(content)
    return (by_orm if strategy.orm else by_sql)(connection, strategy.statement, tag)


def checked(name: str, read: Read, wanted: Mapping[Key, list[Row]]) -> None:
    """Compare a strategy with the store.

    Raises:
        WrongAnswer: it answers a key otherwise.
    """
    for key, rows in wanted.items():
        if sorted(read(key)) != rows:
            raise WrongAnswer(f"{name} answers {key.major}, {key.minor} otherwise than the store")


@contextmanager
def readers(
    dsn: str, schema: str, tag: str, content: TagContent, wanted: Mapping[Key, list[Row]]
) -> Iterator[dict[str, Reader]]:
    """All strategies, ready and compared with the store, each with a connection of its own; by name."""
    with ExitStack() as stack:
        found = {}
        for name, strategy in STRATEGIES.items():
            connection = stack.enter_context(connect(dsn, schema, strategy))
            read = reader(connection, strategy, tag, content)
            checked(name, read, wanted)
            plan = (
                "" if strategy.statement is None else plan_of(connection, strategy.statement, tag, next(iter(wanted)))
            )
            timed = read if strategy.statement is not None else partial(body_of, content)
            found[name] = Reader(name=name, read=read, timed=timed, plan=plan)
        yield found


def timed_round(one: Reader, seconds: float, seed: int) -> Round:
    """Read at random keys for some time, at least once; the seconds of the round are the median of a read."""
    drawn = random.Random(seed)  # noqa: S311 - keys to read at
    times: list[float] = []
    until = time.perf_counter() + seconds
    while not times or (time.perf_counter() < until and len(times) < MOST_READS):
        key = Key(drawn.randrange(MAJORS), drawn.randrange(MINORS))
        began = time.perf_counter()
        one.timed(key)
        times.append(time.perf_counter() - began)
    found = percentiles(1e3 * np.asarray(times))
    return Round(
        seconds=found.p50 / 1e3,
        facts={"p50 ms": found.p50, "p99 ms": found.p99, "least ms": 1e3 * min(times), "reads": float(len(times))},
    )
