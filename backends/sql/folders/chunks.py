"""The layout `arrays`: a row is a chunk, which has intervals of many channels as packed bytes.

An insertion writes chunks of its own, which nobody changes any more. A chunk has at most CHUNK_BYTES of intervals of
one class of lengths that begin one behind the other. It is found as an interval is: it begins where the first one does,
ends where the last one does, and has the class of that length. What is asked for is then chosen among what is in it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.folders.folders import KEY
from schemas.folders.timeline import length_classes
from schemas.readings import Array

CHUNK_BYTES = 100_000
"""About what is read in vain at each end of a span; of a folder of 1,000 channels of 1 kB, a snapshot has 1 MB."""


def cut(block: Array) -> tuple[Array, list[bytes]]:
    """Intervals as chunks: where each begins and ends (as `KEY`, the channel is 0), and what is in each."""
    block = block[np.lexsort((block["channel"], block["since"]))]
    classes, most = length_classes(block), max(1, CHUNK_BYTES // block.itemsize)
    alike = (block[classes == each] for each in np.unique(classes))
    parts = [some[first : first + most] for some in alike for first in range(0, len(some), most)]
    spans = np.array([(0, part["since"].min(), part["until"].max()) for part in parts], list(KEY))
    return spans, [part.tobytes() for part in parts]


def unpacked(chunks: Sequence[Sequence[Any]], dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Intervals of chunks, and their versions (int64). chunks: version and bytes of each; dtype: of the intervals."""
    block = np.frombuffer(b"".join(data for _, data in chunks), dtype)
    lengths = [len(data) // dtype.itemsize for _, data in chunks]
    versions = np.array([version for version, _ in chunks], np.int64)
    return block, np.repeat(versions, np.array(lengths, np.int64))
