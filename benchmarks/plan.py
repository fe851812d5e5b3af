"""How long each measure takes: the short set of `make bench`, the full one, and one to try the benchmarks with."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Rounds and seconds.

    rounds: interleaved rounds of the throughput. write_s: seconds a bare strategy writes in a round. send_s: seconds
    the sender sends to the daemon in a round; what it buffers is committed after that, and counted.
    rates: triggers a second of the latency measure. windows: of window_s seconds at each rate.
    cpu_rates, cpu_s: rates and seconds of the CPU measure. memory_s: seconds at full speed of the memory measure.
    """

    rounds: int
    write_s: float
    send_s: float
    rates: tuple[int, ...] = (10, 100, 1000)
    windows: int
    window_s: float
    cpu_rates: tuple[int, ...] = (10, 100)
    cpu_s: float
    memory_s: float


PLANS = {
    "smoke": Plan(
        rounds=1, write_s=0.3, send_s=0.5, rates=(10, 1000), windows=1, window_s=1.0, cpu_s=2.0, memory_s=4.0
    ),
    "short": Plan(rounds=3, write_s=3.0, send_s=6.0, windows=4, window_s=10.0, cpu_s=15.0, memory_s=60.0),
    "full": Plan(rounds=7, write_s=5.0, send_s=12.0, windows=6, window_s=10.0, cpu_s=60.0, memory_s=300.0),
}
