"""The store of conditions in MariaDB and MySQL."""

from collections.abc import Sequence
from typing import ClassVar

import sqlalchemy as sa

from backends.mysql.conditions.session import IDS, MysqlConditionsSession
from backends.mysql.protocol.connection import Connection
from backends.mysql.protocol.sql import quoted
from backends.mysql.session_store import MysqlSessionStore
from backends.sql.conditions.session import conditions_tables
from backends.sql.conditions.store import SqlConditionsStore
from schemas.config import DatabaseConfig


class MysqlConditionsStore(MysqlSessionStore[MysqlConditionsSession], SqlConditionsStore[MysqlConditionsSession]):
    """Conditions in MariaDB and MySQL; its methods promise what `ConditionsStore` says."""

    what: ClassVar[str] = "conditions"

    def __init__(self, database: DatabaseConfig, *, schema: str, password: str | None, connections: int) -> None:
        super().__init__(database, MysqlConditionsSession, schema=schema, password=password, connections=connections)
        self._tables = conditions_tables(schema)

    def _session(self, connection: Connection) -> MysqlConditionsSession:
        return MysqlConditionsSession(connection, self._schema, self._timeout_s, self._tables)

    def _all_tables(self) -> Sequence[sa.Table]:
        return self._tables.all()

    def _beside_tables(self) -> Sequence[str]:
        ids = f"{quoted(self._schema, IDS)} (id BIGINT AUTO_INCREMENT PRIMARY KEY)"
        detaching = quoted(self._schema, self._tables.detaching.name)
        return [
            f"CREATE TABLE IF NOT EXISTS {ids} ENGINE=InnoDB",
            f"INSERT IGNORE INTO {detaching} VALUES (1)",
        ]
