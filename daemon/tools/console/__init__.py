"""What commands print on a terminal: consoles and lines (`console`), progress bars (`progress`)."""

from daemon.tools.console.console import FILE_WIDTH, labelled, make_console

__all__ = ["FILE_WIDTH", "labelled", "make_console"]
