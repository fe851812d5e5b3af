"""The layout of the tab Reads: reader workloads, the governor that limits them, and the forms that start them."""

from typing import Any

from dash import dcc, html

from dashboard.tabs.figures import CALM, GREY
from dashboard.tabs.forms import Field, fields, form, outcome, workload_fields
from dashboard.tabs.parts import aria, chart_panel, panel_head, tick
from dashboard.tabs.reads.snapshots.layout import snapshot_panels
from dashboard.tabs.tables import Column, columns, table
from schemas.config.workloads import GovernorConfig, Workload

WORKLOADS = [
    Column(name="name", label="Workload", width=100, wide=True),
    Column(name="asks", label="Asks", words=True, width=124, wide=True),
    Column(name="state", label="State", words=True, width=110, wide=True),
    *columns(("clients", "Clients", "that may ask now, of all"), ("rate", "Answers/s"), ("rows", "Rows/s"), width=96),
    *columns(
        ("p50", "p50 ms"),
        ("p99", "p99 ms"),
        ("max", "Max ms"),
        ("deadline", "Deadline ms"),
        ("efficiency", "In time", "answered within the deadline, of all questions since the start"),
        width=74,
    ),
    *columns(
        ("slipped", "Slipped", "by how much late answers delayed the questions after them, in total"),
        ("failed", "Failed", "questions without an answer"),
        width=64,
    ),
    Column(name="since", label="Since", width=82, wide=True),
    Column(name="stop", label="Action", press=True, width=78),
]
NAME = Field(name="name", label="Name", value="operators")
CEILINGS = fields(("commit_p99_ms", "Commit p99 at most, ms"), ("backlog_triggers", "Backlog at most, triggers"))


def panel() -> list[Any]:
    """Workloads, their charts, the governor, and a form."""
    return [
        tick("reads-tick", "readers", "governor", every_ms=1000),
        tick("reads-groups", "head"),
        dcc.Store(id="reads-group"),
        dcc.Store(id="governor-shown"),
        html.Div(
            [_workloads(), _charts(), html.Div([_start(), _governor()], className="columns"), *snapshot_panels()],
            className="stack",
        ),
    ]


def _workloads() -> Any:
    return html.Section(
        [
            panel_head("Reader workloads", "readers-note"),
            table("readers", WORKLOADS, "No reader workload is running."),
            outcome("readers-outcome"),
        ],
        className="panel",
    )


def _charts() -> Any:
    return html.Section(
        [
            chart_panel("reads", "Answers/s", (("answers", "reads", CALM),), "/s"),
            chart_panel(
                "readers", "Clients that may ask", (("clients", "readers", GREY),), "clients", axis={"least": 4}
            ),
            chart_panel("read-p99", "p99 of the slowest workload, ms", (("p99", "read_p99", CALM),), "ms"),
        ],
        className="charts",
        **aria("Charts of the reading"),
    )


def _start() -> Any:
    return html.Section(
        [
            panel_head("Start a workload", "reader-kind-note"),
            form("reader", Workload, [NAME, *workload_fields()], "Start"),
        ],
        className="panel",
    )


def _governor() -> Any:
    off = html.Button("Turn off", id="governor-off", className="plain", type="button", hidden=True)
    return html.Section(
        [
            panel_head("Governor", "governor-state"),
            html.P(id="governor-reason"),
            html.P(
                "With a ceiling set, readers are admitted only while the writing stays below it: otherwise fewer of "
                "them ask, or less often.",
                className="hint",
            ),
            form("governor", GovernorConfig, CEILINGS, "Set these ceilings", off),
        ],
        className="panel stack",
    )
