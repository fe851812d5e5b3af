"""Parquet: a row a reading, zstd, a row group a write."""

from pathlib import Path

import pyarrow.parquet as pq

from daemon.tools.export.about import About
from daemon.tools.export.columns import columns_of, schema_of
from schemas.readings import Array


class ParquetWriter:
    """Writes a Parquet file."""

    def __init__(self, path: Path, about: About) -> None:
        self._about = about
        self._schema = schema_of(about)
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, readings: Array) -> None:
        """Add readings as a row group."""
        self._file.write_batch(columns_of(readings, self._about, self._schema))

    def close(self) -> None:
        """Write the end of the file, without which nothing can be read."""
        self._file.close()
