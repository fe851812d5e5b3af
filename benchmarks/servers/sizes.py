"""Sizes of the small servers of a benchmark: settings, without a driver, for plans that are made without one."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Small:
    """How small servers are.

    cache_mib: of the server's own cache; MariaDB takes no less than about 5 MiB, and PostgreSQL is happy with 0.2.
    memory_mib: of each PostgreSQL with its part of the page cache, which it reads through; MariaDB reads past it
    (O_DIRECT). None is without a limit. postgresql: further settings of PostgreSQL. connections: clients at once;
    None as many as by default.
    """

    cache_mib: int
    memory_mib: int | None = None
    postgresql: Mapping[str, str] = field(default_factory=dict)
    connections: int | None = None

    @property
    def postgresql_settings(self) -> dict[str, str]:
        """Settings of a PostgreSQL."""
        return {
            "shared_buffers": f"{self.cache_mib}MB",
            # What a small control group cannot give back: the embedded server's 32 MB of these would leave too little.
            "wal_buffers": "2MB",
            "maintenance_work_mem": "8MB",
            # PostgreSQL's own defaults, not the embedded server's: a run sees checkpoints.
            "max_wal_size": "1GB",
            "checkpoint_timeout": "5min",
            **self._connections,
            **self.postgresql,
        }

    @property
    def mariadb_settings(self) -> dict[str, str]:
        """Options of a MariaDB."""
        return {
            "innodb_buffer_pool_size": f"{self.cache_mib}M",
            "innodb_flush_method": "O_DIRECT",
            **self._connections,
        }

    @property
    def _connections(self) -> dict[str, str]:
        return {} if self.connections is None else {"max_connections": str(self.connections)}
