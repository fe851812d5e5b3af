"""The form that makes a mark, and the newest marks; above every tab, since a mark is about time."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from dash import Dash, Input, Output, State, dcc, html
from pydantic import ValidationError

from dashboard.feed.client import DaemonApi, DaemonUnavailable, detail_of
from dashboard.feed.marks import moment
from dashboard.tabs.orders import LETTERS
from dashboard.tabs.parts import data, live, when
from schemas.api.marks import MarkKept
from schemas.checking.problems import problems
from schemas.marks import AUTHOR_MOST, TEXT_MOST, Mark

PATH = "/marks"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME: dict[str, Any] = {"type": "datetime-local", "step": 1}
"""A kind of input that Dash does not list; its value is a time without a zone."""

Said = tuple[str | None, str | None, str | None, str | None]
"""Text, time, end and author, as a person wrote them."""


def marks_panel() -> Any:
    """The form behind one line, and the newest marks below it."""
    line = html.Li(
        [
            html.Time(live(".t", "moment", dead="keep")),
            " ",
            live(".text", "text", dead="keep", className="words"),
            when(".waits", " (waits for the database)"),
        ],
        **data(title=".words"),
    )
    return html.Details(
        [
            html.Summary("Marks: note an event"),
            html.Div(_fields(), className="mark-form"),
            html.P("", id="mark-said", role="status"),
            html.Ol([html.Template(line)], id="marks-newest", **data(each="marks.newest", by="id")),
            dcc.Store(id="mark-order"),
        ],
        id="marks",
        className="panel marks",
        **data(frame="marks"),
    )


def _fields() -> list[Any]:
    return [
        _labelled("What happened", dcc.Input(id="mark-text", type="text", maxLength=TEXT_MOST, autoComplete="off")),
        _labelled("When, UTC (empty: now)", dcc.Input(id="mark-at", **TIME)),
        _labelled("Until, UTC (empty: a moment)", dcc.Input(id="mark-until", **TIME)),
        _labelled("Who", dcc.Input(id="mark-author", type="text", maxLength=AUTHOR_MOST)),
        _labelled("The API's token", dcc.Input(id="mark-token", type="password", autoComplete="off")),
        html.Button("Mark", id="mark-send", type="button"),
    ]


def _labelled(label: str, field: Any) -> Any:
    return html.Label([label, field])


def register(app: Dash, api: DaemonApi) -> None:
    """Declare the callback that makes a mark. It is async: a synchronous one would hold up the stream of everybody."""

    @app.callback(
        Output("mark-said", "children"),
        Output("mark-text", "value"),
        Output("mark-order", "data"),
        inputs={"_pressed": Input("mark-send", "n_clicks")},
        state={
            "said": tuple(State(f"mark-{name}", "value") for name in ("text", "at", "until", "author")),
            "token": State("mark-token", "value"),
            "order": State("mark-order", "data"),
        },
        prevent_initial_call=True,
        running=[(Output("mark-send", "disabled"), True, False)],
    )
    async def send(
        _pressed: int, said: Said, token: str | None, order: dict[str, Any] | None
    ) -> tuple[str, str | None, dict[str, Any] | None]:
        text = said[0]
        try:
            mark = _again(said, order) or mark_of(said)
        except ValueError as problem:
            return str(problem), text, None
        token = (token or "").strip()
        if not LETTERS.fullmatch(token):
            return "Not marked: give the API's token, which has letters, digits and signs without spaces", text, None
        sent = {"said": list(said), "mark": mark.model_dump(mode="json")}
        try:
            answer = await api.order("POST", PATH, body=sent["mark"], authorization=f"Bearer {token}")
        except DaemonUnavailable as problem:
            return f"Not known whether it is marked: {problem}. Press the button again.", text, sent
        if answer.is_error:
            return f"Not marked: {detail_of(answer)}", text, sent
        kept = MarkKept.model_validate_json(answer.content)
        waits = "" if kept.stored else "; the database is away, and the daemon keeps it until it answers"
        return f"Marked at {moment(mark.time_ns)} UTC: {mark.text}{waits}.", "", None


def _again(said: Said, order: dict[str, Any] | None) -> Mark | None:
    """The mark of an order whose outcome is not known, where the form still says the same: it must not become two."""
    if order is None or order["said"] != list(said):
        return None
    return Mark.model_validate(order["mark"])


def mark_of(said: Said) -> Mark:
    """The mark of what the form says. Raises ValueError, whose text is one line for the person who wrote it."""
    text, at, until, author = said
    fields = {
        "id": uuid4(),
        "time_ns": _time_ns(at) if at else time.time_ns(),
        "until_ns": _time_ns(until) if until else None,
        "text": text or "",
        "author": author or None,
    }
    try:
        return Mark.model_validate(fields)
    except ValidationError as error:
        raise ValueError(f"Not marked: {'; '.join(map(str, problems(Mark, error.errors())))}") from None


def _time_ns(text: str) -> int:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"Not marked: {text!r} is no time; write it like 2026-11-21T18:00") from None
    aware = read if read.tzinfo is not None else read.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1) * 1000
