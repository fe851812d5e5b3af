"""The smallest configuration that has a state folder: one group, bpm, of three instruments."""

from collections.abc import Sequence
from pathlib import Path

from schemas.config import parse_config
from schemas.readings import InstrumentGroup


def write_one_group(folder: Path, *, channels: Sequence[str] = ("x",), logger: str = "") -> Path:
    """Write it into a folder, in which its state folder is `state`; return the file. logger: its name, if any."""
    lines = [f'logger = "{logger}"'] if logger else []
    named = ", ".join(f'{{ name = "{name}" }}' for name in channels)
    lines += [f'state_dir = "{folder / "state"}"', "[[groups]]", 'name = "bpm"', "count = 3", f"channels = [{named}]"]
    file = folder / "beam.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def group_in(file: Path) -> InstrumentGroup:
    """The group of that configuration."""
    return parse_config(file.read_text()).groups[0].group()
