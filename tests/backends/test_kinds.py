"""backends.kinds: each descriptor leads to a database that is there, and no two claim the same."""

from importlib import import_module
from importlib.util import find_spec

import pytest

from backends.kinds import KINDS, PRODUCTS, DatabaseKind, product_of
from backends.throwaway.base import ThrowawayServer
from schemas.checking.dsn import DSN_FORMS, SCHEMES, Backend, Feature, backend_of, supports, wrong_dsn

ALL = list(KINDS.values())


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.backend)
class TestKind:
    def test_its_package_has_what_the_descriptor_promises(self, kind: DatabaseKind) -> None:
        found = kind.implementation()
        for name in ("open_store", "schema_statements", "drop_schema", "terminal_of", "backup_tools"):
            assert callable(getattr(found, name)), name
        assert callable(kind.implementation("visits").open_visit_store)
        for feature in (Feature.CONDITIONS, Feature.FOLDERS):
            is_there = find_spec(f"{kind.package}.{feature}") is not None
            assert is_there == supports(kind.backend, feature)
            assert not is_there or callable(getattr(kind.implementation(feature), f"open_{feature}_store"))

    def test_its_throwaway_server_is_one(self, kind: DatabaseKind) -> None:
        module, name = kind.throwaway
        assert issubclass(getattr(import_module(module), name), ThrowawayServer)

    def test_its_example_is_a_dsn_of_its_own(self, kind: DatabaseKind) -> None:
        form = DSN_FORMS[kind.backend]
        assert form.example.endswith((f":{form.port}", f":{form.port}/name"))
        assert backend_of(form.example) is kind.backend
        assert list(wrong_dsn(form.example)) == []

    def test_it_has_strategies_and_a_server_to_be_measured(self, kind: DatabaseKind) -> None:
        assert find_spec(f"benchmarks.strategies.{kind.backend}") is not None
        assert find_spec(f"benchmarks.servers.{kind.backend}") is not None


def test_every_database_of_the_configuration_has_a_descriptor() -> None:
    assert list(KINDS) == list(Backend)


def test_no_scheme_and_no_product_is_of_two_databases() -> None:
    assert len(SCHEMES) == sum(len(DSN_FORMS[kind.backend].schemes) for kind in ALL)
    assert len(PRODUCTS) == sum(len(kind.products) for kind in ALL)


@pytest.mark.parametrize(
    ("name", "title", "probe"),
    [
        ("mariadb", "MariaDB", "mariadb-admin ping"),
        ("ferretdb", "FerretDB", "mongosh --eval 'db.hello()'"),
        ("memory", "memory", ""),
    ],
)
def test_products_by_the_name_that_a_store_gives(name: str, title: str, probe: str) -> None:
    assert (product_of(name).title, product_of(name).probe) == (title, probe)
