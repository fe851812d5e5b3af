"""The contract over the stores of the real databases: what the client does, orders and refusals among it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
import sqlalchemy as sa

from backends import open_conditions_store
from schemas.config import DatabaseConfig
from tests.daemon.conditions.requests import test_contract as contract
from tests.support.conditions_server import Served, served


@pytest.fixture(params=["postgresql_dsn", "mariadb_dsn"])
def dsn(request: pytest.FixtureRequest) -> str:
    """The address of a server that is started outside of the loop of a test."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
async def api(dsn: str, schema: str, tmp_path: Path) -> AsyncIterator[Served]:
    async with over(dsn, schema, tmp_path) as made:
        yield made


@asynccontextmanager
async def over(dsn: str, schema: str, folder: Path) -> AsyncIterator[Served]:
    """A server over a store in a schema of its own."""
    store = open_conditions_store(DatabaseConfig(dsn=dsn), schema=schema, state_dir=folder)
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
        contract.test_pages_are_sorted_by_every_field_of_the_reference,
        contract.test_bulk_obeys_the_rules_of_attaching,
        contract.test_many_intervals_in_one_request,
        contract.test_names_that_are_not_there,
        contract.test_a_name_that_is_taken_is_told_as_the_client_shows_it,
        contract.test_types_and_lists_that_are_used_stay,
    ],
)
async def test_a_part_of_the_contract(api: Served, part: contract.Part) -> None:
    await part(api)


@pytest.mark.parametrize("name", contract.NO_NAMES)
async def test_a_name_that_no_database_has(api: Served, name: str) -> None:
    await contract.test_a_name_that_no_database_has_is_refused_in_one_sentence(api, name)


async def test_characters_that_the_encoding_of_a_database_lacks(
    postgresql_dsn: str, schema: str, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(postgresql_dsn)
    database = f"latin_{schema}"
    await connection.execute(
        f"CREATE DATABASE {database} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    try:
        dsn = sa.make_url(postgresql_dsn).set(database=database).render_as_string(hide_password=False)
        async with over(dsn, schema, tmp_path) as api:
            await contract.a_tag(api)
            for method, path, body in (
                ("POST", "pt", {"name": "Ω"}),
                ("POST", "gt", {"name": "Ω", "status": "locked"}),
                ("POST", "piov", {"payload_url": "Ω", "major_iov": 1, "minor_iov": 1}),
                ("GET", "globalTag/%CE%A9", None),
                ("PUT", "gt_change_status/%CE%A9/locked", None),
                ("DELETE", "deletePayloadIOV/physics/%CE%A9/1/1", None),
            ):
                refused = await contract.ask(api, method, path, body, 400)
                assert refused["detail"].startswith("the database cannot have a text or number of this; "), refused
            await contract.ask(api, "POST", "pt", {"name": "é"})
    finally:
        await connection.execute(f"DROP DATABASE {database} WITH (FORCE)")
        await connection.close()
