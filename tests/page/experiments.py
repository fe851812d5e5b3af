"""Experiments that never were, as the daemon would tell of them."""

from functools import cache
from typing import Any

from benchmarks.interference.analysis import analysed
from schemas.api.interference import Experiment, Live, Record, Summary
from schemas.config import Workload
from schemas.states import RunState
from tests.support.interference_records import HISTORY, SCAN, made_record

DOSES = Experiment(workloads=(SCAN, HISTORY), pairs=3, block_s=20.0, doses=(1, 2, 4, 8))
PLAIN = Experiment(workloads=(Workload(name="scan", kind=SCAN.kind, clients=4, period_s=0.0),), pairs=4, block_s=20.0)
UNDER_WAY = "20260102T000000Z"


@cache
def record_of(name: str) -> Record:
    """One of doses, or a plain one where its name ends on `P`, with what follows from it."""
    made = made_record(PLAIN if name.endswith("P") else DOSES)
    made = made.model_copy(update={"id": name, "conditions": made.conditions.model_copy(update={"budget_ms": 18.0})})
    return made.model_copy(update={"result": analysed(made)})


def experiments_told(figures: dict[str, Any], after: int, blocks: int, past: bool) -> dict[str, Any]:
    """Body of `GET /api/v1/interference`."""
    live = None
    if figures["under_way"] is not None:
        made = record_of("20260102T000000Z-P")
        known = made.blocks[: figures["under_way"]]
        samples = [sample for sample in made.timeline if sample.t_s <= 20.0 * len(known) + 8.0]
        live = Live(
            id=UNDER_WAY,
            settings=made.settings,
            planned=made.planned,
            budget_ms=18.0,
            blocks=known[blocks:],
            samples=samples[after:],
            next=len(samples),
        )
    return {
        "running": figures["experiment"],
        "live": live and live.model_dump(mode="json"),
        "past": [_summary(record_of(name)).model_dump(mode="json") for name in figures["past"]] if past else [],
    }


def _summary(record: Record) -> Summary:
    result = record.result
    assert result is not None
    ratios = {row.figure: row.b_to_a for row in result.rows}
    return Summary(
        id=record.id,
        began_ns=record.began_ns,
        state=RunState.FINISHED,
        problem=None,
        readers="4 scan, 2 history",
        pairs=record.settings.pairs,
        block_s=record.settings.block_s,
        doses=list(record.settings.doses),
        blocks=len(record.blocks),
        p99=ratios["p99_ms"],
        rate=ratios["rate"],
        steady=result.steady,
        headline=result.headline,
        report=True,
    )
