import asyncio

import pytest

from dashboard.feed.client import DaemonUnavailable
from dashboard.feed.relay import TtlCache


async def test_many_who_ask_at_once_cost_one_question() -> None:
    answers: TtlCache[int] = TtlCache()
    asked = 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return asked

    assert await asyncio.gather(*(answers.get("a", 60.0, ask) for _ in range(5))) == [1] * 5
    assert await answers.get("b", 60.0, ask) == 2
    assert await answers.get("a", 60.0, ask) == 1


async def test_an_answer_is_asked_for_again_after_its_time_and_a_failure_is_not_kept() -> None:
    answers = TtlCache[int]()

    async def fail() -> int:
        raise DaemonUnavailable

    async def ask() -> int:
        return 7

    with pytest.raises(DaemonUnavailable):
        await answers.get("a", 60.0, fail)
    assert await answers.get("a", 0.0, ask) == 7
    with pytest.raises(DaemonUnavailable):
        await answers.get("a", 60.0, fail)


async def test_what_is_out_of_date_makes_room() -> None:
    answers = TtlCache[int](3)

    async def ask() -> int:
        return 7

    for key in range(10):
        await answers.get(key, 0.0, ask)
    assert len(answers._entries) <= 4
