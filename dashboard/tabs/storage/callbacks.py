"""What the tab Storage draws each second, of the status and of what the daemon is asked."""

from typing import Any

from dash import Dash, Input, Output, State, html, no_update, set_props

from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.hub import Hub
from dashboard.feed.relay import NotThere, TtlCache, answer_of
from dashboard.tabs.forms import checked, field_id
from dashboard.tabs.orders import Order, Orders
from dashboard.tabs.parts import data, key
from dashboard.tabs.storage.picture import EMBER, colours, height, picture, stamp
from dashboard.tabs.storage.rows import (
    Pair,
    account_note,
    account_rows,
    beside_rows,
    decimation_words,
    described,
    durability_note,
    durability_pairs,
    journal_rows,
    outage_note,
    outage_rows,
    partition_rows,
    partitions_note,
    reduced_rows,
    retention_words,
    stored_note,
    stored_rows,
    tiers_words,
)
from schemas.api.status import Status
from schemas.api.storage import Storage
from schemas.api.tiers import TierMove

STORAGE_S = 4.0
"""An answer younger than this is shown again: the daemon is asked once, however many look."""


def callbacks(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Register them."""
    answers = TtlCache[Storage]()
    _move_form(app, hub, Orders(api))

    @app.callback(
        Output("outage-table", "rowData"),
        Output("outage-note", "children"),
        Output("durability", "children"),
        Output("durability-note", "children"),
        Output("durability-shown", "data"),
        Output("account-table", "rowData"),
        Output("beside-table", "rowData"),
        Output("account-note", "children"),
        Input("storage-tick", "data"),
        State("durability-shown", "data"),
    )
    async def draw(tick: dict[str, Any] | None, shown: list[list[Any]] | None) -> Any:
        status = hub.status
        if status is None or tick is None:
            return (no_update,) * 8
        pairs = durability_pairs(status)
        is_new = shown is None or pairs != [tuple(pair) for pair in shown]
        return (
            outage_rows(status),
            outage_note(status.store, is_dead=tick["dead"]),
            _listed(pairs) if is_new else no_update,
            durability_note(status.store),
            pairs if is_new else no_update,
            account_rows(status),
            beside_rows(status),
            account_note(status),
        )

    @app.callback(
        Output("storage-problem", "children"),
        Output("storage-problem", "hidden"),
        Output("storage-picture-stamp", "data"),
        Input("storage-tick", "data"),
        State("storage-picture-stamp", "data"),
    )
    async def ask(tick: dict[str, Any] | None, drawn: int | None) -> Any:
        status = hub.status
        if status is None or tick is None:
            return (no_update,) * 3
        try:
            storage = await answers.get("storage", STORAGE_S, lambda: answer_of(api, Storage, "/storage"))
        except (DaemonUnavailable, NotThere) as problem:
            return f"Sizes are unknown: {problem}.", False, no_update
        _draw_sizes(storage, status, tick["view"]["group"])
        now = stamp(storage, status)
        if now == drawn:
            return "", True, no_update
        _draw_picture(storage, status)
        return "", True, now


def _move_form(app: Dash, hub: Hub, orders: Orders) -> None:
    @app.callback(
        Output("move-box", "hidden"),
        Output(field_id("move", "tier"), "data"),
        Input("storage-tick", "data"),
        State(field_id("move", "tier"), "data"),
    )
    async def offer(_: dict[str, Any] | None, offered: list[dict[str, str]]) -> Any:
        tiers = hub.status and hub.status.tiers
        found = [{"value": tier.name, "label": tier.name} for tier in tiers.tiers] if tiers else []
        return not found, no_update if found == offered else found

    def asked(given: dict[str, Any], tick: dict[str, Any] | None) -> tuple[Order | None, dict[str, str]]:
        move, wrong = checked(TierMove, given | {"group": tick["view"]["group"] if tick else ""})
        if move is None:
            return None, wrong
        what = f"Move {move.partition} of {move.group} to {move.tier}"
        done = f"{move.partition} is moved to {move.tier} next."
        order = Order(
            method="POST",
            path="/tiers/move",
            body=move.model_dump(),
            what=what,
            done=done,
            waits=done,
            outcome="move-outcome",
        )
        return order, wrong

    orders.on_send(app, "move", asked, State("storage-tick", "data"))


def _draw_sizes(storage: Storage, status: Status, group: str) -> None:
    journals = journal_rows(storage, status)
    set_props("stored-table", {"rowData": stored_rows(storage, status)})
    set_props("stored-note", {"children": stored_note(storage, status)})
    words = (tiers_words(status), decimation_words(status), retention_words(status))
    set_props("storage-next", {"children": [html.P(line, className="hint") for line in words if line]})
    set_props("partitions-table", {"rowData": partition_rows(storage, group)})
    set_props("partitions-note", {"children": partitions_note(storage, group)})
    reduced = reduced_rows(storage)
    set_props("reduced-table", {"rowData": reduced})
    set_props("reduced-box", {"hidden": not reduced})
    set_props("journals-table", {"rowData": journals})
    set_props("journals-note", {"children": "where readings wait for the database" if journals else ""})


def _draw_picture(storage: Storage, status: Status) -> None:
    tall = {"height": f"{height(storage)}px"}
    set_props("storage-picture", {"figure": picture(storage, status), "style": tall})
    set_props("storage-picture-drawn", {"aria-label": f"Partitions by time: {described(storage)}"})
    known = [key(tier, colour, "block") for tier, colour in colours(status).items() if tier is not None]
    set_props("storage-picture-note", {"children": [*known, key("heat", EMBER, "block")] if known else ""})


def _listed(pairs: list[Pair]) -> list[Any]:
    found: list[Any] = []
    for name, value, is_over in pairs:
        found += [html.Dt(name), html.Dd(value, **(data(level="over") if is_over else {}))]
    return found
