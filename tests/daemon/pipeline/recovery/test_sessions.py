"""Up to where a session is settled after a start: no further than the blocks prove that are there."""

from pathlib import Path

import numpy as np
import pytest

from backends.memory.store import MemoryStore
from daemon.core.monitoring.events import Events
from daemon.core.outside.clock import Instant
from daemon.pipeline.assembly import Assembly, Joined, Origin, Runs
from daemon.pipeline.assembly.receipts import Receipts
from daemon.pipeline.assembly.sessions import Sessions
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.journal import Journal
from daemon.pipeline.recovery import ask_store, recover_group
from schemas.batch import ClosedBlock, JournalPosition, Stream
from schemas.config import Config
from schemas.sessions import SESSION, session_key
from tests.support.disks import REAL
from tests.support.readings import START_NS, make_group, whole

GROUP = make_group()
KEY = session_key("crate", 5)
NOW = Instant(START_NS, 0)
CONFIG = Config.model_validate({"groups": [{"name": "unused", "count": 1, "channels": [{"name": "x"}]}]})


def three_blocks() -> list[ClosedBlock]:
    """Each with five readings of one session."""
    assembly = Assembly(GROUP, timeout_ns=1000, window=256, max_open=64, runs=Runs())
    column = assembly.sessions.connect(KEY, first=0, now=NOW).column
    blocks = []
    for k in range(3):
        readings = whole(GROUP, k + 1)
        readings["epoch"] = 7
        blocks += assembly.receive(readings, Origin.of(column, 5 * k, 5), NOW)
    return blocks


@pytest.mark.parametrize(("first", "joined"), [(3, (5, 0)), (7, (7, 0)), (20, (20, 5))])
async def test_what_is_behind_a_hole_settles_nothing(tmp_path: Path, first: int, joined: tuple[int, int]) -> None:
    folder = tmp_path / "journal" / "bpm"
    journal = Journal(folder, GROUP, REAL, max_bytes=2**20, segment_bytes=1)
    journal.open(None)
    for block in three_blocks():
        journal.append([block])
    journal.close()
    sorted(folder.glob("*.journal"))[1].unlink()  # a power cut took it, and nobody was told that it was there
    store = MemoryStore({"bpm": GROUP})
    table = np.array([(KEY, 5, 5, START_NS // 1_000_000_000)], SESSION)
    store._groups["bpm"].positions[Stream.JOURNAL] = JournalPosition(
        sequence=3, journal=99, state=DurableState(table).encode()
    )
    recovered = await recover_group(
        await ask_store(store, GROUP, CONFIG), GROUP, CONFIG, tmp_path, Events(), outside=REAL
    )
    assert recovered.journal is not None
    recovered.journal.close()
    assert len(recovered.again) == 2
    assert recovered.state.runs == {7: 1}
    sessions = Sessions(
        Receipts(), recovered.state.sessions, recovered.stored.sessions, recovered.claimed, is_uncertain=True
    )
    assert sessions.connect(KEY, first=first, now=NOW) == Joined(column=0, resume=joined[0], lost=joined[1])
