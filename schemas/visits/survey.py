"""What the telescope sees: the generator's numbers, all of the paper unless said otherwise."""

import datetime
import math

from pydantic import Field, model_validator

from schemas.checking.fields import Section
from schemas.checking.problems import Problem, refuse, wrong

HEMISPHERE_SR = 2 * math.pi
DAY_NS = 86_400_000_000_000
FIRST_NEW_ID = 1_000_000_001
"""From here on objects get their ids that are no variables, as in the paper; below it are the variables."""
YEARS = (1970, 2199)


class Survey(Section):
    """Which sky is looked at, how often, and what is found there. Everything in the tables follows from it."""

    seed: int = Field(default=1, ge=0, le=2**32 - 1, description="Of all that is drawn at random.")
    scale: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Multiplies the density of objects and detections, the area of the sky, and the visits a night: at "
        "0.02 and visit 480 an object has been seen as often as in the paper at visit 24,000, with a fiftieth of the "
        "rows a visit.",
    )
    field_deg: float = Field(default=3.5, gt=0, le=20, description="Diameter of the field of view, in degrees.")
    variables: int = Field(
        default=10_000, ge=0, le=1_000_000, description="Variable objects in a field, on average, at scale 1."
    )
    transients: int = Field(default=100, ge=0, le=1_000_000, description="Transients a visit, on average, at scale 1.")
    false_detections: int = Field(
        default=5050, ge=0, le=1_000_000, description="False detections a visit, on average, at scale 1."
    )
    interval_s: float = Field(default=45.0, gt=0, le=86_400, description="From visit to visit at scale 1, in seconds.")
    dusk_h: int = Field(default=20, ge=0, le=23, description="Hour from which there are visits, UTC.")
    dawn_h: int = Field(default=6, ge=0, le=23, description="Hour from which there are none, UTC.")
    first_night: str = Field(
        default="2020-01-01", pattern=r"^\d{4}-\d{2}-\d{2}$", description="Date of the first visit, e.g. `2020-01-01`."
    )
    forced_cutoff_days: float = Field(
        default=30.0,
        ge=0,
        le=36_500,
        description="Forced photometry of an object that is not detected goes on for so long, in days.",
    )
    cutoff_since_first: bool = Field(
        default=False,
        description="Count that from an object's first detection, as the paper's PostgreSQL runs really did, and not "
        "from its last.",
    )

    @model_validator(mode="after")
    def _can_be(self) -> "Survey":
        refuse(problem for problem in (self._no_night(), self._no_date(), self._too_many()) if problem is not None)
        return self

    @property
    def visit_interval_s(self) -> float:
        """From visit to visit at this scale, in seconds."""
        return self.interval_s / self.scale

    @property
    def visit_interval_ns(self) -> int:
        """The same, in ns."""
        return round(self.visit_interval_s * 1e9)

    @property
    def night_ns(self) -> int:
        """From dusk to dawn, in ns; all day long if they are the same hour."""
        return ((self.dawn_h - self.dusk_h) % 24 or 24) * 3_600_000_000_000

    @property
    def visits_a_night(self) -> int:
        """Visits from dusk on, before dawn: 800 in the paper."""
        return -(-self.night_ns // self.visit_interval_ns)

    @property
    def field_radius(self) -> float:
        """Radius of the field of view, in radians."""
        return math.radians(self.field_deg) / 2

    @property
    def field_sr(self) -> float:
        """Area of the field of view, in steradians; 9.62 square degrees at 3.5 degrees across."""
        return 2 * math.pi * (1 - math.cos(self.field_radius))

    @property
    def sky_sr(self) -> float:
        """Area in which the telescope points, in steradians: a cap around the south pole, at scale 1 the hemisphere."""
        return HEMISPHERE_SR * self.scale

    @property
    def variables_sr(self) -> float:
        """Variable objects on a steradian, at this scale."""
        return self.variables * self.scale / self.field_sr

    @property
    def cap_radius(self) -> float:
        """Radius of the cap in which the telescope points, in radians from the south pole."""
        return 2 * math.asin(math.sqrt(self.scale / 2))

    @property
    def rim_radius(self) -> float:
        """Radius of the cap that has variables, in radians: at the rim fields and their corner tiles are full, too."""
        return min(math.pi, self.cap_radius + 1.01 * math.sqrt(2) * self.field_radius)

    @property
    def variables_in_all(self) -> int:
        """Variable objects on the whole of the sky, its rim included."""
        return round(self.variables_sr * 2 * math.pi * (1 - math.cos(self.rim_radius)))

    def _no_night(self) -> Problem | None:
        if self.visit_interval_ns <= self.night_ns:
            return None
        night_s = self.night_ns / 1e9
        says = f"a visit each {self.visit_interval_s:.6g} s, and a night has {night_s:.6g} s"
        if self.interval_s > night_s:
            return wrong(says, f"set it to at most {night_s:.6g}, or make the night longer", "interval_s")
        return wrong(says, f"set it to at least {self.interval_s / night_s:.3g}, or lower interval_s", "scale")

    def _no_date(self) -> Problem | None:
        try:
            year = datetime.date.fromisoformat(self.first_night).year
        except ValueError:
            return wrong(f"there is no date {self.first_night}", "write one as `2020-01-01`", "first_night")
        if YEARS[0] <= year <= YEARS[1]:
            return None
        return wrong(f"the year {year} is out of range", "take one from {} to {}".format(*YEARS), "first_night")

    def _too_many(self) -> Problem | None:
        if self.variables_in_all < FIRST_NEW_ID:
            return None
        says = f"{self.variables_in_all:.4g} in all the sky, and ids of variables end at 1e9"
        return wrong(says, "take fewer, a wider field_deg, or a smaller scale", "variables")
