"""A run's visits as Parquet: a row a visit, the paper's columns, zstd."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from daemon.workloads.visits.archive import read_csv
from schemas.api.visits import VisitMeasure


def write_parquet(source: Path, path: Path) -> None:
    """Make a Parquet file of a run's CSV.

    Raises:
        OSError: one cannot be read, or the other written.
        ValueError: it is no CSV of visits of this version.
    """
    rows = read_csv(source)
    names = tuple(VisitMeasure.model_fields)
    columns = [pa.array(rows[name]) for name in names]
    described = [
        pa.field(name, column.type, nullable=False, metadata=_metadata(name))
        for name, column in zip(names, columns, strict=True)
    ]
    schema = pa.schema(described, metadata={"triggerlog": "visits"})
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), path, compression="zstd")


def _metadata(name: str) -> dict[str, str]:
    description = VisitMeasure.model_fields[name].description
    return {} if description is None else {"description": description}
