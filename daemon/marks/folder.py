"""Orders about marks that the database has not taken yet: a file an id, in `marks` of the state folder."""

from pathlib import Path
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.core.outcome import reason_of
from daemon.core.outside import Disk
from schemas.marks import Mark

FOLDER = "marks"
ENDING = ".json"
LARGEST_BYTES = 64 * 1024


class MarkOrder(BaseModel):
    """All that was ordered of one mark, and that the database may not have.

    mark: to be kept; None where only its withdrawal was ordered. withdrawn_ns: when that was (ns since 1970-01-01 UTC).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    id: UUID
    mark: Mark | None = None
    withdrawn_ns: int | None = None


class OrderFolder:
    """The files. Its methods block, and raise OSError as the system does: `read` only for the folder."""

    def __init__(self, state_dir: Path, disk: Disk) -> None:
        self.path = state_dir / FOLDER
        self._disk = disk

    def write(self, order: MarkOrder) -> None:
        """Write an order in place of the one of this id before; it is durable when this returns."""
        self._disk.make_folder(self.path)
        self._disk.replace(self._file(order.id), order.model_dump_json().encode())

    def remove(self, mark: UUID) -> None:
        """Remove the order of an id. After a crash it may be there again."""
        self._disk.remove(self._file(mark))

    def read(self) -> tuple[list[MarkOrder], dict[Path, str]]:
        """All orders, and by the files that hold none that can be read, why."""
        orders, damaged = [], {}
        for path in (self.path / name for name in self._disk.names(self.path) if name.endswith(ENDING)):
            try:
                orders.append(MarkOrder.model_validate_json(self._disk.read(path, 0, LARGEST_BYTES)))
            except ValidationError:
                damaged[path] = "it is damaged"
            except OSError as error:
                damaged[path] = reason_of(error)
        return orders, damaged

    def _file(self, mark: UUID) -> Path:
        return self.path / f"{mark}{ENDING}"
