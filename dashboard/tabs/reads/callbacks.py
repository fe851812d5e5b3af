"""What the tab Reads draws each second, and what a person orders there."""

from typing import Any

from dash import Dash, Input, Output, State, no_update

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.forms import EVERY, box_id, checked, field_id, without
from dashboard.tabs.orders import REMEMBERED, Order, Orders
from dashboard.tabs.reads.rows import CEILINGS, ceilings, governor_words, running, workload_rows
from dashboard.tabs.reads.snapshots import callbacks as snapshots
from dashboard.tabs.tables import pressed
from dashboard.tabs.workloads import does_not_take, group_options, suggested, words_of
from schemas.config.workloads import GovernorConfig, Workload, WorkloadKind


def callbacks(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Register them."""
    _drawn(app, hub)
    _reader_form(app, hub, Orders(api))
    _governor_form(app, Orders(api))
    snapshots.callbacks(app, hub, api)


def _drawn(app: Dash, hub: Hub) -> None:
    @app.callback(
        Output("readers-table", "rowData"),
        Output("readers-note", "children"),
        Output("governor-state", "children"),
        Output("governor-reason", "children"),
        Output("governor-off", "hidden"),
        Output("governor-shown", "data"),
        Input("reads-tick", "data"),
        State("governor-shown", "data"),
    )
    async def draw(tick: dict[str, Any] | None, shown: dict[str, Any] | None) -> Any:
        if hub.status is None:
            return (no_update,) * 6
        readers, governor = hub.status.readers, hub.status.governor
        found = ceilings(governor)
        return (
            workload_rows(readers, is_dead=bool(tick and tick["dead"])),
            running(readers),
            *governor_words(governor),
            not any(found.values()),
            no_update if found == shown else found,
        )

    @app.callback(
        [Output(field_id("governor", name), "value") for name in CEILINGS],
        Input("governor-shown", "data"),
        prevent_initial_call=True,
    )
    async def prefill(found: dict[str, Any]) -> list[Any]:
        """The ceilings in force, when they have changed: what somebody types meanwhile stays."""
        return ["" if found[name] is None else found[name] for name in CEILINGS]


def _reader_form(app: Dash, hub: Hub, orders: Orders) -> None:
    every = field_id("reader", EVERY)

    @app.callback(
        Output("reader-kind-note", "children"),
        Output(every, "value"),
        Output(box_id("reader", EVERY), "hidden"),
        Input(field_id("reader", "kind"), "value"),
        State(every, "id"),
    )
    async def follow(kind: str, ids: list[dict[str, Any]]) -> Any:
        chosen = WorkloadKind(kind)
        unused = does_not_take(chosen, hub.status)
        return words_of(chosen), suggested(chosen, ids), [named["field"] in unused for named in ids]

    @app.callback(
        Output(field_id("reader", "group"), "data"),
        Output(field_id("reader", "group"), "value", allow_duplicate=True),
        Output("reads-group", "data"),
        Input("reads-groups", "data"),
        State(field_id("reader", "group"), "value"),
        State("reads-group", "data"),
        prevent_initial_call="initial_duplicate",
    )
    async def groups(tick: dict[str, Any] | None, filled: str | None, before: str | None) -> Any:
        """The form follows the group that is chosen above the tabs, and else keeps what was filled in."""
        options, first = group_options(hub.status)
        names = [one["value"] for one in options]
        chosen = (tick or {}).get("view", {}).get("group")
        if chosen in names and chosen != before:
            return options, chosen, chosen
        return options, filled if filled in names else first, before

    def start(filled: dict[str, Any]) -> tuple[Order | None, dict[str, str]]:
        given = without(filled, does_not_take(WorkloadKind(filled["kind"]), hub.status))
        workload, wrong = checked(Workload, given)
        if workload is None:
            return None, wrong
        what, done = f"Start the workload {workload.name}", f"{workload.name} was started."
        return Order(method="POST", path="/readers", body=given, what=what, done=done, outcome="reader-outcome"), wrong

    orders.on_send(app, "reader", start)

    @app.callback(
        Input("readers-table", "cellRendererData"),
        State(REMEMBERED, "data"),
        prevent_initial_call=True,
    )
    async def stop(given: dict[str, Any], token: str | None) -> None:
        name = pressed(given)
        what, done = f"Stop the workload {name}", f"{name} is being stopped."
        await orders.give(
            Order(method="DELETE", path=f"/readers/{name}", what=what, done=done, outcome="readers-outcome"), token
        )


def _governor_form(app: Dash, orders: Orders) -> None:
    def order(given: dict[str, Any]) -> Order:
        done = "The governor keeps to these ceilings." if any(given.values()) else "The governor is off."
        what = "Change the ceilings of the governor"
        return Order(method="POST", path="/governor", body=given, what=what, done=done, outcome="governor-outcome")

    def set_ceilings(filled: dict[str, Any]) -> tuple[Order | None, dict[str, str]]:
        given = dict.fromkeys(CEILINGS) | filled
        found, wrong = checked(GovernorConfig, given)
        return (None if found is None else order(given)), wrong

    orders.on_send(app, "governor", set_ceilings)
    orders.on_press(app, "governor-off", order(dict.fromkeys(CEILINGS)))
