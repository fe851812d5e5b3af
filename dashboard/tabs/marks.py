"""The form that makes a mark, and the newest marks; above every tab, since a mark is about time."""

import time
from typing import Any
from uuid import uuid4

from dash import ALL, Dash, Input, Output, State, dcc, html, no_update

from dashboard import zone
from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.feed.sentences import words
from dashboard.tabs.forms import Field, box_id, checked, field_id, form, group_options, outcome
from dashboard.tabs.orders import REMEMBERED, Order, Orders
from dashboard.tabs.parts import aria, data, live, pressed_of, tick, when
from dashboard.words import moment
from schemas.marks import Mark

NAME = "mark"
LISTED = 10
TIMES = ("time_ns", "until_ns")
ALL_GROUPS = {"value": "", "label": "all groups"}
LATER = "The daemon keeps it until the database takes it."

Given = dict[str, Any]
Sent = dict[str, Any]
"""What was filled in, and the mark that was made of it."""


def marks_panel() -> Any:
    """The form behind one line, and the newest marks below it."""
    return html.Details(
        [
            html.Summary(
                [
                    "Marks: note an event",
                    when("marks.problem", " · the newest are not known: ", live("marks.problem", "text", dead="keep")),
                ]
            ),
            form(NAME, Mark, _fields(), "Mark"),
            html.Ol(id="marks-newest"),
            outcome("marks-outcome"),
            tick("marks-tick", "marks"),
            tick("marks-groups", "head"),
            dcc.Store(id="mark-sent"),
        ],
        id="marks",
        className="panel marks",
        **data(frame="marks"),
    )


def _fields() -> list[Field]:
    return [
        Field(name="text", label="What happened"),
        Field(name="time_ns", label=f"When, {zone.label()}", hint="empty: now", is_time=True),
        Field(name="until_ns", label=f"Until, {zone.label()}", hint="empty: a moment", is_time=True),
        Field(name="author", label="Who"),
        Field(name="group", label="About", value="", offered=[("", "all groups")], hidden=True),
    ]


def register(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Declare the callbacks."""
    orders = Orders(api)
    orders.on_send(app, NAME, asked, State("mark-sent", "data"))
    _listed(app, hub, orders)

    @app.callback(
        Output(field_id(NAME, "group"), "data"),
        Output(box_id(NAME, "group"), "hidden"),
        Input("marks-groups", "data"),
        prevent_initial_call=True,
    )
    async def groups(_: Any) -> Any:
        options, _first = group_options(hub.status)
        return [ALL_GROUPS, *options], len(options) < 2


def _listed(app: Dash, hub: Hub, orders: Orders) -> None:
    @app.callback(
        Output("marks-newest", "children"),
        Input("marks-tick", "data"),
        prevent_initial_call=True,
    )
    async def draw(_: Any) -> Any:
        """The newest first."""
        newest = hub.known_marks[: -LISTED - 1 : -1]
        return no_update if hub.status is None else [_line(mark, waits=waits) for mark, waits in newest]

    @app.callback(
        Input({"withdraw": ALL}, "n_clicks"),
        State({"withdraw": ALL}, "id"),
        State({"withdraw": ALL}, "title"),
        State(REMEMBERED, "data"),
        prevent_initial_call=True,
    )
    async def withdraw(_: Any, ids: list[dict[str, str]], titles: list[str], token: str | None) -> None:
        if id_ := pressed_of("withdraw"):
            order = Order(
                method="DELETE",
                path=f"/marks/{id_}",
                what=titles[ids.index({"withdraw": id_})],
                done="The mark was withdrawn.",
                waits=LATER,
                outcome="marks-outcome",
                is_asked=True,
            )
            await orders.give(order, token)


def _line(mark: Mark, *, waits: bool) -> Any:
    said = words(mark)
    button = html.Button(
        "Withdraw",
        id={"withdraw": str(mark.id)},
        title=f"Withdraw for good: {said}",
        className="plain",
        type="button",
        **aria(f"Withdraw {said}"),
    )
    return html.Li([html.Span(said, className="words"), " (waits for the database)" if waits else "", button])


def mark_of(given: Given, sent: Sent | None) -> tuple[Mark | None, dict[str, str]]:
    """The mark of what was filled in, or what is wrong with it by field.

    What was sent before and is filled in still has an outcome that is not known: it is the same mark, not a second one.
    """
    if sent is not None and sent["given"] == given:
        return Mark.model_validate(sent["mark"]), {}
    return checked(Mark, {"time_ns": time.time_ns()} | _with_times(given) | {"id": uuid4()})


def asked(given: Given, sent: Sent | None) -> tuple[Order | None, dict[str, str]]:
    """The order that makes the mark, or what is wrong with it by field."""
    mark, wrong = mark_of(given, sent)
    if mark is None:
        return None, wrong
    body = mark.model_dump(mode="json")
    at = f"Marked at {moment(mark.time_ns // 10**6)} {zone.label()}: {mark.text}."
    emptied = [(field_id(NAME, name), {"value": ""}) for name in ("text", *TIMES)]
    order = Order(
        method="POST",
        path="/marks",
        body=body,
        what=f"Mark: {mark.text}",
        done=at,
        waits=f"{at} {LATER}",
        outcome="mark-outcome",
        then=emptied,
        repeat=("mark-sent", {"given": given, "mark": body}),
    )
    return order, {}


def _with_times(given: Given) -> Given:
    """What was filled in with its times as the model has them; what is no time is left to be refused by the model."""
    times = {}
    for name in TIMES & given.keys():
        try:
            times[name] = zone.time_ns(given[name])
        except ValueError:
            continue
    return given | times
