"""What is stored: groups, readings, the ledger.

The lists of one answer are columns: all of them have one value a reading (or instrument), in the same order.
"""

from pydantic import Field, RootModel

from schemas.api.model import Model
from schemas.conditions.calibration import By
from schemas.conditions.intervals import TagStatus

Columns = dict[str, list[float | None]]
"""By channel its values; null is NaN."""


class GroupNames(RootModel[list[str]]):
    """Body of `GET /api/v1/groups`: the names of the instrument groups."""


class ChannelDescription(Model):
    """A channel of a group."""

    name: str
    unit: str
    dtype: str = Field(description="type of its values, e.g. `float64`")


class GroupDescription(Model):
    """Body of `GET /api/v1/groups/{group}`."""

    name: str
    instruments: list[str] = Field(description="names, in the order of the instruments' numbers")
    channels: list[ChannelDescription]
    record_bytes: int = Field(description="size of one reading as senders send it")


class UsedCalibration(Model):
    """A payload that positions were computed with, and the keys between which it is valid."""

    url: str = Field(description="relative to where the payloads are")
    checksum: str = Field(description="of its content: sha256, or md5 where its interval has that")
    is_verified: bool = Field(description="whether its interval has a checksum, which is this one")
    start: tuple[int, int] = Field(description="first key, as major and minor")
    end: tuple[int, int] | None = Field(description="key that it is not valid at any more; null where it is open")


class Calibration(Model):
    """What x_mm and y_mm of an answer were computed with."""

    tag: str = Field(description="the global tag")
    revision: int = Field(description="of the tag, which grows with every change of what it answers")
    status: TagStatus
    by: By = Field(description="what the keys are: `trigger`: (run, trigger); `time`: (0, the reading's time in ns)")
    readings_without: int = Field(
        description="readings for which no calibration is valid: their x_mm and y_mm are null"
    )
    payloads: list[UsedCalibration]


class OneTrigger(Model):
    """Body of `GET /api/v1/groups/{group}/newest` and `/triggers/{trigger}`.

    The columns have a value an instrument that is there.
    """

    group: str
    run: int | None = Field(description="null when there is no trigger yet")
    trigger: int | None = Field(description="null when there is no trigger yet")
    age_s: float | None = Field(
        default=None, description="seconds from the median of its times to now; null when there is no trigger yet"
    )
    instruments: list[str] = Field(description="names of those that are there")
    time_ns: list[int]
    channels: Columns
    units: dict[str, str] = Field(description="by channel")
    calibration: Calibration | None = Field(default=None, description="null where no calibrated values are asked for")


class ChannelFigures(Model):
    """Figures of a channel, a value a step; null where a step has no value but NaN."""

    n: list[int] = Field(description="values, without NaN")
    mean: list[float | None]
    m2: list[float | None] = Field(description="sum of the squared deviations from the mean: the variance is m2 / n")
    least: list[float | None]
    greatest: list[float | None]


class Reduced(Model):
    """What the readings were of stretches that were reduced: the columns have a value a step, ascending in time.

    The figures are of all readings of a step, of those that stayed as they were, too. A step without readings is
    absent.
    """

    asked_step_s: float = Field(description="the step that was asked for")
    coarser: bool = Field(description="whether a step is longer than that: it is a multiple of what readings became")
    time_ns: list[int] = Field(description="where each step begins")
    step_s: list[float] = Field(description="how long it is")
    readings: list[int] = Field(description="how many there were")
    channels: dict[str, ChannelFigures] = Field(description="by channel, as it was read")


class Readings(Model):
    """Body of `GET /api/v1/groups/{group}/readings`: the columns have a value a reading, ascending in time."""

    group: str
    instrument: int = Field(description="its number")
    name: str
    stored: int = Field(description="readings in the range, of which those in the columns are a choice")
    cut: bool = Field(description="whether the range has more readings than are looked at: the oldest are left out")
    dropped_from_ns: list[int] = Field(
        default=[], description="stretches of the range whose readings were dropped by retention: where each begins"
    )
    dropped_to_ns: list[int] = Field(default=[], description="where each of these ends")
    decimated_from_ns: list[int] = Field(
        default=[], description="stretches of the range whose readings were reduced: where each begins"
    )
    decimated_to_ns: list[int] = Field(default=[], description="where each of these ends")
    reduced: Reduced | None = Field(
        default=None, description="figures of these stretches; null where there are none, and where triggers stayed"
    )
    time_ns: list[int]
    run: list[int]
    trigger: list[int]
    channels: Columns
    units: dict[str, str] = Field(description="by channel")
    calibration: Calibration | None = Field(default=None, description="null where no calibrated values are asked for")


class LedgerEntry(Model):
    """Body of `GET /api/v1/groups/{group}/ledger/{trigger}`."""

    group: str
    run: int
    trigger: int
    epoch: int = Field(description="the timing system's counter of restarts; 0 is unknown")
    skipped: int = Field(description="trigger numbers next below this one that nothing had come of when it closed")
    time_ns: int = Field(description="the trigger's own time, by the instruments' clocks")
    first_ns: int = Field(description="earliest timestamp among its readings")
    last_ns: int = Field(description="latest timestamp among its readings")
    first_received_ns: int
    last_received_ns: int = Field(description="after closed_ns when it is late")
    closed_ns: int
    expected: int = Field(description="instruments that the group has")
    arrived: int = Field(description="instruments that are there, the late ones too")
    late: int
    duplicates: int = Field(description="readings of instruments that were there already; not stored")
    missing: list[str] = Field(description="names of the missing instruments")
    dropped: bool = Field(default=False, description="whether its readings were dropped by retention")
    decimated: bool = Field(
        default=False, description="whether it is of a period that was reduced: its readings may be there no more"
    )


class Gaps(Model):
    """Body of `GET /api/v1/groups/{group}/gaps`: the columns have a value a gap, the newest first.

    A gap is a range of trigger numbers of a run for which no trigger was closed.
    """

    group: str
    run: list[int]
    epoch: list[int] = Field(description="the timing system's counter of restarts after the gap; 0 is unknown")
    first: list[int] = Field(description="first number that never came")
    last: list[int] = Field(description="last number that never came")
    triggers: list[int] = Field(description="how many numbers never came")
    before_ns: list[int | None] = Field(description="time of the trigger before the gap; null where it is not known")
    after_ns: list[int] = Field(description="time of the trigger after the gap")
    cut: bool = Field(description="whether there may be older ones: there are as many as were asked for")


class TriggerRanges(Model):
    """Ranges of triggers: a value a range."""

    trigger: list[int] = Field(description="first trigger")
    time_ns: list[int] = Field(description="time of the first trigger")
    triggers: list[int] = Field(description="how many triggers")


class Missing(Model):
    """Body of `GET /api/v1/groups/{group}/missing`."""

    group: str
    run: int | None = Field(description="of the newest trigger; null when there is none")
    triggers: int = Field(description="how many were looked at")
    end_ns: int | None = Field(description="time of the newest trigger; null when there is none")
    stretches: TriggerRanges
    missing: dict[str, list[int]] = Field(
        description="by the number of an instrument that was missing at all: from how many triggers of each range"
    )
    more: int = Field(description="instruments that were missing, and are left out")
    late: list[int] = Field(
        description="by instrument, or of the one that is asked for: readings that came after their trigger had "
        "closed, since the daemon started"
    )
    heard_s: list[float | None] = Field(
        description="by instrument, or of the one that is asked for: seconds since its last reading; null for never"
    )
