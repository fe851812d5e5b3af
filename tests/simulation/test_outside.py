"""Threads in virtual time, and a sender without a session."""

import asyncio
import math
import random

import numpy as np

from daemon.client.sender.connection import Connection
from schemas.wire import Ack, Acknowledgement, Answer
from tests.simulation.disk import Drive
from tests.simulation.loop import Life, virtual_loop
from tests.simulation.machine import make_group
from tests.simulation.network import Network
from tests.simulation.outside import outside_of
from tests.simulation.plain_sender import PlainSender


def test_the_clock_of_the_node_may_be_off_and_the_monotonic_one_is_not() -> None:
    with virtual_loop() as loop:
        clock = outside_of(loop, Drive(rng=random.Random(1)), Life("a"), random.Random(2)).clock
        before = clock.now()
        loop.node_off_ns = -37_000_000_000
        assert clock.now().utc_ns == before.utc_ns - 37_000_000_000
        assert clock.now().monotonic_ns == before.monotonic_ns


def test_a_step_is_called_when_it_is_due_or_woken_until_it_is_the_last() -> None:
    with virtual_loop() as loop:

        async def main() -> None:
            outside = outside_of(loop, Drive(rng=random.Random(1)), Life("a"), random.Random(2))
            called: list[float] = []
            answers = iter([1.0, math.inf, math.inf, None])

            def step() -> float | None:
                called.append(loop.time())
                return next(answers)

            began = loop.time()
            stepper = outside.workers.begin("journal", step)
            await asyncio.sleep(10)
            assert len(called) == 2
            assert 1.0 <= called[1] - called[0] < 1.1
            stepper.wake()
            stepper.wake()
            await asyncio.sleep(1)
            assert len(called) == 3
            stepper.wake()
            await stepper.ended()
            assert loop.time() - began < 12
            assert await outside.workers.call(max, 3, 5) == 5
            assert outside.clock.now().monotonic_ns == loop.now_ns

        loop.run_until_complete(main())


class Daemon(asyncio.Protocol):
    """Answers the greeting, keeps the marks it gets, and acknowledges so many on each connection."""

    def __init__(self, got: list[int], acknowledges: int) -> None:
        self.got, self.acknowledges = got, acknowledges
        self.rest = b""

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.rest += data
        if b"\n" in self.rest and self.rest.startswith(b"TRIGGERLOG"):
            self.rest = self.rest.partition(b"\n")[2]
            group = make_group(1)
            self.transport.write(Answer(group="bpm", record=group.record, instruments=1).line())
        record = make_group(1).record
        whole = len(self.rest) // record.itemsize
        self.got += np.frombuffer(self.rest, record, count=whole)["mark"].tolist()
        self.rest = self.rest[whole * record.itemsize :]
        if len(self.got) >= 6:
            self.transport.write(Acknowledgement(done=self.acknowledges, refused=0).frame())


def test_a_sender_without_a_session_sends_again_what_is_not_acknowledged() -> None:
    with virtual_loop() as loop:

        async def main() -> None:
            network = Network(loop, lambda address, number: random.Random(number))
            got: list[int] = []
            daemons = iter([Daemon(got, 2), Daemon(got, 4)])
            network.listen(1, lambda address: next(daemons))
            sender = await PlainSender.connect("host", 1, "bpm", sender="crate", ack=Ack.COMMITTED)
            for first in (0, 3):
                block = np.zeros(3, make_group(1).record)
                block["mark"] = range(first, first + 3)
                await sender.send(block)
            await asyncio.sleep(1)
            assert (got, sender.acknowledged) == ([0, 1, 2, 3, 4, 5], 2)
            network.cut(network.of("10.0.0.1")[0], "cut")
            await asyncio.wait_for(sender.drain_acknowledged(None), 60)
            assert got == [0, 1, 2, 3, 4, 5, 2, 3, 4, 5]
            assert isinstance(sender._connection, Connection)
            await sender.close()

        loop.run_until_complete(main())
        assert not loop.failures
