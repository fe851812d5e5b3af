"""The virtual loop: time, lives and their ends."""

import asyncio

import pytest

from tests.simulation.loop import Killed, Life, Stuck, run_in, virtual_loop


def test_time_jumps_to_the_next_timer_and_timers_of_one_moment_keep_their_order() -> None:
    seen: list[tuple[float, str]] = []
    with virtual_loop() as loop:

        async def main() -> None:
            began = loop.time()
            for name in "abc":
                loop.call_later(3600.0, lambda name=name: seen.append((loop.time() - began, name)))
            loop.call_later(1.5, lambda: seen.append((loop.time() - began, "first")))
            await asyncio.sleep(7200.0)
            assert loop.time() - began == 7200.0

        loop.run_until_complete(main())
    assert seen == [(1.5, "first"), (3600.0, "a"), (3600.0, "b"), (3600.0, "c")]


def test_asyncio_works_on_it() -> None:
    with virtual_loop() as loop:

        async def main() -> int:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(10):
                    await asyncio.Event().wait()
            async with asyncio.TaskGroup() as tasks:
                one, two = tasks.create_task(asyncio.sleep(5, 1)), tasks.create_task(asyncio.to_thread(int, "2"))
            return one.result() + two.result()

        assert loop.run_until_complete(main()) == 3
        assert not loop.failures


def test_who_waits_for_nothing_is_stuck() -> None:
    with virtual_loop() as loop, pytest.raises(Stuck, match="nothing is left to do"):
        loop.run_until_complete(asyncio.Event().wait())


def test_who_goes_round_in_one_moment_is_stuck() -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with virtual_loop() as loop, pytest.raises(Stuck, match="goes round"):
        loop.run_until_complete(spin())


@pytest.mark.parametrize("step", range(4))
def test_a_life_ends_at_any_of_its_steps_and_nothing_of_it_runs_after_that(step: int) -> None:
    done: list[str] = []
    with virtual_loop() as loop:
        life = Life("a")

        async def work() -> None:
            loop.call_later(5, done.append, "timer")
            try:
                for k in range(3):
                    done.append(f"step {k}")
                    await asyncio.sleep(1)
            except Exception:
                done.append("handled")

        async def main() -> None:
            task = run_in(life, lambda: loop.create_task(work()))
            life.kill_after("step", step)
            await asyncio.sleep(20)
            assert life.is_dead
            assert not task.done()
            life.close_tasks()

        loop.run_until_complete(main())
    # Between two steps of the task there is one of its timer.
    assert done == [f"step {k}" for k in range((step + 1) // 2)]


def test_a_life_ends_within_a_call_and_no_handler_can_stop_that() -> None:
    with virtual_loop() as loop:
        life, dead = Life("a"), asyncio.Event()
        life.on_death(dead.set)

        def call() -> None:
            life.kill_after("disk", 1)
            try:
                life.note("disk")
                life.note("disk")
            except Exception:
                pytest.fail("somebody caught it")

        async def main() -> None:
            run_in(life, lambda: loop.call_soon(call))
            await dead.wait()
            with pytest.raises(Killed):
                life.note("disk")

        loop.run_until_complete(main())
        assert not loop.failures


def test_a_callback_that_fails_is_told() -> None:
    with virtual_loop() as loop:
        loop.call_soon(int, "x")
        loop.run_until_complete(asyncio.sleep(1))
        assert "invalid literal" in loop.failures[0]
