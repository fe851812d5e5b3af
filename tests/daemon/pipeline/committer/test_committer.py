"""The committer: batching, retry, rejection, backlog."""

import asyncio
from pathlib import Path

import pytest

from backends.base import BatchRejected, StoreUnavailable
from daemon.pipeline.assembly import Origin
from daemon.pipeline.committer import FOLLOWS
from daemon.pipeline.dead_letters import DeadLetters
from daemon.pipeline.files import Amount
from daemon.pipeline.pipeline import Pipeline
from schemas.batch import Aside, Batch, JournalPosition, Stream
from schemas.queries import Query, TriggersReadings
from schemas.readings import Array
from schemas.states import AsideReason
from tests.support.disks import REAL
from tests.support.memory.store import MemoryStore
from tests.support.pipelines import Logger, eventually, journaling, letters_written, logging_to_memory
from tests.support.readings import make_block, make_group, time_of, whole

GROUP = make_group()


def put(logger: Logger, *triggers: int) -> None:
    for trigger in triggers:
        logger.pipelines["bpm"].receive(whole(GROUP, trigger))


async def test_an_idle_system_commits_a_single_trigger_at_once() -> None:
    async with logging_to_memory(GROUP) as logger:
        put(logger, 1)
        await eventually(lambda: logger.store.commits == 1)
        put(logger, 2)
        await eventually(lambda: logger.store.commits == 2)
        counts = logger.pipelines["bpm"].figures().committed
        assert (counts.commits, counts.triggers, counts.readings) == (2, 2, 10)


async def test_while_one_transaction_is_under_way_the_next_batch_gathers() -> None:
    async with logging_to_memory(GROUP) as logger:
        logger.store.serving.clear()
        put(logger, 1)
        await eventually(lambda: logger.store.begun == 1)
        put(logger, *range(2, 101))
        assert logger.pipelines["bpm"].waiting.triggers == 100
        logger.store.serving.set()
        await eventually(lambda: logger.pipelines["bpm"].waiting.triggers == 0)
        assert logger.store.commits == 2
    assert len(await logger.stored(GROUP)) == 500


async def test_a_batch_is_not_larger_than_configured() -> None:
    async with logging_to_memory(GROUP, committer={"max_batch_mib": 0.005}) as logger:
        logger.store.serving.clear()
        put(logger, *range(1, 101))
        logger.store.serving.set()
        await eventually(lambda: logger.pipelines["bpm"].waiting.triggers == 0)
        assert 3 < logger.store.commits < 100
    assert (await logger.store.position("bpm")).sequence == 100


async def test_late_readings_and_revised_rows_of_one_batch_belong_together() -> None:
    async with logging_to_memory(GROUP, assembly={"timeout_ms": 5.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        put(logger, 1)
        for trigger in (2, 3, 4):
            pipeline.receive(make_block(GROUP, [(trigger, 0), (trigger, 1)]))
        await eventually(lambda: pipeline.figures().open == 0)
        for instrument in (2, 3, 3, 4):
            pipeline.receive(make_block(GROUP, [(trigger, instrument) for trigger in (4, 2, 3)]))
        logger.store.serving.set()
        await eventually(lambda: pipeline.waiting.readings == 0)
        assert logger.store.commits <= 2
    stored = await logger.stored(GROUP)
    assert [(int(r["trigger"]), int(r["instrument"])) for r in stored] == [
        (t, i) for t in (1, 2, 3, 4) for i in range(5)
    ]
    assert stored["top_in"].tolist() == pytest.approx([t + i / 1000 for t in (1, 2, 3, 4) for i in range(5)])
    ledger = await logger.ledger(GROUP)
    assert ledger["arrived"].tolist() == [5, 5, 5, 5]
    assert ledger["late"].tolist() == [0, 3, 3, 3]
    assert ledger["duplicates"].tolist() == [0, 1, 1, 1]
    assert not ledger["missing"].any()


async def test_database_away_loses_nothing_and_is_said() -> None:
    settings = {"retry_first_ms": 1.0, "retry_most_ms": 4.0}
    async with logging_to_memory(GROUP, committer=settings) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.fail_with(StoreUnavailable("connection refused"))
        put(logger, 1, 2)
        await eventually(lambda: pipeline.figures().committed.retries >= 3)
        assert pipeline.figures().store_problem == "connection refused"
        assert pipeline.figures().committed.triggers == 0
        logger.store.fail_with(None)
        await eventually(lambda: logger.pipelines["bpm"].waiting.triggers == 0)
        assert pipeline.figures().store_problem is None
    assert len(await logger.stored(GROUP)) == 10


class Slow(MemoryStore):
    """Has time for 10 triggers in a transaction; keeps every other one of those that are given up on all the same."""

    given_up = 0

    async def commit(self, batch: Batch) -> None:
        if len(batch.ledger) <= 10:
            await super().commit(batch)
            return
        self.given_up += 1
        if self.given_up % 2 == 0:
            await super().commit(batch)
        raise StoreUnavailable("does not answer in time")


async def test_a_batch_that_is_too_much_for_the_store_is_divided() -> None:
    settings = {"retry_first_ms": 1.0, "retry_most_ms": 4.0}
    async with logging_to_memory(GROUP, committer=settings) as logger:
        pipeline = logger.pipelines["bpm"]
        column = pipeline.connect().column
        logger.store.__class__ = Slow
        logger.store.serving.clear()
        for trigger in range(1, 201):
            pipeline.receive(whole(GROUP, trigger), Origin.of(column, 5 * trigger - 5, 5))
        logger.store.serving.set()
        await eventually(lambda: pipeline.waiting.triggers == 0)
        assert logger.store.given_up > 4
        assert pipeline.figures().store_problem is None
        assert pipeline.figures().committed.triggers == 200
        assert pipeline.acknowledged()[0][column] == 1000
        position = await logger.store.position("bpm")
        assert (position.sequence, position.triggers, position.readings) == (200, 200, 1000)
        # What it manages is what it is given, until it manages more.
        logger.store.given_up = 0
        logger.store.__class__ = MemoryStore
        before = logger.store.commits
        logger.store.serving.clear()
        put(logger, *range(201, 401))
        logger.store.serving.set()
        await eventually(lambda: pipeline.waiting.triggers == 0)
        assert logger.store.commits - before < 12
    stored = await logger.stored(GROUP)
    assert [(int(r["trigger"]), int(r["instrument"])) for r in stored] == [
        (t, i) for t in range(1, 401) for i in range(5)
    ]


class Picky(MemoryStore):
    """Rejects what holds or revises trigger 3, and counts how often it was asked."""

    asked = 0

    def _refuse(self, batch: Batch) -> None:
        self.asked += 1
        if 3 in batch.ledger["trigger"] or 3 in batch.revised["trigger"]:
            raise BatchRejected("trigger 3 is not welcome")

    async def commit(self, batch: Batch) -> None:
        self._refuse(batch)
        await super().commit(batch)

    async def rehearse(self, batch: Batch) -> None:
        self._refuse(batch)
        await super().rehearse(batch)


class Changed(MemoryStore):
    """Commits, loses the connection before it says so, and rejects all of it when it is sent again."""

    async def commit(self, batch: Batch) -> None:
        if self.commits:
            raise BatchRejected("nothing is welcome any more")
        await super().commit(batch)
        raise StoreUnavailable("the connection was lost")


async def test_what_was_committed_without_saying_so_becomes_no_dead_letter(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path, committer={"retry_first_ms": 1.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.__class__ = Changed
        put(logger, 1, 2)
        await eventually(lambda: pipeline.waiting.triggers == 0)
        figures = pipeline.figures()
        assert (figures.committed.triggers, figures.committed.dead_triggers) == (2, 0)
        assert figures.dead_letters == Amount()
    assert len(await logger.stored(GROUP)) == 10


def letters_in(folder: Path) -> DeadLetters:
    letters = DeadLetters(folder / "bpm", GROUP, REAL)
    assert letters.open() == []
    return letters


async def test_a_rejected_trigger_is_kept_on_disk_and_takes_no_other_with_it(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        column = pipeline.connect().column
        logger.store.serving.clear()
        logger.store.__class__ = Picky
        # A block of five triggers, and three of one.
        pipeline.receive(whole(GROUP, *range(1, 6)), Origin.of(column, 0, 25))
        for trigger in (6, 7, 8):
            pipeline.receive(whole(GROUP, trigger), Origin.of(column, 5 * trigger - 5, 5))
        logger.store.serving.set()
        await eventually(lambda: pipeline.waiting.triggers == 0)
        assert (pipeline.figures().committed.dead_triggers, pipeline.figures().committed.dead_readings) == (1, 5)
        assert pipeline.figures().dead_letters == Amount(blocks=1, triggers=1, readings=5)
        assert pipeline.acknowledged()[0][column] == 40
        assert "trigger 3 is not welcome" in logger.events.newest()[0].text
        assert "trigger 3 of run 1" in logger.events.newest()[0].text
        assert await logger.store.position("bpm") == JournalPosition(sequence=4, triggers=7, readings=35)
    assert sorted(set((await logger.stored(GROUP))["trigger"].tolist())) == [1, 2, 4, 5, 6, 7, 8]
    letters = letters_in(tmp_path)
    (letter,) = letters.pending
    assert (letter.key, letter.reason) == ((1, 3), "trigger 3 is not welcome")
    block = letters.read(letter)
    assert block.readings["top_in"][0].tolist() == [3 + i / 1000 for i in range(5)]
    assert block.ledger["time_ns"].tolist() == [time_of(3)]


async def test_the_position_goes_on_behind_a_trigger_that_is_rejected_alone(tmp_path: Path) -> None:
    """Else the journal lets go of more than the database has, which looks as if that had been put back."""
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        logger.store.__class__ = Picky
        put(logger, 1)
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.triggers == 1)
        put(logger, 3)
        await eventually(lambda: logger.pipelines["bpm"].figures().committed.dead_triggers == 1)
        assert await logger.store.position("bpm") == JournalPosition(sequence=2, triggers=1, readings=5)


async def test_a_position_of_another_journal_says_nothing_of_what_was_given_up_on(tmp_path: Path) -> None:
    store = MemoryStore({"bpm": GROUP})
    old = JournalPosition(sequence=1000, journal=77)
    store._groups["bpm"].positions[Stream.JOURNAL] = old
    async with journaling(store, GROUP, tmp_path) as pipeline:
        assert await pipeline._committer._transactions.held() == 0
        pipeline.receive(whole(GROUP, 1))
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
        assert await pipeline._committer._transactions.held() == (await store.position("bpm")).sequence


async def test_one_bad_trigger_of_many_is_found_by_halves(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        logger.store.__class__ = Picky
        logger.pipelines["bpm"].receive(whole(GROUP, *range(1, 257)))
        await eventually(lambda: logger.pipelines["bpm"].waiting.triggers == 0)
        # The commit, rehearsals of ever fewer, of ever more and of none, and the commit of the rest.
        assert logger.store.asked <= 1 + 2 * 9 + 1 + 1
    assert len(await logger.ledger(GROUP)) == 255


class Exclusive(Picky):
    """Takes each trigger by itself, and not those of a pair together, as a unique index on their times does."""

    pairs = ((5, 6), (70, 180))

    def _refuse(self, batch: Batch) -> None:
        self.asked += 1
        triggers = set(batch.ledger["trigger"].tolist())
        if any(set(pair) <= triggers for pair in self.pairs):
            raise BatchRejected("duplicate key")


async def test_triggers_of_a_block_that_exclude_each_other_take_no_other_with_them(tmp_path: Path) -> None:
    """Looked for apart none of them is found; together they are, by what was found good before."""
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        logger.store.__class__ = Exclusive
        logger.pipelines["bpm"].receive(whole(GROUP, *range(1, 257)))
        await eventually(lambda: logger.pipelines["bpm"].waiting.triggers == 0)
        assert logger.store.asked < 100
        assert logger.pipelines["bpm"].figures().committed.dead_triggers == 2
    assert [letter.key for letter in letters_in(tmp_path).pending] == [(1, 6), (1, 180)]
    assert len(await logger.ledger(GROUP)) == 254


class Refusing(Picky):
    """Rejects what holds one of some triggers; counts what it is asked, and commits."""

    bad = frozenset[int]()

    def _refuse(self, batch: Batch) -> None:
        self.asked += 1
        found = sorted(self.bad & set(batch.ledger["trigger"].tolist()))
        if found:
            raise BatchRejected("value out of range", f"trigger {found[0]}")


@pytest.mark.parametrize(
    ("bad", "most"),
    [(range(17, 18), 21), (range(1, 257, 64), 70), (range(1, 257), 270)],
    ids=["one", "four", "all"],
)
async def test_rejected_blocks_of_a_batch_are_looked_for_and_kept_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: range, most: int
) -> None:
    """Blocks of a trigger each, as a steady rate closes them while a commit is under way."""
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        put(logger, 0)
        await eventually(lambda: logger.store.begun == 1)
        put(logger, *range(1, 257))
        written = letters_written(monkeypatch)
        logger.store.__class__ = Refusing
        logger.store.bad = frozenset(bad)
        commits = logger.store.commits
        logger.store.serving.set()
        await eventually(lambda: pipeline.waiting.triggers == 0)
        assert logger.store.asked <= most
        # That of trigger 0, and one of all that is good.
        assert logger.store.commits - commits == 2
        figures = pipeline.figures()
        assert (figures.committed.triggers, figures.committed.dead_triggers) == (257 - len(bad), len(bad))
        assert (await logger.store.position("bpm")).sequence == 257
    letters = letters_in(tmp_path).pending
    assert [letter.key for letter in letters] == [(1, trigger) for trigger in bad]
    assert written == [len(bad)]
    assert {letter.reason for letter in letters} == {"value out of range"}
    assert [letter.detail for letter in letters] == [f"trigger {trigger}" for trigger in bad]
    assert set((await logger.stored(GROUP))["trigger"].tolist()) == set(range(257)) - set(bad)


async def test_what_comes_late_in_the_same_batch_as_its_rejected_trigger_follows_it(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path, assembly={"timeout_ms": 5.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        put(logger, 1)
        await eventually(lambda: logger.store.begun == 1)
        for trigger in (2, 3, 4):
            pipeline.receive(make_block(GROUP, [(trigger, 0), (trigger, 1)]))
        await eventually(lambda: pipeline.figures().open == 0)
        pipeline.receive(make_block(GROUP, [(trigger, 2) for trigger in (4, 2, 3)]))
        logger.store.__class__ = Refusing
        logger.store.bad = frozenset({3})
        logger.store.serving.set()
        await eventually(lambda: pipeline.waiting.readings == 0)
        assert pipeline.figures().committed.dead_readings == 3
        first, second = pipeline._dead_letters.pending
        assert (first.key, first.triggers, first.reason) == ((1, 3), 1, "value out of range")
        assert (second.key, second.triggers, second.reason) == ((1, 3), 0, FOLLOWS)
        logger.store.__class__ = MemoryStore
        assert (await pipeline.letters.retry()).readings == 3
    ledger = await logger.ledger(GROUP)
    assert dict(zip(ledger["trigger"].tolist(), ledger["arrived"].tolist(), strict=True)) == {1: 5, 2: 3, 3: 3, 4: 3}


class LateIsRejected(Picky):
    """Rejects what comes late for trigger 3, and takes the trigger itself."""

    def _refuse(self, batch: Batch) -> None:
        if 3 in batch.revised["trigger"]:
            raise BatchRejected("late is not welcome")


async def test_a_trigger_is_committed_though_what_comes_late_for_it_in_its_batch_is_rejected(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path, assembly={"timeout_ms": 5.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.serving.clear()
        put(logger, 1)
        await eventually(lambda: logger.store.begun == 1)
        pipeline.receive(make_block(GROUP, [(3, 0), (3, 1)]))
        await eventually(lambda: pipeline.figures().open == 0)
        for instrument in (2, 3):
            pipeline.receive(make_block(GROUP, [(3, instrument)]))
        logger.store.__class__ = LateIsRejected
        logger.store.serving.set()
        await eventually(lambda: pipeline.waiting.readings == 0)
        assert [letter.triggers for letter in pipeline._dead_letters.pending] == [0, 0]
        assert pipeline.figures().committed.dead_readings == 2
    assert (await logger.stored(GROUP))["instrument"].tolist() == [0, 1, 2, 3, 4, 0, 1]


async def test_what_comes_late_for_a_dead_letter_follows_it_and_both_are_retried_in_order(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path, assembly={"timeout_ms": 5.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.__class__ = Picky
        pipeline.receive(make_block(GROUP, [(3, 0), (3, 1)]))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 1)
        logger.store.__class__ = MemoryStore
        # The database would take it now, but not before the trigger itself.
        pipeline.receive(make_block(GROUP, [(3, 2)]))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 2)
        pipeline.receive(make_block(GROUP, [(3, 3), (3, 4)]))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 3)
        assert len(await logger.stored(GROUP)) == 0
        outcome = await pipeline.letters.retry()
        assert (outcome.committed, outcome.readings, outcome.rejected) == (3, 5, 0)
        assert pipeline.figures().dead_letters.blocks == 0
        # From now on what comes for it goes its way.
        pipeline.receive(make_block(GROUP, [(3, 4)]))
        await eventually(lambda: pipeline.figures().assembled.duplicate == 1)
    stored = await logger.stored(GROUP)
    assert stored["instrument"].tolist() == [0, 1, 2, 3, 4]
    (row,) = await logger.ledger(GROUP)
    assert (row["arrived"], row["late"], int(row["missing"].sum())) == (5, 3, 0)
    assert list((tmp_path / "bpm").glob("*.dead")) == []


async def test_an_error_that_no_row_causes_makes_no_dead_letter(tmp_path: Path) -> None:
    """As by a constraint on the table of positions: what is committed without rows is rejected, too."""

    class Broken(MemoryStore):
        async def commit(self, batch: Batch) -> None:
            raise BatchRejected("violates check constraint")

        rehearse = commit

    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.__class__ = Broken
        put(logger, *range(1, 11))
        await eventually(lambda: "no row is at fault" in (pipeline.figures().store_problem or ""))
        logger.store.__class__ = Picky
        await eventually(lambda: pipeline.waiting.triggers == 0)
        assert pipeline.figures().dead_letters.triggers == 1
    assert len(await logger.ledger(GROUP)) == 9


async def test_retrying_what_is_rejected_again_keeps_it_and_commits_the_others(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]

        class Hostile(Picky):
            def _refuse(self, batch: Batch) -> None:
                if len(batch.ledger):
                    raise BatchRejected("nothing is welcome")

        logger.store.__class__ = Hostile
        put(logger, *range(1, 11))
        await eventually(lambda: pipeline.figures().dead_letters.triggers == 10)
        outcome = await pipeline.letters.retry()
        assert (outcome.committed, outcome.rejected, outcome.reasons) == (0, 10, {"nothing is welcome": 10})
        logger.store.__class__ = Picky
        outcome = await pipeline.letters.retry()
        assert (outcome.committed, outcome.rejected, outcome.reasons) == (9, 1, {"trigger 3 is not welcome": 1})
        position = await logger.store.position("bpm", Stream.DEAD_LETTERS)
        assert (position.triggers, position.readings) == (9, 45)
        (letter,) = pipeline._dead_letters.pending
        assert (letter.key, letter.serial) == ((1, 3), 3)
        again = letters_in(tmp_path)
        assert [each.key for each in again.pending] == [(1, 3)]
        logger.store.__class__ = MemoryStore
        assert (await pipeline.letters.retry()).committed == 1
        assert (await pipeline.letters.retry()).committed == 0
    assert sorted((await logger.stored(GROUP))["trigger"].tolist()) == sorted(5 * list(range(1, 11)))


async def test_the_account_counts_on_and_leaves_out_what_was_rejected(tmp_path: Path) -> None:
    before = JournalPosition(sequence=9, triggers=100, readings=500)
    async with logging_to_memory(GROUP, folder=tmp_path, position=before) as logger:
        logger.store.serving.clear()
        logger.store.__class__ = Picky
        put(logger, *range(1, 6))
        logger.store.serving.set()
        await eventually(lambda: logger.pipelines["bpm"].waiting.triggers == 0)
        position = await logger.store.position("bpm")
        assert position == JournalPosition(sequence=14, triggers=104, readings=520)


async def test_a_rejected_block_waits_while_it_cannot_be_kept(tmp_path: Path) -> None:
    blocked = tmp_path / "dead"
    blocked.write_text("a file where the folder should be")
    settings = {"retry_first_ms": 1.0, "retry_most_ms": 4.0}
    async with logging_to_memory(GROUP, folder=blocked, committer=settings) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.__class__ = Picky
        put(logger, 3)
        await eventually(lambda: pipeline.figures().store_problem is not None)
        assert "cannot be kept on disk" in pipeline.figures().store_problem
        assert logger.pipelines["bpm"].waiting.triggers == 1
        blocked.unlink()
        await eventually(lambda: logger.pipelines["bpm"].waiting.triggers == 0)
        assert pipeline.figures().committed.dead_triggers == 1


async def test_backlog_at_its_limit_is_told_and_again_when_there_is_room() -> None:
    async with logging_to_memory(GROUP, committer={"max_batch_mib": 0.01, "max_waiting_mib": 0.02}) as logger:
        told: list[bool] = []
        pipeline = logger.pipelines["bpm"]
        pipeline.subscribe(settled=lambda: None, full=told.append)
        logger.store.serving.clear()
        put(logger, *range(1, 101))
        assert (told, pipeline.is_full) == ([True], True)
        logger.store.serving.set()
        await eventually(lambda: told == [True, False])
        assert not pipeline.is_full


async def test_latency_runs_from_closing_to_the_stores_acknowledgement() -> None:
    async with logging_to_memory(GROUP) as logger:
        latencies = logger.pipelines["bpm"].latencies
        logger.store.serving.clear()
        put(logger, 1)
        await asyncio.sleep(0.05)
        logger.store.serving.set()
        await eventually(lambda: logger.pipelines["bpm"].waiting.triggers == 0)
        assert latencies.fine.sum() == 1
        assert latencies.sum_ms >= 50


async def test_a_position_that_was_removed_is_written_again_and_nothing_is_called_lost(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        put(logger, 1, 2)
        await eventually(lambda: pipeline.figures().committed.triggers == 2)
        logger.store._groups["bpm"].positions[Stream.JOURNAL] = JournalPosition(sequence=0)
        put(logger, 3)
        await eventually(lambda: pipeline.figures().committed.triggers == 3)
        assert await logger.store.position("bpm") == JournalPosition(sequence=3, triggers=3, readings=15)
        assert (pipeline.figures().lost.readings, pipeline.figures().committed.readings) == (0, 15)
        assert "position in the database was gone" in logger.events.newest()[0].text


async def test_a_database_that_lost_everything_is_told_apart_from_one_without_a_position(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        put(logger, 1, 2)
        await eventually(lambda: pipeline.figures().committed.triggers == 2)
        kept = logger.store._groups["bpm"]
        kept.positions[Stream.JOURNAL] = JournalPosition(sequence=0)
        kept.ledger.clear()
        kept.readings.clear()
        put(logger, 3)
        await eventually(lambda: pipeline.figures().committed.triggers == 1)
        assert await logger.store.position("bpm") == JournalPosition(sequence=3, triggers=1, readings=5)
        assert (pipeline.figures().lost.readings, pipeline.figures().committed.readings) == (10, 5)
        assert "10 readings are lost" in logger.events.newest()[0].text


async def test_what_is_late_for_a_dead_letter_that_the_database_lost_too_follows_it(tmp_path: Path) -> None:
    """It is placed as a trigger of its own then, and rejected by itself."""

    def send(*readings: tuple[int, int]) -> None:
        block = make_block(GROUP, readings)
        block["epoch"] = 7
        logger.pipelines["bpm"].receive(block)

    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.__class__ = Picky
        send(*((n, i) for n in (1, 2) for i in range(5)))
        send(*((3, i) for i in range(4)))
        await eventually(lambda: pipeline.figures().committed.dead_triggers == 1)
        kept = logger.store._groups["bpm"]
        kept.positions[Stream.JOURNAL] = JournalPosition(sequence=0)
        kept.ledger.clear()
        kept.readings.clear()
        send(*((4, i) for i in range(5)))
        await eventually(lambda: pipeline.figures().lost.readings > 0)
        await eventually(lambda: pipeline.waiting.triggers == 0)
        send((3, 4))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 2)
        send(*((5, i) for i in range(5)))
        await eventually(lambda: pipeline.waiting.triggers == 0)


class FallsBack(MemoryStore):
    """Loses all but the first trigger between the questions what its ledger has, and which readings are there."""

    has_lost = False

    async def ask(self, query: Query) -> Array:
        if isinstance(query, TriggersReadings) and not self.has_lost:
            self.has_lost = True
            kept = self._groups["bpm"]
            kept.positions[Stream.JOURNAL] = JournalPosition(sequence=1, triggers=1, readings=5)
            kept.ledger = {(1, 1): kept.ledger[1, 1]}
            kept.readings = [kept.everything()[:5]]
        return await super().ask(query)


async def test_what_is_compared_while_the_database_falls_back_is_compared_again(tmp_path: Path) -> None:
    """A reading whose trigger is gone by then is in the place of no other."""
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        pipeline = logger.pipelines["bpm"]
        block = whole(GROUP, 1, 2)
        block["epoch"] = 7
        for readings in (block[:5], block[5:]):
            pipeline.receive(readings.copy())
            await eventually(lambda: pipeline.waiting.blocks == 0)
        logger.store.__class__ = FallsBack
        origin = Origin.of(pipeline.connect(session=7).column, 0, 1)
        pipeline.take_readings_again(block[5:6], origin, REAL.clock.now(), own=origin)
        await eventually(lambda: pipeline.waiting.blocks == 0)
        assert pipeline.figures().dead_letters == Amount()
    stored = await logger.stored(GROUP)
    assert stored[["trigger", "instrument"]].tolist() == [*((1, i) for i in range(5)), (2, 0)]


class LosesAtCommit(MemoryStore):
    """Loses all but the first trigger when it is to commit something."""

    has_lost = False

    async def commit(self, batch: Batch) -> None:
        if not self.has_lost:
            self.has_lost = True
            kept = self._groups["bpm"]
            kept.positions[Stream.JOURNAL] = JournalPosition(sequence=1, triggers=1, readings=5)
            kept.ledger = {(1, 1): kept.ledger[1, 1]}
            kept.readings = [kept.everything()[:5]]
        await super().commit(batch)


async def set_aside_and_lose(logger: Logger, block: Array, *aside: Aside) -> list[list[float]]:
    """Commit two triggers, and set aside a block in whose commit the database loses the second.

    Returns the values of the readings that are dead letters then, and of those that are stored.
    """
    pipeline, assembly = logger.pipelines["bpm"], logger.pipelines["bpm"]._assembly
    for readings in (block[:5], block[5:]):
        pipeline.receive(readings.copy())
        pipeline._handle(assembly.flush(REAL.clock.now()))
        await eventually(lambda: pipeline.waiting.blocks == 0)
    logger.store.__class__ = LosesAtCommit
    for each in aside:
        nobody = Origin.of(-1, 0, len(each.readings))
        assembly._triggers.set_aside(each.readings, nobody, int(each.run[0]), AsideReason(int(each.reason[0])))
    pipeline._handle(assembly.flush(REAL.clock.now()))
    await eventually(lambda: pipeline.waiting.blocks == 0)
    letters = await pipeline._dead_letters.read_all(pipeline._dead_letters.pending)
    dead = [value for _, each in letters for value in each.aside.readings["top_in"].tolist()]
    return [sorted(dead), (await logger.stored(GROUP))["top_in"][5:].tolist()]


async def test_what_only_the_second_attempt_sets_aside_is_kept_too(tmp_path: Path) -> None:
    """The trigger that tells its run is gone then, and another reading was kept for the same reason before."""
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        block = whole(GROUP, 1, 2)
        alone = make_block(GROUP, [(1, 3)], lambda trigger: time_of(trigger) + 5)
        aside = Aside.of(alone, 0, AsideReason.AMBIGUOUS), Aside.of(block[9:], 1, AsideReason.OLDER)
        assert await set_aside_and_lose(logger, block[:9], *aside) == [[1.003, 2.004], []]


async def test_what_the_first_attempt_has_made_a_dead_letter_is_not_stored_by_the_second(tmp_path: Path) -> None:
    """Another reading was in its place, and is gone."""
    async with logging_to_memory(GROUP, folder=tmp_path) as logger:
        block = whole(GROUP, 1, 2)
        block["epoch"] = 7
        other = block[9:].copy()
        other["top_in"] = 99
        assert await set_aside_and_lose(logger, block, Aside.of(other, 1, AsideReason.DOUBTFUL)) == [[99.0], []]
        figures = logger.pipelines["bpm"].figures()
        assert (figures.assembled.aside, figures.committed.placed) == ({"doubtful": 1}, 0)


class SlowToRetry(MemoryStore):
    """Before what is retried is committed, with rows that were asked for, something comes late for one of these."""

    pipeline: Pipeline
    late: Array | None = None

    async def commit(self, batch: Batch) -> None:
        if batch.stream is Stream.DEAD_LETTERS and self.late is not None:
            late, self.late = self.late, None
            self.pipeline.receive(late)
            for _ in range(20):
                await asyncio.sleep(0.01)
        await super().commit(batch)


async def test_a_retry_takes_back_nothing_that_came_late_meanwhile(tmp_path: Path) -> None:
    async with logging_to_memory(GROUP, folder=tmp_path, assembly={"timeout_ms": 5.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        pipeline.receive(make_block(GROUP, [(3, i) for i in range(3)]))
        await eventually(lambda: pipeline.figures().committed.readings == 3)
        logger.store.__class__ = Picky
        pipeline.receive(make_block(GROUP, [(3, 3)]))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 1)
        logger.store.__class__ = SlowToRetry
        logger.store.pipeline, logger.store.late = pipeline, make_block(GROUP, [(3, 4)])
        assert (await pipeline.letters.retry()).committed == 1
        assert logger.store.late is None
        await eventually(lambda: pipeline.figures().committed.readings == 4)
    rows = await logger.ledger(GROUP)
    assert rows[["trigger", "arrived"]].tolist() == [(3, 5)]


@pytest.mark.parametrize("is_under_way", [False, True])
async def test_what_is_late_for_what_was_discarded_is_stored_by_itself(tmp_path: Path, is_under_way: bool) -> None:
    """The database has nothing of that trigger: its row must not count what was discarded.

    is_under_way: it comes before, and waits for a database that is away.
    """
    async with logging_to_memory(GROUP, folder=tmp_path, assembly={"timeout_ms": 5.0}) as logger:
        pipeline = logger.pipelines["bpm"]
        logger.store.__class__ = Picky
        pipeline.receive(make_block(GROUP, [(3, i) for i in range(4)]))
        await eventually(lambda: pipeline.figures().dead_letters.blocks == 1)
        late = make_block(GROUP, [(3, 4), *((4, i) for i in range(5))])
        if is_under_way:
            logger.store.serving.clear()
            pipeline.receive(late)
            await asyncio.sleep(0.05)
        assert (await pipeline.letters.discard()).readings == 4
        logger.store.__class__ = MemoryStore
        logger.store.serving.set()
        if not is_under_way:
            pipeline.receive(late)
        await eventually(lambda: pipeline.waiting.blocks == 0)
        assert pipeline.figures().dead_letters == Amount()
    stored = await logger.stored(GROUP)
    assert stored[["trigger", "instrument"]].tolist() == [(3, 4), *((4, i) for i in range(5))]
    first, _ = await logger.ledger(GROUP)
    assert (first["arrived"], first["missing"].tolist()) == (1, [0b01111])
