"""What the figures were measured on, how, and what repeats them."""

from benchmarks.html.elements import card, definitions, repeated_by, section, settings_card
from benchmarks.html.markup import Markup, tag
from benchmarks.load.workload import CHANNELS, INSTRUMENTS
from benchmarks.report.run import MeasuredServer, Run
from benchmarks.report.tables import facts
from schemas.batch import Durability

HOW = (
    f"A trigger is {INSTRUMENTS} instruments with {len(CHANNELS)} random float64 values each, committed as one. "
    "All ways take turns, round by round, in fresh tables and after a warm-up, so that whatever else the machine does "
    "meets them alike. Figures are medians over the rounds with their quartiles (of fewer than five rounds, the least "
    "and the most), and after every round of the daemon the database is compared with what was sent, value by value."
)


def conditions(run: Run, command: str) -> Markup:
    """Machine, servers, settings, and the command."""
    return section(
        "How and on what it was measured",
        card(definitions(facts(run)), repeated_by(command)),
        tag("div", *map(_server, run.servers.values()), class_="curves"),
        name="conditions",
        note=HOW,
    )


def _server(server: MeasuredServer) -> Markup:
    where = "a server of its own, for this run" if server.own else server.target
    durability = [(f"Durability {each}", server.durability[each]) for each in Durability if server.durability.get(each)]
    heading = f"{server.name} {server.version}"
    return settings_card(heading, server.settings.items(), ("Where", where), *durability)
