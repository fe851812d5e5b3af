"""Which server answers, whether it is new enough, and what an acknowledged commit survives there."""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from backends.base import DurabilityInForce, StoreError
from schemas.api.status import Shortfall
from schemas.batch import Durability

OLDEST = {"mariadb": (10, 6), "mysql": (8, 0)}
NAMES = {"mariadb": "MariaDB", "mysql": "MySQL"}

SETTINGS = (
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_log_at_timeout",
    "innodb_doublewrite",
    "innodb_flush_method",
    "log_bin",
    "sync_binlog",
)
FLUSHED_AT_COMMIT = ("1", "3")
"""1 writes and flushes the log at each commit; 3, of MariaDB, does so at its prepare too."""
UNTORN = ("ON", "1", "DETECT_AND_RECOVER")
"""Values of innodb_doublewrite that repair a page torn by a power cut (DETECT_AND_RECOVER is MySQL's ON)."""
UNFLUSHED_METHODS = ("nosync", "littlesync")


class Product(NamedTuple):
    """What a server says it is."""

    backend: str
    version: str

    @property
    def numbers(self) -> tuple[int, int]:
        """Its major and minor version."""
        major, minor = (int(number) for number in self.version.split(".")[:2])
        return major, minor


def product_of(version: str) -> Product:
    """Take a version text apart: `10.11.19-MariaDB-0+deb12u1`, `5.5.5-10.6.12-MariaDB-log` or `8.0.36`.

    Raises:
        StoreError: it is no such text.
    """
    backend = "mariadb" if "mariadb" in version.lower() else "mysql"
    # To old replicas MariaDB calls itself 5.5.5 first.
    found = re.match(r"(?:5\.5\.5-)?(\d+\.\d+(?:\.\d+)?)", version)
    if found is None:
        raise StoreError(f"the server calls itself {version!r}, which is no version of MariaDB or MySQL")
    return Product(backend, found[1])


def check_version(version: str, target: str) -> Product:
    """Give the product.

    Raises:
        StoreError: it is older than this store supports.
    """
    product = product_of(version)
    oldest = OLDEST[product.backend]
    if product.numbers < oldest:
        name = NAMES[product.backend]
        raise StoreError(
            f"{target} is {name} {product.version}; the oldest supported is {name} {oldest[0]}.{oldest[1]}: upgrade it"
        )
    return product


def held(settings: Mapping[str, str]) -> dict[Durability, DurabilityInForce]:
    """What holds for each durability; `settings` has the values of SETTINGS as SHOW GLOBAL VARIABLES gives them.

    It is one for all: these settings are the server's, and no session can commit in another way.
    https://mariadb.com/kb/en/innodb-system-variables/#innodb_flush_log_at_trx_commit
    """
    found = _not_durable(settings) or _delayed(settings)
    if found is not None:
        return found
    binlog = ", sync_binlog 1" if _binlog(settings) else ""
    flush = settings["innodb_flush_log_at_trx_commit"]
    words = f"sync (innodb_flush_log_at_trx_commit {flush}, doublewrite on{binlog})"
    return dict.fromkeys(Durability, DurabilityInForce(words=words, risk_ms=0))


def _not_durable(settings: Mapping[str, str]) -> dict[Durability, DurabilityInForce] | None:
    doublewrite, method = settings["innodb_doublewrite"], settings["innodb_flush_method"]
    if doublewrite.upper() not in UNTORN:
        what, fix = f"innodb_doublewrite is {doublewrite} on the server, a power cut can tear its pages", "ON"
        return _lost(what, f"innodb_doublewrite = {fix}")
    if method.lower() in UNFLUSHED_METHODS:
        what = f"innodb_flush_method is {method} on the server, a crash of the machine can lose or corrupt anything"
        return _lost(what, "innodb_flush_method = O_DIRECT")
    return None


def _lost(what: str, fix: str) -> dict[Durability, DurabilityInForce]:
    words = f"NOT durable: {what}"
    shortfall = Shortfall(problem=words, fix=f"set {fix} there")
    return dict.fromkeys(Durability, DurabilityInForce(words=words, risk_ms=math.inf, shortfall=shortfall))


def _delayed(settings: Mapping[str, str]) -> dict[Durability, DurabilityInForce] | None:
    """What holds where a commit is acknowledged before it is on the disk."""
    flush = settings["innodb_flush_log_at_trx_commit"]
    if flush not in FLUSHED_AT_COMMIT:
        risk_ms = 1000 * float(settings["innodb_flush_log_at_timeout"])
        # At 2 the operating system has the log at each commit: only the machine's crash loses it.
        crash = "the machine" if flush == "2" else "the server"
        why = f"innodb_flush_log_at_trx_commit {flush}: a crash of {crash} may lose its last {risk_ms:g} ms"
        return _asynchronous(why, risk_ms, "innodb_flush_log_at_trx_commit")
    if _binlog(settings) and settings["sync_binlog"] != "1":
        # After a crash InnoDB takes back what the binlog lacks: https://mariadb.com/kb/en/innodb-flushing-to-disk/
        many = settings["sync_binlog"]
        why = f"sync_binlog {many}: a crash of the machine may lose what its binlog has not flushed, without a limit"
        return _asynchronous(why, math.inf, "sync_binlog")
    return None


def _asynchronous(why: str, risk_ms: float, setting: str) -> dict[Durability, DurabilityInForce]:
    words = f"async ({why})"
    shortfall = Shortfall(problem=f"commits are not sync on this server, {why}", fix=f"set {setting} = 1 there")
    return {
        Durability.SYNC: DurabilityInForce(words=words, risk_ms=risk_ms, shortfall=shortfall),
        # Without a limit it is less than `async` promises, too: only its last moments.
        Durability.ASYNC: DurabilityInForce(
            words=words, risk_ms=risk_ms, shortfall=shortfall if math.isinf(risk_ms) else None
        ),
    }


def _binlog(settings: Mapping[str, str]) -> bool:
    return settings["log_bin"].upper() in ("ON", "1")
