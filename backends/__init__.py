"""The databases that triggerlog writes into, each a package behind `backends.base.Store`.

What comes in: batches of closed triggers, and questions (`schemas.queries`). What goes out: acknowledged transactions,
and answers as structured arrays. Nothing here tries again, waits for its time, or gathers: whoever calls does.

Read in this order: `base` (what a store promises), `kinds` (one descriptor a database), `columns` (what all stores do
with arrays), `sql` (what PostgreSQL and MariaDB share), then one database: `postgresql`, `mysql`, `mongodb`.
`visits` is the same once more for mock DIA visits, `conditions` for conditions by global tag, and `folders` for those
by channel; `throwaway` starts servers for tests, drills and benchmarks.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backends.base import ReadOnly, Store
from backends.kinds import KINDS
from schemas.batch import Layout
from schemas.checking.dsn import Backend, Feature, require
from schemas.config import DatabaseConfig
from schemas.readings import InstrumentGroup

if TYPE_CHECKING:
    from backends.conditions import ConditionsStore
    from backends.folders.base import FoldersStore
    from backends.visits.base import VisitStore
    from schemas.config.visits import VisitsConfig


def open_store(
    database: DatabaseConfig,
    *,
    logger: str,
    groups: Mapping[str, InstrumentGroup],
    layouts: Mapping[str, Layout],
    state_dir: Path,
    password: str | None = None,
    read_only: ReadOnly | None = None,
    places: Sequence[str | None] = (),
) -> Store:
    """Make the store that the configuration names; `await store.open()` opens it.

    Args:
        database: without a DSN an embedded PostgreSQL runs under `state_dir`.
        logger: name of this logger, kept with its positions and ledger rows.
        groups: by name.
        layouts: by name of the group.
        state_dir: folder for what the daemon keeps.
        password: for the DSN; it appears in no message.
        read_only: makes a store that is only asked, without `open`. An embedded PostgreSQL has to run already.
        places: of the tiers, as `backends.base.Partition.place`, the one that is written into first; only where the
            store is `backends.base.Tiered`.

    """
    tiers = {"places": places} if places else {}
    store: Store = (
        KINDS[database.backend]
        .implementation()
        .open_store(
            database,
            logger=logger,
            groups=groups,
            layouts=layouts,
            state_dir=state_dir,
            password=password,
            read_only=read_only,
            **tiers,
        )
    )
    return store


def schema_statements(
    backend: Backend,
    *,
    schema: str,
    logger: str,
    groups: Mapping[str, InstrumentGroup],
    layouts: Mapping[str, Layout],
) -> list[str]:
    """Write down what a store would run on an empty server of a database, for its administrator to read first.

    The statements and comments, in order, are a script for that database's own client; arguments as of `open_store`.
    """
    statements: list[str] = KINDS[backend].implementation().schema_statements(schema, logger, groups, layouts)
    return statements


async def drop_schema(database: DatabaseConfig, password: str | None) -> None:
    """Remove the schema of a configuration that names a DSN, with all that is in it; for what a drill has made.

    Raises:
        StoreError: it is still there.
    """
    await KINDS[database.backend].implementation().drop_schema(database, password)


def open_visit_store(
    database: DatabaseConfig,
    visits: "VisitsConfig",
    *,
    state_dir: Path,
    password: str | None = None,
    read_only: ReadOnly | None = None,
) -> "VisitStore":
    """Make the store of visits of a database; `await store.create()` makes its tables.

    Args:
        database: where; without a DSN the embedded PostgreSQL under `state_dir`, which has to run already.
        visits: schema, index mode and all that decides about the tables.
        state_dir: folder for what the daemon keeps.
        password: for the DSN; it appears in no message.
        read_only: makes a store that is only asked, one question at a time, each given up after `read_only.give_up_s`.

    """
    found = KINDS[database.backend].implementation("visits")
    store: VisitStore = found.open_visit_store(
        database, visits, state_dir=state_dir, password=password, read_only=read_only
    )
    return store


def open_conditions_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> "ConditionsStore":
    """Make the store of conditions of a database; `await store.create()` makes its tables.

    Args:
        database: where; without a DSN the embedded PostgreSQL under `state_dir`, which has to run already.
        schema: that the conditions lie in; in MariaDB, the database.
        state_dir: folder for what the daemon keeps.
        password: for the DSN; it appears in no message.
        connections: so many calls are under way at most; others wait for their turn.

    Raises:
        ConfigError: the database has no conditions.

    """
    require(database.backend, Feature.CONDITIONS)
    found = KINDS[database.backend].implementation("conditions")
    store: ConditionsStore = found.open_conditions_store(
        database, schema=schema, state_dir=state_dir, password=password, connections=connections
    )
    return store


def open_folders_store(
    database: DatabaseConfig, *, schema: str, state_dir: Path, password: str | None = None, connections: int = 4
) -> "FoldersStore":
    """Make the store of folders of a database; `await store.create()` makes its tables.

    Arguments as of `open_conditions_store`; folders and conditions cannot be in one schema.

    Raises:
        ConfigError: the database has no folders.
    """
    require(database.backend, Feature.FOLDERS)
    found = KINDS[database.backend].implementation("folders")
    store: FoldersStore = found.open_folders_store(
        database, schema=schema, state_dir=state_dir, password=password, connections=connections
    )
    return store
