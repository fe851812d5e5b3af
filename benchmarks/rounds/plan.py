"""Duration of each measure: the short set of `make bench`, the full one, and one to try the benchmarks with."""

from dataclasses import dataclass

from benchmarks.load.workload import LAYOUTS
from schemas.batch import Layout

MEASURES = ("throughput", "latency", "load", "outages", "governor", "page", "conditions")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Rounds and seconds.

    every_way: whether all strategies are measured; else the first of each durability. layouts: of the daemon, and of
    the ceiling. rounds: interleaved rounds of the throughput. warms_up: whether everybody has one more before, that
    does not count.
    write_s: seconds a strategy writes in a round. send_s: seconds the sender sends to the daemon in a round, ahead of
    its acknowledgements by as much as the daemon commits in ahead_s; that is committed after the sending, and counted.
    probe_ahead: triggers that it is ahead until the rate of the daemon is known.
    rates: triggers a second of the latency measure. windows: of window_s seconds at each rate; further_windows: on
    other databases than PostgreSQL.
    cpu_rates, cpu_s: rates and seconds of the CPU measure. memory_s: seconds at full speed of the memory measure, 0
    for none. drains: outages of outage_s seconds, in each layout. with_reading: whether the governor and the page are
    measured without being asked for. governor_rounds: of blocks of governor_s seconds. page_rounds: with each audience
    for page_s seconds.
    scenarios: of conditions, on PostgreSQL; further_scenarios: on other databases. clients: that ask the server of
    conditions at the same time. condition_rounds: of everything about conditions; read_s, request_s: seconds of a
    strategy, and of clients, in each.
    """

    every_way: bool = True
    layouts: tuple[Layout, ...] = LAYOUTS
    rounds: int
    warms_up: bool = True
    write_s: float
    send_s: float
    ahead_s: float
    probe_ahead: int = 256
    rates: tuple[int, ...] = (10, 100, 1000)
    windows: int
    further_windows: int
    window_s: float
    cpu_rates: tuple[int, ...] = (10, 100)
    cpu_s: float
    memory_s: float
    drains: int
    outage_s: float
    with_reading: bool = False
    governor_rounds: int
    governor_s: float
    page_rounds: int
    page_s: float
    scenarios: tuple[str, ...] = ("tiny-moderate", "moderate", "heavy-usage")
    further_scenarios: tuple[str, ...] = ("tiny-moderate",)
    clients: tuple[int, ...] = (1, 8, 32)
    condition_rounds: int
    read_s: float
    request_s: float

    def measures(self, only: str | None) -> tuple[str, ...]:
        """What is measured, when `only` one measure is asked for, or none by name."""
        if only is not None:
            return (only,)
        return MEASURES if self.with_reading else MEASURES[: MEASURES.index("governor")]


PLANS = {
    "smoke": Plan(
        every_way=False,
        layouts=(Layout.ARRAYS,),
        rounds=1,
        warms_up=False,
        write_s=0.2,
        send_s=0.3,
        ahead_s=0.5,
        rates=(10, 1000),
        windows=1,
        further_windows=1,
        window_s=1.0,
        cpu_s=2.0,
        memory_s=4.0,
        drains=1,
        outage_s=1.0,
        governor_rounds=1,
        governor_s=3.0,
        page_rounds=1,
        page_s=1.0,
        scenarios=("tiny", "tiny-moderate"),
        further_scenarios=("tiny",),
        clients=(1, 2),
        condition_rounds=1,
        read_s=0.1,
        request_s=0.5,
    ),
    "short": Plan(
        rounds=3,
        write_s=1.2,
        send_s=1.5,
        ahead_s=1.0,
        windows=2,
        further_windows=1,
        window_s=5.0,
        cpu_s=4.5,
        memory_s=0.0,
        drains=1,
        outage_s=15.0,
        governor_rounds=3,
        governor_s=20.0,
        page_rounds=2,
        page_s=5.0,
        condition_rounds=3,
        read_s=0.5,
        request_s=1.5,
    ),
    "full": Plan(
        rounds=7,
        write_s=5.0,
        send_s=12.0,
        ahead_s=2.0,
        windows=6,
        further_windows=6,
        window_s=10.0,
        cpu_s=60.0,
        memory_s=300.0,
        drains=3,
        outage_s=60.0,
        with_reading=True,
        governor_rounds=7,
        governor_s=60.0,
        page_rounds=5,
        page_s=20.0,
        scenarios=("tiny", "tiny-moderate", "moderate", "heavy-usage", "worst-case"),
        further_scenarios=("tiny-moderate", "moderate"),
        condition_rounds=7,
        read_s=2.0,
        request_s=5.0,
    ),
}
