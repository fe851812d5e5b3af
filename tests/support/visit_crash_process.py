"""A process of visits that a test kills: as `python -m daemon.workloads.visits`, without the time to start it."""

import asyncio
from multiprocessing.connection import Connection

import uvloop

from backends.kinds import KINDS
from daemon.workloads.frame.messages import Message
from daemon.workloads.visits.messages import Begun, Compacting, Spec
from daemon.workloads.visits.visit_loop import VisitLoop
from daemon.workloads.visits.workers import crew_of, store_of

# Imported once, for all that are forked.
for _kind in KINDS.values():
    _kind.implementation("visits")


def live(line: bytes, said: Connection) -> None:
    """Run visits until killed; say `begun` when they begin, and `compacting` when a compaction does."""
    spec = Spec.read(line)

    def say(message: Message) -> None:
        if isinstance(message, Begun):
            said.send("begun")
        elif isinstance(message, Compacting):
            said.send("compacting")

    async def visits() -> None:
        store = store_of(spec)
        await VisitLoop(spec, store, crew_of(spec, store), say, asyncio.Event()).run()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(visits())
