"""`python -m benchmarks.studies.mongodb_periods`: what a period of packs takes to write, read and drop in MongoDB.

In a collection of its own, and in one collection for all, of which a period is dropped by `delete_many`. On a private
server: mongod where there is one, else FerretDB.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymongo
from bson import Binary
from pymongo.database import Database

from backends.throwaway.mongodb import ThrowawayMongodb

PERIODS, PIXELS, VISITS = 6, 20, 10
RECORDS = os.urandom(20_000)
READ = (5, 9)
"""Pixels that are read: from, to before."""

Documents = list[dict[str, Any]]


def packs(period: int) -> Documents:
    """The packs of a period; `_id` is (pixel, period, visit), big-endian."""
    return [
        {"_id": key(pixel, period, visit), "period": period, "n": 40, "records": RECORDS}
        for visit in range(VISITS)
        for pixel in range(PIXELS)
    ]


def key(*numbers: int) -> Binary:
    """An `_id`."""
    return Binary(b"".join(number.to_bytes(8, "big") for number in numbers), 128)


class Apart:
    """A collection a period."""

    def __init__(self, database: Database[dict[str, Any]]) -> None:
        self._database = database

    def write(self, period: int) -> None:
        """Write a period."""
        self._database[f"packs_{period}"].insert_many(packs(period))

    def read(self, periods: range) -> int:
        """Read some pixels of some periods."""
        return sum(_read(self._database, f"packs_{period}") for period in periods)

    def drop(self, period: int) -> None:
        """Drop a period."""
        self._database[f"packs_{period}"].drop()


class Together:
    """One collection for all."""

    def __init__(self, database: Database[dict[str, Any]]) -> None:
        self._database = database
        database["packs"].create_index("period")

    def write(self, period: int) -> None:
        """Write a period."""
        self._database["packs"].insert_many(packs(period))

    def read(self, periods: range) -> int:
        """Read some pixels of all periods that are there."""
        return _read(self._database, "packs")

    def drop(self, period: int) -> None:
        """Drop a period."""
        self._database["packs"].delete_many({"period": period})


def _read(database: Database[dict[str, Any]], name: str) -> int:
    first, end = (key(pixel, 0, 0) for pixel in READ)
    return len(list(database[name].find({"_id": {"$gte": first, "$lt": end}}, {"_id": 0, "records": 1})))


def measure(way: Apart | Together) -> str:
    """Write all periods, drop the first half one by one, read what is left three times."""
    written = [_timed(way.write, period) for period in range(PERIODS)]
    dropped = [_timed(way.drop, period) for period in range(PERIODS // 2)]
    left = range(PERIODS // 2, PERIODS)
    read = [_timed(way.read, left) for _ in range(3)]
    assert way.read(left) == len(left) * VISITS * (READ[1] - READ[0])
    figures = {"written": written, "dropped": dropped, "the rest read": read}
    return ", ".join(f"{what} in {1e3 * statistics.median(took):,.0f} ms" for what, took in figures.items())


def _timed(do: Callable[[Any], object], what: object) -> float:
    began_s = time.perf_counter()
    do(what)
    return time.perf_counter() - began_s


def main() -> None:
    """Measure both."""
    with tempfile.TemporaryDirectory() as folder:
        server = ThrowawayMongodb(Path(folder))
        client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(server.start())
        try:
            print(f"a period of {PIXELS * VISITS} packs of {len(RECORDS):,} bytes, medians:")  # noqa: T201
            for name, way in (("a collection a period", Apart), ("one collection", Together)):
                print(f"{name:<22} {measure(way(client['visits']))}", flush=True)  # noqa: T201
        finally:
            client.close()
            server.stop()


if __name__ == "__main__":
    main()
