"""Whole triggers for a daemon whose group `bpm` has 12 instruments, sent as a client sends them."""

import numpy as np

from daemon.client.sender import Sender
from schemas.readings import Array
from schemas.wire import Ack

INSTRUMENTS = 12


def triggers_of(record: np.dtype, first: int, triggers: int) -> Array:
    """Readings of consecutive triggers, every instrument in each; record dtype, shape (triggers, INSTRUMENTS)."""
    block = np.zeros((triggers, INSTRUMENTS), record)
    block["instrument"] = np.arange(INSTRUMENTS)
    block["trigger"] = (first + np.arange(triggers))[:, None]
    block["time_ns"] = 1_800_000_000_000_000_000 + block["trigger"] * 1_000_000
    return block


async def send(port: int, first: int, triggers: int, ack: Ack = Ack.COMMITTED, *, epoch: int = 0) -> int:
    """Send whole triggers, wait for their acknowledgements, and return how many readings were acknowledged."""
    async with await Sender.connect("127.0.0.1", port, "bpm", ack=ack) as sender:
        block = triggers_of(sender.record, first, triggers)
        block["epoch"] = epoch
        await sender.send(block.reshape(-1))
        await sender.drain_acknowledged(30)
        return sender.acknowledged


def balanced(group: dict) -> bool:
    """Whether the law of conservation holds for a group of a status, as JSON."""
    readings = group["readings"]
    went = sum(readings[name] for name in ("committed", "duplicate", "dead", "waiting", "assembling"))
    return bool(readings["received"] == went + sum(readings["refused"].values()))
