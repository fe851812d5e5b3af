"""The page: what to choose first, then what that follows from."""

from benchmarks.html.document import document
from benchmarks.html.elements import section, tile, tiles, warnings
from benchmarks.html.markup import Markup, tag
from benchmarks.load.workload import INSTRUMENTS
from benchmarks.report.choice import GOAL_HZ, advise, fastest, warn
from benchmarks.report.formatting import between, number, times
from benchmarks.report.html.by_global_tag import conditions_sections
from benchmarks.report.html.conditions import conditions
from benchmarks.report.html.distributions import distributions
from benchmarks.report.html.figures import figures_section
from benchmarks.report.html.latency import latency
from benchmarks.report.html.ways import ways
from benchmarks.report.reader_tables import audiences, governor
from benchmarks.report.run import MeasuredServer, Run
from benchmarks.report.tables import cpu, drains, journal_cost, memory

TITLE = "Which database, and how to write to it"


def page(run: Run, command: str) -> str:
    """Write the whole file. command: what repeats the run, without a password."""
    names = " · ".join(f"{server.name} {server.version}" for server in run.servers.values())
    facts = f"{INSTRUMENTS} instruments a trigger · {names} · {run.cpu}, {run.cores} cores · {run.date}"
    sections = [
        _choice(run),
        ways(run),
        distributions(run),
        latency(run),
        figures_section("When the database is away", journal_cost(run), drains(run), name="outages"),
        figures_section("While others read", governor(run), audiences(run), name="reading"),
        *conditions_sections(run),
        figures_section("What the daemon costs", cpu(run), memory(run), name="cost"),
        conditions(run, command),
    ]
    return document(TITLE, facts, sections, date=run.date, command="triggerlog bench")


def _choice(run: Run) -> Markup:
    sentences = [tag("span", tag("strong", f"{advice.need}. "), f"{advice.text} ") for advice in advise(run)]
    advice = [tag("p", *sentences, class_="advice")] if sentences else []
    found = warnings(f"{warning}." for warning in warn(run))
    return section("Which way to choose for which need", _tiles(run), *advice, found, name="choice")


def _tiles(run: Run) -> Markup:
    return tiles([_tile(run, server) for server in run.servers.values() if run.ways_of(server.backend)])


def _tile(run: Run, server: MeasuredServer) -> Markup:
    best = fastest(run, server.backend)
    if best is None:
        return tile(server.name, "", "nothing measured here is known to be crash safe")
    rate = best.rate.median
    spread = between(best.rate)
    return tile(
        server.name,
        number(rate),
        f"{best.title} ({spread})" if spread else best.title,
        f"{times(rate / GOAL_HZ)} times the goal of {GOAL_HZ:g} Hz, crash safe",
        unit="triggers/s",
    )
