"""One made-up record of each benchmark with all that it can hold, for tests of what its report shows."""

from functools import cache
from typing import Any

import numpy as np

from benchmarks.folders import plan as folders_plan
from benchmarks.folders.plan import Counted, Writing
from benchmarks.folders.plan import Record as FoldersRecord
from benchmarks.interference.analysis import analysed
from benchmarks.tiers import plan as tiers_plan
from benchmarks.tiers.plan import Disk, Searched, Size
from benchmarks.tiers.plan import Record as TiersRecord
from benchmarks.visits.plan import Check, Comparison
from schemas.api.interference import Experiment, Record
from schemas.api.visits import Compaction, VisitsRun
from schemas.config.visits import VisitsConfig
from schemas.states import RunState
from tests.benchmarks.conditions.test_report import everything
from tests.benchmarks.folders import test_folders as folders
from tests.benchmarks.report.test_reader_tables import BLOCKS, PAGES
from tests.benchmarks.tiers import test_tiers as tiers
from tests.benchmarks.visits.test_visits import seconds
from tests.support.interference_records import HISTORY, SCAN, made_record
from tests.support.kept_run import LATENCIES, LOADS, MEMORY, MONGODB, MYSQL, POSTGRESQL, kept
from tests.support.visit_records import made_comparison, made_run, visit_of


def journal(layout: str, *, with_journal: bool, rate: float) -> dict[str, Any]:
    extra = {"layout": layout, "with_journal": with_journal}
    return {"group": "journal", "extra_info": extra, "stats": {"data": [1 / rate, 1.1 / rate, 0.97 / rate]}}


def drain(layout: str) -> dict[str, Any]:
    extra = {"layout": layout, "live_rate": 1000.0, "outage_s": 20.0, "triggers waiting": [20_500.0, 20_900.0]}
    extra |= {"seconds to first commit": [0.31, 0.43], "seconds of drain": [3.7, 4.1]}
    extra |= {"live triggers a second meanwhile": [998.0, 1001.0]}
    return {"group": "drain", "extra_info": extra, "stats": {"data": [1 / 6120, 1 / 5730]}}


@cache
def bench() -> dict[str, Any]:
    """The JSON of a run that measured everything."""
    outages = [
        journal("rows", with_journal=True, rate=8700.0),
        journal("rows", with_journal=False, rate=9700.0),
        drain("rows"),
    ]
    measured = [*POSTGRESQL, *MYSQL, *MONGODB, *LATENCIES, *LOADS, MEMORY]
    return kept([*measured, *outages, *BLOCKS, *PAGES, *everything()])


@cache
def interference() -> Record:
    """An experiment with doses that was stopped before its end."""
    made = made_record(Experiment(workloads=(SCAN, HISTORY), doses=(1, 2, 4, 8), pairs=3), noise=0.01)
    made = made.model_copy(update={"state": RunState.STOPPED, "problem": "Ctrl-C", "notes": ["One <note> of 17."]})
    return made.model_copy(update={"result": analysed(made)})


@cache
def plain_interference() -> Record:
    made = made_record(Experiment(workloads=(SCAN,), pairs=5))
    return made.model_copy(update={"result": analysed(made)})


@cache
def visits() -> VisitsRun:
    settings = VisitsConfig.model_validate({"survey": {"scale": 0.02}, "visits": 200, "limit_s": 0.15})
    random = np.random.default_rng(1)
    parts = [{"select_source_s": 0.02 + 0.001 * visit + 0.001 * random.random()} for visit in range(200)]
    run = made_run(settings, [visit_of(settings, visit, each) for visit, each in enumerate(parts)])
    sizes = {"packs_before": 900, "packs": 300, "records_before": 5_000, "records": 5_000}
    done = [
        Compaction(table="DIASource", period=period, after_visit=16 * period, compact_s=0.5, **sizes)
        for period in range(4)
    ]
    return run.model_copy(update={"compactions": tuple(done), "problem": "the server ended after 200 visits"})


@cache
def comparison() -> Comparison:
    made = made_comparison(seconds, compact_s=0.02)
    checks = (Check(passed=True, result="240 visits wrote alike."), Check(passed=False, result="7 rows are missing."))
    return made.model_copy(update={"checks": checks, "notes": ("Nothing was left out of 31 conditions.",)})


@cache
def tiered() -> TiersRecord:
    plan = tiers_plan
    blog = [*tiers.asked(plan.ALL, 90, 210, 178), *tiers.asked(plan.WHOLE, 6, 100, 50)]
    searched = ((plan.FILTER, 18.7), (plan.PEAKS, 0.8), (plan.RANGE, 0.035))
    sizes = (("rows", 93_000), ("arrays", 33_000), ("figures", 370))
    return tiers.record_of(
        disks=[Disk(part=plan.QUERIES, kind="a disk", iops=68, mb_per_s=141, fast_iops=5986, fast_mb_per_s=431)],
        asked=[*blog, *tiers.asked(plan.HOT, 5, 80, 4)],
        moved=[tiers.moved(plan.INSERT_DELETE, lost=1590, committed=60_270, pages_after=212), tiers.moved(plan.OURS)],
        blocks=[tiers.block(k, 10.0 * 1.02**k * (1.3 if k % 2 else 1.0)) for k in range(7)],
        planned=[tiers.planned("everything", 1.5), tiers.planned("window", 1.07, periods=100)],
        sizes=[Size(layout=name, readings=1000, data=each, indexes=10, ledger=130) for name, each in sizes],
        searched=[Searched(way=way, spectra=270_000, hits=71, seconds=(each, 1.1 * each)) for way, each in searched],
        notes=("The slow disk is a library, of 90 lines.",),
    )


@cache
def foldered() -> FoldersRecord:
    plan, measured = folders_plan, folders.measured
    cliffs = {"window": (0, 0, 0), "channel-max": (0, 517, 913), "lateral": (0, 0, 444), "channel-lateral": (3, 0, 600)}
    runs = [folders._with_cliff(measured(plan.CLIFF, name), folders.points(*reads)) for name, reads in cliffs.items()]
    runs += [measured(plan.COLD, name) for name in ("lateral", "channel-lateral", "window", "channel-max")]
    runs += [measured(plan.PAYLOAD, name) for name in ("random", "constant")]
    runs.append(folders._with_cliff(measured(plan.EFFICIENCY, "window", [True] * 4), folders.points(0, 0)))
    runs.append(
        folders._with_cliff(measured(plan.EFFICIENCY, "channel-max", [True, False, False, False]), folders.points(0, 9))
    )
    chunks = {"channel-max 5 s": False, "channel-max 60 s": True, "channel-max control": True}
    chunks |= {"window 5 s": True, "window changes": True}
    runs += [measured(plan.CHUNKS, name, [in_time] * 4) for name, in_time in chunks.items()]
    counted = {
        (plan.PAYLOAD, "random", "wire"): 2.1e6,
        (plan.PAYLOAD, "constant", "wire"): 2.3e6,
        (plan.PAYLOAD, "random", "disk"): 9e6,
        (plan.PAYLOAD, "constant", "disk"): 1.2e6,
        (plan.COLD, "lateral", "blocks"): 163.0,
        (plan.COLD, "channel-lateral", "blocks"): 1017.0,
        (plan.COLD, "window", "blocks"): 158.0,
    }
    made = folders.record_of(
        *runs,
        counted=tuple(
            Counted(part=part, backend="postgresql", name=name, what=what, value=value)
            for (part, name, what), value in counted.items()
        ),
    )
    writing = tuple(
        Writing(backend="postgresql", name=name, round=0, rate=rate, p50_ms=3.1, p99_ms=p99, efficiency=efficiency)
        for name, rate, p99, efficiency in (("alone", 99.9, 7.3, None), ("with window", 99.7, 11.9, 0.987))
    )
    return made.model_copy(update={"writing": writing, "notes": ("One part of 6 was cut short.",)})
