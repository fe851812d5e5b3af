"""A kept run made up for the tests of the report: its form is that of a real one, its figures are invented."""

from typing import Any

EDGES = [10 ** (k / 20) for k in range(121)]
HOSTILE = "<script>alert('x')</script> & \"so on\""


def way(backend: str, slug: str, rate: float, **changes: Any) -> dict[str, Any]:
    """A way whose three rounds lie within 2 % of `rate` triggers/s."""
    rates = [0.98 * rate, rate, 1.02 * rate]
    middle = max(k for k in range(120) if EDGES[k] <= rate)
    counts = [0] * 120
    for offset, count in ((-6, 12), (-2, 300), (-1, 900), (0, 1500), (1, 700), (2, 80), (5, 3)):
        counts[middle + offset] = count
    extra = {
        "backend": backend,
        "contender": slug,
        "title": slug.replace("_", " "),
        "kind": "daemon" if slug.startswith("daemon") else "ceiling" if slug.startswith("bare") else "paper",
        "file": None if slug.startswith("daemon") else f"benchmarks/strategies/{backend}/{slug}.py",
        "durability": "async" if slug.endswith("async") else "sync",
        "layout": "arrays" if "arrays" in slug else "rows" if "rows" in slug else None,
        "paper": None,
        "safe": not slug.endswith("async"),
        "note": None,
        "triggers": [3000, 3000, 3000],
        "triggers a commit": [1, 1, 1],
        "hz p25": [0.9 * rate] * 3,
        "hz p50": [rate] * 3,
        "hz p75": [1.1 * rate] * 3,
        "hz_edges": EDGES,
        "hz_counts": counts,
    }
    if not slug.startswith("daemon"):
        extra |= {
            "p50 ms": [1e3 / rate] * 3,
            "p99 ms": [3e3 / rate, 4e3 / rate, 5e3 / rate],
            "max ms": [9e3 / rate] * 3,
        }
    return {"group": "throughput", "extra_info": extra | changes, "stats": {"data": [1 / each for each in rates]}}


def latency(backend: str, contender: str, rate: int, p99: float) -> dict[str, Any]:
    """Four windows at a rate."""
    windows = [0.8 * p99, p99, p99, 1.3 * p99]
    figures = {"p50 ms": [p99 / 2] * 4, "p99 ms": windows, "max ms": [3 * p99] * 4}
    if contender == "daemon":
        figures |= {f"sender {name}": [1.5 * value for value in values] for name, values in figures.items()}
    extra = {"backend": backend, "contender": contender, "rate": rate, **figures}
    return {"group": "latency, p99", "extra_info": extra, "stats": {"data": [value / 1e3 for value in windows]}}


def server(product: str, version: str, **changes: Any) -> dict[str, Any]:
    """A server of the run's own that gives both durabilities."""
    return {
        "product": product,
        "version": version,
        "target": f"{product}://bench@db.example:1234/test",
        "own": True,
        "settings": {"fsync": "on", "wal_sync_method": "fdatasync", "shared_buffers": "256MB"},
        "durability": {
            "sync": "sync (fsync on)",
            "async": "async (a crash of the server may lose its last 600 ms)",
        },
        "risk_ms": {"sync": 0.0, "async": 600.0},
        "shortfall": {"sync": None, "async": None},
    } | changes


SERVERS = {
    "postgresql": server("postgresql", "18.4"),
    "mysql": server("mariadb", "10.11.6"),
    "mongodb": server("ferretdb", "1.24.2"),
}

POSTGRESQL = [
    way(
        "postgresql",
        "insert_each_table",
        76,
        paper="about 44 Hz",
        title="120 tables, 120 INSERTs, one commit",
    ),
    way(
        "postgresql",
        "threads_one_connection",
        190,
        paper="up to ~20x",
        title="10 threads on one connection",
        safe=False,
        half_written=[120, 131, 118],
        note="One thread's commit commits what the others have written by then.",
    ),
    way("postgresql", "processes_same_tables", 240, paper="bulk hundreds of Hz"),
    way("postgresql", "processes_own_tables", 150, paper="~3x"),
    way("postgresql", "copy_each_table", 88, paper="plot only"),
    way("postgresql", "one_copy", 1050, paper="plot only; the paper's recommendation", title="one COPY"),
    way("postgresql", "one_copy_async", 1500, paper="plot only", title="one COPY, asynchronous commit"),
    way("postgresql", "bare_copy_rows", 14_000, **{"triggers a commit": [1700] * 3}),
    way("postgresql", "bare_copy_arrays", 33_000, **{"triggers a commit": [1700] * 3}),
    way("postgresql", "daemon_rows", 9_600, title="triggerlog, rows", **{"triggers a commit": [1700] * 3}),
    way("postgresql", "daemon_arrays", 17_000, title="triggerlog, arrays", **{"triggers a commit": [1700] * 3}),
    way("postgresql", "daemon_rows_async", 9_700, title="triggerlog, rows, asynchronous commit"),
    way("postgresql", "daemon_arrays_async", 17_600, title="triggerlog, arrays, asynchronous commit"),
]
MYSQL = [
    way("mysql", "insert_each_table", 77),
    way("mysql", "multi_row_insert", 1226),
    way("mysql", "load_data", 990),
    way("mysql", "load_data_async", 1900),
    way("mysql", "daemon_rows", 3400, title="triggerlog, rows"),
    way("mysql", "daemon_arrays", 9000, title="triggerlog, arrays"),
    way("mysql", "daemon_rows_async", 4600, title="triggerlog, rows, asynchronous commit"),
]
MONGODB = [
    way("mongodb", "insert_one", 4.5),
    way("mongodb", "insert_many", 95),
    way("mongodb", "document_a_trigger", 800),
    way("mongodb", "daemon_rows", 150, title="triggerlog, rows"),
    way("mongodb", "daemon_arrays", 3100, title="triggerlog, arrays"),
]
LATENCIES = [
    latency(backend, contender, rate, p99)
    for backend, contender, figures in (
        ("postgresql", "bare loop", (1.35, 0.87, 39.0)),
        ("postgresql", "daemon", (1.99, 2.07, 43.0)),
        ("mysql", "daemon", (2.9, 3.1, 60.0)),
        ("mongodb", "daemon", (7.0, 9.0, 80.0)),
    )
    for rate, p99 in zip((10, 100, 1000), figures, strict=True)
]
LOADS = [
    {"group": "CPU a trigger", "extra_info": {"rate": rate, "CPU percent": [cpu] * 3}, "stats": {"data": [cpu_s] * 3}}
    for rate, cpu, cpu_s in ((10, 3.2, 3.25e-3), (100, 21.3, 2.13e-3))
]
MEMORY = {
    "group": "memory at full speed",
    "extra_info": {
        "seconds": [60.0],
        "MiB least": [399.0],
        "MiB most": [436.0],
        "MiB a minute": [-1.3],
        "samples": [[0.5, 399.0], [1.0, 436.0]],
    },
    "stats": {"data": [1 / 9621]},
}


def kept(
    benchmarks: list[dict[str, Any]] | None = None, servers: dict[str, Any] | None = None, **facts: Any
) -> dict[str, Any]:
    """The whole report."""
    everything = [*POSTGRESQL, *MYSQL, *MONGODB, *LATENCIES, *LOADS, MEMORY]
    return {
        "machine_info": {"cpu": {"brand_raw": "Some CPU"}, "python_version": "3.11.7"},
        "commit_info": {"id": "0123456789abcdef", "dirty": False},
        "datetime": "2026-01-02T03:04:05.678+00:00",
        "benchmarks": everything if benchmarks is None else benchmarks,
        "triggerlog": {
            "plan": "short",
            "began_ns": 1_767_323_045_000_000_000,
            "load": 0.1,
            "cores": 2,
            "memory_gib": 24.0,
            "fdatasync_ms": 0.1,
            "servers": SERVERS if servers is None else servers,
        }
        | facts,
    }
