"""A workload's process for tests of the frame: it counts, and then ends in the way that its spec says."""

import asyncio
import os

from daemon.workloads.frame.messages import Message, Parent, ProcessSpec, Refused, run_process


class Spec(ProcessSpec):
    """What to count to, and what happens then: `end`, `refuse`, `die`, `hang` or `serve` until it is to stop."""

    to: int
    then: str


class Counted(Message):
    """A number, and the process that counted it."""

    number: int
    pid: int


class Add(Message):
    """Count this number, too."""

    number: int


async def count(spec: Spec, parent: Parent[Add]) -> None:
    print("this is no message")  # noqa: T201 - a library may print anything
    for number in range(spec.to):
        await parent.until_acknowledged(1)
        parent.send(Counted(number=number, pid=os.getpid()))
    if spec.then == "refuse":
        raise Refused("there is nothing to count")
    if spec.then == "die":
        await parent.until_acknowledged(0)
        os._exit(3)
    if spec.then == "hang":
        await asyncio.sleep(600)
    if spec.then == "serve":
        async for order in parent.orders():
            parent.send(Counted(number=order.number, pid=os.getpid()))


if __name__ == "__main__":
    run_process(Spec, count, Add)
