"""Small runs of visits for tests: the real pipeline on a sky of a few hundred objects."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from backends.visits.base import VisitStore
from daemon.workloads.frame.messages import Message
from daemon.workloads.visits.messages import Spec, Visited, spec_of
from daemon.workloads.visits.visit_loop import VisitLoop
from daemon.workloads.visits.workers import Alone
from schemas.api.visits import VisitMeasure
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from schemas.visits.tables import IndexMode, tables_of
from tests.support.memory.visits import MemoryVisitStore
from tests.support.visits import same

NOWHERE = DatabaseConfig(dsn="postgresql://nobody@127.0.0.1:1/none")
"""What a spec names where the store is handed over."""

# Two visits a night; forced photometry, the window and its periods end within ten.
SETTINGS: Mapping[str, object] = {
    "cadence": "fast",
    "survey": {"seed": 7, "scale": 0.002, "forced_cutoff_days": 2.0},
    "tiles": 2,
    "history_days": 4.0,
    "period_days": 1.0,
    "visits": 14,
}


def small(schema: str, **settings: object) -> VisitsConfig:
    """The configuration of a small run."""
    survey = {**dict(SETTINGS["survey"]), **dict(settings.pop("survey", {}))}  # type: ignore[call-overload]
    return VisitsConfig.model_validate({"schema": schema, **SETTINGS, **settings, "survey": survey})


def spec_here(visits: VisitsConfig, until: int | None = None) -> Spec:
    """The spec of a loop in this process."""
    return spec_of(NOWHERE, visits, state_dir=Path("/nonexistent"), until=until)


async def run_here(store: VisitStore, visits: VisitsConfig, until: int | None = None) -> list[VisitMeasure]:
    """Run visits in this process, one tile after another, as a process that was just started."""
    said: list[Message] = []
    await VisitLoop(spec_here(visits, until), store, Alone(store, visits), said.append, asyncio.Event()).run()
    return [message.visit for message in said if isinstance(message, Visited)]


async def undisturbed(visits: VisitsConfig) -> dict[str, Array]:
    """The tables after a run on the store in memory."""
    model = MemoryVisitStore(visits)
    await run_here(model, visits)
    return await tables_in(model, visits)


async def tables_in(store: VisitStore, visits: VisitsConfig) -> dict[str, Array]:
    """All rows of every table, by name."""
    return {table.name: await store.whole(table.name) for table in tables_of(visits.index_mode, visits.last_columns)}


def assert_same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Every table has the same rows, to the last bit."""
    assert found.keys() == expected.keys()
    for table, rows in expected.items():
        assert len(found[table]) == len(rows), f"{table}: {len(found[table])} rows, {len(rows)} expected"
        assert same(found[table], rows), (
            table,
            [name for name in rows.dtype.names or () if not same(found[table][[name]], rows[[name]])],
        )


def assert_whole(tables: Mapping[str, Array], visits: VisitsConfig) -> None:
    """No duplicate and no orphan: each source and forced source has its object, each last version is the newest."""
    objects, sources, forced = tables["DIAObject"], tables["DIASource"], tables["DIAForcedSource"]
    for rows, key in (
        (objects, ("diaObjectId", "validityStart")),
        (sources, ("diaSourceId",)),
        (forced, ("diaObjectId", "ccdVisitId")),
    ):
        assert len(np.unique(rows[list(key)])) == len(rows)
    assert set(sources["diaObjectId"]) <= set(objects["diaObjectId"]) == set(forced["diaObjectId"])
    assert len(objects) == len(forced) >= len(sources) > 0
    if "DIAObjectLast" in tables:
        last = tables["DIAObjectLast"]
        assert len(np.unique(last["diaObjectId"])) == len(last)
    if visits.index_mode is IndexMode.LAST_OBJECT_TABLE:
        assert set(last["diaObjectId"]) == set(objects["diaObjectId"])
        newest = {int(row["diaObjectId"]): row for row in np.sort(objects, order="validityStart")}
        for name in last.dtype.names or ():
            assert np.array_equal(last[name], [newest[int(number)][name] for number in last["diaObjectId"]]), name
