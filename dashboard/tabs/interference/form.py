"""The form that starts an experiment: sets of fields for the workloads that read, and the blocks."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dash_mantine_components as dmc
from dash import ALL, MATCH, Dash, Input, Output, Patch, State, ctx, html, no_update

from dashboard.feed.hub import Hub
from dashboard.tabs.forms import (
    EVERY,
    Field,
    box_id,
    checked,
    does_not_take,
    elsewhere,
    errors,
    field_id,
    fields,
    form,
    group_options,
    inputs,
    suggested,
    taken,
    without,
    words_of,
    workload_fields,
)
from dashboard.tabs.interference.rows import lasts
from dashboard.tabs.orders import REMEMBERED, Order, Orders, say
from dashboard.tabs.parts import aria, chosen, panel_head, pressed_of, tick
from schemas.api.interference import Experiment
from schemas.api.status import Status
from schemas.checking.fields import keys
from schemas.config.workloads import Workload, WorkloadKind

READ = "experiment-workload"
"""The name of the forms of the workloads, each with a number of its own."""
FIRST = (WorkloadKind.SCAN, WorkloadKind.HISTORY)
MOST = next(limit.max_length for limit in keys(Experiment)["workloads"].metadata if hasattr(limit, "max_length"))
DOSES = "name numbers of clients, separated by commas, such as 1, 2, 4, 8"
BLOCKS = [
    *fields(("pairs", "Pairs of blocks"), ("block_s", "Block length, s"), ("warm_up_s", "Warm-up, s")),
    Field(name="doses", label="Doses (clients)", value="", hint="e.g. 1, 2, 4, 8; empty: clients as above"),
]

Ids = Sequence[Mapping[str, Any]]


def form_section() -> Any:
    """The panel with the form."""
    governed = dmc.Checkbox(
        id="experiment-governed",
        size="sm",
        label="run it although the governor is on, which may admit fewer readers than a block asks for",
    )
    return html.Section(
        [
            tick("experiment-form-tick", "head", "governor"),
            panel_head("Start an experiment", "experiment-lasts"),
            html.Div(
                [
                    html.Div(
                        [workload_set(number, kind) for number, kind in enumerate(FIRST)],
                        id="experiment-workloads",
                        className="stack workloads",
                    ),
                    html.Button("Add a workload", id="experiment-add", className="plain", type="button"),
                    html.Div(governed, id="experiment-governed-box", hidden=True),
                    form("experiment", Experiment, BLOCKS, "Start the experiment"),
                ],
                className="order",
            ),
        ],
        className="panel",
        **aria("Start an experiment"),
    )


def workload_set(number: int, kind: WorkloadKind, status: Status | None = None, *, has_focus: bool = False) -> Any:
    """The fields of one workload, with what is suggested for its kind. number: given to no other set of the form."""
    first, *others = workload_fields(kind, status, in_experiment=True)
    offered = [replace(first, has_focus=has_focus), *others]
    return html.Fieldset(
        [
            html.Legend(words_of(kind), id={"legend": READ, "set": number}),
            html.Div(inputs(READ, Workload, offered, number), className="fields"),
            html.Button("Remove", id={"remove": number}, className="plain", type="button"),
        ],
        className="workload",
    )


def asked(blocks: Mapping[str, Any], sets: Sequence[Mapping[str, Any]], status: Status | None) -> dict[str, Any]:
    """What is asked of an experiment.

    blocks, sets: what was filled in, by field; what a kind does not take is left out.
    """
    named: Counter[str] = Counter()
    workloads = []
    for given in sets:
        kind = WorkloadKind(given["kind"])
        named[kind] += 1
        kept = without(given, does_not_take(kind, status))
        workloads.append(kept | {"name": kind.value if named[kind] == 1 else f"{kind.value}_{named[kind]}"})
    return {**blocks, "workloads": workloads, "doses": doses_of(blocks.get("doses"))}


def doses_of(text: str | None) -> list[int]:
    """The numbers in `1, 2, 4`."""
    return [int(one) for one in re.findall(r"\d+", text or "")]


def problems_of(blocks: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with what is asked, by field; of a workload by `workloads[PLACE].FIELD`."""
    wrong = checked(Experiment, given)[1]
    found = {("doses" if name.startswith("doses") else name): words for name, words in wrong.items()}
    is_list = re.fullmatch(r"[\d,\s]*", blocks.get("doses") or "")
    return found if is_list else found | {"doses": DOSES}


def by_set(values: Sequence[Any], ids: Ids) -> list[dict[str, Any]]:
    """What was filled in of each set, in their order on the page."""
    numbers = list(dict.fromkeys(named["set"] for named in ids))
    pairs = list(zip(values, ids, strict=True))
    chosen = [[pair for pair in pairs if pair[1]["set"] == number] for number in numbers]
    return [taken([value for value, _ in part], [named for _, named in part]) for part in chosen]


def set_errors(ids: Ids, wrong: Mapping[str, str]) -> list[str | None]:
    """The `error` of each input of all sets."""
    places = {number: place for place, number in enumerate(dict.fromkeys(named["set"] for named in ids))}
    return [wrong.get(f"workloads[{places[named['set']]}].{named['field']}") for named in ids]


def form_callbacks(app: Dash, hub: Hub, orders: Orders) -> None:
    """Register what the form does."""
    _sets(app, hub)
    _choices(app, hub)
    _send(app, hub, orders)


def _sets(app: Dash, hub: Hub) -> None:
    @app.callback(
        Output("experiment-workloads", "children"),
        Input("experiment-add", "n_clicks"),
        Input({"remove": ALL}, "n_clicks"),
        State({"remove": ALL}, "id"),
        prevent_initial_call=True,
    )
    async def change(_: int | None, __: Any, ids: list[dict[str, int]]) -> Any:
        """Add a set or take one out; what is typed in the others stays with them."""
        numbers = [named["remove"] for named in ids]
        sets = Patch()
        if ctx.triggered_id == "experiment-add":
            if len(numbers) >= MOST:
                return no_update
            sets.append(workload_set(max(numbers) + 1, WorkloadKind.SCAN, hub.status, has_focus=True))
            return sets
        number = pressed_of("remove")
        if number is None or len(numbers) < 2:
            return no_update
        del sets[numbers.index(number)]
        return sets

    every = field_id(READ, EVERY, MATCH)

    @app.callback(
        Output({"legend": READ, "set": MATCH}, "children"),
        Output(every, "value"),
        Output(box_id(READ, EVERY, MATCH), "hidden"),
        Input(field_id(READ, "kind", MATCH), "value"),
        State(every, "id"),
        prevent_initial_call=True,
    )
    async def follow(kind: str, ids: list[dict[str, Any]]) -> Any:
        chosen = WorkloadKind(kind)
        unused = does_not_take(chosen, hub.status)
        values = suggested(chosen, ids, in_experiment=True)
        return words_of(chosen), values, [named["field"] in unused for named in ids]


def _choices(app: Dash, hub: Hub) -> None:
    group = field_id(READ, "group", ALL)

    @app.callback(
        Output(group, "data"),
        Output(group, "value", allow_duplicate=True),
        Output(box_id(READ, "group", ALL), "hidden", allow_duplicate=True),
        Output("experiment-governed-box", "hidden"),
        Input("experiment-form-tick", "data"),
        State(group, "value"),
        State(field_id(READ, "kind", ALL), "value"),
        prevent_initial_call=True,
    )
    async def offer(_: Any, chosen: list[str | None], kinds: list[str]) -> Any:
        options, first = group_options(hub.status)
        names = [option["value"] for option in options]
        governor = None if hub.status is None else hub.status.governor
        return (
            [options] * len(kinds),
            [one if one in names else first for one in chosen],
            ["group" in does_not_take(WorkloadKind(kind), hub.status) for kind in kinds],
            governor is None or governor.state == "off",
        )

    @app.callback(
        Output("experiment-lasts", "children"),
        *[Input(field_id("experiment", name), "value") for name in ("pairs", "block_s", "doses")],
    )
    async def tell(pairs: Any, block_s: Any, doses: str) -> str:
        return lasts(pairs, block_s, len(doses_of(doses)))


def _send(app: Dash, hub: Hub, orders: Orders) -> None:
    every, workloads = field_id("experiment", EVERY), field_id(READ, EVERY, ALL)

    @app.callback(
        output=(Output(every, "error"), Output(workloads, "error")),
        inputs={"_": Input("experiment-send", "n_clicks")},
        state={
            "filled": (State(every, "value"), State(every, "id")),
            "read": (State(workloads, "value"), State(workloads, "id")),
            "governed": (State("experiment-governed", "checked"), State("experiment-governed-box", "hidden")),
            "seen": State("experiment-tick", "data"),
            "token": State(REMEMBERED, "data"),
        },
        running=[(Output("experiment-send", "disabled"), True, False)],
        prevent_initial_call=True,
    )
    async def start(*, _: int, filled: Any, read: Any, governed: Any, seen: Any, token: str | None) -> Any:
        (values, ids), (read_values, read_ids) = filled, read
        blocks = taken(values, ids)
        given = asked(blocks, by_set(read_values, read_ids), hub.status)
        is_governed, is_free = governed
        given |= {} if is_free else {"governed": bool(is_governed)}
        wrong = problems_of(blocks, given)
        at_sets = set_errors(read_ids, wrong)
        left = {name: words for name, words in wrong.items() if words not in at_sets}
        say("experiment-outcome", elsewhere(ids, left), is_wrong=True)
        if not wrong:
            await orders.give(order_of(given, seen), token)
        return errors(ids, wrong), at_sets


def order_of(given: dict[str, Any], seen: Mapping[str, Any] | None) -> Order:
    """The order to start it; where the address names another experiment, that is left once it was accepted."""
    is_another_shown = bool(seen and seen["view"]["experiment"])
    return Order(
        method="POST",
        path="/interference",
        body=given,
        what="Start an interference experiment",
        done="The experiment was started; it is shown above.",
        outcome="experiment-outcome",
        then=[chosen(experiment=None)] if is_another_shown else (),
    )
