"""The writer of a file, by the ending of its name."""

from pathlib import Path

from daemon.tools.export import csv_file
from daemon.tools.export.about import About, FolderAbout, ReducedAbout, Writer

NEEDED = {".parquet": "pyarrow", ".csv": None, ".csv.gz": None, ".h5": "h5py", ".hdf5": "h5py"}
"""The library of the extra `export` that writes a file, by the ending of its name; CSV needs none."""


def writer_of(path: Path, ending: str, about: About | FolderAbout | ReducedAbout) -> Writer:
    """Make the writer of a file; figures go into an HDF5 file that has readings already. ending: a key of NEEDED."""
    # Each format imports a library of its own.
    if NEEDED[ending] == "h5py":
        from daemon.tools.export import hdf5  # noqa: PLC0415

        if isinstance(about, ReducedAbout):
            return hdf5.Hdf5ReducedWriter(path, about)
        return hdf5.Hdf5Writer(path, about) if isinstance(about, About) else hdf5.Hdf5IntervalsWriter(path, about)
    if NEEDED[ending] is None:
        return csv_file.CsvWriter(path, csv_file.columns_of(about), compressed=ending == ".csv.gz")
    from daemon.tools.export import arrow  # noqa: PLC0415

    columns: arrow.Columns
    if isinstance(about, ReducedAbout):
        columns = arrow.FigureColumns(about)
    else:
        columns = arrow.ReadingColumns(about) if isinstance(about, About) else arrow.IntervalColumns(about)
    return arrow.ParquetWriter(path, columns)
