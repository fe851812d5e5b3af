"""What the tab Reads draws each second, and what a person orders there."""

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, State, no_update

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.forms import (
    EVERY,
    box_id,
    checked,
    does_not_take,
    field_id,
    group_options,
    suggested,
    without,
    words_of,
)
from dashboard.tabs.orders import REMEMBERED, Order, Orders
from dashboard.tabs.reads.snapshots import callbacks as snapshots
from dashboard.tabs.tables import Cell, Row, button, cell, pressed, row
from dashboard.words import NONE, count, lasted, number, time
from schemas.api.status import GovernorStatus, ReaderStatus
from schemas.config.workloads import GovernorConfig, Workload, WorkloadKind

STATES = {"starting": "◔", "running": "●", "stopping": "◑", "failed": "✕"}
CEILINGS = ("commit_p99_ms", "backlog_triggers")
NO_CEILING = ("○ off", "No ceiling is set: every reader may ask.")


def workload_rows(readers: Mapping[str, ReaderStatus], *, is_dead: bool) -> list[Row]:
    """A row a workload; without data no rate looks as if it were of now."""
    return [_row(name, reader, is_dead=is_dead) for name, reader in readers.items()]


def running(readers: Mapping[str, ReaderStatus]) -> str:
    """How many of them run."""
    return f"{count(sum(one.state != 'failed' for one in readers.values()))} running" if readers else ""


def _row(name: str, reader: ReaderStatus, *, is_dead: bool) -> Row:
    def rate(value: float | None, *, over: bool = False) -> Cell:
        return cell(NONE, -1) if is_dead else cell(number(value), -1 if value is None else value, over=over)

    latency, state = reader.latency_ms, reader.state.value
    percent = None if reader.efficiency is None else 100 * reader.efficiency
    return row(
        name,
        name=name,
        asks=f"{reader.kind} of {reader.group}",
        state=cell(
            f"{STATES.get(state, '○')} {state}{f': {reader.problem}' if reader.problem else ''}",
            over=state == "failed" or bool(reader.problem),
        ),
        clients=cell(
            f"{count(reader.admitted)} of {count(reader.clients)}",
            reader.admitted,
            over=reader.admitted < reader.clients,
        ),
        rate=rate(reader.rate),
        rows=rate(reader.row_rate),
        p50=rate(latency.p50),
        p99=rate(latency.p99, over=latency.p99 is not None and latency.p99 > reader.deadline_ms),
        max=rate(latency.max),
        deadline=cell(number(reader.deadline_ms, 0), reader.deadline_ms),
        efficiency=cell(
            NONE if percent is None else f"{percent:.{1 if percent < 100 else 0}f} %",
            -1 if percent is None else percent,
        ),
        slipped=cell(lasted(reader.slipped_s) if reader.slipped_s else NONE, reader.slipped_s),
        failed=cell(count(reader.failed), reader.failed, over=reader.failed > 0),
        since=cell(time(reader.since_ns / 1e6), reader.since_ns),
        stop=button("Stop", f"Stop {name}"),
    )


def ceilings(governor: GovernorStatus | None) -> dict[str, Any]:
    """The ceilings in force by their names; None where there is none."""
    if governor is None or governor.state == "off":
        return dict.fromkeys(CEILINGS)
    return {name: getattr(governor, name) for name in CEILINGS}


def governor_words(governor: GovernorStatus | None) -> tuple[str, str]:
    """Whether the governor is on and what it keeps to, and what it does and why."""
    if governor is None or governor.state == "off":
        return NO_CEILING
    parts = []
    if governor.commit_p99_ms is not None:
        parts.append(f"commit p99 below {number(governor.commit_p99_ms)} ms")
    if governor.backlog_triggers is not None:
        parts.append(f"backlog below {count(governor.backlog_triggers)} triggers")
    return f"● on: {', '.join(parts)}", f"{governor.state.value}: {governor.reason}"


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
