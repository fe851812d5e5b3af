"""What the tab Interference draws each second, and what a person chooses and orders there."""

from collections.abc import Sequence
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, html, no_update, set_props

from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.hub import Hub
from dashboard.feed.relay import NotThere
from dashboard.tabs.figures import empty
from dashboard.tabs.interference.figures import HEIGHT, POINTS, dose_figure, dose_note, time_figure, time_note
from dashboard.tabs.interference.form import form_callbacks
from dashboard.tabs.interference.measured import Experiments, Known, Shown
from dashboard.tabs.interference.rows import figure_rows, head, past_rows, progress, reader_rows, remarks, server_rows
from dashboard.tabs.orders import Order, Orders
from dashboard.tabs.parts import UNPRESSED, choose, pressed_of
from dashboard.tabs.tables import pressed
from dashboard.words import count, counted
from schemas.api.status import ExperimentStatus
from schemas.marks import Mark

SO_FAR = "so far; confidence intervals follow at the end"
UNANSWERED = (DaemonUnavailable, NotThere)

Tick = dict[str, Any] | None


class Seen:
    """What browsers are shown: what is known of the experiments, and the one that an address names."""

    def __init__(self, hub: Hub, api: DaemonApi) -> None:
        self._hub = hub
        self._experiments = Experiments(api)

    def marks(self, tick: Tick) -> list[Mark]:
        """What people have marked about the group that is chosen, or about all."""
        group = tick["view"]["group"] if tick else None
        return [mark for mark in self._hub.marks if mark.group in (None, group)]

    @property
    def running(self) -> ExperimentStatus | None:
        """The experiment that runs now, as far as the stream tells."""
        return None if self._hub.status is None else self._hub.status.experiment

    def marks_of(self, shown: Shown, tick: Tick) -> tuple[float, list[Mark]]:
        """When an experiment began, in ms, and the marks; none of one of which that is not known."""
        began_ns = shown.record.began_ns if shown.record is not None else None
        if began_ns is None and self.running is not None and self.running.id == shown.id:
            began_ns = self.running.began_ns
        return (0.0, []) if began_ns is None else (began_ns / 1e6, self.marks(tick))

    async def known(self) -> Known:
        """What is known of all. Raises DaemonUnavailable or NotThere."""
        return await self._experiments.known(is_running=self.running is not None)

    async def shown(self, tick: Tick) -> tuple[Shown | None, str]:
        """The experiment to show, and why it cannot be. Raises DaemonUnavailable or NotThere."""
        chosen = tick["view"]["experiment"] if tick else None
        running = self.running
        return await self._experiments.shown(await self.known(), chosen, running.id if running else None)


def callbacks(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Register them."""
    seen, orders = Seen(hub, api), Orders(api)
    _head(app, seen)
    _charts(app, seen)
    _tables(app, seen)
    _past(app, seen)
    _marks(app)
    done = "It was stopped; its measurements so far are stored."
    what = "Stop the experiment"
    stop = Order(method="DELETE", path="/interference", what=what, done=done, outcome="experiment-stopped")
    orders.on_press(app, "experiment-stop", stop)
    form_callbacks(app, hub, orders)


def stamp_of(shown: Shown | None, marks: Sequence[Mark] = ()) -> str:
    """Changes when charts and tables do: a line has grown by what a screen can show, a block is over, a mark made."""
    if shown is None:
        return ""
    step = max(1, 2 * len(shown.samples) // POINTS)
    known = hash(tuple(mark.id for mark in marks))
    grown = f"{len(shown.samples) // step * step} {len(shown.blocks)} {shown.result is not None}"
    return f"{shown.id} {grown} {known}"


def _head(app: Dash, seen: Seen) -> None:
    @app.callback(
        Output("experiment-problem", "children"),
        Output("experiment-problem", "hidden"),
        Output("experiment-title", "children"),
        Output("experiment-summary", "children"),
        Output("experiment-verdict", "children"),
        Output("experiment-verdict", "hidden"),
        Output("experiment-verdict", "data-level"),
        Output("experiment-running", "hidden"),
        Output("experiment-stamp", "data"),
        Output("experiments-stamp", "data"),
        Input("experiment-tick", "data"),
        State("experiment-stamp", "data"),
        State("experiments-stamp", "data"),
        prevent_initial_call=True,
    )
    async def draw(tick: Tick, drawn: str | None, listed: str | None) -> Any:
        try:
            known, (shown, problem) = await seen.known(), await seen.shown(tick)
        except UNANSWERED as why:
            return f"Experiments are unknown: {why}.", False, *(no_update,) * 5, True, no_update, no_update
        running = seen.running
        said = head(shown, running)
        is_running = running is not None and not (shown and shown.record) and not (tick and tick["dead"])
        if running is not None and is_running:
            # Not among the outputs: what stands there is seen only while one runs.
            bar = {"max": str(running.blocks), "value": str(max(0, running.block - 1))}
            set_props("experiment-progress", bar)
            set_props("experiment-phase", {"children": progress(running)})
        now, list_now = stamp_of(shown, seen.marks(tick)), f"{known.version} {shown.id if shown else ''}"
        return (
            problem,
            not problem,
            said.title,
            said.summary,
            said.verdict,
            not said.verdict,
            "wrong" if said.is_wrong else None,
            not is_running,
            no_update if now == drawn else now,
            no_update if list_now == listed else list_now,
        )


def _charts(app: Dash, seen: Seen) -> None:
    @app.callback(
        Output("experiment-charts", "hidden"),
        Output("experiment-time", "figure"),
        Output("experiment-time-note", "children"),
        Output("experiment-dose", "figure"),
        Output("experiment-dose-note", "children"),
        Input("experiment-stamp", "data"),
        Input("experiment-mark", "data"),
        State("experiment-tick", "data"),
        prevent_initial_call=True,
    )
    async def draw(_: str, mark: int | None, tick: Tick) -> Any:
        try:
            shown, _problem = await seen.shown(tick)
        except UNANSWERED:
            return (no_update,) * 5
        if shown is None or not shown.samples:
            return True, empty(HEIGHT), "", empty(HEIGHT), ""
        marked = mark if mark in (0, *shown.doses) else None
        time, dose = time_figure(shown, marked, *seen.marks_of(shown, tick)), dose_figure(shown, marked)
        return False, time, time_note(shown), dose, dose_note(shown)

    @app.callback(
        Output("experiment-dose-keys", "children"),
        Output("experiment-dose-keys", "hidden"),
        Input("experiment-stamp", "data"),
        State("experiment-tick", "data"),
        State({"mark": ALL}, "id"),
        prevent_initial_call=True,
    )
    async def keys(_: str, tick: Tick, there: list[dict[str, int]]) -> Any:
        """What a click on a point does, for the keyboard."""
        try:
            shown, _problem = await seen.shown(tick)
        except UNANSWERED:
            return no_update, no_update
        doses = [0, *shown.doses] if shown and shown.doses else []
        if [named["mark"] for named in there] == doses:
            return no_update, not doses
        return [_key(dose) for dose in doses], not doses


def _key(dose: int) -> Any:
    title = f"blocks with {counted(dose, 'reader')}" if dose else "blocks without readers"
    return html.Button(count(dose) if dose else "A", id={"mark": dose}, title=title, type="button", **UNPRESSED)


def _tables(app: Dash, seen: Seen) -> None:
    @app.callback(
        Output("experiment-result", "hidden"),
        Output("experiment-figures-table", "rowData"),
        Output("experiment-figures-note", "children"),
        Output("experiment-readers-table", "rowData"),
        Output("experiment-readers-section", "hidden"),
        Output("experiment-server-table", "rowData"),
        Output("experiment-server-section", "hidden"),
        Output("experiment-remarks", "children"),
        Input("experiment-stamp", "data"),
        State("experiment-tick", "data"),
        prevent_initial_call=True,
    )
    async def draw(_: str, tick: Tick) -> Any:
        try:
            shown, _problem = await seen.shown(tick)
        except UNANSWERED:
            return (no_update,) * 8
        if shown is None or not shown.blocks:
            return True, [], "", [], True, [], True, []
        readers, server = reader_rows(shown.result), server_rows(shown.result)
        note = "" if shown.result else SO_FAR
        said = remarks(shown.record)
        further = [*said[:-1], html.Code(said[-1]), "."] if said else []
        return False, figure_rows(shown), note, readers, not readers, server, not server, further


def _past(app: Dash, seen: Seen) -> None:
    @app.callback(
        Output("experiments-past-table", "rowData"),
        Output("experiments-note", "children"),
        Input("experiments-stamp", "data"),
        prevent_initial_call=True,
    )
    async def draw(stamp: str) -> Any:
        try:
            past = (await seen.known()).past
        except UNANSWERED:
            return no_update, no_update
        _, _, shown = stamp.partition(" ")
        return past_rows(past, shown or None), f"{count(len(past))}, newest first" if past else ""

    @app.callback(Input("experiments-past-table", "cellRendererData"), prevent_initial_call=True)
    async def show(given: dict[str, Any]) -> None:
        choose(experiment=pressed(given))


def _marks(app: Dash) -> None:
    @app.callback(
        Output("experiment-mark", "data"),
        Input("experiment-time", "clickData"),
        Input("experiment-dose", "clickData"),
        Input({"mark": ALL}, "n_clicks"),
        State("experiment-mark", "data"),
        prevent_initial_call=True,
    )
    async def mark(time: Any, dose: Any, _: Any, marked: int | None) -> Any:
        """Mark a number of readers; the second time no longer."""
        match ctx.triggered_id:
            case "experiment-time":
                chosen = clicked_time(time)
            case "experiment-dose":
                chosen = clicked_dose(dose)
            case _:
                chosen = pressed_of("mark")
        return no_update if chosen is None else None if chosen == marked else chosen

    @app.callback(
        Output({"mark": ALL}, "aria-pressed"),
        Input("experiment-mark", "data"),
        Input("experiment-dose-keys", "children"),
        State({"mark": ALL}, "id"),
        prevent_initial_call=True,
    )
    async def press(marked: int | None, _: Any, ids: list[dict[str, int]]) -> list[str]:
        return [str(named["mark"] == marked).lower() for named in ids]


def clicked_time(click: dict[str, Any]) -> int | None:
    """The readers of the block that a click on the time chart met."""
    found = [point["customdata"] for point in click["points"] if point.get("customdata") is not None]
    return found[0] if found else None


def clicked_dose(click: dict[str, Any]) -> int:
    """The readers of the point that a click on the dose-response chart met."""
    return int(click["points"][0]["x"])
