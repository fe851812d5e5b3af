"""What the tab Conditions asks and draws while somebody looks."""

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, State, no_update

from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.conditions import ConditionsServer
from dashboard.feed.hub import Hub
from dashboard.feed.relay import NotThere, TtlCache
from dashboard.tabs.conditions.figures import height, timeline, timeline_note
from dashboard.tabs.conditions.folders import folders_callbacks
from dashboard.tabs.conditions.layout import MOST_TAGS
from dashboard.tabs.conditions.rows import (
    Compared,
    Drawn,
    client_rows,
    clients_note,
    compared,
    difference_note,
    difference_rows,
    drawn,
    newest_first,
    tag_rows,
    tags_note,
)
from dashboard.tabs.figures import empty
from dashboard.tabs.parts import choose
from schemas.api.conditions import TagRow

TAGS_S = 2.0
"""An answer younger than this is shown again: the server is asked once, however many look."""

DRAWN_S = 60.0
"""A choice is known by when its tags changed: within this time nothing of it is asked again."""

DRAWN_MOST = 16

Listed = dict[str, list[Any]]
"""By tag what changes with it: when it last did, and how many intervals it has."""

Shown = dict[str, Any]
"""What is shown: `tags`; `usual`, those that are shown where the address names none; `type`, that the address names."""

BETWEEN = "/"
"""Tags in the address; no tag has it in its name."""

UNANSWERED = (DaemonUnavailable, NotThere)


def callbacks(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Register them."""
    server = ConditionsServer(hub, api.daemon)
    _listed(app, server)
    _types(app, server)
    _choice(app, server)
    _chosen(app)
    _clients(app, hub)
    folders_callbacks(app, api)


def _listed(app: Dash, server: ConditionsServer) -> None:
    answers = TtlCache[Sequence[TagRow]]()

    @app.callback(
        Output("conditions-tags-table", "rowData"),
        Output("conditions-tags-note", "children"),
        Output("conditions-problem", "children"),
        Output("conditions-problem", "hidden"),
        Output("conditions-listed", "data"),
        Output("conditions-chosen", "data"),
        Output("conditions-chosen", "value"),
        Output("conditions-shown", "data"),
        Input("conditions-tick", "data"),
        State("conditions-listed", "data"),
        State("conditions-chosen", "value"),
        State("conditions-shown", "data"),
    )
    async def look(tick: dict[str, Any] | None, before: Listed | None, chosen: list[str], seen: Shown | None) -> Any:
        """List the tags; those that the address names are chosen, else the two that had changed last at first."""
        if tick is None or server.url is None:
            return (no_update,) * 8
        try:
            tags = newest_first(await answers.get(server.url, TAGS_S, server.tags))
        except UNANSWERED as problem:
            return no_update, no_update, f"Tags are unknown: {problem}.", False, *(no_update,) * 4
        listed: Listed = {tag.name: [tag.updated, tag.payload_iov_count] for tag in tags}
        is_new = listed != before
        shown, lost = shown_of(tick["view"], listed, seen)
        return (
            tag_rows(tags),
            tags_note(tags),
            lost,
            not lost,
            listed if is_new else no_update,
            list(listed) if is_new else no_update,
            shown["tags"] if shown["tags"] != chosen else no_update,
            shown if shown != seen else no_update,
        )


def shown_of(view: Mapping[str, Any], listed: Listed, seen: Shown | None) -> tuple[Shown, str]:
    """What is to be shown of the tags that there are, by the address; and which of its tags are not there, in one line.

    listed: the tag that changed last first. seen: what was shown before, None at first.
    """
    usual = [name for name in (seen or {}).get("usual", ()) if name in listed] or list(listed)[:2][::-1]
    asked = None if view["tags"] is None else [name for name in view["tags"].split(BETWEEN) if name][:MOST_TAGS]
    tags = usual if asked is None else [name for name in asked if name in listed]
    lost = [name for name in asked or () if name not in listed]
    problem = f"The address names what is not there: {', '.join(lost)}." if lost else ""
    return {"tags": tags, "usual": usual, "type": view["type"]}, problem


def _types(app: Dash, server: ConditionsServer) -> None:
    @app.callback(
        Output("conditions-type", "data"),
        Output("conditions-type", "value"),
        Output("conditions-offered", "data"),
        Input("conditions-shown", "data"),
        Input("conditions-listed", "data"),
        prevent_initial_call=True,
    )
    async def offer(shown: Shown | None, listed: Listed | None) -> Any:
        """Offer the types that the chosen tags have; the one that the address names is chosen, else the first."""
        if not shown or not listed:
            return (no_update,) * 3
        try:
            found = sorted({type_ for tag in shown["tags"] for type_ in await server.lists(tag)})
        except UNANSWERED:
            return (no_update,) * 3  # the list of tags says why
        type_ = shown["type"] if shown["type"] in found else next(iter(found), None)
        return found, type_, type_


def _chosen(app: Dash) -> None:
    """What a person chooses goes into the address; what the page has put there itself is no choice."""

    @app.callback(Input("conditions-chosen", "value"), State("conditions-shown", "data"), prevent_initial_call=True)
    async def tags(chosen: list[str], shown: Shown | None) -> None:
        if shown is not None and chosen != shown["tags"]:
            choose(tags=BETWEEN.join(chosen))

    @app.callback(Input("conditions-type", "value"), State("conditions-offered", "data"), prevent_initial_call=True)
    async def type_(value: str | None, offered: str | None) -> None:
        if value is not None and value != offered:
            choose(type=value)


def _clients(app: Dash, hub: Hub) -> None:
    @app.callback(
        Output("conditions-clients-table", "rowData"),
        Output("conditions-clients-note", "children"),
        Input("conditions-tick", "data"),
        prevent_initial_call=True,
    )
    async def clients(_: Any) -> Any:
        """Who asked within the last minute."""
        if hub.status is None or hub.status.conditions is None:
            return no_update, no_update
        told = hub.status.conditions.clients
        return client_rows(told), clients_note(told)


def _choice(app: Dash, server: ConditionsServer) -> None:
    figures = TtlCache[tuple[Drawn, Compared | None]](DRAWN_MOST)

    @app.callback(
        Output("conditions-timeline", "figure"),
        Output("conditions-timeline", "style"),
        Output("conditions-timeline-note", "children"),
        Output("conditions-differences-table", "rowData"),
        Output("conditions-differences-note", "children"),
        Output("conditions-drawn-problem", "children"),
        Output("conditions-drawn-problem", "hidden"),
        Input("conditions-type", "value"),
        Input("conditions-chosen", "value"),
        Input("conditions-listed", "data"),
        prevent_initial_call=True,
    )
    async def draw(type_: str | None, chosen: list[str], listed: Listed | None) -> Any:
        """Draw a type's intervals in the chosen tags, and compare the first two of these."""
        if not listed or not chosen:
            return *_drawn(None), [], "", "", True
        known = tuple((tag, *listed.get(tag, ())) for tag in chosen)
        try:
            shown, found = await figures.get(
                (server.url, type_, known), DRAWN_S, lambda: _asked(server, type_ or "", chosen, listed)
            )
        except UNANSWERED as problem:
            return *_drawn(None), [], "", f"Intervals are unknown: {problem}.", False
        compared_words = ([], "") if found is None else (difference_rows(found), difference_note(found))
        return *_drawn(shown), *compared_words, "", True


async def _asked(
    server: ConditionsServer, type_: str, chosen: Sequence[str], listed: Mapping[str, Sequence[Any]]
) -> tuple[Drawn, Compared | None]:
    shown = await drawn(server, chosen, type_)
    if len(chosen) < 2:
        return shown, None
    sizes = {tag: amount for tag, (_, amount) in listed.items()}
    return shown, await compared(server, chosen[0], chosen[1], sizes=sizes, shown=shown)


def _drawn(shown: Drawn | None) -> tuple[Any, dict[str, str], str]:
    """The timeline, its style, and its note."""
    if shown is None or not any(map(len, shown.lists.values())):
        nothing = "" if shown is None else timeline_note(shown.lists, shown.too_long)
        return empty(height(1)), {"height": f"{height(1)}px"}, nothing
    tall = {"height": f"{height(len(shown.lists))}px"}
    return timeline(shown.lists), tall, timeline_note(shown.lists, shown.too_long)
