"""The contract over the stores of the real databases: what the client does, orders and refusals among it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends import open_conditions_store
from schemas.config import DatabaseConfig
from tests.daemon.conditions.requests import test_contract as contract
from tests.support.conditions_server import Served, served


@pytest.fixture(params=["postgresql_dsn", "mariadb_dsn", "mongodb_dsn"])
def dsn(request: pytest.FixtureRequest) -> str:
    """Where a server is, which is started outside of the loop of a test."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
async def api(dsn: str, schema: str, tmp_path: Path) -> AsyncIterator[Served]:
    store = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=tmp_path)
    try:
        await store.create()
        async with served(store) as made:
            yield made
    finally:
        await store.drop()
        await store.close()


@pytest.mark.parametrize(
    "part",
    [
        contract.test_what_the_client_does_from_an_empty_database_to_a_payload,
        contract.test_nested_shapes,
        contract.test_readable_names_are_the_same_routes,
        contract.test_attaching_trims_and_a_locked_tag_refuses,
        contract.test_pages_are_searched_sorted_and_cut,
        contract.test_bulk_obeys_the_rules_of_attaching,
        contract.test_many_intervals_in_one_request,
        contract.test_names_that_are_not_there,
        contract.test_a_name_that_is_taken_is_told_as_the_client_shows_it,
        contract.test_types_and_lists_that_are_used_stay,
    ],
)
async def test_a_part_of_the_contract(api: Served, part: contract.Part) -> None:
    await part(api)
