"""Calibrated values in answers about readings: what is asked for, and what is added."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query

from daemon.api.service import ApiService
from daemon.calibration.current import CalibratedTooLate
from daemon.calibration.payloads import NotCalibrated
from daemon.web.errors import ApiError
from schemas.conditions.intervals import NAME_MOST
from schemas.readings import Array, InstrumentGroup

REFUSAL = {409: "Calibrated values are asked for, and there is no calibration, or it cannot be used."}


@dataclass(frozen=True, kw_only=True)
class Calibrating:
    """Whether values are calibrated; tag: by which global tag, where not by the configured one."""

    is_wanted: bool
    tag: str | None


def _asked(
    *,
    calibrated: Annotated[
        bool,
        Query(
            description="Whether x_mm and y_mm are added to the channels, by the calibrations that `conditions.tag` "
            "has valid at each reading; `calibration` of the answer names them."
        ),
    ] = False,
    tag: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=NAME_MOST,
            description="Of `calibrated`: another global tag than `conditions.tag`.",
            examples=["summer_2026"],
        ),
    ] = None,
) -> Calibrating:
    if tag is not None and not calibrated:
        raise ApiError(422, "it says by which tag values are calibrated", "give calibrated=true, too", field="tag")
    return Calibrating(is_wanted=calibrated, tag=tag)


Calibrated = Annotated[Calibrating, Depends(_asked)]


async def calibrated(
    service: ApiService, group: InstrumentGroup, readings: Array, asked: Calibrating
) -> tuple[InstrumentGroup, Array, dict[str, Any] | None]:
    """The group with the channels of the answer, readings with their values, and `Calibration` where it is asked for.

    Raises:
        ApiError: 409 where there is no calibration, or it cannot be used; 503 where it takes too long.
        StoreUnavailable: the database does not answer.
    """
    if not asked.is_wanted:
        return group, readings, None
    try:
        used, wider = await service.calibrations.calibrate(group.name, readings, asked.tag)
    except NotCalibrated as error:
        status = 503 if isinstance(error, CalibratedTooLate) else 409
        raise ApiError(status, f"not calibrated: {error.problem}", error.fix, field=error.field) from None
    return used.group, wider, used.as_json()
