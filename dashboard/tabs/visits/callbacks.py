"""What the tab Visits draws while somebody looks, and what a person orders there."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from dash import Dash, Input, Output, Patch, State, ctx, no_update, set_props

from dashboard.feed.client import DaemonApi
from dashboard.feed.hub import Hub
from dashboard.tabs.figures import empty
from dashboard.tabs.forms import EVERY, box_id, checked, field_id, without
from dashboard.tabs.orders import Order, Orders
from dashboard.tabs.parts import chosen
from dashboard.tabs.runs import Tick, differing, newer, past_callbacks, problem_props, set_changed
from dashboard.tabs.tables import Row, cell, choice, links, row
from dashboard.tabs.visits import charts
from dashboard.tabs.visits.charts import LOW, SERIES, TALL
from dashboard.tabs.visits.layout import MORE, NAME, step_keys, unused, values_of, whole
from dashboard.tabs.visits.runs import Known, VisitRuns
from dashboard.tabs.visits.sky import FIELD, described, field, field_of, pointing, sky
from dashboard.tabs.visits.words import told
from dashboard.words import NONE, count, lasted, number, signed, size
from schemas.api.visits import VisitsFigures, VisitsSummary
from schemas.config.visits import VisitsConfig

OFF = 0.02
"""Rows that differ from the expected ones by more stand out."""

FILES = {"csv": "CSV", "parquet": "Parquet", "report": "Report"}


def size_rows(figures: VisitsFigures) -> list[Row]:
    """A row a table of the schema."""
    return [_size(name, figures) for name in dict.fromkeys([*figures.sizes, *figures.counts])]


def sizes_note(figures: VisitsFigures) -> str:
    """How much they take together."""
    total = sum(one.table_bytes + one.index_bytes for one in figures.sizes.values())
    return f"{size(total)} in total" if total else ""


def _size(name: str, figures: VisitsFigures) -> Row:
    stored, counted = figures.sizes.get(name), figures.counts.get(name)
    there = counted if counted is not None else None if stored is None else stored.rows
    expected = figures.expected.get(name)
    off = there / expected - 1 if expected and there is not None else None
    table_bytes, index_bytes = (None, None) if stored is None else (stored.table_bytes, stored.index_bytes)
    each = (stored.table_bytes + stored.index_bytes) / there if stored is not None and there else None
    return row(
        name,
        table=name,
        rows=cell(f"{'' if counted is not None or there is None else '≈ '}{count(there)}", there),
        expected=cell(count(expected or None), expected),
        off=cell(
            NONE if off is None else f"{'−' if off < 0 else '+'}{number(100 * abs(off), 1)} %",
            off,
            over=off is not None and counted is not None and abs(off) > OFF,
        ),
        size=cell(size(table_bytes), table_bytes),
        index=cell(size(index_bytes), index_bytes),
        each=cell(count(each), each),
    )


def fit_rows(figures: VisitsFigures) -> list[Row]:
    """A row a line through the points, and the paper's."""
    rows = []
    for name, label, _ in SERIES:
        if (line := figures.fits.get(name)) is not None:
            rows.append(
                row(
                    name,
                    line=label,
                    at=cell(signed(line.intercept), line.intercept),
                    slope=cell(signed(line.slope_per_1000), line.slope_per_1000),
                    interval=cell(f"{signed(line.slope_low)} to {signed(line.slope_high)}", line.slope_low),
                    visits=cell(count(line.visits), line.visits),
                )
            )
    if (paper := figures.paper) is not None:
        at, slope = cell(signed(paper.intercept), paper.intercept), cell(signed(paper.slope_per_1000))
        rows.append(row("paper", line="paper, total", at=at, slope=slope, interval=NONE, visits=NONE))
    return rows


def past_rows(past: Sequence[VisitsSummary], shown: str) -> list[Row]:
    """A row a past run; that of the run that is shown is marked."""
    return [
        row(
            one.id,
            id=choice(one.id, chosen=one.id == shown),
            mode=one.index_mode,
            visits=cell(count(one.visits), one.visits),
            lasted=cell(lasted((one.ended_ns - one.began_ns) / 1e9), one.ended_ns - one.began_ns),
            problem=one.problem or "",
            files=links(*_files(one.id)),
        )
        for one in past
    ]


def _files(run: str) -> Iterator[tuple[str, str, str]]:
    for kind, words in FILES.items():
        yield words, f"/answers/visits/{quote(run, safe='')}/{kind}", f"{words} of {run}, opens in a new tab"


def past_note(past: Sequence[VisitsSummary]) -> str:
    """How many there are."""
    return f"{count(len(past))}, newest first" if past else ""


Drawn = dict[str, Any]
"""Of what the browser has drawn: the run, the stamp of its figures, the scale and the number of points."""


def callbacks(app: Dash, hub: Hub, api: DaemonApi) -> None:
    """Register them."""
    runs = VisitRuns(hub, api)
    _asked(app, runs)
    _told(app, runs)
    _charts(app, runs)
    past_callbacks(app, runs, past_rows, past_note)
    _form(app, Orders(api))


def _asked(app: Dash, runs: VisitRuns) -> None:
    @app.callback(
        Output("visits-problem", "children"),
        Output("visits-problem", "hidden"),
        Output("visits-known", "data"),
        Output("visits-listed", "data"),
        Output("visits-configured", "data"),
        Input("visits-look", "data"),
        Input("visits-again", "data"),
        State("visits-problem", "children"),
        State("visits-known", "data"),
        State("visits-listed", "data"),
        State("visits-configured", "data"),
        prevent_initial_call=True,
    )
    async def look(one: Tick, other: Tick, said: str, *before: Any) -> Any:
        """Ask what is to be drawn, and say whether it is something else than before."""
        view = (newer(one, other) or {"view": {}})["view"]
        problem = await runs.asked(view)
        configured = runs.listed and runs.listed.settings.model_dump(mode="json", by_alias=True)
        return *problem_props(problem, said), *differing((*runs.marks(view), configured), before)


def _told(app: Dash, runs: VisitRuns) -> None:
    @app.callback(
        Output("visits-told", "data"),
        Output("visits-sky", "figure", allow_duplicate=True),
        Input("visits-tick", "data"),
        Input("visits-known", "data"),
        Input("visits-again", "data"),
        State("visits-told", "data"),
        prevent_initial_call=True,
    )
    async def tell(tick: Tick, _: Any, again: Tick, before: dict[str, Any] | None) -> Any:
        """What stands above the charts, and where the telescope looks; now and then all of it, whatever was lost."""
        is_again = "visits-again.data" in ctx.triggered_prop_ids
        shown, was = runs.shown(newer(tick, again)), {} if is_again else before or {}
        now = told(shown) | {"visits-sky-note": {"children": pointing(shown.last, field_of(shown.figures))}}
        changed = set_changed(now, was)
        if "visits-known.data" in ctx.triggered_prop_ids or "visits-sky-note" not in changed:
            return now if changed else no_update, no_update
        change = Patch()
        change["data"][FIELD] = field(shown.last, field_of(shown.figures))
        return now, change


def _charts(app: Dash, runs: VisitRuns) -> None:
    @app.callback(
        Output("visits-time", "figure"),
        Output("visits-boxes", "figure"),
        Output("visits-parts", "figure"),
        Output("visits-over", "figure"),
        Output("visits-sky", "figure"),
        Output("visits-sizes-table", "rowData"),
        Output("visits-fits-table", "rowData"),
        Output("visits-drawn", "data"),
        Input("visits-known", "data"),
        Input("visits-scale", "value"),
        State("visits-drawn", "data"),
        State("visits-tick", "data"),
        prevent_initial_call=True,
    )
    async def draw(named: dict[str, Any] | None, scale: str, drawn: Drawn | None, tick: Tick) -> Any:
        known = runs.known(named["run"]) if named else None
        for name, props in beside(None if known is None else known.figures, scale).items():
            set_props(name, props)
        if named is None or known is None:
            return *map(empty, (TALL, LOW, LOW, LOW)), sky(None, None), [], [], None
        now = {"run": named["run"], "stamp": known.stamp, "scale": scale, "points": len(known.figures.columns["visit"])}
        figure = charts.seconds_by_visit(known.figures, scale)
        time = charts.grown(figure, known.same) if continues(drawn, now, known) else figure
        if drawn is not None and drawn | {"scale": scale} == now:
            return time, *(no_update,) * 6, now
        last = runs.shown(tick).last
        words = described(pointing(last, field_of(known.figures)), known.figures)
        set_props("visits-sky-drawn", {"aria-label": words})
        return time, *(make(known.figures) for make in BY_BIN), sky(known.figures, last), *tables(known.figures), now


BY_BIN = (charts.boxes, charts.steps, charts.over)


def tables(figures: VisitsFigures) -> tuple[list[Row], list[Row]]:
    """The rows of the sizes and of the lines."""
    return size_rows(figures), fit_rows(figures)


def continues(drawn: Drawn | None, now: Drawn, known: Known) -> bool:
    """Whether the browser has drawn the points before those that came since, as large as they are now."""
    if drawn is None or not known.same:
        return False
    was = now | {"stamp": known.stamp - 1, "points": known.same}
    return drawn == was and (drawn["points"] < charts.FEW) == (now["points"] < charts.FEW)


def beside(figures: VisitsFigures | None, scale: str) -> dict[str, dict[str, Any]]:
    """What is said of the charts and the tables, by id of an element the properties of it."""
    if figures is None:
        named = ("time", "boxes", "parts", "over", "sizes", "fits")
        return {f"visits-{name}-note": {"children": ""} for name in named}
    said = charts.notes(figures, scale)
    props: dict[str, dict[str, Any]] = {f"visits-{name}-note": {"children": note} for name, (note, _) in said.items()}
    props |= {f"visits-{name}-drawn": {"aria-label": words} for name, (_, words) in said.items()}
    further: dict[str, dict[str, Any]] = {
        "visits-parts-note": {"children": step_keys(figures)},
        "visits-sizes-note": {"children": sizes_note(figures)},
        "visits-fits-note": {"children": f"paper: {figures.paper.label}" if figures.paper else ""},
    }
    return props | further


def _form(app: Dash, orders: Orders) -> None:
    every = field_id(NAME, EVERY)

    @app.callback(
        Output(every, "value"),
        Input("visits-configured", "data"),
        State(every, "id"),
        prevent_initial_call=True,
    )
    async def prefill(configured: dict[str, Any], ids: list[dict[str, Any]]) -> list[Any]:
        """The configuration, when it is another one: what somebody types meanwhile stays."""
        return values_of(configured, ids)

    @app.callback(
        Output(box_id(NAME, EVERY), "hidden"),
        Input(field_id(NAME, "index_mode"), "value"),
        Input(field_id(NAME, "workers"), "value"),
        State(every, "id"),
    )
    async def follow(index_mode: str, workers: str, ids: list[dict[str, Any]]) -> list[bool]:
        left_out = unused({"index_mode": index_mode, "workers": workers})
        return [named["field"] in left_out for named in ids]

    def start(filled: dict[str, Any], configured: dict[str, Any] | None) -> tuple[Order | None, dict[str, str]]:
        given = without(filled, unused(filled))
        settings, wrong = checked(VisitsConfig, whole(given, configured))
        if settings is None:
            if wrong.keys() & {one.name for one in MORE}:
                set_props("visits-more", {"open": True})
            return None, wrong
        order = Order(
            method="POST",
            path="/visits",
            body=given,
            what="Start a run of visits",
            done="The run was started; it is shown above.",
            outcome="visits-outcome",
            then=[chosen(visits=None)],
        )
        return order, wrong

    orders.on_send(app, NAME, start, State("visits-configured", "data"))
    done = "The run ends with the current visit; a later run continues from there."
    stop = Order(method="DELETE", path="/visits", what="Stop the run of visits", done=done, outcome="visits-stopped")
    orders.on_press(app, "visits-stop", stop)
