"""What is kept of a benchmark of folders."""

from schemas.api.model import Model
from schemas.api.snapshots import SnapshotsRun


class Measured(Model):
    """A run of the workload: its part, database, condition, and the round of it, from 0."""

    part: str
    backend: str
    name: str
    round: int
    run: SnapshotsRun


class Counted(Model):
    """A figure that is counted beside the workload: bytes or blocks."""

    part: str
    backend: str
    name: str
    what: str
    value: float


class Writing(Model):
    """Commits of a daemon that writes triggers, with nobody beside it or with snapshot readers.

    rate: triggers committed a second. p50_ms, p99_ms: from a trigger's closing to its commit acknowledged, of the last
    seconds of the block. efficiency: of the readers beside it.
    """

    backend: str
    name: str
    round: int
    rate: float
    p50_ms: float | None
    p99_ms: float | None
    efficiency: float | None


class Record(Model):
    """All of it. commands: what repeats each part, by part. caches: of the servers in MiB, by part."""

    date: str
    machine: dict[str, str]
    commands: dict[str, str]
    caches: dict[str, int]
    servers: dict[str, str]
    measured: tuple[Measured, ...]
    counted: tuple[Counted, ...] = ()
    writing: tuple[Writing, ...] = ()
    notes: tuple[str, ...] = ()

    def and_then(self, later: "Record") -> "Record":
        """These figures, with those that the later record has in their place, by part and database."""
        parts = {(each.part, each.backend) for each in later.measured}
        written = {each.backend for each in later.writing}
        return later.model_copy(
            update={
                "commands": self.commands | later.commands,
                "caches": self.caches | later.caches,
                "servers": self.servers | later.servers,
                "measured": (
                    *(each for each in self.measured if (each.part, each.backend) not in parts),
                    *later.measured,
                ),
                "counted": (*(each for each in self.counted if (each.part, each.backend) not in parts), *later.counted),
                "writing": (*(each for each in self.writing if each.backend not in written), *later.writing),
                "notes": tuple(dict.fromkeys((*self.notes, *later.notes))),
            }
        )
