"""kill -9 at each step of an order about a mark: what was answered holds, and there is one mark."""

import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from backends.base import Store
from backends.ending import end_tasks
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.marks import MarkKeeper, MarkRefused
from schemas.marks import Mark, MarksWithin
from tests.support.forked import CONTEXT
from tests.support.mark_crash_process import STEPS, make_store, order
from tests.support.pipelines import eventually

ALL = MarksWithin(start_ns=-(2**63), end_ns=2**63 - 1, most=100)
ENDS = {"never": 0}
SIGKILLED = -9


async def ordered(dsn: str, schema: str, folder: Path, step: str, mark: Mark | UUID) -> str | None:
    """Give an order to a process that dies at a step; what it answered, None where it died before."""
    heard, said = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=order, args=(dsn, schema, folder, step, mark, said))
    process.start()
    said.close()
    await asyncio.to_thread(process.join, 60)
    assert process.exitcode == ENDS.get(step, SIGKILLED)
    try:
        return str(heard.recv())
    except EOFError:
        return None


async def found_after_the_next_start(store: Store, folder: Path, again: Mark | None = None) -> list[Mark]:
    """Start again over the same folder, let all that waits be written, and perhaps give an order once more."""
    keeper = MarkKeeper(store, folder, Outside.real(), Events())
    await keeper.open()
    writing = asyncio.create_task(keeper.run())
    try:
        await eventually(lambda: keeper.status().waiting == 0)
        if again is not None:
            assert await keeper.keep(again)
        assert not list((folder / "marks").glob("*.json"))
        return await store.marks(ALL)
    finally:
        await end_tasks(writing)


@pytest.mark.parametrize("step", STEPS)
async def test_a_mark_is_kept_once_wherever_the_daemon_dies(
    step: str, postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    mark = Mark(id=uuid4(), time_ns=5, text="beam study began")
    answered = await ordered(postgresql_dsn, schema, tmp_path, step, mark)
    assert (answered == "stored") is (step == "never")
    store = make_store(postgresql_dsn, schema)
    await store.open()
    try:
        expected = [] if step == "before the file" else [mark]
        assert await found_after_the_next_start(store, tmp_path) == expected
        # Who got no answer asks again.
        assert await found_after_the_next_start(store, tmp_path, again=mark) == [mark]
    finally:
        await store.close()


@pytest.mark.parametrize("step", STEPS)
async def test_a_withdrawal_holds_wherever_the_daemon_dies(
    step: str, postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    mark = Mark(id=uuid4(), time_ns=5, text="beam study began")
    assert await ordered(postgresql_dsn, schema, tmp_path, "never", mark) == "stored"
    await ordered(postgresql_dsn, schema, tmp_path, step, mark.id)
    store = make_store(postgresql_dsn, schema)
    await store.open()
    try:
        expected = [mark] if step == "before the file" else []
        assert await found_after_the_next_start(store, tmp_path) == expected
        if step != "before the file":
            with pytest.raises(MarkRefused, match="was withdrawn"):
                await found_after_the_next_start(store, tmp_path, again=mark)
    finally:
        await store.close()
