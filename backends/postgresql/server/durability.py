"""What an acknowledged commit survives in PostgreSQL, by what the server says of itself.

https://www.postgresql.org/docs/current/wal-async-commit.html: an asynchronous commit is on the disk after at most three
times wal_writer_delay; until then a crash of the server loses it, and never corrupts anything.
"""

import math
from collections.abc import Mapping

from backends.base import DurabilityInForce
from schemas.api.status import Shortfall
from schemas.batch import Durability

SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "wal_writer_delay")
WRITER_ROUNDS = 3


def held(settings: Mapping[str, str]) -> dict[Durability, DurabilityInForce]:
    """What holds for each durability; `settings` has the values of SETTINGS, wal_writer_delay in milliseconds."""
    for name, what in (
        ("fsync", "a crash of the machine can lose or corrupt anything"),
        ("full_page_writes", "a power cut can tear its pages"),
    ):
        if settings[name] != "on":
            words = f"NOT durable: {name} is off on the server, {what}"
            lost = DurabilityInForce(
                words=words, risk_ms=math.inf, shortfall=Shortfall(problem=words, fix=f"set {name} = on there")
            )
            return dict.fromkeys(Durability, lost)
    # A batch that is to be durable sets it for its transaction where the server's default is weaker.
    synchronous = "on" if settings["synchronous_commit"] == "off" else settings["synchronous_commit"]
    risk_ms = WRITER_ROUNDS * float(settings["wal_writer_delay"])
    return {
        Durability.SYNC: DurabilityInForce(words=f"sync (fsync on, synchronous_commit {synchronous})", risk_ms=0),
        Durability.ASYNC: DurabilityInForce(
            words=f"async (fsync on, synchronous_commit off: a crash of the server may lose its last {risk_ms:g} ms)",
            risk_ms=risk_ms,
        ),
    }
