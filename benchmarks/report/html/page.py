"""The page: what to choose first, then what that follows from."""

from importlib.resources import files

from benchmarks.load.workload import INSTRUMENTS
from benchmarks.report.choice import GOAL_HZ, advise, fastest, warn
from benchmarks.report.html.conditions import conditions, cost
from benchmarks.report.html.distributions import distributions
from benchmarks.report.html.latency import latency
from benchmarks.report.html.markup import Markup, raw, tag
from benchmarks.report.html.outages import outages
from benchmarks.report.html.reading import reading
from benchmarks.report.html.ways import ways
from benchmarks.report.measured import MeasuredServer, Run
from benchmarks.report.wording import between, number, times

TITLE = "Which database, and how to write to it"


def page(run: Run, command: str) -> str:
    """Write the whole file. command: what repeats the run, without a password."""
    head = tag(
        "head",
        raw('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        raw('<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'),
        tag("title", f"{TITLE}: measured {run.date}"),
        tag("style", raw(files("benchmarks.report.html").joinpath("page.css").read_text(encoding="utf-8"))),
    )
    body = tag(
        "body",
        _header(run),
        tag(
            "main",
            _choice(run),
            ways(run),
            distributions(run),
            latency(run),
            outages(run),
            reading(run),
            cost(run),
            conditions(run, command),
        ),
        tag("footer", "triggerlog bench · one file, no script, nothing from outside"),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(run: Run) -> Markup:
    names = " · ".join(f"{server.name} {server.version}" for server in run.servers.values())
    facts = f"{INSTRUMENTS} instruments a trigger · {names} · {run.cpu}, {run.cores} cores · {run.date}"
    return tag("header", tag("h1", TITLE), tag("p", facts, class_="soft"))


def _measures(run: Run) -> tuple[Markup, ...]:
    return ways(run), distributions(run), latency(run), outages(run), reading(run), cost(run)


def _choice(run: Run) -> Markup:
    sentences = [tag("span", tag("strong", f"{advice.need}. "), f"{advice.text} ") for advice in advise(run)]
    advice = [tag("p", *sentences, class_="advice")] if sentences else []
    warnings = [tag("li", warning + ".") for warning in warn(run)]
    noted = [tag("ul", *warnings, class_="warnings", aria_label="Warnings")] if warnings else []
    return tag(
        "section",
        tag("h2", "Which way to choose for which need"),
        _tiles(run),
        *advice,
        *noted,
        id="choice",
    )


def _tiles(run: Run) -> Markup:
    tiles = [_tile(run, server) for server in run.servers.values() if run.ways_of(server.backend)]
    return tag("div", *tiles, class_="tiles") if tiles else Markup()


def _tile(run: Run, server: MeasuredServer) -> Markup:
    best = fastest(run, server.backend)
    if best is None:
        unknown = tag("p", "nothing measured here is known to be crash safe")
        return tag("div", tag("h3", server.name), unknown, class_="card tile")
    rate = best.rate.median
    spread = between(best.rate)
    return tag(
        "div",
        tag("h3", server.name),
        tag("p", tag("b", number(rate)), " triggers/s", class_="big"),
        tag("p", best.title, f" ({spread})" if spread else "", class_="soft"),
        tag("p", f"{times(rate / GOAL_HZ)} times the goal of {GOAL_HZ:g} Hz, crash safe", class_="soft"),
        class_="card tile",
    )
