"""Calibrations of beam position monitors with four buttons, and the position that follows from the buttons.

`BpmPayload` is the content of a payload of kind `bpm`; `table_of` lays it out for a group of instruments, and
`positions` computes with it. Without a calibration, `UNCALIBRATED` gives the position as a display of raw signals does.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import FailFast, Field, ValidationError, model_validator

from schemas.checking.fields import Section
from schemas.checking.problems import JSON_VALUES, Problem, has_too_many_values, problems, refuse, wrong
from schemas.readings import MAX_INSTRUMENTS, Array, Channel, InstrumentGroup

KIND = "bpm"
"""The kind of these payloads, and the payload type that a list of them has where none is configured."""
BUTTONS = ("top_in", "bot_in", "bot_out", "top_out")
"""Channels of a beam position monitor that gives its four buttons: at the top or the bottom, on the inner or the outer
side of the machine."""

X_MM, Y_MM = 20.0, 10.0
"""Scales of the display of CESR's beam position monitors, in mm: x = 20 (in - out) / sum, y = 10 (top - bot) / sum,
where in, out, top and bot are the two buttons of that side added."""

POSITION = (Channel(name="x_mm", unit="mm", dtype="float64"), Channel(name="y_mm", unit="mm", dtype="float64"))
"""What a calibration adds to a reading."""

BPM_DTYPE = np.dtype(
    [
        *((f"gain_{button}", "<f8") for button in BUTTONS),
        *((name, "<f8") for name in ("x0_mm", "y0_mm", "rotation_rad", "k_x_mm", "k_y_mm")),
    ]
)
"""The calibration of one instrument, with the names and units of `BpmInstrument`; all NaN where there is none."""

UNCALIBRATED = np.array((1, 1, 1, 1, 0, 0, 0, X_MM, Y_MM), BPM_DTYPE)
"""Unit gains, no offset, no rotation, the scales of the display: BPM_DTYPE, shape ()."""


class By(StrEnum):
    """What the keys of the intervals are."""

    TRIGGER = "trigger"  # (run, trigger)
    TIME = "time"  # (0, the reading's own time in ns since 1970-01-01 UTC)


class BpmInstrument(Section):
    """The calibration of one instrument."""

    instrument: str = Field(min_length=1, description="Name of the instrument.")
    gain_top_in: float = Field(gt=0, description="Factor of the channel top_in.")
    gain_bot_in: float = Field(gt=0, description="Factor of the channel bot_in.")
    gain_bot_out: float = Field(gt=0, description="Factor of the channel bot_out.")
    gain_top_out: float = Field(gt=0, description="Factor of the channel top_out.")
    x0_mm: float = Field(default=0.0, description="Horizontal offset of the monitor, mm.")
    y0_mm: float = Field(default=0.0, description="Vertical offset of the monitor, mm.")
    rotation_rad: float = Field(default=0.0, ge=-math.pi, le=math.pi, description="Rotation of the monitor, rad.")
    k_x_mm: float = Field(default=X_MM, gt=0, description="Horizontal scale, mm.")
    k_y_mm: float = Field(default=Y_MM, gt=0, description="Vertical scale, mm.")


class BpmPayload(Section):
    """Calibrations of instruments, each of them once."""

    kind: Literal["bpm"] = Field(description="What is calibrated: `bpm`.")
    # One problem is named: of a list of rubbish all would take a thousand times its memory.
    instruments: Annotated[tuple[BpmInstrument, ...], FailFast()] = Field(
        min_length=1, max_length=MAX_INSTRUMENTS, description="The instruments."
    )

    @model_validator(mode="after")
    def _names_each_once(self) -> "BpmPayload":
        count = Counter(each.instrument for each in self.instruments)
        refuse(
            wrong(f"it has {name!r} {times} times", "give each instrument once", "instruments")
            for name, times in count.items()
            if times > 1
        )
        return self


class PayloadRefused(Exception):
    """The content of a payload cannot be used; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def bpm_payload(content: bytes) -> BpmPayload:
    """Read a payload that is JSON: `{"kind": "bpm", "instruments": [{"instrument": ..., "gain_top_in": ...}]}`.

    Raises:
        PayloadRefused: it is no such JSON; the first problem is named.
    """
    if has_too_many_values(content):
        fix = "give the calibrations of this group alone"
        raise PayloadRefused(Problem(field="(file)", problem=f"it has more than {JSON_VALUES:,} values", fix=fix))
    with _first_problem():
        return BpmPayload.model_validate_json(content, strict=True)


def bpm_payload_of_rows(rows: Sequence[Mapping[str, Any]]) -> BpmPayload:
    """Read a payload that is a table with the fields of `BpmInstrument` as columns.

    Raises:
        PayloadRefused: a column or a value is not as it should be; the first problem is named.
    """
    with _first_problem():
        return BpmPayload.model_validate({"kind": KIND, "instruments": tuple(rows)}, strict=True)


@contextmanager
def _first_problem() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        found = error.errors(include_url=False)
        if found[0]["type"] == "json_invalid":
            first = Problem(
                field="(file)",
                problem=f"it is neither JSON nor Parquet ({found[0]['ctx']['error']})",
                fix="write it as docs/calibrations.md shows",
            )
        else:
            first = problems(BpmPayload, found)[0]
        raise PayloadRefused(first) from None


def table_of(payload: BpmPayload, group: InstrumentGroup) -> Array:
    """Lay calibrations out by the numbers of a group's instruments.

    Returns:
        BPM_DTYPE, shape (group.size); NaN for an instrument that the payload does not have.

    Raises:
        PayloadRefused: the payload has none of the group's instruments.
    """
    found = {each.instrument: each for each in payload.instruments}
    table = np.full(group.size, np.nan).astype(BPM_DTYPE)
    places = [place for place, name in enumerate(group.instruments) if name in found]
    if not places:
        raise PayloadRefused(
            wrong(
                f"it has none of the instruments of group {group.name}",
                "give the calibrations of this group",
                "instruments",
            )
        )
    rows = (found[group.instruments[place]] for place in places)
    table[places] = [tuple(getattr(row, name) for name in BPM_DTYPE.names or ()) for row in rows]
    return table


def has_buttons(channels: Iterable[str]) -> bool:
    """Whether channels give the four buttons of a beam position monitor."""
    return set(BUTTONS) <= set(channels)


def can_be_calibrated(channels: Collection[str]) -> bool:
    """Whether positions can be added to readings with these channels."""
    return has_buttons(channels) and not {each.name for each in POSITION} & set(channels)


def positions(
    top_in: Array, bot_in: Array, bot_out: Array, top_out: Array, calibrations: Array = UNCALIBRATED
) -> tuple[Array, Array]:
    """The position of the beam in mm of the values of the four buttons.

    With the buttons times their gains, x' = k_x (in - out) / sum and y' = k_y (top - bot) / sum are the position along
    the axes of the monitor. The position of the beam is (x' - x0, y' - y0), turned by the rotation, which counts from
    the x axis to the y axis.

    Args:
        top_in: numbers, shape (n).
        bot_in: numbers, shape (n).
        bot_out: numbers, shape (n).
        top_out: numbers, shape (n).
        calibrations: BPM_DTYPE, shape (n) or ().

    Returns:
        x and y, float64, shape (n): NaN where the sum is 0, or the calibration or a value is NaN.
    """
    buttons = {"top_in": top_in, "bot_in": bot_in, "bot_out": bot_out, "top_out": top_out}
    with np.errstate(invalid="ignore", over="ignore"):
        top_in, bot_in, bot_out, top_out = (
            np.asarray(values, np.float64) * calibrations[f"gain_{button}"] for button, values in buttons.items()
        )
        total = top_in + bot_in + bot_out + top_out
        total = np.where(total == 0, np.nan, total)
        x = calibrations["k_x_mm"] * (top_in + bot_in - bot_out - top_out) / total - calibrations["x0_mm"]
        y = calibrations["k_y_mm"] * (top_in + top_out - bot_in - bot_out) / total - calibrations["y0_mm"]
        cos, sin = np.cos(calibrations["rotation_rad"]), np.sin(calibrations["rotation_rad"])
        return cos * x - sin * y, sin * x + cos * y
