"""Where a workload runs without a daemon: which database, and which folder its figures are kept in."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from backends import open_store
from backends.base import StoreFacts
from daemon.core.configuration import LoadedConfig
from daemon.core.outcome import CommandFailed
from schemas.checking.problems import ConfigError, problems, without_passwords
from schemas.config import DatabaseConfig


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which database, and where a run is archived. state_dir: absolute; an embedded PostgreSQL runs there."""

    database: DatabaseConfig
    password: str | None
    state_dir: Path
    target: str


def place_of(
    loaded: LoadedConfig | None, dsn: str | None, password_env: str | None, folder: Path | None, *, otherwise: Path
) -> Place:
    """Where the options --dsn, --password-env and --folder say, and else a configuration.

    otherwise: the folder where neither names one.

    Raises:
        CommandFailed, ConfigError: they do not fit together, or cannot be used.
    """
    if loaded is not None and dsn is None:
        if password_env is not None:
            raise CommandFailed("--password-env: is of --dsn; leave it out, CONFIG says where its password is")
        state = loaded.state_dir if folder is None else folder.absolute()
        if loaded.config.database.dsn is None and folder is not None:
            raise CommandFailed("--folder: CONFIG's PostgreSQL runs below its state_dir; leave it out, or give --dsn")
        return Place(database=loaded.config.database, password=loaded.password, state_dir=state, target=loaded.target)
    state = (loaded.state_dir if loaded is not None and folder is None else folder or otherwise).absolute()
    try:
        database = DatabaseConfig(dsn=dsn, password_env=password_env)
    except ValidationError as error:
        raise ConfigError(problems(DatabaseConfig, error.errors(include_url=False))) from None
    target = f"embedded PostgreSQL under {state}" if dsn is None else without_passwords(dsn)
    return Place(database=database, password=_password(password_env), state_dir=state, target=target)


def _password(name: str | None) -> str | None:
    from daemon.web.secrets import from_either  # noqa: PLC0415

    return from_either(name, None, os.environ, field="password")


@asynccontextmanager
async def server_facts(place: Place, logger: str) -> AsyncIterator[StoreFacts]:
    """Keep an embedded server running meanwhile; tell what the server says of itself."""
    store = open_store(
        place.database, logger=logger, groups={}, layouts={}, state_dir=place.state_dir, password=place.password
    )
    try:
        yield await store.facts()
    finally:
        await store.close()
