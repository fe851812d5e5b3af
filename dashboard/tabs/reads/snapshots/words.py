"""A run of snapshot readers in words: what it is, how far it is, its tiles, and a row a run that was."""

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from dashboard import zone
from dashboard.tabs import runs
from dashboard.tabs.parts import ASKING
from dashboard.tabs.reads.snapshots.charts import LOOKS, client_counts, deadline_s
from dashboard.tabs.reads.snapshots.runs import Shown
from dashboard.tabs.runs import Props, Tile, tile_props, without_data
from dashboard.tabs.tables import Row, cell, choice, row
from dashboard.words import NONE, about, count, moment, number, seconds, size
from schemas.api.snapshots import (
    Ask,
    ClientState,
    Sample,
    SnapshotFigures,
    SnapshotSettings,
    SnapshotsStatus,
    SnapshotsSummary,
)
from schemas.states import RunState

STATES = runs.STATES | {
    "loading": "◔ loading",
    "measuring": "◔ counting blocks",
    "reading": "● reading",
}

EMPTY: list[Any] = [
    "Clients start one after the other, and each reads all that is valid at a time from folders of channels, once in ",
    "a cycle: what counts is how many cycles end in time. Start a run below, or with ",
    html.Code("triggerlog snapshots run"),
    ".",
]
FORM_NOTES = {True: "a run is active; stop it first", False: ""}
"""What keeps from a start, by whether a run is under way."""

ALL_IN_TIME = 1.0


def told(shown: Shown) -> Props:
    """What stands above the charts, by id of an element the properties of it."""
    live = shown.live if shown.live is not None and shown.live.is_active and not shown.is_dead else None
    head = f"Snapshot readers: run {shown.id}" if shown.id else "Snapshot readers"
    done = None if live is None else _done(live)
    props: Props = {
        "snapshots-title": {"children": head},
        "snapshots-summary": {
            "children": summary(shown) if shown.id else ASKING,
            "hidden": not shown.id and shown.is_listed,
            "title": None if shown.live is None else shown.live.target,
        },
        "snapshots-empty": {"hidden": bool(shown.id) or not shown.is_listed},
        "snapshots-progress": {"hidden": done is None}
        | ({} if done is None else {"max": done[1], "value": str(done[0])}),
        "snapshots-order": {"hidden": live is None},
        "snapshots-phase": {"children": "" if live is None else progress(live)},
        "snapshots-shown": {"hidden": shown.live is None and shown.known is None},
        "snapshots-clients-panel": {"hidden": live is None or not live.states},
        "snapshots-form-note": {"children": FORM_NOTES[shown.is_busy]},
    }
    return props | tile_props("snapshots", tiles(shown))


def _done(live: SnapshotsStatus) -> tuple[int, int]:
    """What of how much is done of the phase."""
    if live.started:
        return live.figures.cycles, max(1, live.cycles)
    return live.loading.rows, max(1, live.loading.rows_in_all)


def progress(live: SnapshotsStatus) -> str:
    """How far a run is."""
    if live.started:
        parts = [f"{count(live.figures.cycles)} of {count(live.cycles)} cycles"]
    else:
        parts = [f"{count(live.loading.rows)} of {count(live.loading.rows_in_all)} rows loaded"]
        parts += [] if live.loading.row_rate is None else [f"{count(live.loading.row_rate)} rows/s"]
    parts += [] if live.remaining_s is None else [f"about {about(live.remaining_s)} left"]
    return " · ".join([*parts, *([live.problem] if live.problem else [])])


def summary(shown: Shown) -> str:
    """When it was, what it was asked to do, and why it ended early."""
    live, kept = shown.live, shown.kept
    began_ns = kept.began_ns if kept is not None else None if live is None else live.since_ns
    parts = [] if began_ns is None else [f"{moment(began_ns / 1e6)} {zone.label()}"]
    record = None if shown.known is None else shown.known.record
    parts += [f"{record.product} {record.version}"] if record is not None and record.product else []
    parts += [] if shown.settings is None else settings_words(shown.settings)
    ended = live.state.is_over if live is not None else True
    why = (live.problem if live is not None else kept.problem if kept is not None else None) if ended else None
    return " · ".join(parts) + (f". It ended early: {why}." if why else "")


def settings_words(asked: SnapshotSettings) -> list[str]:
    """What a run is asked to do, in parts."""
    if asked.sample is Sample.CONTROL:
        data = f"control sample of {count(asked.rows_in_all)} rows"
    else:
        folders, channels, intervals = map(count, (asked.folders, asked.channels, asked.intervals))
        data = f"{folders} folders of {channels} channels with {intervals} intervals"
    what = "changes" if asked.ask is Ask.CHANGES else "a snapshot"
    return [
        f"layout {asked.layout.value}",
        data,
        f"{asked.payload.value} values of {count(asked.payload_bytes)} characters",
        f"{count(asked.clients)} clients, {what} each in a cycle of {seconds(asked.cycle_data_s * asked.scale)} s",
    ]


def plan(asked: SnapshotSettings) -> str:
    """What a run that is started would do."""
    cycle_s = asked.cycle_data_s * asked.scale
    lasts_s = (asked.clients - 1) * asked.chunk_s * asked.scale + asked.cycles * cycle_s
    loads = f"{count(asked.rows_in_all)} rows, {size(asked.rows_in_all * asked.payload_bytes)}"
    return (
        f"Loads {loads}, unless they are there; then {count(asked.cycles)} cycles of {seconds(cycle_s)} s for each "
        f"client: {about(lasts_s)} in all. The clients ask for {count(asked.rows_asked)} rows/s."
    )


# --- tiles ------------------------------------------------------------------------------------------------------------


def tiles(shown: Shown) -> Mapping[str, Tile]:
    """The tiles by name."""
    if shown.live is not None:
        found = _of_live(shown.live)
        return without_data(found) if shown.is_dead else found
    record = None if shown.known is None else shown.known.record
    if record is None:
        return {}
    state = Tile(value=STATES[record.state], note="from the archive")
    asked = record.settings.rows_asked
    rows = _rows(record.figures.row_rate, asked, "over the whole run")
    return {"state": state, "clients": Tile(value=count(record.settings.clients))} | _measured(
        record.figures, record.settings, rows, record.figures.byte_rate
    )


def _of_live(live: SnapshotsStatus) -> dict[str, Tile]:
    state = STATES[live.phase if live.state is RunState.RUNNING else live.state]
    lately = live.lately if live.is_active else None
    row_rate, byte_rate = live.figures.row_rate, live.figures.byte_rate
    if lately is not None:
        row_rate, byte_rate = lately.row_rate, lately.byte_rate
    rows = _rows(row_rate, live.rows_asked, "lately" if lately is not None else "over the whole run")
    left, unit = about(live.remaining_s).split(" ") if live.remaining_s else (NONE, "")
    return {
        "state": Tile(value=state, note=live.problem or "", is_over=live.state is RunState.FAILED),
        "clients": _clients(live),
        "left": Tile(value=left, unit=unit, note=f"{count(live.figures.cycles)} of {count(live.cycles)} cycles"),
    } | _measured(live.figures, live.settings, rows, byte_rate)


def _clients(live: SnapshotsStatus) -> Tile:
    counts = client_counts(live)
    late = counts.get(ClientState.LATE, 0)
    reading = late + counts.get(ClientState.READING, 0) + counts.get(ClientState.CONNECTING, 0)
    waiting = counts.get(ClientState.WAITING, 0)
    return Tile(
        value=count(reading),
        unit=f"of {count(live.settings.clients)}",
        note=f"read; {count(late)} late, {count(waiting)} waiting",
        is_over=late > 0,
    )


def _measured(found: SnapshotFigures, asked: SnapshotSettings, rows: Tile, byte_rate: float | None) -> dict[str, Tile]:
    limit_s, share = deadline_s(asked), found.efficiency
    cpu = f"clients {_percent(found.clients_percent)}, machine {_percent(found.machine_percent)}"
    return {
        "efficiency": Tile(
            value=_share(share),
            unit="%",
            note=f"{count(found.in_time)} of {count(found.cycles)} cycles, {count(found.failed)} failed",
            is_over=share is not None and share < ALL_IN_TIME,
        ),
        "query": Tile(
            value=seconds(found.p50_s),
            unit="s",
            note=f"p90 {seconds(found.p90_s)}, longest {seconds(found.max_s)} · deadline {seconds(limit_s)}",
            is_over=found.p90_s is not None and found.p90_s > limit_s,
        ),
        "rows": rows,
        "bytes": Tile(
            value=NONE if byte_rate is None else number(byte_rate / 1e6), unit="MB/s", note="values and keys"
        ),
        "blocks": Tile(value=count(found.blocks_read), note=f"a snapshot; {count(found.blocks_hit)} in the cache"),
        "cpu": Tile(
            value=NONE if found.server_percent is None else number(found.server_percent, 0), unit="%", note=cpu
        ),
    }


def _rows(rate: float | None, asked: float, when: str) -> Tile:
    return Tile(value=count(rate), note=f"{when} · asked {count(asked)}")


def _share(fraction: float | None) -> str:
    """In %: 100 is said of nothing less."""
    return NONE if fraction is None else number(100 * fraction, 0 if fraction == ALL_IN_TIME else 1)


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{number(value, 0)} %"


# --- the legend of the bars, and runs that were -----------------------------------------------------------------------


def client_keys(live: SnapshotsStatus) -> list[tuple[str, str]]:
    """Label and colour of what clients do now."""
    return [
        (f"{LOOKS[state][0]} {amount} {state.value}", LOOKS[state][1]) for state, amount in client_counts(live).items()
    ]


def past_rows(past: Sequence[SnapshotsSummary], shown: str) -> list[Row]:
    """A row a past run; that of the run that is shown is marked."""
    return [
        row(
            one.id,
            id=choice(one.id, chosen=one.id == shown),
            layout=one.layout.value,
            data=cell(f"{count(one.folders)} × {count(one.channels)}", one.folders * one.channels),
            clients=cell(count(one.clients), one.clients),
            asked=cell(count(one.rows_asked), one.rows_asked),
            efficiency=cell(
                NONE if one.efficiency is None else f"{_share(one.efficiency)} %",
                -1 if one.efficiency is None else one.efficiency,
                over=one.efficiency is not None and one.efficiency < ALL_IN_TIME,
            ),
            state=cell(
                f"{STATES[one.state]}{f': {one.problem}' if one.problem else ''}", over=one.state is RunState.FAILED
            ),
        )
        for one in past
    ]


def past_note(past: Sequence[SnapshotsSummary]) -> str:
    """How many there are."""
    return f"{count(len(past))}, newest first" if past else ""
