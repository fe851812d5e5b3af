"""What the tab Conditions asks and draws while somebody looks."""

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, State, no_update

from dashboard.feed.cache import TtlCache
from dashboard.feed.client import DaemonApi, DaemonUnavailable
from dashboard.feed.conditions import ConditionsServer
from dashboard.feed.hub import Hub
from dashboard.feed.relay import NotThere
from dashboard.tabs.conditions.asked import Compared, Drawn, compared, drawn
from dashboard.tabs.conditions.figures import height, timeline, timeline_note
from dashboard.tabs.conditions.rows import difference_note, difference_rows, newest_first, tag_rows, tags_note
from dashboard.tabs.figures import empty
from schemas.api.conditions import TagRow

TAGS_S = 2.0
"""An answer younger than this is shown again: the server is asked once, however many look."""

DRAWN_S = 60.0
"""A choice is known by when its tags changed: within this time nothing of it is asked again."""

DRAWN_MOST = 16

Listed = dict[str, list[Any]]
"""By tag what changes with it: when it last did, and how many intervals it has."""

UNANSWERED = (DaemonUnavailable, NotThere)


def callbacks(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Register them."""
    server = ConditionsServer(hub, api.daemon)
    _listed(app, server)
    _types(app, server)
    _choice(app, server)


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
        Input("conditions-tick", "data"),
        State("conditions-listed", "data"),
        State("conditions-chosen", "value"),
    )
    async def look(tick: dict[str, Any] | None, before: Listed | None, chosen: list[str]) -> Any:
        """List the tags; at first the two that changed last are chosen."""
        if tick is None or server.url is None:
            return (no_update,) * 7
        try:
            tags = newest_first(await answers.get(server.url, TAGS_S, server.tags))
        except UNANSWERED as problem:
            return no_update, no_update, f"Tags are unknown: {problem}.", False, *(no_update,) * 3
        listed: Listed = {tag.name: [tag.updated, tag.payload_iov_count] for tag in tags}
        is_new = listed != before
        first = [] if before else [tag.name for tag in reversed(tags[:2])]
        there = [name for name in chosen if name in listed] or first
        return (
            tag_rows(tags),
            tags_note(tags),
            "",
            True,
            listed if is_new else no_update,
            list(listed) if is_new else no_update,
            there if there != chosen else no_update,
        )


def _types(app: Dash, server: ConditionsServer) -> None:
    @app.callback(
        Output("conditions-type", "data"),
        Output("conditions-type", "value"),
        Input("conditions-chosen", "value"),
        Input("conditions-listed", "data"),
        State("conditions-type", "value"),
        prevent_initial_call=True,
    )
    async def offer(chosen: list[str], listed: Listed | None, before: str | None) -> Any:
        """Offer the types that the chosen tags have."""
        try:
            found = sorted({type_ for tag in chosen for type_ in await server.lists(tag)}) if listed else []
        except UNANSWERED:
            return no_update, no_update  # the list of tags says why
        return found, before if before in found else next(iter(found), None)


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
