"""Settings of a run as the command line says them."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from schemas.api.snapshots import SnapshotSettings


def with_changes(changes: Mapping[str, Any]) -> SnapshotSettings:
    """The defaults with some fields changed; all is checked.

    Raises:
        pydantic.ValidationError: they do not fit together.
    """
    # Strictly, and by way of JSON, as a configuration is checked: `"clients": "100"` does not pass.
    return SnapshotSettings.model_validate_json(json.dumps(dict(changes)), strict=True)


def command_of(settings: SnapshotSettings, *more: str) -> str:
    """The command that repeats a run; `more` are further words of it."""
    words = ["triggerlog", "snapshots", "run", *more]
    for name, value in settings.model_dump(mode="json", by_alias=True, exclude_defaults=True).items():
        words += _option(name.replace("_", "-"), value)
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name.removesuffix('-s')}", _number(value) if isinstance(value, float) else str(value)]


def _number(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
