"""Orders: what a person wants the daemon to do. It is sent on with that person's token, and never with the page's own.

The token is asked for in a dialog, and stays in the browser's tab where that is wanted.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, ctx, dcc, html, no_update, set_props

from dashboard.feed.client import DaemonApi, DaemonUnavailable, detail_of
from dashboard.tabs.forms import EVERY, elsewhere, errors, field_id, taken
from dashboard.tabs.parts import dialog

REMEMBERED = "remembered"
"""The dcc.Store with the token that is remembered, a State of each callback that gives an order."""

LETTERS = re.compile(r"[\x21-\x7e]+")
"""A header holds letters of ASCII; anything else is no token."""


TOKEN_WAS_SEEN = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
"""Answers that only who has the right token gets."""

SEGMENT = "[A-Za-z0-9_-]{1,64}"
KNOWN = re.compile(
    "POST /(readers|governor|interference|visits|snapshots|marks|tiers/move|alarms/(acknowledge|shelve|reactivate))"
    f"|DELETE /(interference|visits|snapshots|(readers|marks)/{SEGMENT})"
)
"""What can be ordered: the browser holds an order while it waits for the token, and may hold another one."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A request to the daemon's API.

    path: below `/api/v1`. what: as the dialog's title. done: what is said when it was accepted. waits: what is said
    when it was accepted, and is carried out later. outcome: id of the element where it is said, see `forms.outcome`.
    then: properties to set once it was accepted, with the id of their element; see `parts.chosen`. is_asked: whether
    the dialog asks even where the token is known, since the order cannot be taken back. repeat: id of a dcc.Store, and
    what it has while nobody knows what has become of the order, for it to be given again as it was.
    """

    method: str
    path: str
    body: Any = None
    what: str
    done: str
    outcome: str
    waits: str | None = None
    then: Sequence[tuple[Any, dict[str, Any]]] = ()
    is_asked: bool = False
    repeat: tuple[str, Any] | None = None

    def note(self, *, is_known: bool) -> None:
        """Note whether it is known what has become of it."""
        if self.repeat is not None:
            store, sent = self.repeat
            set_props(store, {"data": None if is_known else sent})


Asked = Callable[..., tuple[Order | None, Mapping[str, str]]]
"""What is ordered by what was filled in, by field, or what is wrong with it by field, as `forms.checked` says it."""


class Orders:
    """Gives orders, from within a callback."""

    def __init__(self, api: DaemonApi) -> None:
        self._api = api
        self._under_way: list[tuple[Order, str | None]] = []

    async def give(self, order: Order, token: str | None) -> bool:
        """Give an order; where there is no token, or a wrong one, the dialog asks for it and the order waits.

        token: what is remembered, if anything is. Returns whether the daemon took it for its token.
        """
        if not KNOWN.fullmatch(f"{order.method} {order.path}"):
            say(order.outcome, "This page does not give such an order.", is_wrong=True)
            return False
        if token is None or order.is_asked:
            self._ask(order, token=token)
            return False
        if (order, token) in self._under_way:
            say(order.outcome, "It is being done already.")
            return False
        self._under_way.append((order, token))
        try:
            return await self._sent(order, token)
        finally:
            self._under_way.remove((order, token))

    async def _sent(self, order: Order, token: str) -> bool:
        try:
            answer = await self._api.order(
                order.method,
                order.path,
                body=order.body,
                authorization=f"Bearer {token}",
                client=ctx.remote,
            )
        except DaemonUnavailable as problem:
            order.note(is_known=False)
            say(order.outcome, str(problem), is_wrong=True)
            return False
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            self._ask(order, problem=f"The daemon refused it: {detail_of(answer)}.")
            return False
        was_seen = answer.is_success or answer.status_code in TOKEN_WAS_SEEN
        if was_seen or answer.is_server_error:
            order.note(is_known=was_seen)
        if not answer.is_success:
            led_elsewhere = f"Not done: the daemon answered {answer.status_code} {answer.reason_phrase}."
            say(order.outcome, detail_of(answer) if answer.is_error else led_elsewhere, is_wrong=True)
            return was_seen
        for element, props in order.then:
            set_props(element, props)
        say(order.outcome, order.waits if order.waits and answer.status_code == HTTPStatus.ACCEPTED else order.done)
        return True

    def on_send(self, app: Dash, form: str, asked: Asked, *states: State) -> None:
        """Register what the button of a form does. states: what `asked` gets besides."""
        every = field_id(form, EVERY)

        @app.callback(
            Output(every, "error"),
            Input(f"{form}-send", "n_clicks"),
            State(every, "value"),
            State(every, "id"),
            State(REMEMBERED, "data"),
            *states,
            running=[(Output(f"{form}-send", "disabled"), True, False)],
            prevent_initial_call=True,
        )
        async def send(_: int, values: list[Any], ids: list[dict[str, Any]], token: str | None, *further: Any) -> Any:
            order, wrong = asked(taken(values, ids), *further)
            say(f"{form}-outcome", elsewhere(ids, wrong), is_wrong=True)
            if order is not None:
                await self.give(order, token)
            return errors(ids, wrong)

    def on_press(self, app: Dash, button: str, order: Order) -> None:
        """Register what a button orders."""

        @app.callback(
            Input(button, "n_clicks"),
            State(REMEMBERED, "data"),
            running=[(Output(button, "disabled"), True, False)],
            prevent_initial_call=True,
        )
        async def press(_: int, token: str | None) -> None:
            await self.give(order, token)

    def _ask(self, order: Order, *, token: str | None = None, problem: str = "") -> None:
        say(order.outcome, "")
        set_props("order", {"data": asdict(replace(order, is_asked=False))})
        set_props("order-problem", {"children": problem, "hidden": not problem})
        set_props("order-token", {"value": token or ""})
        set_props("order-dialog", {"opened": True, "title": order.what})

    def callbacks(self, app: Dash) -> None:
        """Register what the dialog's buttons do."""

        @app.callback(
            Output(REMEMBERED, "data"),
            Input("order-send", "n_clicks"),
            Input("order-token", "n_submit"),
            State("order-token", "value"),
            State("order-remember", "checked"),
            State("order", "data"),
            running=[(Output(name, "disabled"), True, False) for name in ("order-send", "order-token", "order-cancel")],
            prevent_initial_call=True,
        )
        async def send(_: Any, __: Any, typed: str, is_kept: bool, waiting: dict[str, Any] | None) -> Any:
            token = (typed or "").strip()
            if waiting is None:
                return no_update
            if not LETTERS.fullmatch(token):
                problem = "a token has letters, digits and signs without spaces" if token else "type the token"
                set_props("order-token", {"error": problem})
                return no_update
            set_props("order", {"data": None})
            set_props("order-token", {"value": "", "error": None})
            set_props("order-dialog", {"opened": False})
            is_taken = await self.give(Order(**waiting), token)
            return token if is_taken and is_kept else no_update

        @app.callback(Output("order-dialog", "opened"), Input("order-cancel", "n_clicks"), prevent_initial_call=True)
        async def cancel(_: int) -> bool:
            return False

        @app.callback(
            Output("order", "data"),
            Input("order-dialog", "opened"),
            State("order", "data"),
            prevent_initial_call=True,
        )
        async def closed(is_open: bool, waiting: dict[str, Any] | None) -> Any:
            if is_open or waiting is None:
                return no_update
            say(Order(**waiting).outcome, "Not done: it was not sent.", is_wrong=True)
            return None


def say(outcome: str, line: str, *, is_wrong: bool = False) -> None:
    """Say what has become of an order, from within a callback."""
    set_props(outcome, {"children": line, "data-level": "wrong" if is_wrong else None})


def order_dialog() -> Any:
    """The dialog that asks for the token, closed, and the order that waits for it."""
    return html.Div(
        [
            dcc.Store(id=REMEMBERED, storage_type="session"),
            dcc.Store(id="order"),
            dialog(
                "order-dialog",
                html.P("", id="order-problem", className="alert", role="alert", hidden=True),
                dmc.PasswordInput(
                    id="order-token",
                    label="Token of the daemon’s API",
                    description=(
                        "It is in api-token in the daemon’s state_dir, or where token_file or token_env in [api] says."
                    ),
                    autoComplete="off",
                    **{"data-autofocus": True},
                ),
                dmc.Checkbox(id="order-remember", label="Remember it in this browser tab until it is closed", mt="sm"),
                dmc.Group(
                    [
                        html.Button("Send", id="order-send", className="primary", type="button"),
                        html.Button("Cancel", id="order-cancel", className="plain", type="button"),
                    ],
                    mt="md",
                ),
            ),
        ]
    )
