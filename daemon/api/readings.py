"""Routes for readings, for triggers that never came, and for instruments that were missing."""

import asyncio
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter, Depends, Path, Query, Response

from backends.columns.figuring import Figuring
from daemon.api.answers import (
    REFUSAL,
    Calibrated,
    calibrated,
    gaps_answer,
    group_description,
    ledger_answer,
    missing_answer,
    readings_answer,
    reduced_answer,
    trigger_answer,
)
from daemon.api.document import refusals
from daemon.api.parameters import LEAST_NS, Moment, QueryLimit, Times, with_times
from daemon.api.service import ApiService, starting
from daemon.core.outside import monotonic_ns
from daemon.web.errors import ApiError
from schemas.api.readings import Gaps, GroupDescription, GroupNames, LedgerEntry, Missing, OneTrigger, Readings
from schemas.decimation import SECOND_NS
from schemas.queries import (
    Figures,
    InstrumentReadings,
    LedgerRow,
    LedgerRows,
    LedgerTail,
    NewestTrigger,
    SkippedTriggers,
    TriggerReadings,
    answer_dtype,
)
from schemas.readings import Array, InstrumentGroup
from schemas.retention import are_within, overlapping

READINGS_MOST = 500_000
"""Readings asked of the store for one answer; a longer range gets its newest, and the answer says so."""

STEPS_MOST = 100_000
STEP_MOST_S = 366 * 86_400.0

MOST_DIGITS = 20
"""Python refuses to read a number of thousands of digits, which it would be slow at."""

FIVE_MINUTES_NS = 300 * 1_000_000_000

REFUSALS = refusals(
    {
        404: "There is no such group, instrument, run or trigger, or its readings were dropped or reduced.",
        503: "The daemon is starting, the database is away, or too many questions wait.",
    }
)
"""Of a route that asks the database about a group."""

OF_READINGS = {**REFUSALS, **refusals(REFUSAL)}
"""Of one whose answer has readings."""

TriggerNumber = Annotated[int, Path(ge=0, lt=2**62, description="Number of a trigger in its run.")]
RunNumber = Annotated[
    int | None, Query(ge=0, lt=2**31, description="Run of the trigger; the newest that has it if absent.")
]
GroupName = Annotated[str, Path(description="Name of an instrument group.", examples=["bpm"])]


def readings_routes(service: ApiService) -> APIRouter:
    """Groups, newest trigger, readings of an instrument, ledger."""
    routes = APIRouter()
    limit = Depends(QueryLimit())

    @routes.get("/api/v1/groups", tags=["readings"])
    async def groups() -> GroupNames:
        """Names of the instrument groups."""
        return GroupNames(list(service.groups))

    @routes.get("/api/v1/groups/{group}", tags=["readings"], responses=REFUSALS)
    async def describe(group: GroupName) -> GroupDescription:
        """Instruments and channels of a group."""
        return group_description(group_of(service, group, of_triggers=False))

    @routes.get(
        "/api/v1/groups/{group}/newest",
        tags=["readings"],
        dependencies=[limit],
        responses=OF_READINGS,
        response_model=OneTrigger,
    )
    async def newest(
        group: GroupName,
        complete: Annotated[bool, Query(description="Whether instruments may not be missing from it.")] = True,
        times: Times = "ns",
        *,
        asked: Calibrated,
    ) -> Response:
        """The newest complete trigger, or the newest of all: every instrument's channels."""
        of = group_of(service, group)
        query = NewestTrigger(group=of) if complete else await _newest_of_all(service, of)
        found = np.empty(0, answer_dtype(of)) if query is None else await service.store.ask(query)
        if not len(found) and complete and service.pipelines[group].dropped.spans:
            detail = f"no complete trigger of group {of.name} is left: older ones were dropped by retention"
            raise ApiError(404, detail, "ask for the newest of all, with complete=false", field="complete")
        return json_answer(trigger_answer(*await calibrated(service, of, found, asked), time.time_ns()), times)

    @routes.get(
        "/api/v1/groups/{group}/triggers/{trigger}",
        tags=["readings"],
        dependencies=[limit],
        responses=OF_READINGS,
        response_model=OneTrigger,
    )
    async def trigger(
        group: GroupName, trigger: TriggerNumber, run: RunNumber = None, times: Times = "ns", *, asked: Calibrated
    ) -> Response:
        """All readings of one trigger, by instrument; the ledger tells which are missing."""
        of = group_of(service, group)
        row = await _ledger_row(service, of, trigger, run)
        found = await service.store.ask(TriggerReadings(group=of, run=int(row["run"]), trigger=trigger))
        if not len(found) and _is_dropped(service, of, row):
            detail = (
                f"the readings of trigger {trigger} in run {row['run']} of group {of.name} were dropped by retention"
            )
            raise ApiError(
                404, detail, f"ask /api/v1/groups/{of.name}/ledger/{trigger}, which is kept", field="trigger"
            )
        if not len(found) and await _is_decimated(service, of, row):
            detail = f"the readings of trigger {trigger} in run {row['run']} of group {of.name} were reduced"
            fix = f"ask /api/v1/groups/{of.name}/ledger/{trigger}, which is kept"
            raise ApiError(404, detail, fix, field="trigger")
        return json_answer(trigger_answer(*await calibrated(service, of, found, asked), time.time_ns()), times)

    @routes.get(
        "/api/v1/groups/{group}/readings",
        tags=["readings"],
        dependencies=[limit],
        responses=OF_READINGS,
        response_model=Readings,
    )
    async def readings(  # noqa: PLR0917 - each is a parameter of the question
        group: GroupName,
        instrument: Annotated[str, Query(description="Name or number.", examples=["bpm_007", "7"])],
        start_ns: Annotated[
            Moment | None, Query(description="From here on; five minutes before the end if absent.")
        ] = None,
        end_ns: Annotated[Moment | None, Query(description="Up to, without this; now if absent.")] = None,
        points: Annotated[
            int, Query(ge=2, le=100_000, description="At most so many; with three or more a channel, peaks are kept.")
        ] = 1000,
        step_s: Annotated[
            float | None,
            Query(
                gt=0,
                le=STEP_MOST_S,
                description="Step of the figures of what was reduced, in s; if absent the range has `points` of them.",
            ),
        ] = None,
        raw_from_ns: Annotated[
            Moment | None,
            Query(description="Readings only from here on, and figures of the whole range; start_ns if absent."),
        ] = None,
        times: Times = "ns",
        *,
        asked: Calibrated,
    ) -> Response:
        """Readings of one instrument over a time range, thinned to a number of points that a screen can show.

        Of what was reduced there are figures, by step of time.
        """
        of = group_of(service, group)
        number = number_of(of, instrument)
        end = time.time_ns() if end_ns is None else end_ns
        start = max(LEAST_NS, end - FIVE_MINUTES_NS) if start_ns is None else start_ns
        see_in_order(start, end)
        step_ns = _step_ns(start, end, step_s, points)
        raw_from = start if raw_from_ns is None else max(start, raw_from_ns)
        query = InstrumentReadings(group=of, instrument=number, start_ns=raw_from, end_ns=end, most=READINGS_MOST)
        found = await service.store.ask(query)
        # After them: what is reduced meanwhile is there twice, and not neither way.
        decimated = overlapping(await service.decimation.spans_now(group), start, end)
        wanted = Figures(group=of, start_ns=start, end_ns=end, step_ns=step_ns, instrument=number)
        reduced = await _reduced(service, wanted) if decimated else None
        shown, wider, calibration = await calibrated(service, of, found, asked)
        # Thinning half a million points takes tens of milliseconds, in which nothing else would be logged.
        answer = await asyncio.to_thread(
            readings_answer,
            shown,
            number,
            wider,
            calibration,
            points=points,
            is_cut=len(found) == READINGS_MOST,
            dropped=overlapping(service.pipelines[group].dropped.spans, start, end),
            decimated=decimated,
        )
        return json_answer(answer | {"reduced": reduced and with_times(reduced, times)}, times)

    @routes.get(
        "/api/v1/groups/{group}/ledger/{trigger}",
        tags=["readings"],
        dependencies=[limit],
        responses=REFUSALS,
        response_model=LedgerEntry,
    )
    async def ledger(group: GroupName, trigger: TriggerNumber, run: RunNumber = None, times: Times = "ns") -> Response:
        """What the ledger says of one trigger: expected, arrived, late, duplicates, and which were missing."""
        asked = group_of(service, group)
        row = await _ledger_row(service, asked, trigger, run)
        is_dropped, is_decimated = _is_dropped(service, asked, row), await _is_decimated(service, asked, row)
        return json_answer(ledger_answer(asked, row, is_dropped=is_dropped, is_decimated=is_decimated), times)

    return routes


def _step_ns(start_ns: int, end_ns: int, step_s: float | None, points: int) -> int:
    """The step of figures. Raises ApiError: 422 where there are too many of them."""
    if step_s is None:
        return min(-(-(end_ns - start_ns) // points), round(STEP_MOST_S * SECOND_NS))
    step_ns = max(1, round(step_s * SECOND_NS))
    if (end_ns - start_ns) // step_ns > STEPS_MOST:
        detail = f"the range has more than {STEPS_MOST:,} steps of {step_s:g} s"
        raise ApiError(422, detail, "use a longer step, or a shorter range", field="step_s")
    return step_ns


async def _reduced(service: ApiService, wanted: Figures) -> dict[str, Any] | None:
    """What was reduced of a range; None where there are no figures of it."""
    if not isinstance(service.store, Figuring):
        return None
    figures = await service.store.figures(wanted)
    return await asyncio.to_thread(reduced_answer, wanted.group, figures, wanted.step_ns) if len(figures) else None


async def _ledger_row(service: ApiService, group: InstrumentGroup, trigger: int, run: int | None) -> Any:
    """Raises ApiError: 404."""
    found = await service.store.ask(LedgerRow(group=group, trigger=trigger, run=run))
    if not len(found):
        where = "any run" if run is None else f"run {run}"
        raise ApiError(404, f"group {group.name} has no trigger {trigger} in {where}", field="trigger")
    return found[0]


def _is_dropped(service: ApiService, group: InstrumentGroup, row: Any) -> bool:
    return bool(service.pipelines[group.name].dropped.have(np.atleast_1d(row["time_ns"])).any())


async def _is_decimated(service: ApiService, group: InstrumentGroup, row: Any) -> bool:
    return bool(are_within(await service.decimation.spans_now(group.name), np.atleast_1d(row["time_ns"])).any())


async def _newest_of_all(service: ApiService, group: InstrumentGroup) -> TriggerReadings | None:
    rows = await service.store.ask(LedgerTail(group=group, most=1))
    if not len(rows):
        return None
    return TriggerReadings(group=group, run=int(rows["run"][0]), trigger=int(rows["trigger"][0]))


def group_of(service: ApiService, name: str, *, of_triggers: bool = True) -> InstrumentGroup:
    """The group of that name.

    of_triggers: only one that has triggers. Raises ApiError: 404 where there is none, 503 while the daemon starts.
    """
    if name not in service.groups:
        raise ApiError(404, f"there is no group {name!r}", f"name one of {', '.join(service.groups)}", field="group")
    if name not in service.pipelines:
        raise starting()
    group = service.groups[name]
    if of_triggers and group.reports:
        detail = f"group {name} reports on change, into folder {group.folder}, and has no triggers"
        raise ApiError(404, detail, "ask for the folder", field="group")
    return group


def see_in_order(start_ns: int, end_ns: int) -> None:
    """See that a stretch of time is one. Raises ApiError: 422."""
    if start_ns >= end_ns:
        detail = f"start_ns ({start_ns}) is not before end_ns ({end_ns})"
        raise ApiError(422, detail, "give an earlier start_ns, or a later end_ns", field="start_ns")


def number_of(group: InstrumentGroup, instrument: str) -> int:
    """The number of an instrument that is named, or given by it. Raises ApiError: 404."""
    if instrument in group.instruments:
        return group.instruments.index(instrument)
    if instrument.isdecimal() and len(instrument) < MOST_DIGITS and int(instrument) < group.size:
        return int(instrument)
    first, last = group.instruments[0], group.instruments[-1]
    fix = f"name one of {first} ... {last}, or give its number, 0 to {group.size - 1}"
    raise ApiError(404, f"group {group.name} has no instrument {instrument!r}", fix, field="instrument")


def json_answer(content: Mapping[str, Any], times: Literal["ns", "rfc3339"] = "ns") -> Response:
    """Encode arrays as they are; NaN becomes null."""
    return Response(
        orjson.dumps(with_times(content, times), option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json"
    )


GAPS_MOST = 10_000


def gaps_routes(service: ApiService) -> APIRouter:
    """Gaps of a group."""
    routes = APIRouter()
    limit = Depends(QueryLimit())

    @routes.get(
        "/api/v1/groups/{group}/gaps", tags=["readings"], dependencies=[limit], responses=REFUSALS, response_model=Gaps
    )
    async def gaps(
        group: GroupName,
        last: Annotated[int, Query(ge=1, le=GAPS_MOST, description="At most so many gaps, the newest.")] = 100,
        start_ns: Annotated[Moment, Query(description="Only where the trigger after the gap is from here on.")] = -(
            2**63
        ),
        end_ns: Annotated[Moment, Query(description="Only where it is before this.")] = 2**63 - 1,
        times: Times = "ns",
    ) -> Response:
        """Ranges of trigger numbers for which no trigger was closed, with the times before and after them."""
        asked = group_of(service, group)
        see_in_order(start_ns, end_ns)
        rows = await service.store.ask(SkippedTriggers(group=asked, start_ns=start_ns, end_ns=end_ns, most=last))
        before = [await _before(service, asked, rows[rows["run"] == run]) for run in sorted(set(rows["run"].tolist()))]
        return json_answer(gaps_answer(asked, rows, before, is_cut=len(rows) == last), times)

    return routes


async def _before(service: ApiService, group: InstrumentGroup, rows: Array) -> Array:
    """The ledger rows of the triggers before the gaps of one run."""
    triggers = (rows["trigger"] - rows["skipped"] - 1).tolist()
    return await service.store.ask(LedgerRows(group=group, run=int(rows["run"][0]), triggers=tuple(triggers)))


MISSING_MOST = 20_000
"""Triggers looked at: of 120 instruments 2 MB of ledger, which a database on the same machine gives within 100 ms."""


def missing_routes(service: ApiService) -> APIRouter:
    """Missing history of a group."""
    routes = APIRouter()
    limit = Depends(QueryLimit())

    @routes.get(
        "/api/v1/groups/{group}/missing",
        tags=["readings"],
        dependencies=[limit],
        responses=REFUSALS,
        response_model=Missing,
    )
    async def missing(
        group: GroupName,
        last: Annotated[
            int, Query(ge=1, le=MISSING_MOST, description="How many triggers, the newest in the ledger.")
        ] = 1000,
        instrument: Annotated[str | None, Query(description="Only this one, by name or number.")] = None,
    ) -> Response:
        """Which instruments were missing how often, in up to 60 ranges of triggers."""
        asked = group_of(service, group, of_triggers=False)
        only = None if instrument is None else number_of(asked, instrument)
        rows = await service.store.ask(LedgerTail(group=asked, most=last))
        answer = await asyncio.to_thread(missing_answer, asked, rows, only)
        instruments = service.pipelines[group].instruments
        chosen = slice(None) if only is None else slice(only, only + 1)
        answer["late"] = instruments.late()[chosen]
        answer["heard_s"] = np.round(instruments.heard_s(monotonic_ns())[chosen], 2)
        return json_answer(answer)

    return routes
