"""The frame of the page and its application go by the list of tabs."""

import os
from pathlib import Path

import pytest
from dash import html

from dashboard import tabs
from dashboard.own_tabs.loading import ids_of
from dashboard.tabs import TABS, page
from dashboard.tabs.page import banner
from dashboard.tabs.tab import Tab
from schemas.config.listeners import PAGE_TABS

PACKAGES = {path.parent.name for path in Path(tabs.__file__).parent.glob("*/__init__.py")}


def test_every_package_of_a_tab_is_in_the_list_and_its_key_is_its_name() -> None:
    assert [tab.key for tab in TABS] == list(dict.fromkeys(tab.key for tab in TABS))
    assert {tab.key for tab in TABS} == PACKAGES
    assert tuple(tab.key for tab in TABS) == PAGE_TABS


def test_the_frame_has_a_button_and_a_panel_for_each_tab() -> None:
    found = ids_of(page.page("build", TABS))
    assert [name for name in found if name.startswith("tab-")] == [f"tab-{tab.key}" for tab in TABS]
    assert [name for name in found if name.startswith("panel-")] == [f"panel-{tab.key}" for tab in TABS]


def test_a_tab_that_is_added_to_the_list_is_on_the_page() -> None:
    added = Tab(key="tiers", title="Tiers", layout=lambda: [html.P(id="tiers-note")], overlay=lambda: html.P(id="top"))
    found = set(ids_of(page.page("build", (*TABS, added))))
    assert {"tab-tiers", "panel-tiers", "fill-tiers", "open-tiers", "top"} <= found


@pytest.mark.parametrize(("further", "keys"), [(0, "1 … 7"), (2, "1 … 9"), (3, "1 … 9")])
def test_the_list_of_keys_has_as_many_digits_as_there_are(further: int, keys: str) -> None:
    added = [Tab(key=f"own{n}", title="Own", layout=list) for n in range(further)]
    shown = page.page("build", (*TABS, *added))
    assert keys in [part.children for part in shown._traverse() if isinstance(part, html.Kbd)]


def test_a_run_is_told_with_all_its_digits() -> None:
    shown = [part.to_plotly_json()["props"] for part in page.header()._traverse() if isinstance(part, html.Span)]
    assert [part["data-format"] for part in shown if part.get("data-live") == "group.run"] == ["text"]


def test_who_started_it_by_hand_is_not_told_of_services(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "systemctl" not in str(banner())
    monkeypatch.setenv("SYSTEMD_EXEC_PID", str(os.getpid()))
    assert "systemctl status triggerlog-dashboard" in str(banner())
