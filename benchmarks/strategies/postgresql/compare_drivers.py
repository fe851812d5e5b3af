"""Each of the paper's ways with psycopg2 and with psycopg 3, on a server of its own: triggers/s, and the client's CPU.

    python -m benchmarks.strategies.postgresql.compare_drivers > docs/reports/drivers.txt

An argument is the seconds of a round, in place of 2. The ways with several processes are left out: each process does
what the one of `insert_each_table` does.
"""

import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.servers.postgresql import throwaway
from benchmarks.strategies.postgresql import copy_each_table, insert_each_table, one_copy, threads_one_connection
from benchmarks.strategies.postgresql.drivers import PSYCOPG2, PSYCOPG3

WAYS = (insert_each_table, threads_one_connection, copy_each_table, one_copy)
ROUNDS = 3
SECONDS = 2.0


def main(seconds: float = SECONDS) -> None:
    """Print the machine, and a line a way and driver: medians of alternating rounds."""
    triggers = np.random.default_rng(1).normal(100.0, 5.0, (64, 120, 4)).tolist()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="triggerlog-") as folder, throwaway(Path(folder)) as server:
        for k in range(ROUNDS):
            for way in WAYS:
                for driver in (PSYCOPG2, PSYCOPG3):
                    schema, cpu_s = f"round_{k}", time.process_time()
                    commits = way.write(server.dsn, schema, triggers, seconds, driver=driver)
                    cpu_ms = (time.process_time() - cpu_s) * 1e3 / commits.count
                    server.remove(schema)
                    name = way.__name__.rpartition(".")[2], driver.name
                    found.setdefault(name, []).append((1 / commits.seconds_a_trigger, cpu_ms))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    lines = [
        (
            f"{platform.machine()}, {os.cpu_count()} cores, nice {os.nice(0)}, load {load} at the end;"
            f" medians of {ROUNDS} alternating rounds of {seconds:g} s (least to most)"
        ),
        "",
        f"{'way':24}{'driver':10}{'triggers/s':>24}{'CPU of the client, ms a trigger':>36}",
    ]
    for (way_name, driver_name), rounds in found.items():
        rates, cpus = (sorted(each) for each in zip(*rounds, strict=True))
        rate, cpu = (f"{np.median(of):.3g} ({of[0]:.3g} to {of[-1]:.3g})" for of in (rates, cpus))
        lines.append(f"{way_name:24}{driver_name:10}{rate:>24}{cpu:>36}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
