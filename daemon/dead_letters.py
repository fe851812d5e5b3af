"""Dead letters: what the store rejected for good is kept on disk, with the reason."""

import json
import os
from pathlib import Path

import numpy as np

from daemon.journal.segment import sync_folder
from schemas.batch import Batch


class DeadLetters:
    """A folder with one file (numpy .npz) for each rejected batch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, batch: Batch, reason: str) -> Path:
        """Write a batch to disk, durably.

        Raises:
            OSError: it could not be written; the caller still has it.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{batch.group.name}-{batch.position.sequence:012d}.npz"
        about = {"group": batch.group.name, "sequence": batch.position.sequence, "reason": reason}
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, about=np.array(json.dumps(about)), **batch.parts)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        sync_folder(self._folder)
        return path
