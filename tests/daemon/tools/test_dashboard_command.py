"""`triggerlog dashboard FILE`: what of the configuration the page is started with."""

from pathlib import Path

from daemon.core.configuration import load_config
from daemon.tools.commands.run import page_arguments

GROUP = '[[groups]]\nname = "bpm"\ncount = 2\nchannels = [{ name = "x" }]\n'


def test_the_page_is_started_as_the_configuration_says(tmp_path: Path) -> None:
    file = tmp_path / "beam.toml"
    file.write_text(f'{GROUP}[dashboard]\nport = 8444\ntime_zone = "Asia/Kolkata"\ntabs = ["own.py"]\n')
    assert page_arguments(load_config(file, asks_database=False), host="127.0.0.2") == [
        *("--host", "127.0.0.2"),
        *("--port", "8444"),
        *("--time-zone", "Asia/Kolkata"),
        *("--tab", str(tmp_path / "own.py")),
    ]
    assert page_arguments(None) == ["--host", "127.0.0.1", "--port", "8121"]
