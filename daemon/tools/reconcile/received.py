"""What the intake's log holds that nobody has open: readings as they came, acknowledged as `received`.

It is read and not locked, and nothing of it is changed.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from daemon.core.outside import Disk
from daemon.pipeline.durable_state import DurableState
from daemon.pipeline.intake_log.format import COUNTS, RECORD_MAGIC, RUN
from daemon.pipeline.intake_log.log import ELSEWHERE, ENDING
from daemon.pipeline.journal.segment import paths_in, whole_records
from schemas.batch import JournalPosition


def unsettled_in(folder: Path, position: JournalPosition, ids: Collection[int], disk: Disk) -> int:
    """How many readings it holds at most that a database at this position lacks.

    Some may be in the journal, too, or stored by another way: that is found out when they go through assembly.
    ids: those of the journal, from which alone it is known what was settled.

    Raises:
        OSError: it cannot be read.
        ValueError: what lies beside the position, or in the folder, is of no version that is known.
    """
    sessions = DurableState.decode(position.state).sessions if position.journal in ids else ()
    settled = {int(row["session"]): int(row["settled"]) for row in sessions}
    doubtful = int(disk.read(folder / ELSEWHERE, 0, 20)) if ELSEWHERE in disk.names(folder) else 0
    paths = paths_in(disk, folder, ENDING)
    return sum(_unsettled(path, {} if int(path.stem) <= doubtful else settled, disk) for path in paths)


def _unsettled(path: Path, settled: Mapping[int, int], disk: Disk) -> int:
    with disk.open_view(path) as view, memoryview(view) as data:
        records = whole_records(view, data, 0, RECORD_MAGIC)
        return sum(_beyond(bytes(data[body : body + header.length]), settled) for header, _, body in records)


def _beyond(body: bytes, settled: Mapping[int, int]) -> int:
    counts = np.frombuffer(body, COUNTS, 1)[0]
    runs = np.frombuffer(body, RUN, int(counts["runs"]), COUNTS.itemsize)
    # Only those of readings have a count.
    return sum(
        max(0, min(count, first + count - settled.get(session, 0))) for session, first, count, _ in runs.tolist()
    )
