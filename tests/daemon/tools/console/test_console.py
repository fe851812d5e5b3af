"""Consoles of the commands."""

import pytest
from rich.table import Table

from daemon.tools.console import labelled, make_console


def test_tables_of_the_configuration_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.add_column("why [bold]")
    table.add_row("set another `schema` in [visits]")
    console = make_console(file_width=60)
    console.print(table)
    console.print("visits wait: see [database] in beam.toml")
    console.print(labelled("kept", 8, "[bold]/run.csv"))
    said = capsys.readouterr().out
    for words in ("why [bold]", "in [visits]", "see [database] in", "kept     [bold]/run.csv"):
        assert words in said
