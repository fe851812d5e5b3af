"""What is drawn of snapshot readers while somebody looks, and what a person orders of them."""

from collections.abc import Iterator, Sequence
from typing import Any

from dash import Dash, Input, Output, State, ctx, no_update, set_props

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.figures import empty
from dashboard.tabs.forms import EVERY, checked, field_id, taken
from dashboard.tabs.orders import Order, Orders
from dashboard.tabs.parts import chosen, key
from dashboard.tabs.reads.snapshots import charts
from dashboard.tabs.reads.snapshots.charts import LOW, TALL
from dashboard.tabs.reads.snapshots.layout import MORE, NAME
from dashboard.tabs.reads.snapshots.runs import Known, SnapshotRuns
from dashboard.tabs.reads.snapshots.words import client_keys, past_note, past_rows, plan, told
from dashboard.tabs.runs import Props, Tick, differing, newer, past_callbacks, problem_props, set_changed
from schemas.api.snapshots import CliffPoint, SnapshotSettings, SnapshotsStatus, SnapshotsSummary
from schemas.folders.folders import FolderLayout


def callbacks(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Register them."""
    runs = SnapshotRuns(hub, api)
    _asked(app, runs)
    _told(app, runs)
    _charts(app, runs)
    past_callbacks(app, runs, past_rows, past_note)
    _form(app, Orders(api))


def _asked(app: Dash, runs: SnapshotRuns) -> None:
    @app.callback(
        Output("snapshots-problem", "children"),
        Output("snapshots-problem", "hidden"),
        Output("snapshots-known", "data"),
        Output("snapshots-listed", "data"),
        Input("snapshots-look", "data"),
        Input("snapshots-again", "data"),
        State("snapshots-problem", "children"),
        State("snapshots-known", "data"),
        State("snapshots-listed", "data"),
        prevent_initial_call=True,
    )
    async def look(one: Tick, other: Tick, said: str, *before: Any) -> Any:
        """Ask what is to be drawn, and say whether it is something else than before."""
        view = (newer(one, other) or {"view": {}})["view"]
        problem = await runs.asked(view)
        return *problem_props(problem, said), *differing(runs.marks(view), before)


def _told(app: Dash, runs: SnapshotRuns) -> None:
    @app.callback(
        Output("snapshots-told", "data"),
        Output("snapshots-clients", "figure"),
        Input("snapshots-tick", "data"),
        Input("snapshots-known", "data"),
        Input("snapshots-again", "data"),
        State("snapshots-told", "data"),
        prevent_initial_call=True,
    )
    async def tell(tick: Tick, _: Any, again: Tick, before: dict[str, Any] | None) -> Any:
        """What stands above the charts, and a bar a client; now and then all of it, whatever was lost."""
        is_again = "snapshots-again.data" in ctx.triggered_prop_ids
        shown = runs.shown(newer(tick, again))
        now = told(shown)
        live = None if shown.is_dead else shown.live
        is_reading = live is not None and bool(live.states)
        if live is not None and is_reading:
            now |= of_clients(live)
        changed = set_changed(now, {} if is_again else before or {})
        return now if changed else no_update, charts.clients(live) if live is not None and is_reading else no_update


def of_clients(live: SnapshotsStatus) -> Props:
    """What is said beside the bars."""
    return {
        "snapshots-clients-note": {"children": [key(label, colour, "block") for label, colour in client_keys(live)]},
        "snapshots-clients-drawn": {"aria-label": charts.clients_described(live)},
    }


def _charts(app: Dash, runs: SnapshotRuns) -> None:
    @app.callback(
        Output("snapshots-times", "figure"),
        Output("snapshots-rows", "figure"),
        Output("snapshots-bytes", "figure"),
        Output("snapshots-blocks", "figure"),
        Output("snapshots-cliff", "figure"),
        Input("snapshots-known", "data"),
        Input("snapshots-listed", "data"),
        prevent_initial_call=True,
    )
    async def draw(named: dict[str, Any] | None, _: Any) -> Any:
        known = runs.known(named["run"]) if named else None
        lines = cliff_lines(known, () if runs.listed is None else runs.listed.past)
        for name, props in beside(known, lines).items():
            set_props(name, props)
        if known is None:
            return *map(empty, (TALL, LOW, LOW, LOW)), charts.cliff(lines) if lines else empty(LOW)
        made = (charts.query_times, charts.rows, charts.megabytes, charts.blocks)
        return *(make(known) for make in made), charts.cliff(lines) if lines else empty(LOW)


CliffLine = tuple[FolderLayout, str, Sequence[CliffPoint]]


def cliff_lines(known: Known | None, past: Sequence[SnapshotsSummary]) -> list[CliffLine]:
    """Layout, run and points of the cliff of the run that is shown, and of the newest one of each other layout."""
    lines: dict[FolderLayout, CliffLine] = {}
    if known is not None and known.cliff:
        lines[known.settings.layout] = (known.settings.layout, known.id, known.cliff)
    for one in past:
        if one.cliff:
            lines.setdefault(one.layout, (one.layout, one.id, one.cliff))
    return list(lines.values())


def beside(known: Known | None, lines: Sequence[CliffLine]) -> Props:
    """What is said of the charts, by id of an element the properties of it."""
    keys = [key(f"{layout.value}: {charts.cliff_words(points)}", charts.LINES[layout]) for layout, _, points in lines]
    props: Props = {
        "snapshots-cliff-note": {"children": keys},
        "snapshots-cliff-drawn": {"aria-label": charts.cliff_described(lines[0][2] if lines else ())},
    }
    return props | dict(_of_time(known))


def _of_time(known: Known | None) -> Iterator[tuple[str, dict[str, Any]]]:
    if known is None:
        return
    yield "snapshots-times-note", {"children": charts.query_words(known)}
    yield "snapshots-blocks-note", {"children": charts.blocks_words(known)}
    for name, column, scale, unit in (
        ("rows", "row_rate", 1, "rows/s"),
        ("bytes", "byte_rate", 1e-6, "MB/s"),
        ("blocks", "read_rate", 1, "blocks/s read"),
    ):
        words = f"{unit} against time: {charts.time_words(known, column, scale)}"
        yield f"snapshots-{name}-drawn", {"aria-label": words}
    words = f"Seconds until the snapshot was there, of {len(known.cycles):,} cycles: {charts.query_words(known)}"
    yield "snapshots-times-drawn", {"aria-label": words}


def _form(app: Dash, orders: Orders) -> None:
    every = field_id(NAME, EVERY)

    @app.callback(Output("snapshots-plan", "children"), Input(every, "value"), State(every, "id"))
    async def foresee(values: list[Any], ids: list[dict[str, Any]]) -> str:
        settings, _ = checked(SnapshotSettings, taken(values, ids))
        return "" if settings is None else plan(settings)

    def start(given: dict[str, Any]) -> tuple[Order | None, dict[str, str]]:
        settings, wrong = checked(SnapshotSettings, given)
        if settings is None:
            if wrong.keys() & {one.name for one in MORE}:
                set_props("snapshots-more", {"open": True})
            return None, wrong
        order = Order(
            method="POST",
            path="/snapshots",
            body=given,
            what="Start snapshot readers",
            done="The run was started; it is shown above.",
            outcome="snapshots-outcome",
            then=[chosen(snapshots=None)],
        )
        return order, wrong

    orders.on_send(app, NAME, start)
    stop = Order(
        method="DELETE",
        path="/snapshots",
        what="Stop the run of snapshot readers",
        done="The run is being stopped; what it has measured is kept.",
        outcome="snapshots-stopped",
    )
    orders.on_press(app, "snapshots-stop", stop)
