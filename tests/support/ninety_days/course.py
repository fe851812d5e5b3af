"""How many days pass, and the configuration of the daemon that they pass by."""

from dataclasses import dataclass
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Course:
    """How many days it lasts, and the limits: days, and MiB of the first tier and of groups.

    bad: a day of which the server refuses a trigger.
    """

    days: int
    moved: int
    reduced: int
    kept: int
    bad: int
    fast_mib: float
    ict_mib: float
    each_mib: float

    def most_bytes(self, group: str) -> float:
        """What a group may take."""
        return MIB * (self.ict_mib if group == "ict" else self.each_mib)


COURSES = {
    12: Course(days=12, moved=2, reduced=3, kept=8, bad=2, fast_mib=14, ict_mib=4, each_mib=7),
    90: Course(days=90, moved=10, reduced=14, kept=60, bad=20, fast_mib=90, ict_mib=25, each_mib=40),
}

CONFIGURATION = """
state_dir = "{folder}/state"

[[groups]]
name = "bpm"
count = 8
channels = [{{ name = "x", unit = "mm" }}, {{ name = "gain", dtype = "int16" }}]
retention = {{ keep_days = {course.kept} }}

[[groups]]
name = "ict"
count = 8
channels = [{{ name = "x", unit = "A" }}, {{ name = "gain", dtype = "int16" }}]
layout = "arrays"
retention = {{ max_gib = {ict_gib} }}

[[groups]]
name = "blm"
count = 8
channels = [{{ name = "x", unit = "Gy" }}, {{ name = "gain", dtype = "int16" }}]
decimation = {{ keep_every = 25 }}
retention = {{ keep_days = {course.kept} }}

[retention]
max_gib = {each_gib}
check_every_s = 86400

[decimation]
after_days = {course.reduced}
bucket_s = 3600
window_s = 1800
mib_per_s = 100000

[[tiers]]
name = "fast"
max_gib = {fast_gib}

[[tiers]]
name = "slow"
{place}
after_days = {course.moved}
mib_per_s = 100000

[[sources]]
kind = "tcp"
port = 0
acknowledge_every_ms = 5

[assembly]
timeout_ms = 20
window = 1024
max_open = 512

[journal]
max_mib = 64
segment_mib = 1

[database]
dsn = "{dsn}"
schema = "{schema}"
partition = "day"

[api]
port = 0
"""


def configured(folder: Path, course: Course, *, dsn: str, schema: str, place: str) -> Path:
    """Write the configuration of a daemon. place: of the second tier, as a line."""
    file = folder / "beam.toml"
    file.write_text(
        CONFIGURATION.format(
            folder=folder,
            dsn=dsn,
            schema=schema,
            course=course,
            place=place,
            **{f"{name}_gib": getattr(course, f"{name}_mib") / 1024 for name in ("fast", "ict", "each")},
        )
    )
    return file
