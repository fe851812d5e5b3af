"""What the tab Instruments draws while it is seen, and what a person chooses there."""

from typing import Any

from dash import Dash, Input, Output, State, no_update
from dash.exceptions import PreventUpdate

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.figures import empty
from dashboard.tabs.instruments.drawer import UNSEEN, drawer_callbacks
from dashboard.tabs.instruments.layout import HOUR
from dashboard.tabs.instruments.orbit import ORBIT_HEIGHT, moved
from dashboard.tabs.instruments.shown import Shown
from dashboard.tabs.parts import choose
from dashboard.tabs.tables import pressed

ALL_WELL = "Each was in every one of them, in time."


def callbacks(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Register them."""
    drawer_callbacks(app, hub, api)
    shown = Shown(hub, api)
    _worst(app, shown)
    _orbit(app, shown)
    _choices(app)
    _find(app, shown)


def _worst(app: Dash, shown: Shown) -> None:
    @app.callback(
        Output("worst-table", "rowData"),
        Output("worst-listed", "hidden"),
        Output("worst-note", "children"),
        Output("worst-nothing", "children"),
        Output("worst-shown", "data"),
        Input("worst-tick", "data"),
        Input("states-tick", "data"),
        Input("missing-last", "value"),
        State("worst-shown", "data"),
        prevent_initial_call=True,
    )
    async def draw(tick: dict[str, Any] | None, _: Any, last: str, before: dict[str, str] | None) -> Any:
        view = _followed(tick)
        groups = shown.groups() if view.get("whole") else (view["group"],)
        now = {"group": " ".join(groups), "last": last}
        found = await shown.worst(groups, None if last == HOUR else int(last))
        if isinstance(found, str):
            if before is not None and now.items() <= before.items():
                return no_update, no_update, f"out of date: {found}", no_update, no_update
            return [], True, "", found, None
        now["stamp"] = found.stamp
        if now == before:
            return no_update, no_update, found.note, no_update, no_update
        return found.rows, not found.rows, found.note, "" if found.rows else ALL_WELL, now


def _orbit(app: Dash, shown: Shown) -> None:
    @app.callback(
        Output("orbit", "figure"),
        Output("orbit-choice", "data"),
        Output("orbit-choice", "value"),
        Output("orbit-shown", "data"),
        Output("orbit-note", "children"),
        Output("orbit-note", "data-old"),
        Output("orbit-missing", "children"),
        Output("orbit-calibrated", "checked"),
        Output("orbit-calibrated", "style"),
        Input("orbit-tick", "data"),
        State("orbit-shown", "data"),
        prevent_initial_call=True,
    )
    async def draw(tick: dict[str, Any] | None, before: dict[str, Any] | None) -> Any:
        view = _followed(tick)
        is_offered = shown.can_calibrate(view["group"])
        now = {"group": view["group"], "calibrated": is_offered and view["calibrated"] is not None}
        # Put there again, it would undo what somebody has just switched.
        is_same = before is not None and now.items() <= before.items()
        switch = (no_update if is_same else now["calibrated"], {} if is_offered else UNSEEN)
        found = await shown.orbit(view["group"], view["channel"], calibrated=now["calibrated"])
        if isinstance(found, str):
            # What is drawn of another group, or calibrated otherwise, would be taken for what is asked for.
            drawn = no_update if is_same else empty(ORBIT_HEIGHT)
            left = no_update if is_same else now | {"key": "", "choice": None}
            return (drawn, no_update, no_update, left, found, None, "", *switch)
        orbit = found.orbit
        words = (found.note, "true" if found.is_old else None, found.missing)
        if before is not None and before["key"] == found.key:
            return (moved(found.figure), no_update, no_update, no_update if is_same else before | now, *words, *switch)
        now |= {"key": found.key, "choice": orbit.choice}
        return (found.figure, orbit.choices, orbit.choice, now, *words, *switch)


def _choices(app: Dash) -> None:
    @app.callback(Input("orbit-choice", "value"), State("orbit-shown", "data"), prevent_initial_call=True)
    async def channel(value: str, drawn: dict[str, str] | None) -> None:
        # What the page has put there itself is no choice: the address stays as it is.
        if drawn is not None and value != drawn["choice"]:
            choose(channel=value)

    @app.callback(Input("orbit-calibrated", "checked"), State("orbit-shown", "data"), prevent_initial_call=True)
    async def calibrated(checked: bool, drawn: dict[str, Any] | None) -> None:
        if drawn is not None and checked != drawn["calibrated"]:
            choose(calibrated="yes" if checked else None)

    @app.callback(Input("worst-table", "cellRendererData"), prevent_initial_call=True)
    async def open_listed(given: dict[str, Any]) -> None:
        choose(instrument=pressed(given))

    @app.callback(Input("orbit", "clickData"), State("orbit-shown", "data"), prevent_initial_call=True)
    async def open_plotted(clicked: dict[str, Any] | None, drawn: dict[str, str] | None) -> None:
        if clicked and drawn:
            choose(instrument=f"{drawn['group']}:{clicked['points'][0]['x']}")


def _find(app: Dash, shown: Shown) -> None:
    @app.callback(Output("find-instrument", "data"), Input("find-instrument", "searchValue"), prevent_initial_call=True)
    async def find(typed: str | None) -> list[dict[str, str]]:
        return shown.find(typed or "")

    @app.callback(
        Output("find-instrument", "value"),
        Output("find-instrument", "searchValue"),
        Input("find-instrument", "value"),
        prevent_initial_call=True,
    )
    async def open_found(found: str | None) -> Any:
        if found is None:
            raise PreventUpdate
        choose(instrument=found)
        return None, ""


def _followed(tick: dict[str, Any] | None) -> dict[str, Any]:
    """The choices in the address; raises PreventUpdate where the page is paused, or there are none yet."""
    if tick is None or tick["view"]["pausedAt"] is not None:
        raise PreventUpdate
    view: dict[str, Any] = tick["view"]
    return view
