"""What waits to be committed."""

from dataclasses import dataclass

from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.placing import Placed
from schemas.batch import ClosedBlock
from schemas.readings import Array


@dataclass(frozen=True, slots=True)
class Waiting:
    """A block in memory.

    state: sessions and runs as they are after it. put_ns: when it closed (monotonic); None where its readings were read
    from the log. placed: what of it went where the database says, since it was taken. told: ledger rows of earlier
    triggers, which the database may lack: what they count is true of those that it has.
    """

    number: int
    block: ClosedBlock
    state: DurableState
    nbytes: int
    readings: int
    put_ns: int | None
    placed: Placed | None = None
    told: Array | None = None
