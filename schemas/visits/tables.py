"""The four tables of the paper, declared once: columns, declared widths, keys and indexes of each index mode.

Columns keep the paper's names and widths: FLOAT is 4 bytes, DOUBLE 8, DATETIME 8, BIGINT 8, INT 4. Times are int64
nanoseconds since 1970-01-01 UTC, as everywhere here, in as many bytes as the paper's DATETIME. What a physicist would
fill in is filled with numbers of the generator, so that rows have their real width; features of light curves (BLOB)
stay NULL, as they did in the paper.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

BANDS = "ugrizy"
NULLS = ("validityEnd", "ssObjectReassocTime")
"""Columns that are NULL when a row is written, as the BLOBs are; `validityEnd` is set later in the modes that do."""


class IndexMode(StrEnum):
    """How objects and their history are laid out."""

    BASELINE = "baseline"  # DIAObject by (diaObjectId, validityStart); the old version's validityEnd is updated
    PIX_ID_IOV = "pix_id_iov"  # DIAObject by (pixelId, diaObjectId, validityStart), which clusters where a key does
    LAST_OBJECT_TABLE = "last_object_table"  # the last versions once more in DIAObjectLast, by (pixelId, diaObjectId)
    PARTITIONED = "partitioned"  # packed pieces by (period, coarse sky pixel, visit), a partition a period


class LastColumns(StrEnum):
    """Which columns DIAObjectLast has."""

    NARROW = "narrow"  # the 18 that the pipeline needs
    WIDE = "wide"  # those of DIAObject


class LastUpdate(StrEnum):
    """How DIAObjectLast gets its new versions."""

    DELETE_INSERT = "delete_insert"
    REPLACE = "replace"  # MySQL, MariaDB: REPLACE; MongoDB: replaces the document
    UPSERT = "upsert"  # PostgreSQL: INSERT ... ON CONFLICT; MySQL, MariaDB: INSERT ... ON DUPLICATE KEY UPDATE


class Step(StrEnum):
    """What a visit writes, in the paper's three transactions."""

    OBJECTS = "objects"  # DIAObjectLast and DIAObject
    SOURCES = "sources"  # DIASource
    FORCED = "forced"  # DIAForcedSource


@dataclass(frozen=True)
class Column:
    """One column.

    dtype: little-endian numpy; "V" is a BLOB, which stays NULL. filled: with numbers of the generator.
    """

    name: str
    dtype: str
    nullable: bool = False
    filled: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table: `key` is its primary key, `indexes` a column each."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Of what tells tables apart: that of a hundred columns would take a tenth of a millisecond each time."""
        return hash((self.name, self.key, len(self.columns)))

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """A row as a packed structured dtype: every column but the BLOBs and NULLS."""
        return np.dtype([(column.name, column.dtype) for column in self.columns if _has_value(column)])


def _has_value(column: Column) -> bool:
    return column.dtype != "V" and column.name not in NULLS


def _of(dtype: str, *names: str, nullable: bool = True) -> tuple[Column, ...]:
    return tuple(Column(name, dtype, nullable, filled=True) for name in names)


_POSITION = (
    Column("ra", "<f8"),
    *_of("<f4", "raSigma"),
    Column("decl", "<f8"),
    *_of("<f4", "declSigma", "ra_decl_Cov"),
)
_MOTION = _of(
    "<f4",
    *("pmRa", "pmRaSigma", "pmDecl", "pmDeclSigma", "parallax", "parallaxSigma"),
    *("pmRa_pmDecl_Cov", "pmRa_parallax_Cov", "pmDecl_parallax_Cov"),
)


def _band(band: str) -> tuple[Column, ...]:
    return (
        *_of("<f4", *(f"{band}PSFlux{name}" for name in ("Mean", "MeanErr", "Sigma", "Chi2"))),
        *_of("<i4", f"{band}PSFluxNdata", nullable=False),
        *_of("<f4", *(f"{band}FPFlux{name}" for name in ("Mean", "MeanErr", "Sigma"))),
    )


def _nearby(number: int) -> tuple[Column, ...]:
    name = f"nearbyObj{number}"
    return (*_of("<i8", name, nullable=False), *_of("<f4", f"{name}Dist", f"{name}LnP"))


_OBJECT_COLUMNS = (
    Column("diaObjectId", "<i8"),
    Column("validityStart", "<i8"),
    Column("validityEnd", "<i8", nullable=True),
    *_POSITION,
    Column("radecTai", "<f8", nullable=True),
    *_MOTION,
    *_of("<f4", "pmParallaxLnL", "pmParallaxChi2"),
    *_of("<i4", "pmParallaxNdata", nullable=False),
    *(column for band in BANDS for column in _band(band)),
    *(Column(f"{band}LcPeriodic", "V", nullable=True) for band in BANDS),
    *(Column(f"{band}LcNonPeriodic", "V", nullable=True) for band in BANDS),
    *(column for number in (1, 2, 3) for column in _nearby(number)),
    Column("flags", "<i8"),
    Column("pixelId", "<i8"),
    # The paper's pipeline adds this one to the 92 of the baseline schema (364 bytes): forced photometry asks for it.
    Column("lastNonForcedSource", "<i8"),
)

_NARROW_COLUMNS = (
    Column("diaObjectId", "<i8"),
    Column("lastNonForcedSource", "<i8"),
    *_POSITION,
    Column("radecTai", "<f8"),
    *_MOTION,
    Column("pixelId", "<i8"),
)


def _covariances(prefix: str, *names: str) -> tuple[Column, ...]:
    pairs = [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]
    return _of("<f4", *(f"{prefix}{one}_{prefix}{other}_Cov" for one, other in pairs))


def _uncertain(prefix: str, *names: str) -> tuple[Column, ...]:
    """Parameters of a fitted model, each with its Sigma; positions are doubles."""
    parts = [
        (*_of("<f8" if name in ("Ra", "Decl") else "<f4", f"{prefix}{name}"), *_of("<f4", f"{prefix}{name}Sigma"))
        for name in names
    ]
    return tuple(column for part in parts for column in part)


def _model(prefix: str, *names: str) -> tuple[Column, ...]:
    fit = (*_of("<f4", f"{prefix}LnL", f"{prefix}Chi2"), *_of("<i4", f"{prefix}Ndata", nullable=False))
    return (*_uncertain(prefix, *names), *_covariances(prefix, *names), *fit)


_SOURCE_COLUMNS = (
    *(Column(name, "<i8") for name in ("diaSourceId", "ccdVisitId", "diaObjectId", "ssObjectId", "parentDiaSourceId")),
    Column("prv_procOrder", "<i4"),
    Column("ssObjectReassocTime", "<i8", nullable=True),
    Column("midPointTai", "<f8"),
    *_POSITION,
    *_of("<f4", "x", "xSigma", "y", "ySigma", "x_y_Cov", "apFlux", "apFluxErr", "snr"),
    *_model("ps", "Flux", "Ra", "Decl"),
    *_model("trail", "Flux", "Ra", "Decl", "Length", "Angle"),
    *_model("dip", "MeanFlux", "FluxDiff", "Ra", "Decl", "Length", "Angle"),
    *_of("<f4", "totFlux", "totFluxErr", "diffFlux", "diffFluxErr", "fpBkgd", "fpBkgdErr"),
    *_of("<f4", "ixx", "ixxSigma", "iyy", "iyySigma", "ixy", "ixySigma"),
    *_covariances("", "ixx", "iyy", "ixy"),
    *_of("<f4", "ixxPSF", "iyyPSF", "ixyPSF", "extendedness", "spuriousness"),
    Column("flags", "<i8"),
    Column("pixelId", "<i8"),
)

_FORCED_COLUMNS = (
    Column("diaObjectId", "<i8"),
    Column("ccdVisitId", "<i8"),
    *_of("<f4", "psFlux", "psFluxErr", "x", "y"),
    Column("flags", "<i8"),
)

DIA_OBJECT = Table(
    name="DIAObject",
    columns=_OBJECT_COLUMNS,
    key=("diaObjectId", "validityStart"),
    indexes=("validityStart", "pixelId"),
)
DIA_OBJECT_PIX_ID_IOV = Table(
    name="DIAObject",
    columns=_OBJECT_COLUMNS,
    key=("pixelId", "diaObjectId", "validityStart"),
    indexes=("diaObjectId",),
)
DIA_SOURCE = Table(
    name="DIASource",
    columns=_SOURCE_COLUMNS,
    key=("diaSourceId",),
    indexes=("ccdVisitId", "diaObjectId", "ssObjectId", "pixelId"),
)
DIA_FORCED_SOURCE = Table(
    name="DIAForcedSource", columns=_FORCED_COLUMNS, key=("diaObjectId", "ccdVisitId"), indexes=("ccdVisitId",)
)
DIA_OBJECT_LAST = Table(
    name="DIAObjectLast", columns=_NARROW_COLUMNS, key=("pixelId", "diaObjectId"), indexes=("diaObjectId",)
)
DIA_OBJECT_LAST_WIDE = Table(
    name="DIAObjectLast", columns=_OBJECT_COLUMNS, key=("pixelId", "diaObjectId"), indexes=("diaObjectId",)
)

OBJECT_DTYPE = DIA_OBJECT.dtype
SOURCE_DTYPE = DIA_SOURCE.dtype
FORCED_DTYPE = DIA_FORCED_SOURCE.dtype
LAST_DTYPE = DIA_OBJECT_LAST.dtype
"""What the pipeline needs of an object; every answer about objects has at least these fields."""


def tables_of(mode: IndexMode, last: LastColumns) -> tuple[Table, ...]:
    """The tables of an index mode. In `partitioned` they are kept as pieces, whose records have these columns."""
    objects = DIA_OBJECT_PIX_ID_IOV if mode is IndexMode.PIX_ID_IOV else DIA_OBJECT
    tables = (objects, DIA_SOURCE, DIA_FORCED_SOURCE)
    if mode is IndexMode.PARTITIONED:
        return (*tables, DIA_OBJECT_LAST)
    if mode is IndexMode.LAST_OBJECT_TABLE:
        return (*tables, DIA_OBJECT_LAST if last is LastColumns.NARROW else DIA_OBJECT_LAST_WIDE)
    return tables
