"""What the telescope sees: the generator's numbers, all of the paper unless said otherwise."""

import math

from pydantic import Field

from schemas.config.section import Section

HEMISPHERE_SR = 2 * math.pi
NIGHTS_PER_PERIOD = 30


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

    @property
    def visit_interval_s(self) -> float:
        """From visit to visit at this scale, in seconds."""
        return self.interval_s / self.scale

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
