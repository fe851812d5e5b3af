"""One descriptor a database: what the rest of the project knows of it, and from where its code is imported.

Who adds a database adds a package (`backends.postgresql` shows its parts), how its DSN is written
(`schemas.checking.dsn`, which the check of a configuration needs), one descriptor here, and its tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from schemas.checking.dsn import Backend

if TYPE_CHECKING:
    from backends.throwaway.base import ThrowawayServer


@dataclass(frozen=True, kw_only=True)
class Product:
    """A server that a store of one database may find at the other end.

    title: the name that people read. probe: a command of an operator that asks whether it answers.
    """

    title: str
    probe: str


@dataclass(frozen=True, kw_only=True)
class DatabaseKind:
    """What there is to know of a database without asking it; `DSN_FORMS[backend]` has how its DSN is written.

    package: has `open_store`, `schema_statements`, `drop_schema`, `terminal_of` and `backup_tools` (contexts: a server
        may have to run for them), `open_visit_store` in its subpackage `visits`, and, unless `DsnForm.lacks` names
        them, `open_conditions_store` in `conditions` and `open_folders_store` in `folders`. They import the driver: it
        costs start-up time, and not every site has them all.
    products: by the name that `StoreFacts.backend` gives each; the first is the one that reports name it by.
    throwaway: module and class of a server for drills, tests and benchmarks.
    needs: what has to be installed for that server.
    fill_triggers: so many triggers an experiment stores before it reads, which takes the throw-away server seconds.
    """

    backend: Backend
    package: str
    products: Mapping[str, Product]
    throwaway: tuple[str, str]
    needs: str
    fill_triggers: int = 20_000

    def implementation(self, subpackage: str = "") -> ModuleType:
        """Import the package, or one in it."""
        return import_module(f"{self.package}.{subpackage}" if subpackage else self.package)

    def throwaway_server(self, folder: Path) -> "ThrowawayServer":
        """Make a server under a folder that is not started yet.

        Raises:
            ServerNotInstalled: its program is not here.
        """
        module, name = self.throwaway
        server: ThrowawayServer = getattr(import_module(module), name)(folder)
        return server


KINDS: Mapping[Backend, DatabaseKind] = {
    kind.backend: kind
    for kind in (
        DatabaseKind(
            backend=Backend.POSTGRESQL,
            package="backends.postgresql",
            products={"postgresql": Product(title="PostgreSQL", probe="pg_isready")},
            throwaway=("backends.throwaway.postgresql", "ThrowawayPostgresql"),
            needs="nothing",
        ),
        DatabaseKind(
            backend=Backend.MYSQL,
            package="backends.mysql",
            products={
                "mariadb": Product(title="MariaDB", probe="mariadb-admin ping"),
                "mysql": Product(title="MySQL", probe="mysqladmin ping"),
            },
            throwaway=("backends.throwaway.mariadb", "ThrowawayMariadb"),
            needs="mariadb-server",
        ),
        DatabaseKind(
            backend=Backend.MONGODB,
            package="backends.mongodb",
            products={
                "mongodb": Product(title="MongoDB", probe="mongosh --eval 'db.hello()'"),
                "ferretdb": Product(title="FerretDB", probe="mongosh --eval 'db.hello()'"),
            },
            throwaway=("backends.throwaway.mongodb", "ThrowawayMongodb"),
            needs="mongod, or FerretDB built from tests/ferretdb",
            # FerretDB, which stands in for a MongoDB, takes some 200 a second.
            fill_triggers=2_000,
        ),
    )
}
PRODUCTS: Mapping[str, Product] = {name: product for kind in KINDS.values() for name, product in kind.products.items()}


def product_of(name: str) -> Product:
    """The product that `StoreFacts.backend` names; under its own name, without a probe, where no database has it."""
    return PRODUCTS.get(name, Product(title=name, probe=""))
