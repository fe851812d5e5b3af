"""The heat of periods over a restart: a small file of the state folder, with the counters that it was made from.

What was read meanwhile, the counters tell at the next look; so it does not have to be written often.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from backends.base import ReadCounters
from daemon.core.monitoring.events import Events
from daemon.core.outside import Outside
from daemon.core.process.kept_file import KeptFile, Part, Remembered
from daemon.tiers.heat import Heat, Label, PeriodHeat

FILE = "heat.json"
MOST = 1e100
"""No reader waits so long: what is more, and sums of it, would soon be no number."""


def _of_a_server(counted: ReadCounters) -> ReadCounters:
    """Counters as a server has them: whole numbers of 64 bits."""
    if not all(-(2**63) <= each < 2**63 for each in counted):
        raise ValueError("no server counts so far")
    return counted


class KeptHeat(Part):
    """As `PeriodHeat`."""

    s_a_day: float = Field(ge=0, le=MOST, allow_inf_nan=False)
    wanted_s: float = Field(ge=0, le=MOST, allow_inf_nan=False)
    counted: tuple[Annotated[ReadCounters, AfterValidator(_of_a_server)], ...]


class HeatMemory(Remembered):
    """The heat of each group's partitions, as at at_ns (UTC, ns)."""

    version: Literal[1] = 1
    at_ns: int = Field(default=0, ge=-(2**63), lt=2**63)
    groups: dict[str, dict[str, KeptHeat]] = Field(default={})

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not self.groups


class HeatFile(KeptFile[HeatMemory]):
    """Where heat is kept, in the state folder."""

    def __init__(self, state_dir: Path, outside: Outside, events: Events) -> None:
        super().__init__(
            state_dir / FILE,
            HeatMemory(),
            outside,
            events,
            unread="all partitions begin as cold",
            unwritten="a restart forgets which partitions are read",
        )


def memory_of(heat: Heat, utc_ns: int) -> HeatMemory:
    """What to remember of heat as it is now."""
    groups: dict[str, dict[str, KeptHeat]] = {}
    for (group, name), each in heat.all().items():
        kept = KeptHeat(s_a_day=each.s_a_day, wanted_s=each.wanted_s, counted=each.counted)
        groups.setdefault(group, {})[name] = kept
    return HeatMemory(at_ns=utc_ns, groups=groups)


def heat_of(memory: HeatMemory, half_life_s: float, utc_ns: int) -> Heat:
    """The heat that was remembered, as it is now."""
    found: Mapping[Label, PeriodHeat] = {
        (group, name): PeriodHeat(s_a_day=each.s_a_day, wanted_s=each.wanted_s, counted=each.counted)
        for group, of in memory.groups.items()
        for name, each in of.items()
    }
    return Heat(half_life_s, found, (utc_ns - memory.at_ns) / 1e9)
