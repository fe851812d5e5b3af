"""The same small run of visits leaves the same rows in every database and every index mode, to the last bit."""

from pathlib import Path

import numpy as np
import pytest

from backends import open_visit_store
from schemas.config import DatabaseConfig
from schemas.config.visits import VisitsConfig
from schemas.readings import Array
from tests.support.visit_runs import assert_same, assert_whole, run_here, small, tables_in, undisturbed

MODES = {
    "baseline": {"index_mode": "baseline"},
    "pix_id_iov": {"index_mode": "pix_id_iov"},
    "last-delete_insert": {"index_mode": "last_object_table", "last_update": "delete_insert"},
    "last-replace": {"index_mode": "last_object_table", "last_update": "replace"},
    "last-upsert-wide": {"index_mode": "last_object_table", "last_update": "upsert", "last_columns": "wide"},
    "partitioned": {"index_mode": "partitioned"},
}
LACKS = {"postgresql": {"last-replace"}, "mariadb": set(), "mongodb": {"last-upsert-wide"}}
CASES = [(database, mode) for database, lacks in LACKS.items() for mode in MODES if mode not in lacks]
VISITS = {"postgresql": 5, "mariadb": 5, "mongodb": 3}
"""FerretDB takes its time."""


def settings_of(database: str, schema: str, mode: str) -> VisitsConfig:
    # The window holds all of the run: what `partitioned` drops, the others keep.
    return small(schema, visits=VISITS[database], history_days=400.0, **MODES[mode])


def in_one_order(tables: dict[str, Array]) -> dict[str, Array]:
    """The three tables that all modes have, in an order that is that of no mode's key."""
    order = {"DIAObject": "validityStart", "DIASource": "diaSourceId", "DIAForcedSource": "ccdVisitId"}
    return {
        name: tables[name][np.lexsort((tables[name]["diaObjectId"], tables[name][by]))] for name, by in order.items()
    }


@pytest.fixture
def dsn(database: str, request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{database}_dsn")


@pytest.mark.parametrize(("database", "mode"), CASES)
async def test_a_run_leaves_the_rows_of_the_run_in_memory(
    database: str, mode: str, schema: str, dsn: str, tmp_path: Path
) -> None:
    visits = settings_of(database, schema, mode)
    store = open_visit_store(DatabaseConfig(dsn=dsn), visits, state_dir=tmp_path)
    try:
        await run_here(store, visits)
        found = await tables_in(store, visits)
        assert_same(found, await undisturbed(visits))
        assert_whole(found, visits)
        assert_same(in_one_order(found), in_one_order(await undisturbed(settings_of(database, schema, "baseline"))))
    finally:
        await store.drop()
        await store.close()
