"""The writer of a file, by the ending of its name."""

from pathlib import Path

from daemon.tools.export.about import About, FolderAbout, Writer

NEEDED = {".parquet": "pyarrow", ".csv": "pyarrow", ".csv.gz": "pyarrow", ".h5": "h5py", ".hdf5": "h5py"}
"""The library of the extra `export` that writes a file, by the ending of its name."""


def writer_of(path: Path, ending: str, about: About | FolderAbout) -> Writer:
    """Make the writer of a file. ending: a key of NEEDED."""
    # Each format imports a library of its own.
    if NEEDED[ending] == "h5py":
        from daemon.tools.export.hdf5 import Hdf5IntervalsWriter, Hdf5Writer  # noqa: PLC0415

        return Hdf5Writer(path, about) if isinstance(about, About) else Hdf5IntervalsWriter(path, about)
    from daemon.tools.export.arrow import CsvWriter, IntervalColumns, ParquetWriter, ReadingColumns  # noqa: PLC0415

    columns = ReadingColumns(about) if isinstance(about, About) else IntervalColumns(about)
    if ending == ".parquet":
        return ParquetWriter(path, columns)
    return CsvWriter(path, columns, compressed=ending == ".csv.gz")
