"""The tab Reads: reader workloads."""

from typing import Any

from dash import html


def panel() -> list[Any]:
    """The workloads that run."""
    return [html.Section([html.H2("Reader workloads"), html.Ul(id="readers")], className="panel")]
