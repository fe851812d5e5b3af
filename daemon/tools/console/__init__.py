"""What commands print on a terminal: consoles, which print text as it is, and progress bars (`progress`).

Rich would take `[visits]` in a message, which names a table of the configuration, for markup, and print nothing of it.
"""

import sys

from rich.console import Console
from rich.text import Text

FILE_WIDTH = 120
"""Columns of a table in a file or a pipe, where there is no terminal."""


def make_console(*, stderr: bool = False, file_width: int | None = None, highlight: bool = True) -> Console:
    """Make a console; `file_width` is its width where it is not a terminal."""
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, width=None if is_terminal else file_width, markup=False, highlight=highlight)


def labelled(label: str, width: int, text: object) -> Text:
    """A line of a summary: its name in bold, and the rest in one column."""
    return Text.assemble((f"{label:<{width}}", "bold"), f" {text}")
