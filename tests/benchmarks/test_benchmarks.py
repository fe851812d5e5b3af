"""The benchmarks: statistics, the time strategies keep, what each strategy leaves in its database, the text report."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.postgresql.protocol.copy import decode_arrays, decode_ledger, decode_rows
from benchmarks.command.report import report
from benchmarks.load.sending import TOGETHER, Sent
from benchmarks.load.workload import GROUP, INSTRUMENTS, number, random_records
from benchmarks.measures.contenders import STRATEGIES, Contender, Kind, contenders, measured
from benchmarks.measures.latency import SteadyDaemon, windows
from benchmarks.measures.throughput import (
    WrongInDatabase,
    as_python,
    daemon_round,
    expect_readings,
    strategy_round,
    verify,
)
from benchmarks.report.render import text
from benchmarks.rounds.commits import HZ_EDGES, Clock, Commits, completed, hz, hz_histogram, hz_quartiles, merged
from benchmarks.rounds.plan import PLANS
from benchmarks.rounds.rounds import Round, interleaved
from benchmarks.rounds.summary import (
    acknowledged_after,
    commit_rate,
    mean_ratio,
    percentiles,
    ratio,
    run_of,
    slope,
    spread,
)
from benchmarks.servers import running
from benchmarks.servers.base import Server, left_clean
from benchmarks.servers.daemon_process import running_daemon
from benchmarks.servers.mongodb import MongodbServer
from benchmarks.servers.mysql import MysqlServer
from benchmarks.servers.postgresql import PostgresqlServer
from benchmarks.strategies.postgresql import insert_each_table, processes_own_tables, tasks_own_connections
from benchmarks.strategies.postgresql.bare_copy import encoded
from benchmarks.strategies.postgresql.threads_one_connection import Watcher, came_in_parts, half_written
from benchmarks.strategies.strategy import ROOT, Strategy
from schemas.batch import Durability, Layout
from schemas.checking.dsn import Backend
from tests.support import kept_run
from tests.support.report_tables import rows_of

pytest_plugins = ["pytester"]


class TestSummary:
    def test_few_rounds_give_the_least_and_the_most(self) -> None:
        found = spread([3.0, 1.0, 2.0])
        assert (found.median, found.low, found.high) == (2.0, 1.0, 3.0)

    def test_many_rounds_give_quartiles(self) -> None:
        found = spread([5.0, 1.0, 100.0, 3.0, 4.0])
        assert (found.median, found.low, found.high) == (4.0, 3.0, 5.0)

    def test_no_rounds_give_no_median(self) -> None:
        with pytest.raises(ValueError, match="no rounds"):
            spread([])

    def test_ratios_are_taken_round_by_round(self) -> None:
        # The machine was twice as fast in the second round; the ratio does not know it.
        assert ratio([10.0, 20.0], [20.0, 40.0]) == spread([0.5, 0.5])

    def test_a_mean_ratio_has_an_interval_from_two_rounds_on(self) -> None:
        found = mean_ratio([2.0, 8.0], [1.0, 2.0])
        assert found.value == pytest.approx(8**0.5)
        assert found.low is not None
        assert found.high is not None
        assert found.low * found.high == pytest.approx(8.0)
        assert found.high > 100, "one degree of freedom"
        alone = mean_ratio([3.0], [1.0])
        assert (round(alone.value, 9), alone.low, alone.high) == (3.0, None, None)

    def test_percentiles_are_values_that_were_measured(self) -> None:
        found = percentiles(np.arange(100, 0, -1.0))
        assert (found.p50, found.p99, found.max) == (50.0, 99.0, 100.0)

    def test_the_slope_is_of_the_second_half(self) -> None:
        times = np.arange(10.0)
        assert slope(times.tolist(), np.where(times < 5, 100 * times, 3 * times).tolist()) == pytest.approx(3.0)

    @pytest.mark.parametrize("times", [[], [0.0, 1.0], [0.0, 1.0, 2.0, 2.0]])
    def test_a_slope_needs_two_times(self, times: list[float]) -> None:
        with pytest.raises(ValueError, match="two different times"):
            slope(times, times)


class TestAcknowledgements:
    def test_the_rate_leaves_out_what_was_committed_before_the_clock_began(self) -> None:
        acks = np.array([[10.0, 120], [11.0, 120 * 51], [12.0, 120 * 101]])
        assert commit_rate(acks, 120) == (50.0, 2.0)

    def test_one_acknowledgement_gives_no_rate(self) -> None:
        with pytest.raises(ValueError, match="send for longer"):
            commit_rate(np.array([[10.0, 120]]), 120)

    def test_each_trigger_ends_with_the_first_acknowledgement_that_covers_it(self) -> None:
        sent = np.array([1.0, 2.0, 3.0])
        acks = np.array([[1.5, 120], [2.25, 239], [3.5, 360]])
        assert acknowledged_after(sent, acks, 120).tolist() == [0.5, 1.5, 0.5]

    def test_a_trigger_without_its_acknowledgement_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="not all"):
            acknowledged_after(np.array([1.0, 2.0]), np.array([[1.5, 239]]), 120)

    def test_an_acknowledgement_in_the_middle_of_a_trigger_completes_it_not(self) -> None:
        acks = np.array([[1.0, 119], [2.0, 240], [3.0, 300], [4.0, 360]])
        at, triggers = Sent(triggers=3, ended=4.0, acks=acks, sent=np.zeros(0)).commits()
        assert (at.tolist(), triggers.tolist()) == ([2.0, 4.0], [2, 1])

    def test_what_the_sender_prints_is_read_back(self) -> None:
        sent = Sent.of('{"triggers": 2, "ended": 3.5, "acks": [[3.0, 120], [3.6, 240]], "sent": [1.0, 2.0]}')
        assert (sent.triggers, sent.acks.shape, sent.sent.tolist()) == (2, (2, 2), [1.0, 2.0])
        assert Sent.of('{"triggers": 0, "ended": 3.5, "acks": [], "sent": []}').acks.shape == (0, 2)


class TestEncoded:
    @pytest.mark.parametrize("layout", list(Layout))
    def test_a_batch_that_was_numbered_anew_holds_the_next_triggers(self, layout: Layout) -> None:
        batch = encoded(layout, 3, seed=7)
        batch.number(101, 1_000_000_000)
        decode = decode_rows if layout is Layout.ROWS else decode_arrays
        found = decode(batch.data.tobytes(), GROUP).reshape(3, INSTRUMENTS)
        wanted = random_records(3, seed=7)
        number(wanted, 101, 1_000_000_000)
        for name in ("trigger", "time_ns", "instrument", *(channel.name for channel in GROUP.channels)):
            assert np.array_equal(found[name], wanted[name]), name

    def test_its_ledger_rows_are_numbered_alike(self) -> None:
        batch = encoded(Layout.ROWS, 3)
        batch.number(101, 1_000_000_000)
        assert batch.ledger_rows["trigger_id"][:, 0].tolist() == [101, 102, 103]
        assert batch.ledger_rows["arrived"][:, 0].tolist() == [INSTRUMENTS] * 3
        with pytest.raises(ValueError, match="not whole rows"):
            decode_ledger(batch.ledger.tobytes(), INSTRUMENTS)  # the logger's name is in them


def test_rounds_take_turns() -> None:
    said: list[str] = []
    order: list[str] = []

    def contender(name: str) -> Round:
        order.append(name)
        return Round(seconds=float(len(order)))

    found = interleaved(
        {"a": lambda: contender("a"), "b": lambda: contender("b")},
        rounds=2,
        end=lambda name, number, _: said.append(f"{name}{number}"),
    )
    assert order == ["a", "b", "a", "b"]
    assert said == ["a0", "b0", "a1", "b1"]
    assert [done.seconds for done in found["a"]] == [1.0, 3.0]


REPLAYED = """
    import pytest
    from benchmarks.rounds.rounds import (RECORDED_CLOCK, Round, replay)

    @pytest.mark.benchmark(group="throughput", timer=RECORDED_CLOCK)
    def test_replayed(benchmark):
        seconds = (0.1, 0.30000000000000004, 2e-5)
        rounds = [Round(seconds=s, facts={"triggers": 1 / s}, hz_counts=(1, 0, 2)) for s in seconds]
        replay(benchmark, rounds, contender="x")
"""


def test_recorded_rounds_come_out_of_pytest_benchmark_to_the_last_bit(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(REPLAYED)
    kept = pytester.path / "kept.json"
    options = ["--benchmark-enable", f"--benchmark-json={kept}", "-p", "no:dash", "-p", "no:asyncio"]
    pytester.runpytest(*options).assert_outcomes(passed=1)
    (found,) = json.loads(kept.read_text())["benchmarks"]
    assert found["stats"]["data"] == [0.1, 0.30000000000000004, 2e-5]
    assert found["extra_info"]["contender"] == "x"
    assert found["extra_info"]["hz_counts"] == [3, 0, 6]
    assert found["extra_info"]["hz_edges"] == HZ_EDGES.tolist()
    assert found["extra_info"]["triggers"] == [1 / 0.1, 1 / 0.30000000000000004, 1 / 2e-5]
    other = pytester.path / "other.json"
    other.write_bytes(kept.read_bytes())
    # Two runs side by side; without plugins, of which some warn on import.
    compare = [str(Path(sys.executable).with_name("pytest-benchmark")), "compare", str(kept), str(other)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*compare, "--group-by=name"], capture_output=True, text=True, check=True, cwd=pytester.path, env=environment
    )
    assert done.stdout.count("test_replayed") >= 2


def commits(acknowledged: list[float], triggers: list[int] | None = None, ready: list[float] | None = None) -> Commits:
    """Commits that were ready when the one before was acknowledged, from 0 s on."""
    counts = triggers or [1] * len(acknowledged)
    return Commits(
        began=0.0,
        ready=np.array([0.0, *acknowledged[:-1]] if ready is None else ready),
        acknowledged=np.array(acknowledged),
        triggers=np.array(counts),
        readings=sum(counts) * INSTRUMENTS,
    )


class TestOneOverDt:
    def test_of_single_triggers_it_is_what_the_paper_plots(self) -> None:
        assert hz(np.array([1.0, 1.5, 1.75]), np.array([1, 1, 1])).tolist() == [2.0, 4.0]

    def test_a_commit_of_n_triggers_counts_n_times_n_over_dt(self) -> None:
        assert hz(np.array([1.0, 1.5, 2.5]), np.array([7, 3, 1])).tolist() == [6.0, 6.0, 6.0, 1.0]

    def test_one_commit_gives_none(self) -> None:
        with pytest.raises(ValueError, match="write for longer"):
            hz(np.array([1.0]), np.array([5]))

    def test_commits_at_the_same_nanosecond_have_a_rate(self) -> None:
        assert np.isfinite(hz(np.array([1.0, 1.0]), np.array([1, 1]))).all()

    @given(st.lists(st.tuples(st.floats(1e-6, 1e3), st.integers(1, 50)), min_size=2, max_size=20))
    def test_its_inverse_adds_up_to_the_time_and_every_trigger_counts_once(
        self, steps: list[tuple[float, int]]
    ) -> None:
        acknowledged = np.cumsum([dt for dt, _ in steps])
        triggers = np.array([count for _, count in steps])
        assert (1 / hz(acknowledged, triggers)).sum() == pytest.approx(acknowledged[-1] - acknowledged[0])
        assert hz_histogram(acknowledged, triggers).sum() == triggers[1:].sum()

    def test_the_histogram_has_twenty_bins_a_decade_and_keeps_what_lies_outside(self) -> None:
        assert len(HZ_EDGES) == 121
        assert (HZ_EDGES[0], HZ_EDGES[20], HZ_EDGES[-1]) == pytest.approx((1.0, 10.0, 1e6))
        acknowledged = np.array([0.0, 100.0, 100.09, 100.09 + 1e-8])  # 0.01 Hz, 11 Hz, 100 MHz
        counts = hz_histogram(acknowledged, np.array([1, 1, 5, 1]))
        assert {int(k): int(counts[k]) for k in np.flatnonzero(counts)} == {0: 1, 34: 5, 119: 1}

    def test_quartiles_give_every_trigger_a_vote(self) -> None:
        found = hz_quartiles(np.array([0.0, 1.0, 2.0]), np.array([1, 1, 9]))
        assert found == {"hz p25": 9.0, "hz p50": 9.0, "hz p75": 9.0}


class TestTime:
    def test_the_rate_is_from_the_beginning_to_the_last_acknowledgement(self) -> None:
        assert commits([1.0, 4.0], [2, 6]).seconds_a_trigger == 0.5

    def test_the_latency_is_from_when_the_first_trigger_of_a_commit_was_ready(self) -> None:
        facts = commits([1.0, 3.0], ready=[0.5, 1.0]).facts()
        assert (facts["p50 ms"], facts["max ms"], facts["triggers a commit"]) == (500.0, 2000.0, 1.0)
        assert "half_written" not in facts

    def test_a_clock_that_stands_still_shows_nothing_of_it(self) -> None:
        clock = Clock(60.0)
        before = clock.now()
        with clock.standing():
            threading.Event().wait(0.05)
        assert clock.now() - before < 0.05

    def test_a_feed_ends_when_its_time_is_over(self) -> None:
        assert [trigger for _, trigger in Clock(-1.0).feed("ab")] == ["a", "b", "a"]  # too few make no 1/dt
        feed = Clock(60.0).feed("ab")
        assert [next(feed)[1] for _ in range(5)] == ["a", "b", "a", "b", "a"]

    def test_what_threads_noted_comes_out_in_order(self) -> None:
        clock = Clock(1.0)
        threads = [threading.Thread(target=clock.committed, args=(clock.now(),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = clock.commits()
        assert found.count == 8
        assert (np.diff(found.acknowledged) >= 0).all()

    def test_nothing_committed_is_an_error_that_says_so(self) -> None:
        with pytest.raises(ValueError, match="nothing was committed"):
            Clock(1.0).commits()


class TestSeveralWriters:
    def test_whole_triggers_of_three_are_one_stream(self) -> None:
        found = merged([commits([1.0, 4.0]), commits([2.0]), commits([3.0, 5.0])])
        assert found.acknowledged.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
        assert found.ready.tolist() == [0.0, 0.0, 0.0, 1.0, 3.0]
        assert (found.count, found.readings) == (5, 5 * INSTRUMENTS)

    def test_a_trigger_of_three_parts_is_complete_with_its_last(self) -> None:
        found = completed([commits([1.0, 2.0, 3.0]), commits([2.5, 2.75]), commits([0.5, 4.0, 4.5])])
        assert found.acknowledged.tolist() == [2.5, 4.0]
        assert found.ready.tolist() == [0.0, 0.5]
        # The parts of the third, which the second writer never wrote, are in the database all the same.
        assert (found.count, found.readings) == (2, 8 * INSTRUMENTS)

    @given(st.lists(st.lists(st.floats(0, 1e3), min_size=1, max_size=9).map(sorted), min_size=1, max_size=4))
    def test_triggers_are_complete_in_their_order_and_never_before_a_part(self, parts: list[list[float]]) -> None:
        found = completed([commits(part) for part in parts])
        assert found.count == min(len(part) for part in parts)
        assert (np.diff(found.acknowledged) >= 0).all()
        assert all((found.acknowledged >= part[: found.count]).all() for part in parts)

    @pytest.mark.parametrize(("instruments", "processes"), [(120, 3), (7, 3), (3, 3)])
    def test_every_table_is_written_by_one_process(self, instruments: int, processes: int) -> None:
        shares = processes_own_tables.thirds(instruments, processes)
        assert [table for share in shares for table in share] == list(range(instruments))
        assert max(len(share) for share in shares) - min(len(share) for share in shares) <= 1


@pytest.fixture(scope="session")
def postgresql(postgresql_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with left_clean(PostgresqlServer(postgresql_dsn, tmp_path_factory.mktemp("postgresql"), own=True)) as server:
        yield server


@pytest.fixture(scope="session")
def mysql(mariadb_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with left_clean(MysqlServer(mariadb_dsn, tmp_path_factory.mktemp("mysql"), own=True)) as server:
        yield server


@pytest.fixture(scope="session")
def mongodb(mongodb_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with left_clean(MongodbServer(mongodb_dsn, tmp_path_factory.mktemp("mongodb"), own=True)) as server:
        yield server


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param.value)
    return found


EVERY_STRATEGY = [
    pytest.param(backend, strategy, id=f"{backend}-{strategy.slug}")
    for backend, strategies in STRATEGIES.items()
    for strategy in strategies
]


class TestStrategies:
    @pytest.mark.parametrize(("server", "strategy"), EVERY_STRATEGY, indirect=["server"])
    def test_its_tables_hold_what_it_says_it_wrote(self, server: Server, strategy: Strategy) -> None:
        done = strategy_round(server, strategy, as_python(4), 0.3)  # which counts, and raises when they do not
        assert done.facts["triggers"] >= 1
        assert done.facts["p50 ms"] <= done.facts["p99 ms"] <= done.facts["max ms"]
        assert done.facts["hz p25"] <= done.facts["hz p50"] <= done.facts["hz p75"]
        # Of the first commit's triggers nobody knows how long they took.
        assert sum(done.hz_counts) == done.facts["triggers"] - 1
        assert ("half_written" in done.facts) == (strategy.slug == "threads_one_connection")

    @pytest.mark.parametrize(("backend", "strategy"), EVERY_STRATEGY)
    def test_a_reader_finds_its_file(self, backend: Backend, strategy: Strategy) -> None:
        assert strategy.file == f"benchmarks/strategies/{backend}/{strategy.slug.removesuffix('_async')}.py"
        assert (ROOT / strategy.file).is_file()
        assert strategy.slug.endswith("_async") == (strategy.durability is Durability.ASYNC)

    def test_too_few_readings_fail_the_round(self) -> None:
        with pytest.raises(WrongInDatabase, match="holds 119 readings, it acknowledged 120"):
            expect_readings("one_copy", 119, 120)


class TestHalfWritten:
    def test_threads_that_share_a_connection_show_half_written_triggers(self, postgresql: Server) -> None:
        (threads,) = [s for s in STRATEGIES[Backend.POSTGRESQL] if s.slug == "threads_one_connection"]
        assert strategy_round(postgresql, threads, as_python(4), 0.5).facts["half_written"] > 0
        assert not threads.safe

    def test_tasks_with_a_connection_each_show_none(self, postgresql: Server) -> None:
        schema = postgresql.new_name()
        tables = range(INSTRUMENTS)
        insert_each_table.create(postgresql.dsn, schema, tables)
        inserts = tasks_own_connections.statements(schema, tables)
        with Watcher(postgresql.dsn, schema, tables) as watcher:
            found = tasks_own_connections.insert(postgresql.dsn, inserts, as_python(4), 0.5)
        assert found.count > 0
        assert watcher.looks >= 1
        assert watcher.seen == set()

    def test_a_planted_half_trigger_is_found(self, postgresql: Server) -> None:
        schema = postgresql.new_name()
        tables = range(3)
        insert_each_table.create(postgresql.dsn, schema, tables)
        with psycopg.connect(postgresql.dsn, autocommit=True) as connection:
            for statement in insert_each_table.statements(schema, tables):
                connection.execute(statement, (1.0, 0.0, 0.0, 0.0, 0.0))
            assert half_written(connection, schema, tables) == set()
            for statement in insert_each_table.statements(schema, tables)[1:]:
                connection.execute(statement, (2.0, 0.0, 0.0, 0.0, 0.0))
            assert half_written(connection, schema, tables) == {2.0}
            assert came_in_parts(connection, schema, tables) == {1.0, 2.0}  # a transaction a statement
            with connection.transaction():
                for statement in insert_each_table.statements(schema, tables):
                    connection.execute(statement, (3.0, 0.0, 0.0, 0.0, 0.0))
            assert came_in_parts(connection, schema, tables) == {1.0, 2.0}


class TestServers:
    @pytest.mark.parametrize("server", list(Backend), indirect=True)
    def test_it_is_described_without_a_password_and_left_as_it_was(self, server: Server) -> None:
        described = server.described()
        assert set(described["durability"]) == {"sync", "async"}
        assert described["version"]
        json.dumps(described, allow_nan=False)
        name = server.new_name()
        server.drop_all()
        server.remove(name)  # what is not there is removed without a word

    def test_each_durability_is_described_as_it_is_while_it_is_measured(self, mysql: Server) -> None:
        words = mysql.described()["durability"]
        assert "innodb_flush_log_at_trx_commit 1" in words["sync"]
        assert words["async"].startswith("async")

    def test_the_log_is_flushed_otherwise_only_meanwhile(self, mysql: Server) -> None:
        with mysql.holding(Durability.ASYNC):
            assert mysql.settings()["innodb_flush_log_at_trx_commit"] == "2"
        assert mysql.settings()["innodb_flush_log_at_trx_commit"] == "1"

    def test_a_setting_of_the_users_whole_server_is_never_changed(self, mysql: Server, tmp_path: Path) -> None:
        theirs = MysqlServer(mysql.dsn, tmp_path, own=False)
        assert theirs.durabilities() == (Durability.SYNC,)
        with pytest.raises(ValueError, match="which is not changed"), theirs.holding(Durability.ASYNC):
            pass

    def test_a_failure_leaves_no_schema(self, postgresql: Server, tmp_path: Path) -> None:
        theirs = PostgresqlServer(postgresql.dsn, tmp_path, own=False)
        with contextlib.suppress(KeyboardInterrupt), left_clean(theirs):
            schema = theirs.fresh_schema(Layout.ROWS)
            raise KeyboardInterrupt
        with psycopg.connect(postgresql.dsn) as connection:
            assert connection.execute("SELECT to_regnamespace(%s)", [schema]).fetchone() == (None,)

    def test_the_users_own_is_taken_where_one_is_named_and_nothing_stays_on_the_disk(
        self, postgresql: Server, tmp_path: Path
    ) -> None:
        with running(tmp_path, [Backend.POSTGRESQL], [postgresql.dsn], pytest.fail) as found:
            assert not found[Backend.POSTGRESQL].own
            assert found[Backend.POSTGRESQL].dsn == postgresql.dsn
        assert list(tmp_path.iterdir()) == []

    def test_a_server_that_is_not_here_is_left_out_with_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr("backends.throwaway.mariadb.PLACES", ())
        said: list[str] = []
        with running(tmp_path / "servers", [Backend.MYSQL], [], said.append) as found:
            assert found == {}
        (line,) = said
        assert line.startswith("mysql is left out: ")
        assert "install mariadb-server" in line


class TestContenders:
    @pytest.mark.parametrize("backend", list(Backend))
    def test_each_is_told_apart_and_the_daemon_is_there_in_both_layouts_and_durabilities(
        self, backend: Backend
    ) -> None:
        found = contenders(backend)
        assert len({contender.name for contender in found}) == len(found)
        daemons = [contender for contender in found if contender.kind is Kind.DAEMON]
        assert {(c.layout, c.durability) for c in daemons} == {(a, b) for a in Layout for b in Durability}

    @pytest.mark.parametrize("backend", list(Backend))
    def test_all_are_measured_but_to_try_the_benchmarks_some_of_each_kind(self, backend: Backend) -> None:
        assert measured(backend, PLANS["short"]) == measured(backend, PLANS["full"]) == contenders(backend)
        kinds = {(c.kind, c.durability) for c in contenders(backend)}
        some = measured(backend, PLANS["smoke"])
        assert {(c.kind, c.durability) for c in some} == kinds
        assert len(some) < len(contenders(backend))

    @pytest.mark.parametrize("contender", [c for backend in Backend for c in contenders(backend)], ids=lambda c: c.name)
    def test_what_is_asynchronous_is_not_called_safe(self, contender: Contender) -> None:
        assert contender.slug.endswith("_async") == (contender.durability is Durability.ASYNC)
        assert not (contender.safe and contender.durability is Durability.ASYNC)
        json.dumps(contender.facts())


class TestDaemon:
    @pytest.mark.parametrize("layout", list(Layout))
    @pytest.mark.parametrize("server", list(Backend), indirect=True)
    def test_a_round_ends_with_the_database_holding_what_was_sent(self, server: Server, layout: Layout) -> None:
        # However short: it lasts until a rate can be told.
        done = daemon_round(server, layout, Durability.SYNC, 0.0, 2 * TOGETHER)
        assert done.seconds > 0
        assert sum(done.hz_counts) > 0
        assert "p50 ms" not in done.facts

    @pytest.mark.parametrize("layout", list(Layout))
    @pytest.mark.parametrize("server", list(Backend), indirect=True)
    def test_a_database_that_lacks_a_trigger_is_found_out(self, server: Server, layout: Layout) -> None:
        schema = server.fresh_schema(layout)
        with pytest.raises(WrongInDatabase):
            verify(server, schema, layout, 1, random_records(1))


class TestLatency:
    @pytest.mark.parametrize("server", list(Backend), indirect=True)
    def test_a_window_has_what_the_daemon_and_what_its_sender_saw(self, server: Server) -> None:
        with running_daemon(server, Layout.ROWS, acknowledge_every_ms=0.0) as process:
            found = SteadyDaemon(process).window(10, 0.5).facts
        assert 0 < found["p50 ms"] <= found["p99 ms"] <= found["max ms"]
        assert 0 < found["sender p50 ms"] <= found["sender max ms"]

    def test_the_bare_loop_is_postgresqls(self) -> None:
        plan = PLANS["smoke"]
        assert [w.contender for w in windows(Backend.POSTGRESQL, plan)] == ["bare loop", "daemon"] * 2
        assert [w.contender for w in windows(Backend.MYSQL, plan)] == ["daemon"] * 2


class TestReport:
    def rows(self, title: str) -> dict[str, tuple[str, ...]]:
        return {row[0]: row[1:] for row in rows_of(report(run_of(kept_run.kept()), ""), title)}

    def test_ratios_stand_beside_their_aims(self) -> None:
        rows = self.rows("End to end, against the others")
        assert rows["PostgreSQL: triggerlog, rows / bare copy rows"] == ("0.69 (0.69 to 0.69)", "0.6", "yes")
        assert rows["PostgreSQL: triggerlog, rows / one COPY"] == ("9.14 (9.14 to 9.14)", "5", "yes")
        assert rows["PostgreSQL: triggerlog, rows / 120 tables, 120 INSERTs, one commit"][1:] == ("60", "yes")
        best = "MariaDB: triggerlog, rows / the best of its durability (multi_row_insert)"
        assert rows[best] == ("2.77 (2.77 to 2.77)", "2.5", "yes")
        fastest = "FerretDB: triggerlog, rows / the fastest of all strategies (document_a_trigger)"
        assert rows[fastest] == ("0.19 (0.19 to 0.19)", "1", "no")

    def test_asynchronous_commits_are_compared_with_their_like(self) -> None:
        rows = self.rows("End to end, against the others")
        best = "MariaDB: triggerlog, rows, asynchronous commit / the best of its durability (load_data_async)"
        assert rows[best][1:] == ("2.5", "no")

    def test_the_paper_stands_beside_each_way(self) -> None:
        rows = self.rows("Ways on PostgreSQL 18.4")
        way = rows["120 tables, 120 INSERTs, one commit (`benchmarks/strategies/postgresql/insert_each_table.py`)"]
        spreads = ("76.0 (74.5 to 77.5)", "1.7", "76.0 (68.4 to 83.6)", "1", "13.2", "52.6 (39.5 to 65.8)", "118")
        assert way == ("yes (sync)", "about 44 Hz", *spreads)
        (threads,) = [row for name, row in rows.items() if name.startswith("10 threads on one connection")]
        assert threads[0] == "no (sync: 369 half-written triggers seen)"

    def test_the_daemon_has_no_commit_latency_at_full_speed(self) -> None:
        assert self.rows("Ways on PostgreSQL 18.4")["triggerlog, rows (the daemon)"][-3:] == ("", "", "")

    def test_the_latency_has_to_be_at_most_its_aim(self) -> None:
        rows = self.rows("Latency from the last reading to the commit acknowledged")
        assert rows["PostgreSQL, 100/s, daemon"][-3:] == ("2.38 (2.38 to 2.38)", "2", "no")
        assert rows["MariaDB, 100/s, daemon"][-3:] == ("", "", "")

    def test_what_was_not_measured_has_no_table(self) -> None:
        run = run_of(kept_run.kept(benchmarks=kept_run.LATENCIES))
        assert [table.title for table in report(run, "").tables()] == [
            "Latency from the last reading to the commit acknowledged"
        ]

    def test_it_says_on_what_it_was_measured(self) -> None:
        written = text(report(run_of(kept_run.kept()), "make bench"))
        for part in ("`make bench`", "Some CPU", "2 cores", "`fsync`: on", "0.10 ms", "0123456789ab", "10.11.6"):
            assert part in written
