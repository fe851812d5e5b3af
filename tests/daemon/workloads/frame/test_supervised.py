"""A workload's process: its protocol, how it is started again, stopped, refused and killed. Real processes."""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from daemon.workloads.frame.messages import Stop, decoder
from daemon.workloads.frame.runner import CommandEnded, ProcessFailed, ProcessRefused, WorkloadProcess, run_command
from schemas.config import DatabaseConfig
from tests.support.counting_process import Add, Counted, Spec
from tests.support.pipelines import eventually


def counting(folder: Path, to: int, then: str, silent_s: float | None = None) -> WorkloadProcess[Counted]:
    spec = Spec(parent=os.getpid(), database=DatabaseConfig(), state_dir=folder, to=to, then=then)
    module = "tests.support.counting_process"
    return WorkloadProcess("counter", module, lambda: spec, folder / "logs" / "it.log", [Counted], silent_s=silent_s)


async def numbers_of(process: WorkloadProcess[Counted]) -> list[int]:
    return [message.number async for message in process.messages()]


def test_a_line_that_is_no_message_of_the_protocol_is_refused() -> None:
    decode = decoder(Counted, Stop)
    assert decode(Counted(number=3, pid=7).line()) == Counted(number=3, pid=7)
    for line in (b"hello\n", b"[]\n", b'{"Add": {"number": 1}}\n', b'{"Counted": {"number": "x", "pid": 1}}\n'):
        with pytest.raises(ValueError, match=r"unexpected|no message of Counted, Stop|1 validation error"):
            decode(line)


async def test_messages_come_in_order_and_what_is_printed_goes_to_the_log(tmp_path: Path) -> None:
    process = counting(tmp_path, 50, "end")
    assert await numbers_of(process) == list(range(50))
    assert not process.running
    assert "this is no message" in (tmp_path / "logs" / "it.log").read_text()


async def test_a_process_that_dies_refuses_or_hangs_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ProcessRefused, match=r"^there is nothing to count$"):
        await numbers_of(counting(tmp_path, 2, "refuse"))
    with pytest.raises(ProcessFailed, match=r"^the counter ended with exit code 3: this is no message"):
        await numbers_of(counting(tmp_path, 2, "die"))
    with pytest.raises(ProcessFailed, match=r"^the counter has sent nothing for 3 s$"):
        await numbers_of(counting(tmp_path, 2, "hang", silent_s=3.0))
    assert (tmp_path / "logs" / "it.log.1").exists()


async def test_a_process_goes_no_further_than_its_messages_are_taken(tmp_path: Path) -> None:
    async with aclosing(counting(tmp_path, 1000, "end").messages()) as messages:
        first = await anext(messages)
        await asyncio.sleep(0.3)
        # One is under way while the first is dealt with; the third waits for the first to be taken.
        assert [(await anext(messages)).number for _ in range(2)] == [1, 2]
        assert psutil.pid_exists(first.pid)
    await eventually(lambda: not psutil.pid_exists(first.pid), "the process is killed with its generator", 60)


async def test_a_process_is_started_again_until_it_is_stopped(tmp_path: Path) -> None:
    process = counting(tmp_path, 1, "serve")
    failures: list[tuple[str, float]] = []
    seen: list[Counted] = []
    messages = process.supervised(lambda problem, pause_s: failures.append((problem, pause_s)), 0.05)
    async with asyncio.timeout(60), aclosing(messages):
        async for message in messages:
            seen.append(message)
            if message.number == 0 and len(failures) < 2:
                psutil.Process(message.pid).kill()
            elif message.number == 0:
                process.send(Add(number=42))
            else:
                process.stop()
    assert [message.number for message in seen] == [0, 0, 0, 42]
    assert len({message.pid for message in seen}) == 3
    pauses = [pause_s for _, pause_s in failures]
    assert [most_s / 2 <= pause_s <= most_s for pause_s, most_s in zip(pauses, (0.05, 0.1), strict=True)] == [
        True,
        True,
    ]
    assert all("was ended by SIGKILL" in problem for problem, _ in failures)


async def test_a_refusal_is_not_tried_again_and_a_stop_ends_a_pause(tmp_path: Path) -> None:
    with pytest.raises(ProcessRefused):
        async for _ in counting(tmp_path, 1, "refuse").supervised(lambda *_: None, 0.05):
            pass
    process = counting(tmp_path, 1, "die")
    failures: list[str] = []

    def failed(problem: str, _: float) -> None:
        failures.append(problem)
        process.stop()

    async with asyncio.timeout(60):
        async for _ in process.supervised(failed, 600):
            pass
    assert len(failures) == 1


async def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    await run_command("maker", ["-c", "print('made')"], tmp_path / "maker.log")
    with pytest.raises(CommandEnded, match=r"^the maker ended with exit code 1: no room \(its log: "):
        await run_command("maker", ["-c", "import sys; sys.exit('no room')"], tmp_path / "maker.log")
    with pytest.raises(CommandEnded, match=r"^the maker cannot be started \(no such file or directory\)"):
        await run_command("maker", ["-c", ""], tmp_path / "nowhere" / "maker.log")
