"""The store in MariaDB and MySQL, which speak the same protocol."""

from backends.mysql.store import MysqlStore

__all__ = ["MysqlStore"]
