"""Conditions in the page of the report: findings, figures, and the plans of the statements."""

from benchmarks.conditions.strategies import STRATEGIES
from benchmarks.html.elements import card, section
from benchmarks.html.markup import Markup, join, tag
from benchmarks.html.table import NOTHING, Column, table
from benchmarks.report.conditions.findings import findings
from benchmarks.report.conditions.tables import condition_tables
from benchmarks.report.html.figures import figures_section
from benchmarks.report.run import Run
from benchmarks.report.verdict import Verdict

NOTE = (
    "Conditions by global tag, as in the paper on the reference conditions database of HSF. Ratios are of rounds that "
    "took turns, with 95 % intervals. Slower, faster and flat count only when the whole interval says so; flat is a "
    "ratio between 0.9 and 1.11."
)


def conditions_sections(run: Run) -> list[Markup]:
    """The sections; none where conditions were not measured."""
    if not run.conditions:
        return []
    return [
        _findings(run),
        figures_section("Conditions", *condition_tables(run), name="conditions-figures"),
        _plans(run),
    ]


def _findings(run: Run) -> Markup:
    styles = {Verdict.REPRODUCED: "yes", Verdict.REFUTED: "no"}
    rows = [
        (
            "",
            [
                each.claim,
                each.paper or NOTHING,
                tag("span", each.verdict, class_=styles.get(each.verdict, "soft")),
                each.measured,
            ],
        )
        for each in findings(run)
    ]
    columns = (Column("The paper found"), Column("There"), Column("Here"), Column("Measured", style="wide"))
    if not rows:
        return Markup()
    return section(
        "Conditions: the paper’s findings", card(table("Findings", columns, rows)), name="findings", note=NOTE
    )


def _plans(run: Run) -> Markup:
    """Those of the largest scenario."""
    planned = [each for each in run.conditions if each.query_plan]
    shown = [each for each in planned if each.scenario == planned[-1].scenario]
    if not shown:
        return Markup()
    parts = [
        tag(
            "details",
            tag("summary", STRATEGIES[each.way].title),
            tag("pre", tag("code", STRATEGIES[each.way].statement or "")),
            tag("pre", tag("code", each.query_plan)),
        )
        for each in shown
    ]
    note = f"EXPLAIN (ANALYZE, BUFFERS) of one key in {shown[0].scenario}, below each statement."
    return section("Conditions: query plans", card(join(parts)), name="plans", note=note)
