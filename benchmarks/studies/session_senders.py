"""`python -m benchmarks.studies.session_senders PORT`: senders of one instrument each, in one process.

They send so many triggers, as fast as the daemon takes them or at a rate, and wait until everything is acknowledged.
Printed is JSON: seconds from the first reading sent to the last one acknowledged, the processor time of the daemon
meanwhile, in seconds, and readings. It uses the sender of the sources that it finds first, those of an earlier commit
too: see `session_cost`.
"""

import argparse
import asyncio
import json
import sys
import time

import numpy as np
import psutil

from daemon.client.sender import Sender

PERIOD_NS = 10_000_000
"""Time between two triggers on the instruments' own clock: however fast they are sent, they are of 100 a second."""

AT_ONCE = 32
"""Senders that connect together."""

CONNECT_S = 60.0


async def _connected(port: int, senders: int, *, is_kept: bool) -> list[Sender]:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> Sender:
        async with limit:
            return await Sender.connect(
                "127.0.0.1", port, "bpm", sender=f"crate-{number}", reconnect=is_kept, timeout_s=CONNECT_S
            )

    return list(await asyncio.gather(*(one(number) for number in range(senders))))


async def _send(arguments: argparse.Namespace) -> dict[str, float]:
    daemon = psutil.Process(arguments.daemon)
    senders = await _connected(arguments.port, arguments.senders, is_kept=not arguments.plain)
    block = np.zeros(arguments.together, senders[0].record)
    if arguments.epoch:
        block["epoch"] = arguments.epoch
    before, began = sum(daemon.cpu_times()[:2]), time.monotonic()
    began_ns = time.time_ns()
    for done in range(0, arguments.triggers, arguments.together):
        triggers = arguments.first + done + np.arange(arguments.together)
        block["trigger"], block["time_ns"] = triggers, began_ns + (triggers - arguments.first) * PERIOD_NS
        if arguments.rate:
            await asyncio.sleep(max(0.0, began + done / arguments.rate - time.monotonic()))
        for instrument, sender in enumerate(senders):
            block["instrument"] = instrument
            await sender.send(block)
    await asyncio.gather(*(sender.drain_acknowledged() for sender in senders))
    seconds, cpu_s = time.monotonic() - began, sum(daemon.cpu_times()[:2]) - before
    await asyncio.gather(*(sender.finish() for sender in senders))
    return {"seconds": seconds, "cpu_s": cpu_s, "readings": arguments.senders * arguments.triggers}


def main() -> None:
    """Send, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--daemon", type=int, required=True, help="its process id")
    parser.add_argument("--senders", type=int, required=True)
    parser.add_argument("--triggers", type=int, required=True, help="a multiple of --together")
    parser.add_argument("--first", type=int, required=True, help="the number of the first trigger")
    parser.add_argument("--together", type=int, default=1, help="triggers in one block of a sender")
    parser.add_argument("--rate", type=float, default=0.0, help="triggers a second; 0 is as fast as possible")
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="keep nothing, and open no session")
    arguments = parser.parse_args()
    json.dump(asyncio.run(_send(arguments)), sys.stdout)


if __name__ == "__main__":
    main()
